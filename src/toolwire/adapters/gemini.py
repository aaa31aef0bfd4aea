"""Build tools for the Google Gen AI SDK, and run the calls of its models."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, Unpack

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

_PROVIDER: Final = Provider.GEMINI


def build_tools(toolbox: Toolbox | NamedCaller, **listed: Unpack[ToolList]) -> types.Tool:
    """Return the tools of ``toolbox`` for ``GenerateContentConfig(tools=[...])``."""
    # XL-090
    declarations = declare_toolbox(toolbox, _PROVIDER, listed)
    return types.Tool(function_declarations=[_build_declaration(one) for one in declarations])


async def run_tool_call(
    toolbox: Toolbox, call: types.FunctionCall | Mapping[str, Any], *, images: bool = False
) -> types.Part:
    """Run ``call`` and return the part that answers it.

    ``call`` can be a dict of the API's JSON. With ``images``, the model sees up to 4 PNG, JPEG, GIF or WebP images of
    the result, each at most 3,750,000 bytes. Otherwise, and for other content, it reads a sentence instead.
    """
    asked = _read_call(call)
    return _build_part(asked, await run_named_call(toolbox, _PROVIDER, asked.name, asked.arguments, images=images))


def run_tool_call_sync(
    remote: NamedCaller, call: types.FunctionCall | Mapping[str, Any], *, images: bool = False
) -> types.Part:
    """Do the same as ``run_tool_call``, blocking."""
    asked = _read_call(call)
    return _build_part(asked, run_named_call_sync(remote, _PROVIDER, asked.name, asked.arguments, images=images))


def _build_declaration(declaration: ToolDeclaration) -> types.FunctionDeclaration:
    name, description, schema = declaration.name, declaration.description, declaration.input_schema.schema
    return types.FunctionDeclaration(name=name, description=description, parameters_json_schema=dict(schema))


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
