"""A tool as the examples of the SDKs have one, its document, and servers for it on loopback."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from toolwire.opentool import (
    FunctionNotSupportedException,
    InvalidArgumentsException,
    OpenToolServer,
    ToolBreakException,
)
from toolwire.server.http.deadlines import Deadlines

QUICK = Deadlines(drain_s=0.05, grace_s=5)

DOCUMENT: dict[str, Any] = {
    "opentool": "1.1.0",
    "info": {"title": "Notes", "description": "A store of texts.", "version": "2.3.4"},
    "server": {"url": "https://notes.example.com/opentool"},
    "functions": [
        {
            "name": "create",
            "description": "Keep a text.",
            "parameters": [
                {"name": "text", "description": "What to keep.", "schema": {"type": "string"}, "required": True}
            ],
            "return": {"name": "ID", "schema": {"type": "integer"}},
            "x-icon": "pencil",
        },
        {
            "name": "read",
            "description": "Return a text.",
            "parameters": [{"name": "id", "schema": {"$ref": "#/schemas/Id"}, "required": True}],
            "return": {"name": "text", "schema": {"type": "string"}},
        },
        {"name": "count", "description": "Count the texts.", "parameters": []},
        {"name": "break", "description": "Give up.", "parameters": []},
        {"name": "fail", "description": "Fail by mistake.", "parameters": []},
    ],
    "schemas": {"Id": {"type": "integer", "description": "The number of a text."}},
}


class Notes:
    """The tool: sync, as the Java and C# examples are."""

    def __init__(self, document: Any = None) -> None:
        self.texts: list[str] = []
        self.document = document

    def call(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        match name:
            case "create":
                self.texts.append(arguments["text"])
                return {"id": len(self.texts)}
            case "read":
                return {"text": self.texts[arguments["id"] - 1]}
            case "count":
                return {"count": len(self.texts)}
            case "break":
                raise ToolBreakException("Fatal error occurred in run()")
            case "refuse":
                raise InvalidArgumentsException(arguments)
            case "fail":
                raise LookupError("the password is hunter2")
            case _:
                raise FunctionNotSupportedException(name)

    def load(self) -> Any:
        return self.document


Serve = Callable[..., OpenToolServer]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Serve a tool on a free port until the test ends."""
    with ExitStack() as stack:

        def begin(tool: Any, **options: Any) -> OpenToolServer:
            return stack.enter_context(OpenToolServer(tool, port=0, deadlines=QUICK, **options))

        yield begin
