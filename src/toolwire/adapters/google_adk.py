"""Build tools for Google's Agent Development Kit (ADK), with its confirmations for calls that need approval."""
# FU-22
# pyright: reportMissingImports=false, reportUntypedBaseClass=false
# The framework is not in the environment of the type checkers; tests/adapters/frameworks runs this module with it.

from __future__ import annotations

import json
from typing import Any, Final, Unpack

from toolwire.core.lazy_import import explain_missing_module

try:
    from google.adk.tools.base_tool import BaseTool
    from google.adk.tools.tool_context import ToolContext
    from google.genai import types
except ModuleNotFoundError as _error:
    raise explain_missing_module(_error, "google-adk") from _error

from toolwire.core.check import Question
from toolwire.core.toolbox import Toolbox

from .conversation import ModelResult
from .deferral import (
    CALL_AGAIN,
    Deferral,
    ModelCalls,
    ModelToolCall,
    build_denied_result,
    describe_question,
    identify_call,
)
from .dialects import Provider
from .find_tools import ToolList
from .tool_declarations import ToolDeclaration, declare_toolbox

__all__ = ["Deferral", "build_tools"]

_PROVIDER = Provider.GEMINI


def build_tools(toolbox: Toolbox, *, deferral: Deferral | None = None, **listed: Unpack[ToolList]) -> list[BaseTool]:
    """Return the tools of ``toolbox`` for ``LlmAgent(tools=...)``; the runner runs their calls.

    With ``deferral``, a call that needs approval requests a confirmation of ADK: its ``hint`` is what the user must
    see, and a function response with ``{"confirmed": true}`` runs the call.
    """
    calls = ModelCalls(toolbox, _PROVIDER, deferral)
    return [_SiteTool(calls, one) for one in declare_toolbox(toolbox, _PROVIDER, listed)]


class _SiteTool(BaseTool):
    """One tool of a site."""

    def __init__(self, calls: ModelCalls, declaration: ToolDeclaration) -> None:
        super().__init__(name=declaration.name, description=declaration.description)
        self._calls, self._declaration, self._deferral = calls, declaration, calls.deferral

    def _get_declaration(self) -> types.FunctionDeclaration:
        schema = dict(self._declaration.input_schema.schema)
        return types.FunctionDeclaration(name=self.name, description=self.description, parameters_json_schema=schema)

    async def run_async(self, *, args: dict[str, Any], tool_context: ToolContext) -> dict[str, Any]:
        """Run one call, or request a confirmation of it."""
        confirmation, call_id = tool_context.tool_confirmation, tool_context.function_call_id or ""
        is_approved = confirmation is not None and confirmation.confirmed is True
        if self._deferral is not None and confirmation is not None and not is_approved:
            self._deferral.take(call_id)
            denied: dict[str, Any] = json.loads(build_denied_result().text)
            return denied
        call = ModelToolCall(self.name, args, call_id)
        approved = self._deferral.take(call_id) if self._deferral is not None and is_approved else ()
        outcome = await self._calls.run(call, approved)
        if isinstance(outcome, Question):
            outcome = self._defer(call, approved, outcome, tool_context)
        data: dict[str, Any] = json.loads(outcome.text)
        return data if outcome.is_error else {"output": data}

    def _defer(
        self, call: ModelToolCall, approved: tuple[Question, ...], question: Question, context: ToolContext
    ) -> ModelResult:
        """Request a confirmation of ``question``, and return what the model reads meanwhile."""
        if self._deferral is None:
            return CALL_AGAIN
        again = identify_call(self.name, call.arguments)
        if approved:  # ADK asks once about a call, so this question waits until the model calls again
            self._deferral.defer(again, (*approved, question))
            return CALL_AGAIN
        questions = self._deferral.take(again) or (question,)
        self._deferral.defer(call.id, questions)
        asked = describe_question(questions[-1])
        context.request_confirmation(hint=str(asked["text"]), payload=asked)
        context.actions.skip_summarization = True
        return _WAITS


_WAITS: Final = ModelResult('{"error":"This call waits for the approval of its user."}', is_error=True)
