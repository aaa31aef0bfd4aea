"""Build LangChain tools, for LangChain and the frameworks on top of it."""

from __future__ import annotations

from typing import Any

from langchain_core.messages import ToolCall, ToolMessage
from langchain_core.messages.content import create_image_block
from langchain_core.tools import BaseTool, StructuredTool

from toolwire.consent.tool_facts import build_facts
from toolwire.core.toolbox import Toolbox

from .conversation import ModelResult
from .dialects import Provider
from .images import encode_image
from .tool_declarations import NamedCaller, ToolDeclaration, declare_tools, run_named_call, run_named_call_sync

_PROVIDER = Provider.OPENAI  # full JSON Schema, with keys that every model behind LangChain accepts


def build_tools(toolbox: Toolbox) -> list[BaseTool]:
    """Return the tools of ``toolbox`` as LangChain tools with a coroutine each, which makes the call.

    The ``metadata`` of each tool holds its consent level, costs and scopes.
    """

    # XL-085, XL-090
    def build(declaration: ToolDeclaration) -> BaseTool:
        async def call(**arguments: Any) -> str:
            return (await run_named_call(toolbox, _PROVIDER, declaration.name, arguments)).text

        return StructuredTool(**_describe(declaration), coroutine=call)

    return [build(declaration) for declaration in declare_tools(toolbox.catalog(), _PROVIDER)]


def build_tools_sync(remote: NamedCaller) -> list[BaseTool]:
    """Return like ``build_tools``; the tools block."""

    def build(declaration: ToolDeclaration) -> BaseTool:
        def call(**arguments: Any) -> str:
            return run_named_call_sync(remote, _PROVIDER, declaration.name, arguments).text

        return StructuredTool(**_describe(declaration), func=call)

    return [build(declaration) for declaration in declare_tools(remote.catalog(), _PROVIDER)]


async def run_tool_call(toolbox: Toolbox, call: ToolCall, *, images: bool = False) -> ToolMessage:
    """Run ``call`` and return the message that answers it.

    With ``images``, the model sees the images of the result: PNG, JPEG, GIF and WebP, at most 4, of 3,750,000 bytes
    each. Without it, and for other content, it reads a sentence.
    """
    return _build_message(call, await run_named_call(toolbox, _PROVIDER, call["name"], call["args"], images=images))


def run_tool_call_sync(remote: NamedCaller, call: ToolCall, *, images: bool = False) -> ToolMessage:
    """Return like ``run_tool_call``, blocking."""
    return _build_message(call, run_named_call_sync(remote, _PROVIDER, call["name"], call["args"], images=images))


def _describe(declaration: ToolDeclaration) -> dict[str, Any]:
    return {
        "name": declaration.name,
        "description": declaration.description,
        "args_schema": dict(declaration.input_schema.schema),
        "metadata": build_facts(declaration.tool),
    }


def _build_message(call: ToolCall, result: ModelResult) -> ToolMessage:
    content: Any = result.text
    if result.images:
        blocks = [create_image_block(base64=encode_image(one), mime_type=one.media_type) for one in result.images]
        content = [{"type": "text", "text": result.text}, *blocks]
    return ToolMessage(content, tool_call_id=call["id"] or "", status="error" if result.is_error else "success")
