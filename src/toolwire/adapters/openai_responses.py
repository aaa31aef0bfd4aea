"""Build tools for the Responses API of the OpenAI SDK, and run the calls of its models."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, Unpack

from toolwire.core.lazy_import import explain_missing_module

try:
    from openai.types.responses import FunctionToolParam, NamespaceToolParam, ResponseFunctionToolCall, ToolParam
    from openai.types.responses.response_input_param import FunctionCallOutput
except ModuleNotFoundError as _error:
    raise explain_missing_module(_error, "openai") from _error

from toolwire.core.toolbox import Toolbox
from toolwire.find.index import group_tools
from toolwire.framing.long_result import READ_RESULT
from toolwire.framing.text_cleaning import cap_text, clean

from .conversation import ModelCall, ModelResult, read_call_data
from .dialects import Provider
from .find_tools import ToolList
from .images import encode_image
from .tool_declarations import (
    NamedCaller,
    ToolDeclaration,
    declare_toolbox,
    get_wire_name,
    run_named_call,
    run_named_call_sync,
)

_PROVIDER: Final = Provider.OPENAI
_NAMESPACE_CHARACTERS: Final = 600
"""How much the model reads about a namespace before it searches."""


def build_tools(toolbox: Toolbox | NamedCaller, **listed: Unpack[ToolList]) -> list[FunctionToolParam]:
    """Return the tools of ``toolbox`` for ``responses.create(tools=...)``."""
    # XL-090
    return [_build_function(one) for one in declare_toolbox(toolbox, _PROVIDER, listed)]


def build_deferred_tools(toolbox: Toolbox | NamedCaller, *, pins: Iterable[str] = ()) -> list[ToolParam]:
    """Return the tools of ``toolbox`` for a model that finds them with OpenAI's tool search.

    The tools are grouped into namespaces: one for each server, or for each subject of a large server. The model reads
    the names of all tools, the definitions that it finds, and those of the tools in ``pins``. Run the calls with
    ``run_tool_call``.
    """
    # FI-06
    catalog, pinned = toolbox.catalog(), frozenset(pins)
    groups = {catalog.names[name].id: group for name, group in group_tools(catalog.names).items()}
    tools: list[ToolParam] = [{"type": "tool_search"}]
    deferred: dict[str, list[FunctionToolParam]] = {}
    for one in declare_toolbox(toolbox, _PROVIDER):
        function = _build_function(one)
        if one.name in pinned or one.tool is READ_RESULT:  # what a long result refers to is not searched for
            tools.append(function)
        else:
            function["defer_loading"] = True
            deferred.setdefault(groups[one.tool.id], []).append(function)
    for group, functions in deferred.items():
        names = ", ".join(one["name"] for one in functions)
        text = cap_text(clean(f"{group}: {names}").text, _NAMESPACE_CHARACTERS)
        inner: list[Any] = list(functions)
        tools.append(NamespaceToolParam(type="namespace", name=get_wire_name(group), description=text, tools=inner))
    return tools


def _build_function(one: ToolDeclaration) -> FunctionToolParam:
    return FunctionToolParam(
        type="function",
        name=one.name,
        description=one.description,
        parameters=dict[str, Any](one.input_schema.schema),
        strict=False,
    )


async def run_tool_call(
    toolbox: Toolbox, call: ResponseFunctionToolCall | Mapping[str, Any], *, images: bool = False
) -> FunctionCallOutput:
    """Run ``call`` and return the input item that answers it.

    ``call`` can be a dict of the API's JSON. With ``images``, the model sees up to 4 PNG, JPEG, GIF or WebP images of
    the result, each at most 3,750,000 bytes. Otherwise, and for other content, it reads a sentence instead.
    """
    asked = _read_call(call)
    return _build_output(asked, await run_named_call(toolbox, _PROVIDER, asked.name, asked.arguments, images=images))


def run_tool_call_sync(
    remote: NamedCaller,
    call: ResponseFunctionToolCall | Mapping[str, Any],
    *,
    images: bool = False,
) -> FunctionCallOutput:
    """Do the same as ``run_tool_call``, blocking."""
    asked = _read_call(call)
    return _build_output(asked, run_named_call_sync(remote, _PROVIDER, asked.name, asked.arguments, images=images))


def _read_call(call: ResponseFunctionToolCall | Mapping[str, Any]) -> ModelCall:
    if isinstance(call, Mapping):
        return read_call_data(call, id_name="call_id")
    return ModelCall(id=call.call_id, name=call.name, arguments=call.arguments)


def _build_output(call: ModelCall, result: ModelResult) -> FunctionCallOutput:
    output = FunctionCallOutput(type="function_call_output", call_id=call.id, output=result.text)
    if result.images:
        shown: list[Any] = [
            {"type": "input_image", "image_url": f"data:{one.media_type.lower()};base64,{encode_image(one)}"}
            for one in result.images
        ]
        output["output"] = [{"type": "input_text", "text": result.text}, *shown]
    return output
