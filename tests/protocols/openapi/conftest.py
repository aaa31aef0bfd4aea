"""What the tests of OpenAPI share: a driver of flows, sites made of answers, and the recipes of the vectors."""

import json
from collections.abc import Callable, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from toolwire.core.catalog import Catalog
from toolwire.core.codec import Flow, Peer, Pending, Site
from toolwire.core.http import JSON_HEADERS, Request, Response
from toolwire.core.model import Call, Kind, Problem, Result, Tool
from toolwire.protocols.openapi import CODEC

HOME = "https://recipes.test"
VECTORS = json.loads((Path(__file__).parents[2] / "vectors" / "openapi.json").read_text())

Answer = Response | Problem


def _drive(flow: Flow[Any], answer: Callable[[Request], Answer]) -> Any:
    """Return the value of ``flow`` when ``answer`` answers each of its requests; at most ten."""
    try:
        request = flow.send(None)
        for _ in range(10):
            request = flow.send(answer(request))
    except StopIteration as stop:
        return stop.value
    raise AssertionError("the flow asks without end")


def _site(answers: Mapping[str, Any]) -> Callable[[Request], Answer]:
    """Return a site: by path a Response or Problem, bytes, or data to be said as JSON; all else is 404."""

    def answer(request: Request) -> Answer:
        path = request.url.split("/", 3)[3] if request.url.count("/") > 2 else ""
        reply = answers.get("/" + path)
        if isinstance(reply, bytes):
            return Response(200, (), reply)
        if isinstance(reply, Response | Problem):
            return reply
        return Response(404) if reply is None else Response(200, JSON_HEADERS, json.dumps(reply).encode())

    return answer


def _server(catalog: Catalog, run: Callable[[Call], Result], site: Site = Site()) -> Callable[[Request], Answer]:  # noqa: B008 - a frozen value
    """Return our own server half as a site; ``run`` says how each call ends."""
    routes = CODEC.routes(catalog, site)

    def answer(request: Request) -> Answer:
        url = "/" + request.url.split("/", 3)[3]
        route = routes.get((request.method, url.partition("?")[0]))
        if route is None:
            return CODEC.refuse(Problem(kind=Kind.NOT_FOUND, message="There is nothing here."))
        reading = route.read(request._replace(url=url))
        return reading.reply(run(reading.call), 1.0) if isinstance(reading, Pending) else reading

    return answer


def _peer(document: dict[str, Any], url: str = f"{HOME}/openapi.json") -> Peer:
    path = "/" + url.split("/", 3)[3]
    finding = _drive(CODEC.find(url), _site({path: document}))
    assert finding.peer is not None, finding.probes
    return finding.peer


@pytest.fixture(scope="session")
def drive() -> Callable[..., Any]:
    return _drive


@pytest.fixture(scope="session")
def site() -> Callable[..., Any]:
    return _site


@pytest.fixture(scope="session")
def server() -> Callable[..., Any]:
    return _server


@pytest.fixture(scope="session")
def peer() -> Callable[..., Peer]:
    """Reads a document that was pasted, and returns what was found."""
    return _peer


@pytest.fixture(scope="session")
def vectors() -> list[dict[str, Any]]:
    return VECTORS


@pytest.fixture
def recipes() -> dict[str, Any]:
    """The document of the seed's recipe app, to be changed at will."""
    return deepcopy(next(vector["body"] for vector in VECTORS if vector["name"] == "recipes document"))


@pytest.fixture(scope="session")
def one() -> Callable[..., dict[str, Any]]:
    """Makes a document of one GET operation at /x with the given members."""

    def document(path: str = "/x", method: str = "get", **operation: Any) -> dict[str, Any]:
        whole = {"operationId": "x", "x-llm": {}, **operation}
        return {"openapi": "3.1.0", "info": {"title": "One"}, "paths": {path: {method: whole}}}

    return document


@pytest.fixture(scope="session")
def kitchen() -> Catalog:
    """Tools with every sort of argument, one of them in two versions."""
    recipe = {
        "type": "object",
        "properties": {"title": {"type": "string"}, "like": {"$ref": "#/$defs/Recipe"}},
        "required": ["title"],
    }
    search = {
        "type": "object",
        "properties": {
            "text": {"type": "string", "description": "What to look for."},
            "limit": {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None},
            "tags": {"type": "array", "items": {"type": "string"}},
            "exact": {"type": "boolean", "default": False},
            "near": {"type": "object", "properties": {"lat": {"type": "number"}}},
            "cuisine": {"$ref": "#/$defs/Cuisine"},
            "any": {},
        },
        "required": ["text"],
        "$defs": {"Cuisine": {"type": "string", "enum": ["italian", "japanese"]}},
    }
    save = {
        "type": "object",
        "properties": {
            "title": {"type": "string"},
            "steps": {"type": "array", "items": {"type": "string"}},
            "rating": {"type": ["integer", "null"]},
            "recipe": {"$ref": "#/$defs/Recipe"},
        },
        "required": ["title"],
        "$defs": {"Recipe": recipe},
    }
    out = {"type": "array", "items": {"$ref": "#/$defs/Recipe"}, "$defs": {"Recipe": recipe}}
    return Catalog(
        title="Kitchen",
        version="2.1.0",
        description="Keeps recipes.",
        tools=(
            Tool(name="search", toolkit="Kitchen", description="Search.", hint="Use it first.", safe=True,
                 input_schema=search, output_schema=out),
            Tool(name="save", toolkit="Kitchen", version="2.0.0", description="Save.", input_schema=save,
                 output_schema=None, blanket_allowed=True),
            Tool(name="save", toolkit="Kitchen", version="1.0.0", description="Save as it was.", input_schema=save),
            Tool(name="reset", toolkit="Kitchen", description="Forget all.", destructive=True),
        ),
    )  # fmt: skip
