"""Build tools for Haystack, with its confirmation of calls that need approval."""
# FU-22
# pyright: reportMissingImports=false, reportUntypedBaseClass=false
# The framework is not in the environment of the type checkers; tests/adapters/frameworks runs this module with it.

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import Any, Final, NamedTuple, Protocol

from toolwire.core.lazy_import import explain_missing_module

try:
    from haystack.dataclasses import ImageContent, TextContent
    from haystack.hooks.human_in_the_loop.dataclasses import ConfirmationUIResult
    from haystack.hooks.human_in_the_loop.types import ConfirmationPolicy
    from haystack.tools import Tool
except ModuleNotFoundError as _error:
    raise explain_missing_module(_error, "haystack") from _error

from toolwire.consent.binding import DECISION_VALID_S
from toolwire.core.check import Question
from toolwire.core.model import Call
from toolwire.core.toolbox import Toolbox

from .conversation import ModelResult
from .deferral import CALL_AGAIN, Deferral, ModelToolCall, identify_call, run_deferred_call, run_deferred_call_sync
from .dialects import Provider
from .images import encode_image
from .tool_declarations import NamedCaller, ToolDeclaration, declare_toolbox, read_call

__all__ = ["ConsentPolicy", "build_tools", "build_tools_sync"]

_PROVIDER = Provider.OPENAI  # full JSON Schema: each generator of Haystack passes it on
_MAX_CALLS: Final = 1_000
_AGAIN: Final = (
    "It was not called yet: its user must approve it. Call it again with the same arguments to ask the user."
)


class _QuestionFinder(Protocol):
    def catalog(self) -> Any: ...
    def find_question(self, name: str, arguments: Any) -> Question | None: ...


class _Approved(NamedTuple):
    questions: tuple[Question, ...]
    until: float


class ConsentPolicy(ConfirmationPolicy):
    """Asks in Haystack about each call that the connection would ask about: what is confirmed there runs once.

    Connect with ``approve=policy.deferral``, give the policy to ``build_tools``, and use it in a
    ``BlockingConfirmationStrategy`` of a ``ConfirmationHook``. A confirmation is valid for five minutes.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin without a connection; ``clock`` gives seconds and never goes back."""
        self.deferral: Deferral = Deferral()
        self._connections: list[_QuestionFinder] = []
        self._approved: OrderedDict[str, list[_Approved]] = OrderedDict()
        self._asked: OrderedDict[str, tuple[Question, ...]] = OrderedDict()
        self._clock = clock
        self._lock = Lock()

    def attach(self, connection: _QuestionFinder) -> None:
        """Decide about the tools of ``connection`` too."""
        self._connections.append(connection)

    def should_ask(self, tool_name: str, tool_description: str, tool_params: dict[str, Any]) -> bool:
        """Return whether the connection would ask about this call."""
        key = identify_call(tool_name, tool_params)
        questions = self.deferral.take(key) or self._preview(tool_name, tool_params)
        with self._lock:
            if questions:
                self._asked[key] = questions
                while len(self._asked) > _MAX_CALLS:
                    self._asked.popitem(last=False)
        return bool(questions)

    def update_after_confirmation(
        self,
        tool_name: str,
        tool_description: str,
        tool_params: dict[str, Any],
        confirmation_result: ConfirmationUIResult,
    ) -> None:
        """Let the call run once if the user has confirmed it; with other arguments it is asked about again."""
        key = identify_call(tool_name, tool_params)
        with self._lock:
            questions = self._asked.get(key, ())
            if confirmation_result.action == "confirm" and questions:
                until = self._clock() + DECISION_VALID_S
                self._approved.setdefault(key, []).append(_Approved(questions, until))
                while len(self._approved) > _MAX_CALLS:
                    self._approved.popitem(last=False)

    def take(self, name: str, arguments: dict[str, Any]) -> tuple[Question, ...]:
        """Return what the user has confirmed about one call of the tool ``name``, which is used up by that."""
        key, now = identify_call(name, arguments), self._clock()
        with self._lock:
            valid = [one for one in self._approved.pop(key, ()) if now < one.until]
            if len(valid) > 1:
                self._approved[key] = valid[1:]
        return valid[0].questions if valid else ()

    def keep(self, name: str, arguments: dict[str, Any], questions: tuple[Question, ...]) -> None:
        """Ask ``questions`` when the model calls the tool ``name`` again."""
        self.deferral.keep(identify_call(name, arguments), questions)

    def _preview(self, name: str, arguments: dict[str, Any]) -> tuple[Question, ...]:
        for connection in self._connections:
            call = read_call(connection.catalog(), _PROVIDER, name, arguments)
            if isinstance(call, Call):
                question = connection.find_question(call.tool.id, call.arguments)
                return () if question is None else (question,)
        return ()


def build_tools(toolbox: Toolbox, *, images: bool = False, policy: ConsentPolicy | None = None) -> list[Tool]:
    """Return the tools of ``toolbox`` for ``Agent(tools=...).run_async``; the agent runs their calls.

    With ``images``, the model sees the images of a result: PNG, JPEG, GIF and WebP, at most 4, of 3,750,000 bytes each.
    With ``policy``, calls that need approval run if they were confirmed in Haystack.
    """
    _attach(policy, toolbox)

    def build(declaration: ToolDeclaration) -> Tool:
        async def call(**arguments: Any) -> Any:
            asked = ModelToolCall(declaration.name, arguments)
            deferral, approved = _find_approved(policy, declaration.name, arguments)
            outcome = await run_deferred_call(toolbox, _PROVIDER, asked, deferral, approved, images=images)
            return _build_output(policy, asked, approved, outcome, images=images)

        return _build(declaration, images=images, async_function=call)

    return [build(declaration) for declaration in declare_toolbox(toolbox, _PROVIDER)]


def build_tools_sync(remote: NamedCaller, *, images: bool = False, policy: ConsentPolicy | None = None) -> list[Tool]:
    """Return like ``build_tools``, for ``Agent(tools=...).run``; the tools block."""
    _attach(policy, remote)

    def build(declaration: ToolDeclaration) -> Tool:
        def call(**arguments: Any) -> Any:
            asked = ModelToolCall(declaration.name, arguments)
            deferral, approved = _find_approved(policy, declaration.name, arguments)
            outcome = run_deferred_call_sync(remote, _PROVIDER, asked, deferral, approved, images=images)
            return _build_output(policy, asked, approved, outcome, images=images)

        return _build(declaration, images=images, function=call)

    return [build(declaration) for declaration in declare_toolbox(remote, _PROVIDER)]


def _attach(policy: ConsentPolicy | None, connection: Any) -> None:
    if policy is not None and hasattr(connection, "find_question"):
        policy.attach(connection)


def _find_approved(
    policy: ConsentPolicy | None, name: str, arguments: dict[str, Any]
) -> tuple[Deferral | None, tuple[Question, ...]]:
    return (None, ()) if policy is None else (policy.deferral, policy.take(name, arguments))


def _build(declaration: ToolDeclaration, *, images: bool, **functions: Any) -> Tool:
    return Tool(
        name=declaration.name,
        description=declaration.description,
        parameters=dict[str, Any](declaration.input_schema.schema),
        outputs_to_string={"raw_result": True} if images else None,
        **functions,
    )


def _build_output(
    policy: ConsentPolicy | None,
    call: ModelToolCall,
    approved: tuple[Question, ...],
    outcome: ModelResult | Question,
    *,
    images: bool,
) -> Any:
    if isinstance(outcome, Question):
        if policy is not None and isinstance(call.arguments, dict):
            policy.keep(call.name, call.arguments, (*approved, outcome))
        outcome = CALL_AGAIN
    if not images:
        return outcome.text
    shown = [ImageContent(base64_image=encode_image(one), mime_type=one.media_type.lower()) for one in outcome.images]
    return [TextContent(text=outcome.text), *shown]
