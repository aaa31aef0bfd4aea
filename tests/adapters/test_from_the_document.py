"""A model that knows nothing but a server's document calls every function of it."""

from __future__ import annotations

import json
from typing import Any, Literal

import pytest
from openai.types.chat import ChatCompletionMessageFunctionToolCall

from toolwire import Toolkit, asgi, connect_sync
from toolwire.adapters import openai
from toolwire.testing.loopback import background

GIVEN = {"string": "a", "integer": 2, "number": 0.5, "boolean": True}


def office(calls: dict[str, dict[str, Any]]) -> Toolkit:
    """Return tools that remember with what they were called."""
    tools = Toolkit("Office")

    @tools.tool
    def order(item: str, count: int, price: float, gift: bool) -> dict[str, str]:
        calls["order"] = {"item": item, "count": count, "price": price, "gift": gift}
        return {"ordered": item}

    @tools.tool
    def file(names: list[str], place: dict[str, int], kind: Literal["letter", "bill"], note: str = "") -> int:
        calls["file"] = {"names": names, "place": place, "kind": kind, "note": note}
        return len(names)

    @tools.tool
    def close() -> None:
        calls["close"] = {}

    return tools


def fill(schema: dict[str, Any]) -> Any:
    """Return a value as a model would give it that has only ``schema`` to go by."""
    if "enum" in schema:
        return schema["enum"][0]
    if schema["type"] == "array":
        return [fill(schema["items"])]
    if schema["type"] == "object":
        return {name: fill(schema["properties"][name]) for name in schema.get("required", ())}
    return GIVEN[schema["type"]]


@pytest.mark.requirement("OT-028")
def test_every_function_is_called_with_the_arguments_of_its_document() -> None:
    calls: dict[str, dict[str, Any]] = {}
    answers: dict[str, str] = {}
    with (
        background(asgi(office(calls))) as url,
        connect_sync(url, protocol="opentool", approve=lambda _: True) as remote,
    ):
        *tools, reader = openai.build_tools(remote)
        assert reader["function"]["name"] == "read_result"
        for number, tool in enumerate(tools):
            function = tool["function"]
            arguments = json.dumps(fill(dict(function["parameters"])))
            reply = {"name": function["name"], "arguments": arguments}
            call = ChatCompletionMessageFunctionToolCall.model_validate(
                {"id": str(number), "type": "function", "function": reply}
            )
            answers[function["name"]] = str(openai.run_tool_call_sync(remote, call)["content"])
    assert calls == {
        "order": {"item": "a", "count": 2, "price": 0.5, "gift": True},
        "file": {"names": ["a"], "place": {}, "kind": "letter", "note": ""},
        "close": {},
    }
    assert {name: json.loads(answer)["result"] for name, answer in answers.items() if name != "close"} == {
        "order": {"ordered": "a"},
        "file": 1,
    }
