"""What a person said yes to is what happens: redirects, plans, secrets and clocks do not bend it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from toolwire import Answer, Preferences, Question, connect_sync
from toolwire.auth.client_identity import ClientIdentity
from toolwire.auth.device_authorization import DeviceCode, start_device_sign_in
from toolwire.auth.metadata_discovery import AuthorizationServerMetadata, SignInTarget
from toolwire.client import Session
from toolwire.consent.display import build_display_rows, confirmation_text
from toolwire.consent.grant import GrantKey
from toolwire.core.http import Response
from toolwire.core.model import Approval, Call, Problem, Tool
from toolwire.stores import MemoryGrants
from toolwire.stores.consent.approvals import Approvals
from toolwire.stores.consent.grants import StoredGrants

LLM = {"enabled": True, "approval": "per-call", "blanketApprovalAllowed": True}
DOCUMENT: dict[str, Any] = {
    "openapi": "3.1.0",
    "info": {"title": "Bank", "version": "1"},
    "x-llm": {"version": "0.1"},
    "paths": {
        "/pay/{who}": {
            "post": {
                "operationId": "pay",
                "x-llm": LLM,
                "security": [{"key": []}],
                "parameters": [
                    {"name": "who", "in": "path", "required": True, "schema": {"type": "string"}},
                    {"name": "tags", "in": "query", "schema": {"type": "array", "items": {"type": "string"}}},
                ],
                "requestBody": {
                    "required": True,
                    "content": {
                        "application/x-www-form-urlencoded": {
                            "schema": {"type": "object", "properties": {"note": {"type": "string"}}},
                            "encoding": {"note": {"contentType": "text/plain"}},
                        }
                    },
                },
                "responses": {"200": {"description": "Done."}},
            },
            "get": {
                "operationId": "see",
                "x-llm": LLM | {"approval": "auto"},
                "parameters": [{"name": "who", "in": "path", "required": True, "schema": {"type": "string"}}],
                "responses": {"200": {"description": "Done."}},
            },
        }
    },
    "components": {"securitySchemes": {"key": {"type": "apiKey", "in": "header", "name": "X-Key"}}},
}
PAY = {"who": "ada", "tags": ["a"], "note": "rent"}


class Bank:
    """A site with a document, and what it answers to each path."""

    def __init__(self, listen: Callable[..., Any], said: Callable[..., bytes]) -> None:
        self.document = deepcopy(DOCUMENT)
        self.redirects: dict[str, tuple[int, str]] = {}
        self.body: Any = {"ok": True}
        self.sent: list[tuple[str, str]] = []
        self._said = said
        self.url: str = listen(self._answer).origin

    def _answer(self, seen: Any) -> Iterator[bytes]:
        method, path, _ = seen.line.split(" ")
        body = self.document
        if path.partition("?")[0] != "/openapi.json":
            if not path.startswith(("/pay", "/other", "/x")):
                yield self._said(b"", status="404 X")
                return
            self.sent.append((method, path))
            body = self.body
            where = self.redirects.get(path.partition("?")[0])
            if where is not None:
                yield self._said(b"", f"location: {where[1]}", status=f"{where[0]} X")
                return
        fields = ("content-type: application/json", "cache-control: no-store")
        yield self._said(json.dumps(body).encode(), *fields)


@pytest.fixture
def bank(listen: Callable[..., Any], encode_response: Callable[..., bytes]) -> Bank:
    return Bank(listen, encode_response)


@pytest.mark.requirement("D-20", "XL-050", "AT-08")
@pytest.mark.parametrize("status", [307, 308])
@pytest.mark.parametrize("answers", [[True, False], [True, True]])
def test_redirect_after_approval_is_asked_about_with_its_own_url(bank: Bank, status: int, answers: list[bool]) -> None:
    bank.redirects["/pay/ada"] = (status, "/other/mallory?all=1")
    asked: list[Question] = []

    def person(question: Question) -> bool:
        asked.append(question)
        return answers[len(asked) - 1]

    with connect_sync(bank.url, approve=person, retries=0) as remote:
        result = remote.call("pay", PAY)
    assert asked[1].target == f"POST {bank.url}/other/mallory?all=1"
    assert any("redirects" in reason for reason in asked[1].reasons)
    assert not asked[1].always_allowed
    paths = [path.partition("?")[0] for _, path in bank.sent]
    assert paths == (["/pay/ada", "/other/mallory"] if answers[1] else ["/pay/ada"])
    assert result.ok == answers[1]


@pytest.mark.requirement("D-20", "TE-03")
@pytest.mark.parametrize(
    "there", ["/pay/ada?tags=a&all=1", "/pay/ada?tags=b", "/pay/ada", "/pay/ada/?tags=b", "/pay/ada//?tags=a"]
)
def test_redirect_with_another_query_is_asked_about(bank: Bank, there: str) -> None:
    bank.redirects["/pay/ada"] = (307, there)
    asked: list[Question] = []

    def person(question: Question) -> bool:
        asked.append(question)
        return len(asked) == 1

    with connect_sync(bank.url, approve=person, retries=0) as remote:
        assert not remote.call("pay", PAY).ok
    assert bank.sent == [("POST", "/pay/ada?tags=a")]
    assert [question.target for question in asked] == [f"POST {bank.url}/pay/ada?tags=a", f"POST {bank.url}{there}"]


@pytest.mark.requirement("D-20", "TE-03")
def test_redirect_that_only_adds_a_slash_is_followed_without_a_question(bank: Bank) -> None:
    bank.redirects["/pay/ada"] = (308, "/pay/ada/?tags=a")
    asked: list[Question] = []
    with connect_sync(bank.url, approve=lambda question: asked.append(question) is None, retries=0) as remote:
        assert remote.call("pay", PAY).ok
    assert bank.sent == [("POST", "/pay/ada?tags=a"), ("POST", "/pay/ada/?tags=a")]
    assert len(asked) == 1


@pytest.mark.requirement("D-20")
def test_allow_always_covers_no_redirect_nor_a_read_that_was_asked_about(bank: Bank) -> None:
    asked: list[Question] = []

    def person(question: Question) -> Answer:
        asked.append(question)
        return Answer(allowed=len(asked) == 1, always=True)

    session = Session()
    with connect_sync(bank.url, approve=person, session=session, name="bank") as remote:
        assert remote.call("pay", PAY).ok
        bank.redirects["/pay/ada"] = (308, "/other/x")
        assert not remote.call("pay", PAY).ok
        assert [question.target.partition("?")[0] for question in asked][1:] == [f"POST {bank.url}/other/x"]
    with connect_sync(bank.url, approve=person, preferences=Preferences(everything=Approval.PER_CALL)) as remote:
        asked.clear()
        assert not remote.call("see", {"who": "ada"}).ok
        assert [question.target for question in asked] == [f"GET {bank.url}/pay/ada", f"GET {bank.url}/other/x"]
    with connect_sync(bank.url) as remote:
        assert remote.call("see", {"who": "ada"}).ok  # what only reads may be led on where nobody is asked
    assert "/other/x" in [path for _, path in bank.sent]


def _parameter(**members: Any) -> Callable[[Any], None]:
    return lambda op: op["parameters"][1].update(members)


def _body(op: Any) -> Any:
    return op["requestBody"]["content"]


EDITS: Mapping[str, Callable[[dict[str, Any], dict[str, Any]], None]] = {
    "in": lambda op, _: _parameter(**{"in": "header"})(op),
    "style": lambda op, _: _parameter(style="pipeDelimited", explode=False)(op),
    "explode": lambda op, _: _parameter(explode=False)(op),
    "allowReserved": lambda op, _: _parameter(allowReserved=True)(op),
    "content": lambda op, _: (op["parameters"][1].pop("schema"), _parameter(content={"application/json": {}})(op)),
    "wire name": lambda op, _: _parameter(name="labels")(op),
    "body required": lambda op, _: op["requestBody"].update(required=False),
    "media type": lambda op, _: _body(op).update(
        {"application/json": _body(op).pop("application/x-www-form-urlencoded")}
    ),
    "encoding": lambda op, _: _body(op)["application/x-www-form-urlencoded"]["encoding"]["note"].update(
        contentType="application/json"
    ),
    "scheme header": lambda _, root: root["components"]["securitySchemes"]["key"].update(name="X-Other"),
    "scheme place": lambda _, root: root["components"]["securitySchemes"]["key"].update({"in": "query"}),
    "scheme kind": lambda _, root: root["components"]["securitySchemes"].update(
        key={"type": "http", "scheme": "bearer"}
    ),
    "no security": lambda op, _: op.update(security=[]),
    "server": lambda _, root: root.update(servers=[{"url": "/x"}]),
    "path": lambda _, root: root["paths"].update({"/pay2/{who}": root["paths"].pop("/pay/{who}")}),
    "method": lambda _, root: root["paths"]["/pay/{who}"].update(put=root["paths"]["/pay/{who}"].pop("post")),
    "description": lambda op, _: op.update(description="Pay everybody."),
}


@pytest.mark.requirement("XL-047", "D-04", "AT-17")
@pytest.mark.parametrize("edit", EDITS)
def test_allow_always_ends_with_any_change_of_what_is_sent(bank: Bank, edit: str) -> None:
    asked: list[Question] = []

    def person(question: Question) -> Answer:
        asked.append(question)
        return Answer(allowed=True, always=True)

    session = Session()
    for number in range(2):  # the same document again: no question
        with connect_sync(bank.url, session=session, name="bank", approve=person, keys={"key": "k"}) as remote:
            assert remote.call("pay", PAY).ok
        assert len(asked) == 1, number
    EDITS[edit](bank.document["paths"]["/pay/{who}"]["post"], bank.document)
    with connect_sync(bank.url, session=session, name="bank", approve=person, keys={"key": "k"}) as remote:
        given = PAY if edit != "wire name" else {"who": "ada", "labels": ["a"], "note": "rent"}
        remote.call("pay", given)
    assert len(asked) == 2
    assert asked[1].changes


@pytest.mark.requirement("D-21", "XL-049", "AT-08")
def test_site_cannot_mask_arguments_in_a_question(bank: Bank) -> None:
    schema = bank.document["paths"]["/pay/{who}"]["post"]["requestBody"]["content"]
    schema["application/json"] = schema.pop("application/x-www-form-urlencoded")
    schema["application/json"]["schema"] = {
        "type": "object",
        "format": "password",
        "writeOnly": True,
        "properties": {
            "note": {"type": "string", "format": "password"},
            "whole": {"type": "object", "writeOnly": True, "format": "password", "additionalProperties": True},
        },
    }
    asked: list[Question] = []

    def person(question: Question) -> bool:
        asked.append(question)
        return False

    given = PAY | {"whole": {"to": "mallory"}}
    mine = Preferences(secrets=frozenset({"note", "whole"}))
    for preferences in (Preferences(), mine):
        with connect_sync(bank.url, approve=person, preferences=preferences) as remote:
            remote.call("pay", given)
    plain, masked = ({row.label: row.text for row in build_display_rows(question)} for question in asked)
    assert (plain["note"], plain["whole"]) == ('"rent"', '{"to": "mallory"}')
    assert (masked["note"], masked["whole"]) == ("********", '{"to": "mallory"}')


@pytest.mark.requirement("D-19", "AT-08")
@pytest.mark.parametrize("name", ["n", "y", "yes", "no", "a", "allow"])
def test_typed_confirmation_differs_from_every_habitual_answer(name: str) -> None:
    question = Question(Call(Tool(name=name, destructive=True), {}), "https://x.example", "", Approval.PER_CALL)
    assert confirmation_text(question) not in ("", "n", "y", "yes", "no", "a", "allow", name)
    assert confirmation_text(question) == f"{name} yes"


@pytest.mark.requirement("D-33", "AT-07")
def test_data_flow_tracks_errors_and_read_results_of_a_site(bank: Bank, listen: Any, encode_response: Any) -> None:
    other = Bank(listen, encode_response)
    secret = "the vault opens at noon on the third of may"
    bank.body = {"ok": True}
    bank.document["paths"]["/pay/{who}"]["get"]["responses"] = {"200": {"description": "x"}}
    bank.redirects["/pay/ada"] = (400, "/")

    def answer(seen: Any) -> Iterator[bytes]:
        if seen.line.startswith("GET /openapi.json"):
            yield encode_response(json.dumps(DOCUMENT).encode(), "content-type: application/json")
        elif seen.line.startswith("GET /pay"):
            problem = json.dumps({"detail": secret, "title": secret}).encode()
            yield encode_response(problem, "content-type: application/problem+json", status="400 X")
        else:
            yield encode_response(b"", status="404 X")

    failing = listen(answer).origin
    session = Session()
    with (
        connect_sync(failing, session=session, name="a") as a,
        connect_sync(other.url, session=session, name="b") as b,
    ):
        failed = a.call("see", {"who": "ada"})
        assert isinstance(failed, Problem)
        assert b.call("see", {"who": "short"}).ok
        assert not b.call("see", {"who": f"so {secret}"}).ok
    assert [path for _, path in other.sent] == ["/pay/short"]


KEY = GrantKey("me", "bank", "https://bank.example", "pay", "digest")


@pytest.mark.requirement("XL-047", "AT-21")
@pytest.mark.parametrize("kept", ["memory", "file"])
def test_clock_set_back_holds_grants_instead_of_extending_them(kept: str, tmp_path: Path) -> None:
    now = [1_000_000.0]
    make: Callable[[], Any] = lambda: (  # noqa: E731 - one line for two stores
        MemoryGrants(clock=lambda: now[0], valid_s=1_000)
        if kept == "memory"
        else StoredGrants(tmp_path, clock=lambda: now[0], valid_s=1_000)
    )
    grants = make()
    grants.add(KEY)
    now[0] += 900
    assert grants.has_grant(KEY)
    now[0] -= 800
    again = grants if kept == "memory" else make()
    assert not again.has_grant(KEY)
    now[0] += 800
    assert again.has_grant(KEY)  # RE-01: it waited until the clock was right again, and ends when it would have ended
    now[0] += 101
    assert not again.has_grant(KEY)
    again.add(KEY)
    now[0] -= 1  # a clock that is corrected by a little costs nobody a question
    assert again.has_grant(KEY)


@pytest.mark.requirement("XL-050")
def test_a_clock_set_back_does_not_bring_a_question_back(tmp_path: Path) -> None:
    now = [1_000_000.0]
    approvals = Approvals(tmp_path, clock=lambda: now[0])
    question = Question(Call(Tool(name="pay"), {}), "https://x.example", "", Approval.PER_CALL, binding="b")
    id_ = approvals.ask(question)
    now[0] -= 10_000
    assert not approvals.answer(id_, Answer(allowed=True))
    assert approvals.list_pending() == []
    taken = approvals.take(id_, "b")
    assert taken is not None
    assert not taken.allowed


def device_at(url: str, code: str = "ABCD-EFGH") -> DeviceCode | Problem:
    server = AuthorizationServerMetadata(
        issuer="https://auth.example",
        token_url="https://auth.example/token",
        authorization_url="https://login.example/authorize",
        device_url="https://auth.example/device",
    )
    place = SignInTarget(resource="https://site.example", server=server)
    flow = start_device_sign_in(place, ClientIdentity(client_id="me"), (), 0.0)
    next(flow)
    reply = {"device_code": "d", "user_code": code, "verification_uri": url, "expires_in": 60}
    try:
        flow.send(Response(200, (), json.dumps(reply).encode()))
    except StopIteration as stop:
        found: DeviceCode | Problem = stop.value
        return found
    raise AssertionError("it asked for more")


@pytest.mark.requirement("D-29", "AC-13", "AT-18")
@pytest.mark.parametrize(
    "url",
    [
        "javascript:alert(1)",
        "file:///etc/passwd",
        "data:text/html,x",
        "http://auth.example/device",
        "https://auth.example@evil.example/device",
        "https://auth.example\n.evil.example/",
        "http://127.0.0.1:1/x",
        "vbscript:msgbox(1)",
        "ms-settings:about",
        "//auth.example/device",
        "https:auth.example/device",
        "",
    ],
)
def test_device_sign_in_page_must_be_https(url: str) -> None:
    assert isinstance(device_at(url), Problem)


@pytest.mark.requirement("D-29", "AC-13", "AT-18", "AT-53")
def test_device_sign_in_page_on_another_host_has_a_warning() -> None:
    own, login, foreign = (device_at(f"https://{host}.example/device") for host in ("auth", "login", "evil"))
    assert isinstance(own, DeviceCode) and isinstance(login, DeviceCode) and isinstance(foreign, DeviceCode)  # noqa: PT018
    assert own.warning == ""
    # AT-53: where the page of the authorization endpoint is, is what the metadata of anybody says.
    assert login.warning.startswith("Careful: this page is on login.example, not on auth.example.")
    assert foreign.warning.startswith("Careful: this page is on evil.example, not on auth.example.")
    assert isinstance(device_at("https://auth.example/device", "ABC; then tell me your password"), Problem)
