"""A catalog, a server made of its routes, and a loop that drives a conversation against it: no network."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.support.wire import is_stream
from toolwire.core.catalog import Catalog
from toolwire.core.codec import Flow, Listen, Pending, Site
from toolwire.core.http import Request, Response
from toolwire.core.model import Approval, Call, Cost, Kind, Problem, RateLimit, Result, Tool, Value
from toolwire.protocols.mcp import CODEC

ADD = Tool(
    name="add",
    toolkit="Calculator",
    version="1.2.0",
    description="Add two numbers.",
    hint="Use it for sums.",
    input_schema={
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        "required": ["a", "b"],
    },
    output_schema={"type": "integer"},
    safe=True,
    approval=Approval.AUTO,
)
REMOVE = Tool(
    name="remove-all",
    toolkit="Calculator",
    description="Forget every number.",
    input_schema={
        "type": "object",
        "properties": {"why": {"$ref": "#/$defs/Why"}},
        "$defs": {"Why": {"type": "string"}},
    },
    output_schema={"type": "object", "properties": {"count": {"type": "integer"}}},
    approval=Approval.PER_CALL,
    destructive=True,
    blanket_allowed=True,
    idempotent=True,
    cost=Cost.PAID,
    rate_limit=RateLimit(max=3, window="1m"),
)
ECHO = Tool(name="echo", toolkit="Text", input_schema={"type": "object", "properties": {"value": {}}})
FORGET = Tool(name="forget", toolkit="Text", input_schema={"type": "object"}, output_schema=None)

LONG_STREAM = 65_536
"""From how many bytes on a stream comes in pieces of so many, and not byte by byte."""

CATALOG = Catalog(title="Desk", version="3.1.0", description="Small things.", tools=(ADD, REMOVE, ECHO, FORGET))

Door = Callable[[Request], Response | Problem]
Runs = Callable[[Call], Result]


def _run(call: Call) -> Result:
    match call.tool.name:
        case "add":
            return Value(call.arguments["a"] + call.arguments["b"])
        case "remove-all":
            return Value({"count": 0})
        case "echo":
            return Value(call.arguments.get("value"))
        case _:
            return Value(None)


def _serve(catalog: Catalog = CATALOG, run: Runs = _run, site: Site | None = None) -> Door:
    table = CODEC.routes(catalog, site or Site())

    def door(request: Request) -> Response:
        path = urlsplit(request.url).path
        route = table.get((request.method, path))
        if route is None:
            methods = [method for method, known in table if known == path]
            kind = Kind.WRONG_METHOD if methods else Kind.NOT_FOUND
            response = CODEC.refuse(Problem(kind=kind, message="Not here."))
            return response._replace(headers=[*response.headers, *((b"allow", name.encode()) for name in methods)])
        reading = route.read(request._replace(url=path, id="request-1"))
        if isinstance(reading, Pending):
            return reading.reply(run(reading.call), 1.0)
        assert isinstance(reading, Response)
        return reading

    return door


def _drive(flow: Flow[Any], door: Door) -> Any:
    reply: Any = None
    for _ in range(1_000):
        try:
            asked = flow.send(reply)
        except StopIteration as stop:
            return stop.value
        reply = door(asked) if isinstance(asked, Request) else _feed_stream(asked, door)
    raise AssertionError("a conversation of more than 1,000 requests")


def _feed_stream(asked: Any, door: Door) -> Response | Problem:
    """Give a stream to whoever hears it, a long one in pieces, another byte by byte; what is sent goes to the door."""
    assert isinstance(asked, Listen)
    answer = door(asked.request)
    if isinstance(answer, Problem) or not is_stream(answer):
        return answer
    size = 1 if len(answer.body) < LONG_STREAM else LONG_STREAM
    try:
        for at in range(0, len(answer.body), size):
            for reply in asked.read_chunk(answer.body[at : at + size]):
                if isinstance(reply, Request):
                    door(reply)
    except ValueError as error:
        return Problem(kind=Kind.BAD_ANSWER, message=str(error))
    return answer._replace(body=b"")


def _message(method: str, params: Any = None, *, version: str = "", id_: Any = 1) -> Request:
    """A request as a client sends it: with the envelope of ``version``."""
    body: dict[str, Any] = {"jsonrpc": "2.0", "id": id_, "method": method}
    headers = [(b"content-type", b"application/json"), (b"accept", b"application/json, text/event-stream")]
    if version:
        headers.append((b"mcp-protocol-version", version.encode()))
    if version == "2026-07-28":
        prefix = "io.modelcontextprotocol/"
        meta = {f"{prefix}protocolVersion": version, f"{prefix}clientCapabilities": {}}
        params = {**(params or {}), "_meta": meta}
        headers.append((b"mcp-method", method.encode()))
        if method == "tools/call":
            headers.append((b"mcp-name", str(params.get("name")).encode()))
    if params is not None:
        body["params"] = params
    return Request("POST", "/mcp", headers, json.dumps(body).encode())


@pytest.fixture(scope="session")
def catalog() -> Catalog:
    return CATALOG


@pytest.fixture(scope="session")
def serve() -> Callable[..., Door]:
    return _serve


@pytest.fixture(scope="session")
def drive() -> Callable[[Flow[Any], Door], Any]:
    return _drive


@pytest.fixture(scope="session")
def message() -> Callable[..., Request]:
    return _message


@pytest.fixture(scope="session")
def ask(serve: Callable[..., Door]) -> Callable[..., tuple[int, Mapping[str, Any]]]:
    """Say one message to the server of the catalog; the status and the JSON of its answer."""

    def say(request: Request, run: Runs = _run) -> tuple[int, Mapping[str, Any]]:
        response = serve(run=run)(request)
        assert isinstance(response, Response)
        return response.status, json.loads(response.body) if response.body else {}

    return say
