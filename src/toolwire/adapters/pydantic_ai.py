"""Build tools for Pydantic AI, with its deferred tools for calls that need approval."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Unpack

from toolwire.core.lazy_import import explain_missing_module

try:
    from pydantic_ai import ApprovalRequired, BinaryContent, RunContext, Tool
except ModuleNotFoundError as _error:
    raise explain_missing_module(_error, "pydantic-ai") from _error

from toolwire.consent.tool_facts import build_facts
from toolwire.core.check import Question
from toolwire.core.toolbox import Toolbox, complete

from .deferral import (
    Deferral,
    ModelCalls,
    ModelToolCall,
    describe_question,
)
from .dialects import Provider
from .find_tools import ToolList
from .tool_declarations import NamedCaller, ToolDeclaration, declare_toolbox

__all__ = ["Deferral", "build_tools", "build_tools_sync"]

_PROVIDER = Provider.OPENAI  # full JSON Schema: Pydantic AI itself adapts it to the model's provider


def build_tools(
    toolbox: Toolbox, *, images: bool = False, deferral: Deferral | None = None, **listed: Unpack[ToolList]
) -> list[Tool[Any]]:
    """Return the tools of ``toolbox`` for ``Agent(tools=...)``. The agent runs their calls.

    Each tool's ``metadata`` contains its approval policy, costs and scopes. With ``images``, the model sees up to 4
    PNG, JPEG, GIF or WebP images of a result, each at most 3,750,000 bytes. Otherwise, and for other content, it reads
    a sentence instead. With ``deferral``, a call that needs approval ends the run with ``DeferredToolRequests``, which
    must be an output type of the agent. Its ``metadata`` contains what the user must see.
    """

    # XL-085, XL-090, FU-22
    calls = ModelCalls(toolbox, _PROVIDER, deferral, images=images)

    def build(declaration: ToolDeclaration) -> Tool[Any]:
        async def call(context: RunContext[Any], /, **arguments: Any) -> str | list[str | BinaryContent]:
            return await _run(calls, declaration, context, arguments)

        return _build(declaration, call)

    return [build(declaration) for declaration in declare_toolbox(toolbox, _PROVIDER, listed)]


def build_tools_sync(
    remote: NamedCaller, *, images: bool = False, deferral: Deferral | None = None, **listed: Unpack[ToolList]
) -> list[Tool[Any]]:
    """Return the tools of a blocking ``toolbox``. The agent runs their calls in threads. See ``build_tools``."""
    calls = ModelCalls(remote, _PROVIDER, deferral, images=images, is_blocking=True)

    def build(declaration: ToolDeclaration) -> Tool[Any]:
        def call(context: RunContext[Any], /, **arguments: Any) -> str | list[str | BinaryContent]:
            return complete(_run(calls, declaration, context, arguments))

        return _build(declaration, call)

    return [build(declaration) for declaration in declare_toolbox(remote, _PROVIDER, listed)]


async def _run(
    calls: ModelCalls, declaration: ToolDeclaration, context: RunContext[Any], arguments: dict[str, Any]
) -> str | list[str | BinaryContent]:
    """Return the text of a result, and the images beside it as parts, which Pydantic AI sends as the result.

    Raises:
        ApprovalRequired: the user must be asked first.
    """
    call = ModelToolCall(declaration.name, arguments, context.tool_call_id or "")
    result = await calls.run_waiting(call, is_approved=context.tool_call_approved)
    # MC-07
    if isinstance(result, Question):
        raise ApprovalRequired(metadata=describe_question(result))
    if not result.images:
        return result.text
    return [
        result.text,
        *(BinaryContent(data=one.data, media_type=one.media_type.lower()) for one in result.images),
    ]


def _build(declaration: ToolDeclaration, call: Callable[..., Any]) -> Tool[Any]:
    schema = dict(declaration.input_schema.schema)
    tool = Tool.from_schema(call, declaration.name, declaration.description, schema, takes_ctx=True)
    tool.metadata = build_facts(declaration.tool)
    return tool
