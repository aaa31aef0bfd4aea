"""What the tests of this folder share: a catalog, one way to ask the server half, one to talk to the client half."""

import json
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

from toolwire.core.catalog import Catalog
from toolwire.core.codec import Pending, Reading, Site
from toolwire.core.http import Headers, Request, Response
from toolwire.core.model import Approval, Authorization, Problem, Requirements, Result, Tool
from toolwire.protocols.otc import CODEC

VECTORS = Path(__file__).parents[2] / "vectors" / "otc.json"
NUMBERS = {
    "type": "object",
    "properties": {
        "a": {"type": "number", "description": "The first number."},
        "b": {"type": "number", "description": "The second number."},
    },
    "required": ["a", "b"],
}


@pytest.fixture
def catalog() -> Catalog:
    text = {"type": "object", "properties": {"text": {"type": "string"}}}
    return Catalog(
        title="Office",
        version="2.1.0",
        tools=(
            Tool(name="Add", toolkit="Calculator", description="Add two numbers.", input_schema=NUMBERS, safe=True),
            Tool(name="Add", toolkit="Calculator", version="2.0.0", input_schema=NUMBERS),
            Tool(name="Ring", toolkit="Doorbell", version="0.1.0", output_schema=None, approval=Approval.AUTO),
            Tool(
                name="Send",
                toolkit="SMS",
                version="0.1.2",
                input_schema=text,
                requirements=Requirements(secrets=("TWILIO_API_KEY",), user_id=True),
            ),
            Tool(
                name="GetEmails",
                toolkit="Gmail",
                version="1.2.0",
                requirements=Requirements(authorization=(Authorization(id="google", scopes=("mail.read",)),)),
                hints={"otc": {"authorization": {"google": {"url": "https://auth.example/start"}}}},
            ),
        ),
    )


Server = Callable[..., Reading]


@pytest.fixture
def ask(catalog: Catalog) -> Server:
    """Ask the server half: ``ask("/call", {...})`` posts, ``ask("/tools")`` gets."""
    routes = CODEC.routes(catalog, Site())

    def asked(
        path: str,
        body: Any = None,
        headers: Headers = ((b"content-type", b"application/json"),),
        request_id: str = "made-1",
    ) -> Reading:
        method = "GET" if body is None else "POST"
        text = body if isinstance(body, bytes) else json.dumps(body).encode()
        return routes[method, path].read(Request(method, path, headers, text, "made-1"))

    return asked


@pytest.fixture
def answer(ask: Server) -> Callable[..., Any]:
    """Post a call, end it with a result, and return the status and the body."""

    def answered(path: str, body: Any, result: Result, duration_ms: float = 2.4) -> tuple[int, Any]:
        reading = ask(path, body)
        response = reading.reply(result, duration_ms) if isinstance(reading, Pending) else reading
        assert isinstance(response, Response)
        return response.status, json.loads(response.body)

    return answered


@pytest.fixture
def talk() -> Callable[..., Any]:
    """Run a flow against canned responses; return what it returned and the requests it made."""

    def talked(flow: Generator[Any, Any, Any], *responses: Response | Problem) -> tuple[Any, list[Request]]:
        requests: list[Request] = []
        sent: Response | Problem | None = None
        for response in (*responses, None):
            try:
                requests.append(flow.send(sent))
            except StopIteration as end:
                return end.value, requests
            sent = response
        raise AssertionError(f"the flow asks more than was expected: {requests[-1]}")

    return talked


@pytest.fixture(scope="session")
def vectors() -> dict[str, Any]:
    return {vector["name"]: vector for vector in json.loads(VECTORS.read_text("utf-8"))}
