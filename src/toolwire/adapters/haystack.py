"""Build tools for Haystack, with its confirmation of calls that need approval."""
# FU-22
# pyright: reportMissingImports=false, reportUntypedBaseClass=false
# The framework is not in the environment of the type checkers; tests/adapters/frameworks runs this module with it.

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import Any, Final, NamedTuple, Unpack

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
from toolwire.core.toolbox import Toolbox, complete

from .deferral import CALL_AGAIN, Deferral, ModelCalls, ModelToolCall, identify_call
from .dialects import Provider
from .find_tools import ToolList
from .images import encode_image
from .tool_declarations import NamedCaller, ToolDeclaration, declare_toolbox

__all__ = ["ConsentPolicy", "build_tools", "build_tools_sync"]

_PROVIDER = Provider.OPENAI  # full JSON Schema: each generator of Haystack passes it on
_MAX_CALLS: Final = 1_000


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
        self._calls: list[ModelCalls] = []
        self._approved: OrderedDict[str, list[_Approved]] = OrderedDict()
        self._asked: OrderedDict[str, tuple[Question, ...]] = OrderedDict()
        self._clock = clock
        self._lock = Lock()

    def attach(self, calls: ModelCalls) -> None:
        """Decide about the tools of ``calls`` too."""
        self._calls.append(calls)

    def should_ask(self, tool_name: str, tool_description: str, tool_params: dict[str, Any]) -> bool:
        """Return whether the connection would ask about this call."""
        key = identify_call(tool_name, tool_params)
        questions = self.deferral.take(key) or next(
            (found for one in self._calls if (found := one.preview(tool_name, tool_params))), ()
        )
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

    def defer(self, name: str, arguments: dict[str, Any], questions: tuple[Question, ...]) -> None:
        """Ask ``questions`` when the model calls the tool ``name`` again."""
        self.deferral.defer(identify_call(name, arguments), questions)


def build_tools(
    toolbox: Toolbox, *, images: bool = False, policy: ConsentPolicy | None = None, **listed: Unpack[ToolList]
) -> list[Tool]:
    """Return the tools of ``toolbox`` for ``Agent(tools=...).run_async``; the agent runs their calls.

    With ``images``, the model sees the images of a result: PNG, JPEG, GIF and WebP, at most 4, of 3,750,000 bytes each.
    With ``policy``, calls that need approval run if they were confirmed in Haystack.
    """
    calls = _open_calls(toolbox, policy, images=images)

    def build(declaration: ToolDeclaration) -> Tool:
        async def call(**arguments: Any) -> Any:
            return await _run(calls, policy, ModelToolCall(declaration.name, arguments), arguments, images=images)

        return _build(declaration, images=images, async_function=call)

    return [build(declaration) for declaration in declare_toolbox(toolbox, _PROVIDER, listed)]


def build_tools_sync(
    remote: NamedCaller, *, images: bool = False, policy: ConsentPolicy | None = None, **listed: Unpack[ToolList]
) -> list[Tool]:
    """Return like ``build_tools``, for ``Agent(tools=...).run``; the tools block."""
    calls = _open_calls(remote, policy, images=images, is_blocking=True)

    def build(declaration: ToolDeclaration) -> Tool:
        def call(**arguments: Any) -> Any:
            return complete(_run(calls, policy, ModelToolCall(declaration.name, arguments), arguments, images=images))

        return _build(declaration, images=images, function=call)

    return [build(declaration) for declaration in declare_toolbox(remote, _PROVIDER, listed)]


def _open_calls(
    toolbox: Toolbox | NamedCaller, policy: ConsentPolicy | None, *, images: bool, is_blocking: bool = False
) -> ModelCalls:
    deferral = None if policy is None else policy.deferral
    calls = ModelCalls(toolbox, _PROVIDER, deferral, images=images, is_blocking=is_blocking)
    if policy is not None:
        policy.attach(calls)
    return calls


async def _run(
    calls: ModelCalls, policy: ConsentPolicy | None, call: ModelToolCall, arguments: dict[str, Any], *, images: bool
) -> Any:
    approved = () if policy is None else policy.take(call.name, arguments)
    outcome = await calls.run(call, approved)
    if isinstance(outcome, Question):
        if policy is not None:
            policy.defer(call.name, arguments, (*approved, outcome))
        outcome = CALL_AGAIN
    if not images:
        return outcome.text
    shown = [ImageContent(base64_image=encode_image(one), mime_type=one.media_type.lower()) for one in outcome.images]
    return [TextContent(text=outcome.text), *shown]


def _build(declaration: ToolDeclaration, *, images: bool, **functions: Any) -> Tool:
    return Tool(
        name=declaration.name,
        description=declaration.description,
        parameters=dict[str, Any](declaration.input_schema.schema),
        outputs_to_string={"raw_result": True} if images else None,
        **functions,
    )
