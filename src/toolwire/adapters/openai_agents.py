"""Build tools for the OpenAI Agents SDK, with its approvals for calls that need them."""
# FU-22
# pyright: reportMissingImports=false, reportUntypedBaseClass=false
# The framework is not in the environment of the type checkers; tests/adapters/frameworks runs this module with it.

from __future__ import annotations

from typing import Any, Unpack

from toolwire.core.lazy_import import explain_missing_module

try:
    from agents import FunctionTool, RunContextWrapper, Tool, ToolOutputImage, ToolOutputText
    from agents.tool_context import ToolContext
except ModuleNotFoundError as _error:
    raise explain_missing_module(_error, "openai-agents") from _error

from toolwire.core.check import Question
from toolwire.core.model import Json, Problem
from toolwire.core.toolbox import Toolbox
from toolwire.framing import jsontext

from .conversation import ModelResult
from .deferral import CALL_AGAIN, Deferral, ModelCalls, ModelToolCall, describe_question, identify_call
from .dialects import Provider
from .find_tools import ToolList
from .images import encode_image
from .tool_declarations import ToolDeclaration, declare_toolbox

__all__ = ["Deferral", "build_tools", "describe_question"]


def build_tools(
    toolbox: Toolbox,
    *,
    images: bool = False,
    deferral: Deferral | None = None,
    **listed: Unpack[ToolList],
) -> list[Tool]:
    """Return the tools of ``toolbox`` for ``Agent(tools=...)``; the runner runs their calls.

    With ``images``, the model sees the images of a
    result: PNG, JPEG, GIF and WebP, at most 4, of 3,750,000 bytes each. With ``deferral``, a call that needs approval
    is an interruption of the run: ``deferral.find_question(interruption.call_id)`` is what its user must see.
    """
    calls = ModelCalls(toolbox, Provider.OPENAI, deferral, images=images)
    return [_Builder(calls, one).build() for one in declare_toolbox(toolbox, Provider.OPENAI, listed)]


class _Builder:
    """Builds one tool, and runs its calls."""

    def __init__(self, calls: ModelCalls, declaration: ToolDeclaration) -> None:
        self._calls, self._deferral, self._declaration = calls, calls.deferral, declaration

    def build(self) -> FunctionTool:
        declaration = self._declaration
        return FunctionTool(
            name=declaration.name,
            description=declaration.description,
            params_json_schema=dict[str, Any](declaration.input_schema.schema),
            on_invoke_tool=self._invoke,
            strict_json_schema=False,
            needs_approval=False if self._deferral is None else self._needs_approval,
        )

    async def _needs_approval(self, _: RunContextWrapper[Any], arguments: dict[str, Any], call_id: str) -> bool:
        """Return whether the user must be asked about the call ``call_id``, and keep what to ask."""
        if self._deferral is None:
            return False
        name = self._declaration.name
        questions = self._deferral.take(identify_call(name, arguments)) or self._calls.preview(name, arguments)
        if questions:
            self._deferral.defer(call_id, questions)
        return bool(questions)

    async def _invoke(self, context: ToolContext[Any], text: str) -> Any:
        call, deferral = ModelToolCall(self._declaration.name, text, context.tool_call_id), self._deferral
        if deferral is None:
            return self._build_output(await self._calls.run(call))
        is_approved = context.is_tool_approved(self._declaration.name, context.tool_call_id) is True
        approved = deferral.take(context.tool_call_id) if is_approved else ()
        # An approval without a question is one of the SDK for all calls of this tool.
        outcome = await self._calls.run(call, approved, is_standing=is_approved and not approved)
        if isinstance(outcome, Question):  # it came up only now, so the SDK cannot ask any more
            deferral.defer(identify_call(self._declaration.name, _read_arguments(text)), (*approved, outcome))
        return self._build_output(outcome)

    def _build_output(self, outcome: ModelResult | Question) -> Any:
        if isinstance(outcome, Question):
            return CALL_AGAIN.text
        if not outcome.images:
            return outcome.text
        shown = [
            ToolOutputImage(image_url=f"data:{one.media_type.lower()};base64,{encode_image(one)}")
            for one in outcome.images
        ]
        return [ToolOutputText(text=outcome.text), *shown]


def _read_arguments(text: str) -> Json:
    data = jsontext.read(text.encode("utf-8", "replace"))
    return None if isinstance(data, Problem) else data
