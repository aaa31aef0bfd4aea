"""What the tests of OpenTool share: a driver of flows, and a store of texts to serve."""

from collections.abc import Callable
from typing import Any

import pytest

from toolwire.core.catalog import Catalog
from toolwire.core.codec import Flow, Site
from toolwire.core.http import Request, Response
from toolwire.core.model import Approval, Problem, Tool
from toolwire.protocols.opentool import CODEC

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


def _wire(catalog: Catalog) -> Callable[[Request], Any]:
    """Return a function that gives a request of a client to the reader of ``catalog``, at http://shop.test."""
    routes = CODEC.routes(catalog, Site())

    def read(request: Request) -> Any:
        path = request.url.removeprefix("http://shop.test").partition("?")[0]
        route = routes.get((request.method, path))
        return Response(404) if route is None else route.read(request)

    return read


@pytest.fixture(scope="session")
def drive() -> Callable[..., Any]:
    return _drive


@pytest.fixture(scope="session")
def wire() -> Callable[[Catalog], Callable[[Request], Any]]:
    return _wire


@pytest.fixture(scope="session")
def store() -> Catalog:
    """A store of texts, as the SDKs of OpenTool have it for their own tests."""
    text = {"type": "string", "description": "What to keep."}
    return Catalog(
        title="Store",
        version="1.2.0",
        description="Keeps texts.",
        tools=(
            Tool(
                name="create",
                toolkit="Store",
                version="1.2.0",
                description="Keep a text.",
                input_schema={
                    "type": "object",
                    "properties": {"text": text},
                    "required": ["text"],
                    "additionalProperties": False,
                },
                output_schema={"type": "integer"},
                output_name="id",
                approval=Approval.PER_CALL,
                blanket_allowed=True,
            ),
            Tool(
                name="count",
                toolkit="Store",
                version="1.2.0",
                description="Count the texts.",
                input_schema={"type": "object", "properties": {}},
                output_schema={"type": "integer", "description": "How many there are."},
                approval=Approval.AUTO,
                safe=True,
            ),
            Tool(
                name="each",
                toolkit="Store",
                version="1.2.0",
                description="Say one text after the other.",
                input_schema={"type": "object", "properties": {}},
                output_schema={"type": "array", "items": {"type": "string"}},
                output_name="texts",
                streams=True,
            ),
            Tool(
                name="clear",
                toolkit="Store",
                version="1.2.0",
                description="Throw all texts away.",
                input_schema={"type": "object", "properties": {}},
                output_schema=None,
                destructive=True,
            ),
        ),
    )
