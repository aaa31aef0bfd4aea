"""Build LangChain tools, for LangChain and the frameworks on top of it, such as LangGraph with its interrupts."""

from __future__ import annotations

from typing import Any, Unpack

from toolwire.core.lazy_import import explain_missing_module

try:
    from langchain_core.messages import ToolCall, ToolMessage
    from langchain_core.messages.content import create_image_block
    from langchain_core.tools import BaseTool, StructuredTool
except ModuleNotFoundError as _error:
    raise explain_missing_module(_error, "langchain") from _error

from toolwire.consent.tool_facts import build_facts
from toolwire.core.check import Question
from toolwire.core.toolbox import Toolbox, complete

from .conversation import ModelResult
from .deferral import (
    Deferral,
    ModelCalls,
    ModelToolCall,
    approve,
    deny,
    describe_question,
    read_answer,
)
from .dialects import Provider
from .find_tools import ToolList
from .images import encode_image
from .tool_declarations import NamedCaller, ToolDeclaration, declare_toolbox, run_named_call, run_named_call_sync

__all__ = ["Deferral", "approve", "build_tools", "build_tools_sync", "deny", "run_tool_call", "run_tool_call_sync"]

_PROVIDER = Provider.OPENAI  # full JSON Schema, with keys that every model behind LangChain accepts


def build_tools(toolbox: Toolbox, *, deferral: Deferral | None = None, **listed: Unpack[ToolList]) -> list[BaseTool]:
    """Return the tools of ``toolbox`` as LangChain tools. Each has a coroutine that makes the call.

    Each tool's ``metadata`` contains its approval policy, costs and scopes. With ``deferral``, a call that needs
    approval interrupts its LangGraph graph. To resume, answer with ``approve(interrupt.value)``.
    """

    # XL-085, XL-090
    calls = ModelCalls(toolbox, _PROVIDER, deferral)

    def build(declaration: ToolDeclaration) -> BaseTool:
        async def call(**arguments: Any) -> str:
            return (await calls.run_asking(ModelToolCall(declaration.name, arguments), _interrupt)).text

        return StructuredTool(**_describe(declaration), coroutine=call)

    return [build(declaration) for declaration in declare_toolbox(toolbox, _PROVIDER, listed)]


def build_tools_sync(
    remote: NamedCaller, *, deferral: Deferral | None = None, **listed: Unpack[ToolList]
) -> list[BaseTool]:
    """Return the tools of ``toolbox`` as blocking LangChain tools. See ``build_tools``."""
    calls = ModelCalls(remote, _PROVIDER, deferral, is_blocking=True)

    def build(declaration: ToolDeclaration) -> BaseTool:
        def call(**arguments: Any) -> str:
            return complete(calls.run_asking(ModelToolCall(declaration.name, arguments), _interrupt)).text

        return StructuredTool(**_describe(declaration), func=call)

    return [build(declaration) for declaration in declare_toolbox(remote, _PROVIDER, listed)]


async def run_tool_call(toolbox: Toolbox, call: ToolCall, *, images: bool = False) -> ToolMessage:
    """Run ``call`` and return the message that answers it.

    With ``images``, the model sees up to 4 PNG, JPEG, GIF or WebP images of the result, each at most 3,750,000 bytes.
    Otherwise, and for other content, it reads a sentence instead.
    """
    return _build_message(call, await run_named_call(toolbox, _PROVIDER, call["name"], call["args"], images=images))


def run_tool_call_sync(remote: NamedCaller, call: ToolCall, *, images: bool = False) -> ToolMessage:
    """Do the same as ``run_tool_call``, blocking."""
    return _build_message(call, run_named_call_sync(remote, _PROVIDER, call["name"], call["args"], images=images))


async def _interrupt(question: Question) -> ModelResult | None:
    """Interrupt the graph with ``question``; when it is resumed, return None for a yes, or what the model reads."""
    # An extra of its own: LangChain alone has no interrupts.
    from langgraph.types import interrupt  # pyright: ignore[reportMissingImports]  # as above

    asked = describe_question(question)
    return read_answer(interrupt(asked), str(asked["id"]))


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
