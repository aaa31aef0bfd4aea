"""Tools for the Google Gen AI SDK."""

from __future__ import annotations

import json
from typing import Any

from google.genai import types

from toolwire.core.toolbox import Toolbox

from .dialects import Provider
from .tool_declarations import NamedCaller, ToolDeclaration, failed, offered, ran, ran_sync


def tools(box: Toolbox | NamedCaller, *, json_schema: bool = True) -> types.Tool:
    """Return the tools of ``box`` for ``GenerateContentConfig(tools=[...])``. [XL-090]

    ``json_schema`` declares them by ``parameters_json_schema``, else by the older ``parameters``.
    """
    found = offered(box.catalog(), _provider(json_schema=json_schema))
    return types.Tool(function_declarations=[_declaration(one, json_schema=json_schema) for one in found])


async def run(box: Toolbox, call: types.FunctionCall, *, json_schema: bool = True) -> types.Part:
    """Return the part that answers ``call``; give ``json_schema`` as it was given for the tools."""
    return _part(call, await ran(box, _provider(json_schema=json_schema), call.name or "", call.args or {}))


def run_sync(remote: NamedCaller, call: types.FunctionCall, *, json_schema: bool = True) -> types.Part:
    """Return like ``run``, blocking."""
    return _part(call, ran_sync(remote, _provider(json_schema=json_schema), call.name or "", call.args or {}))


def _declaration(one: ToolDeclaration, *, json_schema: bool) -> types.FunctionDeclaration:
    if json_schema:
        return types.FunctionDeclaration(
            name=one.name, description=one.description, parameters_json_schema=dict(one.shape.schema)
        )
    return types.FunctionDeclaration(
        name=one.name, description=one.description, parameters=types.Schema.model_validate(_spelled(one.shape.schema))
    )


def _spelled(node: Any) -> Any:
    """Return a schema with its types in capitals, as the SDK's enum has them."""
    if isinstance(node, list):
        return [_spelled(one) for one in node]
    if not isinstance(node, dict):
        return node
    spelled: dict[str, Any] = {}
    for key, value in node.items():
        if key == "type" and isinstance(value, str):
            spelled[key] = value.upper()
        elif key == "properties":
            spelled[key] = {name: _spelled(one) for name, one in value.items()}
        else:
            spelled[key] = _spelled(value) if key in ("items", "anyOf") else value
    return spelled


def _part(call: types.FunctionCall, text: str) -> types.Part:
    said = json.loads(text)
    response = said if failed(text) else {"output": said}
    answer = types.FunctionResponse(id=call.id, name=call.name, response=response)
    return types.Part(function_response=answer)


def _provider(*, json_schema: bool) -> Provider:
    return Provider.GEMINI_JSON if json_schema else Provider.GEMINI
