"""Build tools for the OpenAI Agents SDK, with its approvals for calls that need them."""
# FU-22
# pyright: reportMissingImports=false, reportUntypedBaseClass=false
# The framework is not in the environment of the type checkers; tests/adapters/frameworks runs this module with it.

from __future__ import annotations

from typing import Any, Protocol

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
from .deferral import CALL_AGAIN, Deferral, ModelToolCall, describe_question, identify_call, run_deferred_call
from .dialects import Provider
from .images import encode_image
from .tool_declarations import ToolDeclaration, declare_toolbox, read_call

__all__ = ["Deferral", "build_tools", "describe_question"]


class _QuestionFinder(Protocol):
    def find_question(self, name: str, arguments: Any) -> Question | None: ...


def build_tools(
    toolbox: Toolbox, *, strict: bool = False, images: bool = False, deferral: Deferral | None = None
) -> list[Tool]:
    """Return the tools of ``toolbox`` for ``Agent(tools=...)``; the runner runs their calls.

    ``strict`` declares as strict each tool whose schema allows it. With ``images``, the model sees the images of a
    result: PNG, JPEG, GIF and WebP, at most 4, of 3,750,000 bytes each. With ``deferral``, a call that needs approval
    is an interruption of the run: ``deferral.find_question(interruption.call_id)`` is what its user must see.
    """
    provider = Provider.OPENAI_STRICT if strict else Provider.OPENAI
    return [
        _Builder(toolbox, provider, one, deferral, images=images).build() for one in declare_toolbox(toolbox, provider)
    ]


class _Builder:
    """Builds one tool, and runs its calls."""

    def __init__(
        self,
        toolbox: Toolbox,
        provider: Provider,
        declaration: ToolDeclaration,
        deferral: Deferral | None,
        *,
        images: bool,
    ) -> None:
        self._toolbox, self._provider, self._declaration = toolbox, provider, declaration
        self._deferral, self._images = deferral, images

    def build(self) -> FunctionTool:
        declaration = self._declaration
        return FunctionTool(
            name=declaration.name,
            description=declaration.description,
            params_json_schema=dict[str, Any](declaration.input_schema.schema),
            on_invoke_tool=self._invoke,
            strict_json_schema=declaration.input_schema.is_strict,
            needs_approval=False if self._deferral is None else self._needs_approval,
        )

    async def _needs_approval(self, _: RunContextWrapper[Any], arguments: dict[str, Any], call_id: str) -> bool:
        """Return whether the user must be asked about the call ``call_id``, and keep what to ask."""
        if self._deferral is None:
            return False
        questions = self._deferral.take(identify_call(self._declaration.name, arguments)) or self._preview(arguments)
        if questions:
            self._deferral.keep(call_id, questions)
        return bool(questions)

    async def _invoke(self, context: ToolContext[Any], text: str) -> Any:
        call, deferral = ModelToolCall(self._declaration.name, text, context.tool_call_id), self._deferral
        if deferral is None:
            return self._build_output(
                await run_deferred_call(self._toolbox, self._provider, call, None, images=self._images)
            )
        is_approved = context.is_tool_approved(self._declaration.name, context.tool_call_id) is True
        approved = deferral.take(context.tool_call_id) if is_approved else ()
        outcome = await run_deferred_call(
            self._toolbox,
            self._provider,
            call,
            deferral,
            approved,
            # An approval without a question is one of the SDK for all calls of this tool.
            is_standing=is_approved and not approved,
            images=self._images,
        )
        if isinstance(outcome, Question):  # it came up only now, so the SDK cannot ask any more
            deferral.keep(identify_call(self._declaration.name, _read_arguments(text)), (*approved, outcome))
        return self._build_output(outcome)

    def _preview(self, arguments: dict[str, Any]) -> tuple[Question, ...]:
        finder: _QuestionFinder | None = self._toolbox if hasattr(self._toolbox, "find_question") else None  # type: ignore[assignment]  # it has what the protocol asks for
        call = read_call(self._toolbox.catalog(), self._provider, self._declaration.name, arguments)
        if finder is None or isinstance(call, Problem):
            return ()
        question = finder.find_question(call.tool.id, call.arguments)
        return () if question is None else (question,)

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
