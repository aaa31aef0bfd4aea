"""Build tools for the Google Gen AI SDK, and run the calls of its models."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Unpack

from toolwire.core.lazy_import import explain_missing_module

try:
    from google.genai import types
except ModuleNotFoundError as _error:
    raise explain_missing_module(_error, "gemini") from _error

from toolwire.core.toolbox import Toolbox

from .conversation import ModelCall, ModelResult, read_call_data
from .dialects import Provider
from .find_tools import ToolList
from .tool_declarations import NamedCaller, ToolDeclaration, declare_toolbox, run_named_call, run_named_call_sync


def build_tools(toolbox: Toolbox | NamedCaller, *, json_schema: bool = True, **listed: Unpack[ToolList]) -> types.Tool:
    """Return the tools of ``toolbox`` for ``GenerateContentConfig(tools=[...])``.

    ``json_schema`` declares parameters as ``parameters_json_schema``. Without it, the older ``parameters`` is used.
    """
    # XL-090
    declarations = declare_toolbox(toolbox, _choose_provider(json_schema=json_schema), listed)
    return types.Tool(function_declarations=[_build_declaration(one, json_schema=json_schema) for one in declarations])


async def run_tool_call(
    toolbox: Toolbox, call: types.FunctionCall | Mapping[str, Any], *, json_schema: bool = True, images: bool = False
) -> types.Part:
    """Run ``call`` and return the part that answers it. Pass the ``json_schema`` of ``build_tools``.

    ``call`` can be a dict of the API's JSON. With ``images``, the model sees up to 4 PNG, JPEG, GIF or WebP images of
    the result, each at most 3,750,000 bytes. Otherwise, and for other content, it reads a sentence instead.
    """
    asked, provider = _read_call(call), _choose_provider(json_schema=json_schema)
    return _build_part(asked, await run_named_call(toolbox, provider, asked.name, asked.arguments, images=images))


def run_tool_call_sync(
    remote: NamedCaller, call: types.FunctionCall | Mapping[str, Any], *, json_schema: bool = True, images: bool = False
) -> types.Part:
    """Do the same as ``run_tool_call``, blocking."""
    asked, provider = _read_call(call), _choose_provider(json_schema=json_schema)
    return _build_part(asked, run_named_call_sync(remote, provider, asked.name, asked.arguments, images=images))


def _build_declaration(declaration: ToolDeclaration, *, json_schema: bool) -> types.FunctionDeclaration:
    name, description, schema = declaration.name, declaration.description, declaration.input_schema.schema
    if json_schema:
        return types.FunctionDeclaration(name=name, description=description, parameters_json_schema=dict(schema))
    parameters = types.Schema.model_validate(_capitalize_types(schema))
    return types.FunctionDeclaration(name=name, description=description, parameters=parameters)


def _capitalize_types(node: Any) -> Any:
    """Return a schema with its types in capitals, as the enum of the SDK has them."""
    if isinstance(node, list):
        return [_capitalize_types(one) for one in node]
    if not isinstance(node, dict):
        return node
    schema: dict[str, Any] = {}
    for key, value in node.items():
        if key == "type" and isinstance(value, str):
            schema[key] = value.upper()
        elif key == "properties":
            schema[key] = {name: _capitalize_types(one) for name, one in value.items()}
        else:
            schema[key] = _capitalize_types(value) if key in ("items", "anyOf") else value
    return schema


def _read_call(call: types.FunctionCall | Mapping[str, Any]) -> ModelCall:
    if isinstance(call, Mapping):
        return read_call_data(call, arguments_name="args")
    return ModelCall(id=call.id or "", name=call.name or "", arguments=call.args or {})


def _build_part(call: ModelCall, result: ModelResult) -> types.Part:
    data = json.loads(result.text)
    response = data if result.is_error else {"output": data}
    blobs = [types.FunctionResponseBlob(mime_type=one.media_type.lower(), data=one.data) for one in result.images]
    parts = [types.FunctionResponsePart(inline_data=blob) for blob in blobs] or None
    return types.Part(
        function_response=types.FunctionResponse(id=call.id or None, name=call.name, response=response, parts=parts)
    )


def _choose_provider(*, json_schema: bool) -> Provider:
    return Provider.GEMINI_JSON if json_schema else Provider.GEMINI
