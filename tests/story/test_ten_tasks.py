"""A scripted model does ten tasks at three large APIs, and learns of every tool by ``find`` alone."""

from __future__ import annotations

import json
import re
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

import pytest

from toolwire import Answer, ClientRules, Question, Session, connect_sync
from toolwire.adapters import openai
from toolwire.client.connection.combined_remote import CombinedRemote
from toolwire.consent import build_display_rows
from toolwire.core.selection import Selection
from toolwire.testing.loopback import background

# The names of operations and paths are those of the public APIs: GitHub, Stripe and Kubernetes.
GITHUB = """
get /repos/{owner}/{repo}/issues issues/list-for-repo List repository issues
post /repos/{owner}/{repo}/issues issues/create Create an issue title*
get /repos/{owner}/{repo}/issues/{issue_number} issues/get Get an issue
post /repos/{owner}/{repo}/issues/{issue_number}/comments issues/create-comment Create an issue comment body*
put /repos/{owner}/{repo}/issues/{issue_number}/lock issues/lock Lock an issue
get /repos/{owner}/{repo}/issues/{issue_number}/labels issues/list-labels-on-issue List labels for an issue
get /repos/{owner}/{repo}/pulls pulls/list List pull requests
put /repos/{owner}/{repo}/pulls/{pull_number}/merge pulls/merge Merge a pull request
get /repos/{owner}/{repo}/pulls/{pull_number}/files pulls/list-files List pull request files
get /repos/{owner}/{repo}/branches repos/list-branches List branches
get /repos/{owner}/{repo}/commits repos/list-commits List commits
post /repos/{owner}/{repo}/forks repos/create-fork Create a fork
get /repos/{owner}/{repo}/releases repos/list-releases List releases
delete /repos/{owner}/{repo} repos/delete Delete a repository
get /repos/{owner}/{repo}/actions/runs actions/list-workflow-runs-for-repo List workflow runs for a repository
post /gists gists/create Create a gist
get /notifications activity/list-notifications-for-authenticated-user List notifications
"""
STRIPE = """
get /v1/customers GetCustomers List all customers
post /v1/customers PostCustomers Create a customer email
get /v1/customers/{customer} GetCustomersCustomer Retrieve a customer
delete /v1/customers/{customer} DeleteCustomersCustomer Delete a customer
get /v1/charges GetCharges List all charges
get /v1/charges/{charge} GetChargesCharge Retrieve a charge
post /v1/refunds PostRefunds Create a refund charge*
get /v1/refunds GetRefunds List all refunds
post /v1/invoices PostInvoices Create an invoice customer*
post /v1/invoices/{invoice}/send PostInvoicesInvoiceSend Send an invoice for manual payment
get /v1/balance GetBalance Retrieve balance
get /v1/subscriptions GetSubscriptions List subscriptions
delete /v1/subscriptions/{subscription} DeleteSubscriptionsSubscription Cancel a subscription
get /v1/payment_intents GetPaymentIntents List all payment intents
get /v1/products GetProducts List all products
get /v1/disputes GetDisputes List all disputes
"""
KUBERNETES = """
get /api/v1/namespaces/{namespace}/pods listCoreV1NamespacedPod List or watch objects of kind Pod
get /api/v1/namespaces/{namespace}/pods/{name}/log readCoreV1NamespacedPodLog Read log of the specified Pod
delete /api/v1/namespaces/{namespace}/pods/{name} deleteCoreV1NamespacedPod Delete a Pod
get /api/v1/namespaces listCoreV1Namespace List or watch objects of kind Namespace
get /api/v1/namespaces/{namespace}/services listCoreV1NamespacedService List or watch objects of kind Service
get /api/v1/namespaces/{namespace}/secrets listCoreV1NamespacedSecret List or watch objects of kind Secret
get /api/v1/namespaces/{namespace}/events listCoreV1NamespacedEvent List or watch objects of kind Event
get /apis/apps/v1/namespaces/{namespace}/deployments listAppsV1NamespacedDeployment List objects of kind Deployment
put @apps/deployments/{name}/scale replaceAppsV1NamespacedDeploymentScale Replace the scale of a Deployment replicas*
delete /apis/apps/v1/namespaces/{namespace}/deployments/{name} deleteAppsV1NamespacedDeployment Delete a Deployment
get /apis/batch/v1/namespaces/{namespace}/jobs listBatchV1NamespacedJob List or watch objects of kind Job
get /api/v1/nodes listCoreV1Node List or watch objects of kind Node
"""
APIS = {"github": GITHUB, "stripe": STRIPE, "kubernetes": KUBERNETES}
LONG = " It returns what the caller may see, in pages, and each page names the next one until there are no more." * 6


def build_document(name: str, lines: str) -> dict[str, Any]:
    """Return the OpenAPI document of ``lines``: method, path, operation, what it does, and the members of its body."""
    paths: dict[str, Any] = {}
    for line in lines.strip().replace("@apps", "/apis/apps/v1/namespaces/{namespace}").splitlines():
        method, path, operation, *words = line.split(" ")
        is_body = method in ("post", "put") and not words[-1].istitle() and words[-1].rstrip("*").islower()
        members = [words.pop()] if is_body and (words[-1].endswith("*") or words[-1] == "email") else []
        body = {
            "type": "object",
            "properties": {one.rstrip("*"): {"type": "string"} for one in members},
            "required": [one.rstrip("*") for one in members if one.endswith("*")],
        }
        paths.setdefault(path, {})[method] = {
            "operationId": operation,
            "summary": " ".join(words),
            "description": f"{' '.join(words)}.{LONG}",
            "parameters": [
                {"name": one, "in": "path", "required": True, "schema": {"type": "string"}}
                for one in re.findall(r"\{(\w+)\}", path)
            ],
            "responses": {"200": {"description": "Done.", "content": {"application/json": {"schema": {}}}}},
        } | ({"requestBody": {"content": {"application/json": {"schema": body}}}} if members else {})
    return {
        "openapi": "3.1.0",
        "info": {"title": name, "version": "1"},
        "servers": [{"url": f"/{name}"}],
        "paths": paths,
    }


class Apis:
    """A server of the three APIs, which keeps what it was asked to do."""

    def __init__(self) -> None:
        self.done: list[str] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        name, _, path = scope["path"][1:].partition("/")
        body = (await receive()).get("body", b"").decode()
        if path == "openapi.json":
            answer: Any = build_document(name, APIS[name])
        else:
            self.done.append(f"{scope['method']} /{path} {body}".strip())
            answer = {"id": f"{name}-7", "path": path}
        headers = [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": json.dumps(answer).encode()})


class Step(NamedTuple):
    """A step of a task: what the model searches for, the operation that it means, its arguments, and the request."""

    words: str
    operation: str
    arguments: dict[str, str]
    request: str


ALL = Selection(include="all")
REPO = {"owner": "o", "repo": "r"}
TASKS: list[list[Step]] = [
    [Step("list the issues of a repository", "issues_list", REPO, "GET /repos/o/r/issues")],
    [
        Step(
            "open an issue in a repository",
            "issues_create",
            {**REPO, "title": "It breaks"},
            'POST /repos/o/r/issues {"title":"It breaks"}',
        ),
        Step(
            "comment on an issue",
            "issues_create-comment",
            {**REPO, "issue_number": "7", "body": "Me too"},
            'POST /repos/o/r/issues/7/comments {"body":"Me too"}',
        ),
    ],
    [Step("merge a pull request", "pulls_merge", {**REPO, "pull_number": "3"}, "PUT /repos/o/r/pulls/3/merge")],
    [Step("failed workflow runs of a repository", "workflow-runs", REPO, "GET /repos/o/r/actions/runs")],
    [
        Step(
            "create a customer", "PostCustomers", {"email": "a@b.example"}, 'POST /v1/customers {"email":"a@b.example"}'
        )
    ],
    [
        Step("create an invoice", "PostInvoices", {"customer": "c1"}, 'POST /v1/invoices {"customer":"c1"}'),
        Step("send an invoice", "PostInvoicesInvoiceSend", {"invoice": "i1"}, "POST /v1/invoices/i1/send"),
    ],
    [Step("refund a charge", "PostRefunds", {"charge": "ch1"}, 'POST /v1/refunds {"charge":"ch1"}')],
    [
        Step(
            "list pods in a namespace",
            "listCoreV1NamespacedPod",
            {"namespace": "web"},
            "GET /api/v1/namespaces/web/pods",
        ),
        Step(
            "read the log of a pod",
            "PodLog",
            {"namespace": "web", "name": "p"},
            "GET /api/v1/namespaces/web/pods/p/log",
        ),
    ],
    [
        Step(
            "scale a deployment",
            "DeploymentScale",
            {"namespace": "web", "name": "d", "replicas": "3"},
            'PUT /apis/apps/v1/namespaces/web/deployments/d/scale {"replicas":"3"}',
        )
    ],
    [
        Step(
            "delete a pod",
            "deleteCoreV1NamespacedPod",
            {"namespace": "web", "name": "p"},
            "DELETE /api/v1/namespaces/web/pods/p",
        )
    ],
]


class Model:
    """A model that has ``find``, ``describe`` and ``call``, and a user who allows what it asks."""

    def __init__(self) -> None:
        self.asked: list[Question] = []

    @contextmanager
    def connect(self, url: str) -> Generator[CombinedRemote, None, None]:
        """Give the three APIs in a session of its own, which remembers no answer of another one."""
        with ExitStack() as open_:
            session = Session(rules=ClientRules(questions_a_minute=100))
            yield CombinedRemote(
                [
                    open_.enter_context(
                        connect_sync(f"{url}/{name}/openapi.json", session=session, selection=ALL, approve=self.answer)
                    )
                    for name in APIS
                ]
            )

    def answer(self, question: Question) -> Answer:
        self.asked.append(question)
        return Answer(allowed=True, channel="test")

    def run(self, box: Any, name: str, /, **arguments: Any) -> str:
        call = {"id": "1", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
        return str(openai.run_tool_call_sync(box, call)["content"])


@pytest.mark.requirement("FI-01", "FI-02", "FI-06", "FI-07")
def test_a_model_does_ten_tasks_at_three_apis_by_find_alone() -> None:
    served, model = Apis(), Model()
    with background(served) as url, model.connect(url) as whole, model.connect(url) as other:
        declared = openai.build_tools(whole, find=True)
        assert {"call", "describe", "find"} <= {one["function"]["name"] for one in declared}
        assert len(json.dumps(declared)) < 4 * 1_000 < len(json.dumps(openai.build_tools(whole)))
        assert len(TASKS) == 10
        for step in (step for task in TASKS for step in task):
            found = json.loads(model.run(whole, "find", words=step.words, limit=5))
            names = re.findall(r"^(?:first, for \w+: )?([\w-]+)\(", found, re.M)
            name = next((one for one in names if step.operation in one), "")
            assert name, (step.operation, found)
            by_name = model.run(whole, "call", name=name, arguments=step.arguments)
            assert by_name == model.run(other, name, **step.arguments)
            assert "-7" in by_name
            # Both were asked about, word for word alike, and then both ran.
            first, second = model.asked
            assert build_display_rows(first) == build_display_rows(second)
            assert (first.reasons, first.target) == (second.reasons, second.target)
            assert served.done == [step.request] * 2
            model.asked.clear()
            served.done.clear()
