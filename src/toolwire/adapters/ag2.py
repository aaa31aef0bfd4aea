"""Build tools for AG2, which asks its human about calls that need approval."""
# FU-22
# pyright: reportMissingImports=false, reportUntypedBaseClass=false
# The framework is not in the environment of the type checkers; tests/adapters/frameworks runs this module with it.

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AsyncExitStack, ExitStack
from functools import partial
from typing import Any, Unpack

from toolwire.core.lazy_import import explain_missing_module

try:
    from ag2.annotations import Context
    from ag2.events import ToolApprovalRequest, ToolCallEvent, ToolResultEvent
    from ag2.middleware import BaseMiddleware
    from ag2.tools.final.function_tool import FunctionDefinition, FunctionToolSchema
    from ag2.tools.tool import Tool
except ModuleNotFoundError as _error:
    raise explain_missing_module(_error, "ag2") from _error

from toolwire.core.check import Question
from toolwire.core.toolbox import Toolbox

from .conversation import ModelResult
from .deferral import Deferral, ModelCalls, ModelToolCall, build_denied_result, describe_question
from .dialects import Provider
from .find_tools import ToolList
from .tool_declarations import ToolDeclaration, declare_toolbox

__all__ = ["Deferral", "build_tools"]

_PROVIDER = Provider.OPENAI  # full JSON Schema: each configuration of AG2 passes it on
_YES = frozenset(("y", "yes", "1"))


def build_tools(toolbox: Toolbox, *, deferral: Deferral | None = None, **listed: Unpack[ToolList]) -> list[Tool]:
    """Return the tools of ``toolbox`` for ``Agent(tools=...)``; the agent runs their calls.

    With ``deferral``, the agent asks its human about a call that needs approval (``hitl_hook``), as
    ``approval_required`` of AG2 does: ``y``, ``yes`` or ``1`` runs it once.
    """
    calls = ModelCalls(toolbox, _PROVIDER, deferral)
    return [_SiteTool(calls, one) for one in declare_toolbox(toolbox, _PROVIDER, listed)]


class _SiteTool(Tool):
    """One tool of a site."""

    __slots__ = ("_calls", "name", "schema")

    declared_in_code = False  # a tool of the program comes before one of a site with the same name

    def __init__(self, calls: ModelCalls, declaration: ToolDeclaration) -> None:
        self._calls, self.name = calls, declaration.name
        self.schema = FunctionToolSchema(
            function=FunctionDefinition(
                name=declaration.name,
                description=declaration.description,
                parameters=dict[str, Any](declaration.input_schema.schema),
            )
        )

    def __deepcopy__(self, memo: dict[int, Any]) -> _SiteTool:
        return self  # AG2 copies its tools, and a connection cannot be copied

    async def schemas(self, context: Context) -> list[FunctionToolSchema]:
        """Return the declaration of the tool."""
        return [self.schema]

    def register(
        self, stack: ExitStack | AsyncExitStack, context: Context, *, middleware: Iterable[BaseMiddleware] = ()
    ) -> None:
        """Run the calls of the tool while ``stack`` is open."""
        execution: Any = self
        for one in middleware:
            execution = partial(one.on_tool_execution, execution)

        async def execute(event: ToolCallEvent, context: Context) -> None:
            await context.send(await execution(event, context))

        stack.enter_context(context.stream.where(ToolCallEvent.name == self.name).sub_scope(execute))

    async def __call__(self, event: ToolCallEvent, context: Context) -> ToolResultEvent:
        """Run one call, and ask the human of the agent first if it needs approval."""

        async def ask(question: Question) -> ModelResult | None:
            text = f"{describe_question(question)['text']}\nDo you allow this call? Y/N\n"
            answer = await context.ask(ToolApprovalRequest(text, tool_call_id=event.id))
            return None if answer.strip().lower() in _YES else build_denied_result()

        result = await self._calls.run_asking(ModelToolCall(self.name, event.arguments, event.id), ask)
        return ToolResultEvent.from_call(event, result=result.text)
