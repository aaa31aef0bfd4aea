"""The sample product without a browser: what its document says, what each token may do, and whose tasks one sees."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from openapi_spec_validator import validate

from examples.tasks.app import Settings, create_app
from tests.examples.task_visitor import QUICK, SITE, Visitor

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

TABLE = {  # operation: method, approval, blanket, destructive, scope
    "listTasks": ("get", "auto", None, None, "tasks:read"),
    "getTask": ("get", "auto", None, None, "tasks:read"),
    "createTask": ("post", "per-call", True, None, "tasks:write"),
    "updateTask": ("patch", "per-call", True, None, "tasks:write"),
    "deleteTask": ("delete", "per-call", False, True, "tasks:delete"),
}


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., Any]:
    """Make the product: ``make(api_keys=True)``."""

    def made(**more: Any) -> Any:
        return create_app(Settings(url=SITE, database=f"sqlite:///{tmp_path / 'tasks.db'}", hasher=QUICK, **more))

    return made


@pytest.fixture
def app(make: Callable[..., Any]) -> Any:
    return make(api_keys=True)


@pytest.fixture
def ada(app: Any) -> Visitor:
    return Visitor(app, "Ada")


@pytest.mark.requirement("XL-131", "XL-115")
def test_task_document_matches_the_plan(make: Callable[..., Any]) -> None:
    client = TestClient(make(), base_url=SITE)
    assert client.get("/.well-known/llm.json").json() == {"openapi": "/openapi.json", "auth": "oauth2"}
    document = client.get("/openapi.json").json()
    validate(document)
    found = {
        operation["operationId"]: (
            method,
            operation["x-llm"]["approval"],
            operation["x-llm"].get("blanketApprovalAllowed"),
            operation["x-llm"].get("destructive"),
            operation["security"],
        )
        for item in document["paths"].values()
        for method, operation in item.items()
    }
    assert found == {name: (*row[:4], [{"oauth2": [row[4]]}]) for name, row in TABLE.items()}
    flow = document["components"]["securitySchemes"]["oauth2"]["flows"]["authorizationCode"]
    assert set(flow["scopes"]) == {"tasks:read", "tasks:write", "tasks:delete"}


@pytest.mark.requirement("XL-115", "AS-15")
@pytest.mark.parametrize("scope", ["tasks:read", "tasks:write", "tasks:delete"])
def test_each_operation_requires_its_documented_scope(scope: str, ada: Visitor) -> None:
    header = ada.token(scope)
    task = ada.http.post("/api/tasks", json={"name": "Read"}, headers=ada.key()).json()["id"]
    calls: dict[str, tuple[str, str, Any]] = {
        "listTasks": ("GET", "/api/tasks", None),
        "getTask": ("GET", f"/api/tasks/{task}", None),
        "createTask": ("POST", "/api/tasks", {"name": "New"}),
        "updateTask": ("PATCH", f"/api/tasks/{task}", {"status": "done"}),
        "deleteTask": ("DELETE", f"/api/tasks/{task}", None),
    }
    for name, (method, path, body) in calls.items():
        assert ada.http.request(method, path, json=body).status_code == 401, name
        answer = ada.http.request(method, path, json=body, headers=header)
        needed = TABLE[name][4]
        assert (answer.status_code < 300) is (scope == needed), name
        if scope != needed:
            assert answer.status_code == 403
            assert 'error="insufficient_scope"' in answer.headers["www-authenticate"]
            assert needed in answer.headers["www-authenticate"]


@pytest.mark.requirement("XL-130")
def test_task_has_a_name_and_the_planned_members(ada: Visitor) -> None:
    key, http = ada.key(), ada.http
    made = http.post("/api/tasks", json={"name": " Read ", "dueDate": "2027-03-01"}, headers=key)
    assert made.status_code == 201
    task = made.json()
    assert {**task, "id": "", "createdAt": ""} == {
        "id": "",
        "name": "Read",
        "description": "",
        "dueDate": "2027-03-01",
        "status": "todo",
        "createdAt": "",
    }
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:.]+Z", task["createdAt"])
    path = f"/api/tasks/{task['id']}"
    changed = http.patch(path, json={"status": "in-progress", "dueDate": None}, headers=key).json()
    assert changed == {**task, "status": "in-progress", "dueDate": None}
    assert http.get("/api/tasks?status=in-progress", headers=key).json() == [changed]
    assert http.get("/api/tasks?status=done", headers=key).json() == []
    for wrong in (
        {},
        {"name": ""},
        {"name": "   "},
        {"name": "x" * 201},
        {"name": "x", "status": "later"},
        {"name": 7},
    ):
        assert http.post("/api/tasks", json=wrong, headers=key).status_code == 422, wrong
    for wrong in ({"name": "x", "dueDate": "soon"}, {"name": "x", "id": "mine"}):
        assert http.post("/api/tasks", json=wrong, headers=key).status_code == 422, wrong
    assert http.delete(path, headers=key).status_code == 204
    assert http.get(path, headers=key).status_code == 404


@pytest.mark.requirement("XL-135")
def test_token_reaches_only_tasks_of_its_user(app: Any, ada: Visitor) -> None:
    bob = Visitor(app, "Bob")
    task = ada.http.post("/api/tasks", json={"name": "Hers"}, headers=ada.token("tasks:write")).json()
    path = f"/api/tasks/{task['id']}"
    his = bob.token("tasks:read", "tasks:write", "tasks:delete")
    assert bob.http.get("/api/tasks", headers=his).json() == []
    assert bob.http.get(path, headers=his).status_code == 404
    assert bob.http.patch(path, json={"name": "His"}, headers=his).status_code == 404
    assert bob.http.delete(path, headers=his).status_code == 404
    assert ada.http.get(path, headers=ada.token("tasks:read")).json() == task


@pytest.mark.requirement("XL-134")
def test_api_keys_are_accepted_only_if_enabled(make: Callable[..., Any], ada: Visitor) -> None:
    key = ada.key()
    assert ada.http.get("/api/tasks", headers=key).status_code == 200
    assert ada.http.get("/api/tasks", headers={"authorization": f"Bearer {key['x-api-key']}"}).status_code == 200
    assert ada.http.get("/api/tasks", headers={"x-api-key": "tsk_" + "a" * 43}).status_code == 401
    without = TestClient(make(api_keys=False), base_url=SITE)
    assert without.get("/api/tasks", headers=key).status_code == 401
    assert "Keys for programs" not in without.get("/connected", cookies=dict(ada.http.cookies)).text
    assert "apiKey" not in without.get("/openapi.json").json()["components"]["securitySchemes"]


@pytest.mark.requirement("D-23", "D-24")
def test_every_response_has_security_headers_and_requires_our_host(ada: Visitor) -> None:
    for path in (
        "/",
        "/board",
        "/connected",
        "/static/live.js",
        "/nothing",
        "/api/tasks",
        "/openapi.json",
        "/oauth/login",
    ):
        answer = ada.http.get(path)
        assert "frame-ancestors 'none'" in answer.headers["content-security-policy"], path
        assert answer.headers["x-frame-options"] == "DENY", path
        assert ada.http.get(path, headers={"host": "evil.example"}).status_code == 421, path
    assert ada.http.post("/tasks", content=b"x" * 70_000).status_code == 413


@pytest.mark.requirement("XL-133")
def test_page_reports_form_errors(ada: Visitor) -> None:
    token = ada.hidden("/")["token"]
    for form, reply in (
        ({"name": ""}, "Say what there is to do"),
        ({"name": "x", "dueDate": "soon"}, "The day is not a date"),
    ):
        answer = ada.http.post("/tasks", data={"token": token, **form})
        assert (answer.status_code, reply in answer.text) == (422, True)
    assert ada.http.post("/tasks", data={"name": "x"}).status_code == 403
    assert ada.http.post("/tasks", json={"name": "x", "token": token}).status_code == 415
    again = ada.http.post("/sign-up", data={"name": "ada", "password": "correct horse"})
    assert (again.status_code, "That name is already taken" in again.text) == (422, True)
    short = ada.http.post("/sign-up", data={"name": "Eve", "password": "short"})
    assert (short.status_code, "A password must have 8 to 1,024 characters" in short.text) == (422, True)


@pytest.mark.requirement("AT-15")
@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b'{"name": NaN}', 400),
        (b'{"name": "x", "status": Infinity}', 400),
        (b'{"name": "\\ud800"}', 400),
        (b'{"name": "x", "description": "\\ud800"}', 400),
        (b'{"name": "x", "\\ud800": 1}', 400),
        (b"\xff", 400),
        (b'{"name": "a\\u0000b"}', 422),
        (b"[1]", 422),
    ],
)
def test_invalid_json_or_text_is_refused_with_a_sentence(ada: Visitor, body: bytes, status: int) -> None:
    headers = {**ada.key(), "content-type": "application/json"}
    for method, path in (("POST", "/api/tasks"), ("PATCH", "/api/tasks/0123456789")):
        answer = ada.http.request(method, path, content=body, headers=headers)
        assert answer.status_code == status
        assert answer.json()["detail"]


@pytest.mark.requirement("XL-133")
def test_new_account_is_signed_in_and_continues_to_the_requested_page(app: Any) -> None:
    http = TestClient(app, base_url=SITE, follow_redirects=False, headers={"origin": SITE})
    asked = http.get("/connected")
    assert asked.headers["location"] == "/oauth/login?next=%2Fconnected"
    page = http.get(asked.headers["location"]).text
    link = re.findall(r'<a href="([^"]*)">Make an account</a>', page)
    assert link == ["/sign-up?next=%2Fconnected"]
    form = http.get(link[0])
    assert 'name="next" value="/connected"' in form.text
    assert 'href="/oauth/login?next=/connected"' in form.text.replace("%2F", "/")
    account = {"name": "Ada", "password": "correct horse", "next": "/connected"}
    made = http.post("/sign-up", data=account)
    assert (made.status_code, made.headers["location"]) == (303, "/connected")
    assert http.get("/connected").status_code == 200
    away = http.post("/sign-up", data={**account, "name": "Bob", "next": "//evil.example"})
    assert away.headers["location"] == "/"


@pytest.mark.requirement("XL-133", "D-22")
def test_another_site_cannot_create_an_account_and_sign_in_its_visitor(app: Any) -> None:
    http = TestClient(app, base_url=SITE, follow_redirects=False)
    account = {"name": "Mallory", "password": "correct horse"}
    made = http.post("/sign-up", data=account, headers={"origin": "https://evil.example"})
    assert (made.status_code, "set-cookie" in made.headers) == (403, False)


@pytest.mark.requirement("XL-133")
def test_a_wrong_password_leaves_the_name_in_the_form(ada: Visitor) -> None:
    wrong = {"name": 'A "da', "password": "wrong", **ada.hidden("/oauth/login")}
    answer = ada.http.post("/oauth/login", data=wrong)
    assert answer.status_code == 403
    assert 'name="name" value="A &quot;da"' in answer.text
    assert "wrong" not in re.findall(r'type="password"[^>]*', answer.text)[0]


@pytest.mark.requirement("XL-112", "XL-116")
def test_connected_app_shows_start_last_use_and_scopes(ada: Visitor) -> None:
    header = ada.token("tasks:read")
    page = ada.http.get("/connected").text
    assert "<h2>App</h2>" in page
    assert "Allowed today" in page
    assert "Last used today" in page
    assert re.search(r"Ends \d+ \w+ \d{4} at the latest", page)
    assert "See your tasks <small>tasks:read</small>" in page
    assert "tasks:write" not in page
    revoke = re.findall(r'action="(/connected/[^"]*/revoke)"', page)
    assert ada.http.post(revoke[0], data={"token": ada.hidden("/")["token"]}).status_code == 303
    assert ada.http.get("/api/tasks", headers=header).status_code == 401
    assert "<h2>App</h2>" not in ada.http.get("/connected").text
