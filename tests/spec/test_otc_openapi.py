"""The published OpenAPI description of Open Tool Calling: valid itself, and true of the RFC and of our server."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import jsonschema
import jsonschema_rs
import pytest
from openapi_spec_validator import validate
from referencing import Registry

from tests.support.wire import HERE, AppTransport
from toolwire import App, Authorization, Context, Requirements, ServerLimits, ToolError, Toolkit, asgi
from toolwire.core.http import Request, Response
from toolwire.server.asking.confirmation import ask_about_destructive

ROOT = Path(__file__).parents[2]
DESCRIPTION = json.loads((ROOT / "spec" / "otc" / "1.0" / "openapi.json").read_text(encoding="utf-8"))
VECTORS = json.loads((ROOT / "tests" / "vectors" / "otc.json").read_text(encoding="utf-8"))
TYPE = {"content-type": "application/json"}
KEY = {**TYPE, "authorization": "Bearer K1"}

Conforms = Callable[[str, Any], bool]


def refuse(uri: str) -> NoReturn:
    raise AssertionError(f"{uri} was asked for")


@pytest.fixture(scope="session")
def conforms() -> Conforms:
    """Say whether data fits a schema of the description; two validators must say the same."""
    stored: dict[str, tuple[Any, Any]] = {}

    def fits(reference: str, data: Any) -> bool:
        if reference not in stored:
            schema = {**DESCRIPTION, "$ref": f"#/{reference}"}
            stored[reference] = (
                jsonschema.Draft202012Validator(schema, registry=Registry(retrieve=refuse)),  # type: ignore[arg-type, call-arg]  # its class is made by attrs
                jsonschema_rs.Draft202012Validator(schema, retriever=refuse),
            )
        python, rust = stored[reference]
        reply = python.is_valid(data)
        assert rust.is_valid(data) is reply
        return reply

    return fits


def definitions() -> list[Any]:
    """The five definitions that the RFC gives as examples."""
    entries = [entry["body"] for entry in VECTORS if "section 4.1" in entry["source"]]
    return [tool for body in entries for tool in body.get("tools", [body])]


def office() -> Toolkit:
    toolkit = Toolkit("Office", version="1.2.0", description="What an office needs.")

    @toolkit.tool(approval="auto")
    def add(a: int, b: int = 0) -> int:
        """Add two numbers."""
        return a + b

    @toolkit.tool
    def lose(why: str) -> None:
        """Fail."""
        raise ToolError(
            why, developer_message="for us", can_retry=True, retry_after_ms=5, additional_prompt_content="x"
        )

    @toolkit.tool
    def crash() -> str:
        """Fail by accident."""
        raise RuntimeError("secret")

    @toolkit.tool(requirements=Requirements(authorization=(Authorization(id="gh"),), secrets=("PIN",), user_id=True))
    def private(context: Context) -> str:
        """Say for whom."""
        return context.user_id or ""

    return toolkit


def send_request(app: App, method: str, path: str, headers: dict[str, str], body: bytes) -> Response:
    fields = tuple((name.encode(), value.encode()) for name, value in {"host": "127.0.0.1:9627", **headers}.items())

    async def within() -> Response:
        async with asyncio.timeout(10):
            return await AppTransport(app).send(Request(method, HERE + path, fields, body))

    return asyncio.run(within())


def call(tool_id: Any, **members: Any) -> bytes:
    return json.dumps({"request": {"tool_id": tool_id, **members}}).encode()


def check_documented(method: str, path: str, response: Response, conforms: Conforms) -> None:
    """Fail unless the description names the status for the path, and the headers and the body are as it says."""
    operation = DESCRIPTION["paths"][path].get(method.lower()) or next(iter(DESCRIPTION["paths"][path].values()))
    status = str(response.status)
    assert status in operation["responses"], f"{method} {path} answers {status}, which is not described"
    where = (
        f"paths/{path.replace('/', '~1')}/{'get' if 'get' in DESCRIPTION['paths'][path] else 'post'}/responses/{status}"
    )
    reply = operation["responses"][status]
    if "$ref" in reply:
        where = reply["$ref"].removeprefix("#/")
        reply = DESCRIPTION["components"]["responses"][where.rpartition("/")[2]]
    headers = {name.decode(): value.decode() for name, value in response.headers}
    assert [
        name for name, about in reply.get("headers", {}).items() if about.get("required") and name not in headers
    ] == []
    if "content" not in reply:
        assert response.body == b""
        return
    assert headers["content-type"] == "application/json"
    assert conforms(f"{where}/content/application~1json/schema", json.loads(response.body)), response.body


def test_description_is_valid_openapi() -> None:
    validate(DESCRIPTION)


@pytest.mark.requirement("OTC-018")
def test_rfc_definitions_match_the_description(conforms: Conforms) -> None:
    assert len(definitions()) == 5
    assert all(conforms("components/schemas/ToolDefinition", tool) for tool in definitions())


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("id", "Calculator.Add"),
        ("id", "Calcu-lator.Add@1.0.0"),
        ("name", "Add two"),
        ("name", "x" * 65),
        ("version", "1.0"),
        ("description", ""),
        ("input_schema", {"type": "object"}),
        ("input_schema", {"parameters": {"type": "object", "properties": {"a": {"type": "number"}}}}),
        ("input_schema", {"parameters": {"type": "object", "properties": {"a": {"description": "A.", "type": "int"}}}}),
        ("input_schema", {"parameters": {"$ref": "#/definitions/A"}}),
        ("input_schema", {"parameters": {"type": "object", "$defs": {}}}),
        ("output_schema", "number"),
        ("requirements", {"secrets": ["PIN"]}),
        ("requirements", {"authorization": [{"oauth2": {}}]}),
    ],
)
@pytest.mark.requirement("OTC-001", "OTC-003", "OTC-005", "OTC-008", "OTC-009", "OTC-010", "OTC-011", "OTC-012")
def test_invalid_rfc_definition_does_not_match_the_description(conforms: Conforms, member: str, value: Any) -> None:
    good = definitions()[0]
    assert not conforms("components/schemas/ToolDefinition", {**good, member: value})
    if member != "requirements":
        assert not conforms("components/schemas/ToolDefinition", {name: good[name] for name in good if name != member})


@pytest.mark.requirement("OXP-005", "A-46")
def test_oxp_definition_allows_no_extra_members(conforms: Conforms) -> None:
    good = definitions()[0]
    oxp = {**good, "input_schema": good["input_schema"]["parameters"]}
    assert conforms("components/schemas/OxpToolDefinition", oxp)
    assert not conforms("components/schemas/OxpToolDefinition", {**oxp, "toolkit": {}})
    ended = {"$schema": "urn:oxp:1.0", "result": {"call_id": "c", "success": True, "value": 3}}
    assert conforms("components/schemas/OxpCallToolResponse", ended)
    assert not conforms(
        "components/schemas/OxpCallToolResponse", {**ended, "result": {"call_id": "c", "success": True}}
    )


@pytest.mark.requirement("A-46", "OTC-016")
def test_a_required_token_needs_an_id_and_a_list_takes_no_body(conforms: Conforms) -> None:
    good = definitions()[0]
    for entry, fits in ([{"id": "gh"}], True), ([{}], False), ([{"oauth2": {"scopes": []}}], False):
        assert conforms("components/schemas/ToolDefinition", {**good, "requirements": {"authorization": entry}}) is fits
    assert "requestBody" not in DESCRIPTION["paths"]["/tools"]["get"]
    for body in ({"value": 3}, {"error": {"message": "No."}}):
        ended = {"$schema": "urn:oxp:1.0", "result": {"call_id": "c", "success": "value" in body, **body}}
        assert conforms("components/schemas/OxpCallToolResponse", ended)


@pytest.mark.requirement("OTC-038")
def test_rfc_requests_and_responses_match_the_description(conforms: Conforms) -> None:
    requests = [entry for entry in VECTORS if entry["half"] == "request" and "seed 003" in entry["source"]]
    responses = [
        entry for entry in VECTORS if entry["half"] == "response" and "seed 003 section 5.2" in entry["source"]
    ]
    assert requests
    assert all(conforms("components/schemas/CallToolRequest", entry["body"]) for entry in requests if "body" in entry)
    answers = [entry["body"] for entry in responses if "success" in entry["body"]]
    assert answers
    assert all(conforms("components/schemas/CallToolResponse", body) for body in answers)


@pytest.mark.parametrize("path", ["/health", "/info", "/ok", "/tools"])
@pytest.mark.requirement("OTC-033", "OTC-034", "OTC-044", "S-8", "S-9", "S-12")
def test_every_get_response_is_described(path: str, conforms: Conforms) -> None:
    app = asgi(office(), api_keys=["K1"])
    answers = [
        send_request(app, "GET", path, KEY, b""),
        send_request(app, "GET", path, {}, b""),
        send_request(app, "PUT", path, KEY, b""),
        send_request(app, "GET", path, {**KEY, "host": "elsewhere.example"}, b""),
        send_request(app, "GET", path, {**KEY, "origin": "https://elsewhere.example"}, b""),
    ]
    app.drain()
    answers.append(send_request(app, "GET", path, KEY, b""))
    # A probe of a load balancer asks for /health by any name and without a key.
    any_host = path == "/health"
    expected = [200, 200 if any_host else 401, 405, 200 if any_host else 421, 403, 503]
    assert [answer.status for answer in answers] == expected
    for answer in answers:
        check_documented("GET", path, answer, conforms)


def test_unchanged_list_response_is_described(conforms: Conforms) -> None:
    app = asgi(office())
    etag = dict(send_request(app, "GET", "/tools", {}, b"").headers)[b"etag"].decode()
    answer = send_request(app, "GET", "/tools", {"if-none-match": etag}, b"")
    assert answer.status == 304
    check_documented("GET", "/tools", answer, conforms)


CALLS: list[tuple[int, dict[str, str], bytes]] = [
    (200, KEY, call("Office.add@1.2.0", call_id="c1", input={"a": 1, "b": 2})),
    (200, KEY, json.dumps({"$schema": "otc://1.0", "request": {"tool_id": "add", "input": {"a": 1}}}).encode()),
    (200, KEY, json.dumps({"$schema": "urn:oxp:1.0", "request": {"tool_id": "add", "inputs": {"a": 1}}}).encode()),
    (200, KEY, call("lose", input={"why": "Lost."})),
    (200, KEY, call("crash")),
    (200, KEY, call("private", context={"authorization": {"gh": "t"}, "secrets": {"PIN": "1"}, "user_id": "u"})),
    (400, KEY, call("private")),
    (400, KEY, call("subtract")),
    (400, KEY, call("add@7")),
    (400, KEY, call("add", call_id="c" * 256)),
    (400, KEY, call("add", input=[])),
    (400, KEY, b'{"$schema": "urn:oxp:99.0", "request": {"tool_id": "add"}}'),
    (400, KEY, b"{not json"),
    (400, KEY, b"[]"),
    (401, TYPE, call("add")),
    (401, {**TYPE, "authorization": "Bearer K2"}, call("add")),
    (403, {**KEY, "origin": "https://elsewhere.example"}, call("add")),
    (413, KEY, b" " * 5_000),
    (415, {"content-type": "text/plain", "authorization": "Bearer K1"}, call("add")),
    (421, {**KEY, "host": "elsewhere.example"}, call("add")),
    (422, KEY, call("add", input={"a": "one"})),
    (422, KEY, call("add")),
]


@pytest.mark.parametrize("path", ["/call", "/tools/call"])
@pytest.mark.requirement(
    "OTC-036", "OTC-040", "OTC-041", "OTC-044", "OXP-002", "OXP-008", "OXP-009", "S-10", "S-11", "S-12", "A-52"
)
def test_every_call_response_is_described(path: str, conforms: Conforms) -> None:
    app = asgi(office(), api_keys=["K1"], limits=ServerLimits(body_bytes=4_096))
    for status, headers, body in CALLS:
        answer = send_request(app, "POST", path, headers, body)
        assert (answer.status, body) == (status, body)
        check_documented("POST", path, answer, conforms)
    answer = send_request(app, "GET", path, KEY, b"")
    assert answer.status == 405
    check_documented("POST", path, answer, conforms)
    app.drain()
    answer = send_request(app, "POST", path, KEY, call("add"))
    assert answer.status == 503
    check_documented("POST", path, answer, conforms)


@pytest.mark.parametrize("path", ["/call", "/tools/call"])
@pytest.mark.requirement("OTC-040", "OTC-044", "LC-02", "XL-056")
def test_call_that_must_be_confirmed_or_goes_on_is_described(path: str, conforms: Conforms) -> None:
    toolkit = Toolkit("Office")

    @toolkit.tool(destructive=True)
    def shred() -> None:
        """Shred all."""

    @toolkit.tool(long=True)
    async def archive() -> None:
        """Archive all, for long."""
        await asyncio.sleep(60)

    app = asgi(toolkit, require_confirmation=ask_about_destructive)
    for name, status in (("shred", 428), ("archive", 503)):
        answer = send_request(app, "POST", path, {**TYPE, "prefer": "wait=0"}, call(name, call_id="c1"))
        assert answer.status == status
        check_documented("POST", path, answer, conforms)


def test_descriptions_contain_no_placeholders_or_local_addresses() -> None:
    text = json.dumps(DESCRIPTION, ensure_ascii=False)
    assert not re.search(r"TODO|localhost|127\.0\.0\.1", text)
