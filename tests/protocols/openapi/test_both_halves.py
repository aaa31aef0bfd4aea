"""Both halves together: what we publish is found as the same tools, and calls arrive as they were sent."""

import json
from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolwire.core.catalog import Catalog
from toolwire.core.codec import Finding, Peer, Pending, Site
from toolwire.core.http import JSON_HEADERS, Request, Response, get_header
from toolwire.core.model import Call, Kind, Problem, Tool, Value
from toolwire.framing import text_cleaning
from toolwire.protocols.openapi import CODEC
from toolwire.validation import compile_schema

HOME = "https://kitchen.test"


def connect(drive: Callable[..., Any], answer: Callable[[Request], Any]) -> Peer:
    finding = drive(CODEC.find(HOME), answer)
    assert isinstance(finding, Finding)
    assert finding.peer is not None
    return finding.peer


def echo(call: Call) -> Value:
    return Value([call.tool.id, dict(call.arguments)])


def test_published_tools_are_found_unchanged(
    drive: Callable[..., Any], server: Callable[..., Any], kitchen: Catalog
) -> None:
    found = connect(drive, server(kitchen, echo)).catalog
    assert (found.title, found.version, found.description) == (kitchen.title, kitchen.version, kitchen.description)
    assert [tool.id for tool in found.tools] == [tool.id for tool in kitchen.tools]
    for name, tool in kitchen.names.items():
        same = found.names[name]
        assert list(same.parameters) == list(tool.parameters)
        assert same.required_parameters == tool.required_parameters
        assert (same.safe, same.destructive, same.blanket_allowed) == (
            tool.safe,
            tool.destructive,
            tool.blanket_allowed,
        )
        assert same.description.partition("\n")[0] == tool.description
        assert (same.hint, same.output_schema is None) == (tool.hint, tool.output_schema is None)
    assert found.names["search"].description == "Search.\nUse it first."


def test_found_tools_can_be_published_and_found_again_unchanged(
    drive: Callable[..., Any], server: Callable[..., Any], kitchen: Catalog
) -> None:
    first = connect(drive, server(kitchen, echo)).catalog
    second = connect(drive, server(first, echo)).catalog
    assert [(tool.name, tool.description, tool.approval) for tool in second.tools] == [
        (tool.name, tool.description, tool.approval) for tool in first.tools
    ]


@pytest.mark.requirement("XL-100")
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("search", {"text": "a&b=c+d é%41 #?", "limit": -5, "tags": ["x y", "", "a,b"], "exact": True}),
        ("search", {"text": "", "near": {"lat": 1.5}, "cuisine": "italian", "any": "5"}),
        ("search", {"text": "null", "any": None}),
        ("save", {"title": "Café", "steps": [], "rating": None, "recipe": {"title": "a", "like": {"title": "b"}}}),
        ("reset", {}),
    ],
)
def test_call_arrives_as_it_was_sent(
    drive: Callable[..., Any], server: Callable[..., Any], kitchen: Catalog, name: str, arguments: dict[str, Any]
) -> None:
    answer = server(kitchen, echo)
    peer = connect(drive, answer)
    call = Call(peer.catalog.names[name], arguments)
    sent: list[Request] = []
    result = drive(CODEC.send(peer, call), lambda request: sent.append(request) or answer(request))
    assert result == Value([kitchen.names[name].id, arguments])
    assert CODEC.target(peer, call) == f"{sent[0].method} {sent[0].url}"


def test_an_older_version_is_called_by_its_version(
    drive: Callable[..., Any], server: Callable[..., Any], kitchen: Catalog
) -> None:
    answer = server(kitchen, echo)
    peer = connect(drive, answer)
    older = peer.catalog.find("save@1")
    assert isinstance(older, Tool)
    result = drive(CODEC.send(peer, Call(older, {"title": "a"})), answer)
    assert result == Value(["Kitchen.save@1.0.0", {"title": "a"}])


def test_a_problem_of_the_tool_reaches_the_caller_whole(
    drive: Callable[..., Any], server: Callable[..., Any], kitchen: Catalog
) -> None:
    problem = Problem(kind=Kind.TOOL_FAILED, message="It burnt.", can_retry=True, retry_after_ms=5)
    answer = server(kitchen, lambda _: problem)
    peer = connect(drive, answer)
    assert drive(CODEC.send(peer, Call(peer.catalog.names["reset"], {})), answer) == problem


def test_unreachable_server_gives_the_problem_of_the_transport(
    drive: Callable[..., Any], server: Callable[..., Any], kitchen: Catalog
) -> None:
    peer = connect(drive, server(kitchen, echo))
    problem = Problem(kind=Kind.UNREACHABLE, message="Nobody answers.")
    assert drive(CODEC.send(peer, Call(peer.catalog.names["reset"], {})), lambda _: problem) == problem


def test_unknown_tool_is_refused_without_a_request(
    drive: Callable[..., Any], server: Callable[..., Any], kitchen: Catalog
) -> None:
    peer = connect(drive, server(kitchen, echo))
    call = Call(Tool(name="other"), {})
    problem = drive(CODEC.send(peer, call), pytest.fail)
    assert problem.kind is Kind.UNKNOWN_TOOL
    assert CODEC.target(peer, call) == peer.url


@pytest.mark.requirement("XL-132")
def test_recipe_tools_are_called_as_their_document_declares(
    drive: Callable[..., Any], peer: Callable[..., Peer], recipes: dict[str, Any]
) -> None:
    found = peer(recipes)
    sent: list[Request] = []
    calls = [
        ("searchRecipes", {"query": "pasta & pesto", "cuisine": "italian", "maxTime": 30}),
        ("addFavorite", {"recipeId": "17"}),
        ("deleteRecipe", {"id": "a/b"}),
    ]
    for name, arguments in calls:
        call = Call(found.catalog.names[name], arguments)
        drive(CODEC.send(found, call), lambda request: sent.append(request) or Response(204))
    assert [(one.method, one.url, one.body) for one in sent] == [
        ("GET", "https://recipes.test/recipes/search?query=pasta%20%26%20pesto&cuisine=italian&maxTime=30", b""),
        ("POST", "https://recipes.test/favorites", b'{"recipeId":"17"}'),
        ("DELETE", "https://recipes.test/recipes/a%2Fb", b""),
    ]
    assert "application/json" in get_header(sent[0].headers, b"accept")


@pytest.mark.requirement("XL-018", "XL-019", "XL-020", "XL-021")
@pytest.mark.parametrize(("site", "auth"), [(Site(), "none"), (Site(keys=True), "api-key")])
def test_published_documents_are_public_and_llm_json_permits_every_origin(
    kitchen: Catalog, site: Site, auth: str
) -> None:
    routes = CODEC.routes(kitchen, site)
    for path in ("/.well-known/llm.json", "/openapi.json", "/.well-known/openapi.json"):
        route = routes["GET", path]
        response = route.read(Request("GET", path))
        assert route.is_public
        assert isinstance(response, Response)
        assert get_header(response.headers, b"content-type") == "application/json"
        assert get_header(response.headers, b"etag").startswith('"')
        assert get_header(response.headers, b"cache-control") == "max-age=300"
    entry = routes["GET", "/.well-known/llm.json"].read(Request("GET", "/.well-known/llm.json"))
    assert isinstance(entry, Response)
    assert json.loads(entry.body) == {"openapi": "/openapi.json", "auth": auth}
    assert get_header(entry.headers, b"access-control-allow-origin") == "*"
    assert not any(route.is_public for (_, path), route in routes.items() if path.startswith("/api/"))


@pytest.mark.parametrize(
    ("headers", "body", "status"),
    [
        (JSON_HEADERS, b"{", 400),
        (JSON_HEADERS, b"[]", 400),
        (JSON_HEADERS, b'{"a": NaN}', 400),
        (JSON_HEADERS, b"[" * 300, 400),
        (JSON_HEADERS, b"\xff", 400),
        ((), b"{}", 415),
        (((b"content-type", b"text/plain"),), b"{}", 415),
    ],
)
def test_a_body_that_is_no_json_object_is_refused(kitchen: Catalog, headers: Any, body: bytes, status: int) -> None:
    reading = CODEC.routes(kitchen, Site())["POST", "/api/save"].read(Request("POST", "/api/save", headers, body))
    assert isinstance(reading, Response)
    assert reading.status == status


def test_the_id_of_the_request_is_the_id_of_the_call(kitchen: Catalog) -> None:
    routes = CODEC.routes(kitchen, Site())
    for method, path in (("GET", "/api/search"), ("POST", "/api/save")):
        reading = routes[method, path].read(Request(method, path, id="r-1"))
        assert isinstance(reading, Pending)
        assert reading.call.call_id == "r-1"


@given(st.binary(max_size=60), st.sampled_from([(), JSON_HEADERS]), st.text(max_size=40))
def test_any_bytes_to_any_reader_are_answered(body: bytes, headers: Any, query: str) -> None:
    tools = (Tool(name="look", safe=True, input_schema={"properties": {"a": {"type": "integer"}}}), Tool(name="act"))
    for (method, path), route in CODEC.routes(Catalog(tools=tools), Site()).items():
        reading = route.read(Request(method, f"{path}?a={query}", headers, body))
        assert isinstance(reading, Pending | Response)


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
SCALARS: dict[str, st.SearchStrategy[Any]] = {
    "string": TEXT,
    "integer": st.integers(-(2**70), 2**70),
    "boolean": st.booleans(),
    "number": st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**40), 2**40),
    "null": st.none(),
}


@st.composite
def schema_and_value(draw: st.DrawFn) -> tuple[dict[str, Any], Any]:
    types = draw(st.lists(st.sampled_from(sorted(SCALARS)), min_size=1, max_size=3, unique=True))
    item = st.one_of([SCALARS[one] for one in types])
    schema: dict[str, Any] = {"type": types if len(types) > 1 else types[0]}
    if draw(st.booleans()):
        return {"type": "array", "items": schema}, draw(st.lists(item, max_size=3))
    return schema, draw(item)


@given(schema_and_value(), TEXT.filter(bool), st.booleans())
def test_any_valid_argument_arrives_unchanged_in_a_query_and_a_body(
    pair: tuple[dict[str, Any], Any], name: str, safe: bool
) -> None:
    schema, value = pair
    input_schema = {"type": "object", "properties": {name: schema}, "required": [name]}
    tool = Tool(name="x", safe=safe, input_schema=input_schema)
    routes = CODEC.routes(Catalog(tools=(tool,)), Site())

    def answer(request: Request) -> Response:
        url = "/" + request.url.split("/", 3)[3]
        reading = routes[request.method, url.partition("?")[0]].read(request._replace(url=url))
        if isinstance(reading, Response):
            return reading
        assert compile_schema(input_schema)(reading.call.arguments) is None
        return reading.reply(Value(reading.call.arguments[name]), 0.1)

    flow = CODEC.find(f"{HOME}/openapi.json")
    request = next(flow)
    with pytest.raises(StopIteration) as found:
        flow.send(answer(request))  # type: ignore[arg-type]  # a find asks no questions
    peer = found.value.value.peer
    (argument,) = peer.catalog.names["x"].parameters
    sending = CODEC.send(peer, Call(peer.catalog.names["x"], {argument: value}))
    with pytest.raises(StopIteration) as done:
        sending.send(answer(next(sending)))  # type: ignore[arg-type]  # nor does a send
    assert done.value.value == Value(
        text_cleaning.clean_data(value) if list(text_cleaning.find_hidden(value)) else value
    )


REPLACEMENTS: tuple[Any, ...] = (None, 7, "x", [], {})


def edits(node: Any) -> Iterator[tuple[Any, Any]]:
    """Yield every container with each of its keys."""
    keys = list(node) if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else ()
    for key in keys:
        yield node, key
        yield from edits(node[key])


@pytest.mark.requirement("CV-30")
@pytest.mark.parametrize("vector", ["recipes document", "llm.json"])
def test_document_with_one_random_edit_raises_no_exception(
    drive: Callable[..., Any], site: Callable[..., Any], vectors: list[dict[str, Any]], vector: str
) -> None:
    known = {one["name"]: one["body"] for one in vectors}
    body = deepcopy(known[vector])
    path = "/openapi.json" if vector == "recipes document" else "/.well-known/llm.json"
    other = {"/.well-known/llm.json": known["llm.json"], "/openapi.json": known["recipes document"]}
    count = 0
    for container, key in list(edits(body)):
        stored = container[key]
        for replacement in (*REPLACEMENTS, ...):
            if replacement is ...:
                if isinstance(container, list):
                    continue
                del container[key]
            else:
                container[key] = replacement
            finding = drive(CODEC.find("https://recipes.test"), site({**other, path: body}))
            for tool in finding.peer.catalog.tools if finding.peer is not None else ():
                call = Call(tool, dict.fromkeys(tool.parameters, "x"))
                assert drive(CODEC.send(finding.peer, call), lambda _: Response(204)) is not None
            container[key] = stored
            count += 1
    assert count > 10


@pytest.mark.requirement("XL-101")
def test_response_with_one_random_edit_is_a_result(
    drive: Callable[..., Any], peer: Callable[..., Peer], vectors: list[dict[str, Any]], recipes: dict[str, Any]
) -> None:
    found = peer(recipes)
    call = Call(found.catalog.names["deleteRecipe"], {"id": "1"})
    for vector in (one for one in vectors if one["half"] == "response" and isinstance(one["body"], dict | list)):
        body = deepcopy(vector["body"])
        headers = tuple((key.encode(), value.encode()) for key, value in vector["headers"].items())
        for container, key in list(edits(body)):
            stored = container[key]
            for replacement in REPLACEMENTS:
                container[key] = replacement
                response = Response(vector["status"], headers, json.dumps(body).encode())
                assert isinstance(drive(CODEC.send(found, call), lambda _, said=response: said), Value | Problem)
            container[key] = stored


@pytest.mark.parametrize("name", ["reading call", "writing call", "call without arguments"])
def test_vector_requests_are_read_and_written_back(
    kitchen: Catalog, vectors: list[dict[str, Any]], name: str, drive: Callable[..., Any], server: Callable[..., Any]
) -> None:
    vector = next(one for one in vectors if one["name"] == name)
    headers = tuple((key.encode(), value.encode()) for key, value in vector["headers"].items())
    body = b"" if vector["body"] is None else json.dumps(vector["body"]).encode()
    path = vector["path"].partition("?")[0]
    routes = CODEC.routes(kitchen, Site())
    reading = routes[vector["method"], path].read(Request(vector["method"], vector["path"], headers, body))
    assert isinstance(reading, Pending)
    assert compile_schema(reading.call.tool.input_schema)(reading.call.arguments) is None
    peer = connect(drive, server(kitchen, echo))
    call = Call(peer.catalog.names[path.removeprefix("/api/")], reading.call.arguments)
    assert CODEC.target(peer, call) == f"{vector['method']} {HOME}{vector['path']}"


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("problem of a foreign API", Kind.NOT_FOUND),
        ("too many calls", Kind.RATE_LIMITED),
        ("arguments that do not fit", Kind.INVALID_ARGUMENTS),
    ],
)
def test_vector_problems_are_read(
    drive: Callable[..., Any], peer: Callable[..., Peer], recipes: dict[str, Any], vectors: list[dict[str, Any]],
    name: str, kind: Kind,
) -> None:  # fmt: skip
    vector = next(one for one in vectors if one["name"] == name)
    headers = tuple((key.encode(), value.encode()) for key, value in vector["headers"].items())
    response = Response(vector["status"], headers, json.dumps(vector["body"]).encode())
    found = peer(recipes)
    call = Call(found.catalog.names["deleteRecipe"], {"id": "18"})
    problem = drive(CODEC.send(found, call), lambda _: response)
    assert (problem.kind, problem.message) == (kind, vector["body"]["detail"])
    assert problem.parameter_errors == vector["body"].get("parameter_errors", {})
