"""Pass a server's questions during a call to the user, within limits, and record the answers.

Rules:
- The user is told who asks, and for which call. The answer is sent only to that server, for that call.
- Questions count against the limit of questions a minute. After three refusals, a tool cannot ask again in this
  session.
- A page must have an HTTPS URL or be on this machine. Any other page is refused and not shown.
- A call can ask at most ten questions. An answer that takes more than five minutes does not count.
"""
# MC-09

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from typing import Any, Final, TypeVar

from toolwire.auth.loopback_hosts import is_loopback_host
from toolwire.consent.binding import DECISION_VALID_S
from toolwire.consent.tool_definition import compute_digest, to_plain_json
from toolwire.core.check import Answer
from toolwire.core.codec import Flow, Listen, StreamItem, intercept
from toolwire.core.http import Request
from toolwire.core.model import Call
from toolwire.core.url_origin import get_host
from toolwire.core.user_input import CANCELLED, DECLINED, InputAction, InputRequest, InputResponse

from .agreements import Agreements, CallParties

T = TypeVar("T")
_log = logging.getLogger("toolwire.client")

MAX_QUESTIONS: Final = 10
"""How often a server can ask the user during one call."""

_WORDS: Final = {
    InputAction.ACCEPT: "answered",
    InputAction.DECLINE: "declined",
    InputAction.CANCEL: "cancelled",
}


def admit_stream_input(flow: Flow[T], running: Sequence[CallInput]) -> Flow[T]:
    """Run ``flow``, which listens to a server outside of calls, and admit its questions during a call.

    A question belongs to the one call in ``running``. If no call or several calls run, its subject is unknown, so it is
    declined.
    """

    def admit(asked: InputRequest) -> InputRequest | None:
        calls = tuple(running)  # another thread can add one
        return calls[0].admit(asked) if len(calls) == 1 else None

    def watch(step: Request | Listen) -> Request | Listen:
        return watch_input(step, admit) if isinstance(step, Listen) else step

    return intercept(flow, watch)


def watch_input(step: Listen, admit: Callable[[InputRequest], InputRequest | None]) -> Listen:
    """Return ``step``, with its stream's questions as ``admit`` returns them, or declined if it returns None."""

    def read_chunk(piece: bytes) -> Iterator[StreamItem]:
        for item in step.read_chunk(piece):
            if isinstance(item, InputRequest):
                yield admit(item) or item.respond(DECLINED)
            else:
                yield item

    return step._replace(read_chunk=read_chunk)


class CallInput:
    """A server's questions to the user during one call."""

    __slots__ = ("_agreements", "_asked", "_call", "_parties")

    def __init__(self, parties: CallParties, agreements: Agreements, call: Call) -> None:
        self._parties = parties
        self._agreements = agreements
        self._call = call
        self._asked = 0

    def admit(self, asked: InputRequest) -> InputRequest | None:
        """Return ``asked`` with everything that the user is shown, or None if they must not be asked."""
        session, tool = self._parties.session, self._call.tool
        self._asked += 1
        is_unsafe = asked.url.startswith("http:") and not is_loopback_host(get_host(asked.url))
        why = "blocked" if is_unsafe or session.prompt_limit.is_blocked(self._subject) else ""
        # reserve_prompt() is last, because it counts the question.
        if not why and (self._asked > MAX_QUESTIONS or session.prompt_limit.reserve_prompt() > 0.0):
            why = "throttled"
        if why:
            self._agreements.record(tool, "", why, Answer(allowed=False))
            return None
        asked_at = session.clock()

        def respond(response: InputResponse) -> Any:
            took_s = session.clock() - asked_at
            session.prompt_limit.end_prompt(took_s)
            return asked.respond(self._record(asked, response, took_s))

        parties = self._parties
        return replace(
            asked, site=parties.site, title=parties.title, connection=parties.name, tool=tool.name, respond=respond
        )

    def run(self, flow: Flow[T], running: list[CallInput] | None = None) -> Flow[T]:
        """Run ``flow`` and return its value. Its questions are admitted, including the ones in its streams.

        Meanwhile this object is in ``running``.
        """
        reply: Any = None
        if running is not None:
            running.append(self)
        try:
            while True:
                step = flow.send(reply)
                if isinstance(step, InputRequest):
                    admitted = self.admit(step)
                    reply = DECLINED if admitted is None else admitted.respond((yield admitted))
                else:
                    reply = yield self._watch(step) if isinstance(step, Listen) else step
        except StopIteration as stop:
            value: T = stop.value
            return value
        finally:
            flow.close()
            if running is not None:
                running.remove(self)

    def _watch(self, step: Listen) -> Listen:
        return watch_input(step, self.admit)

    @property
    def _subject(self) -> str:
        # Names contain no null characters, so two different calls never have the same subject. A server in front of
        # others has many callers: what one of them declines is not declined for another.
        return f"{self._parties.name}\0{self._call.tool.id}\0{self._call.context.principal}\0input"

    def _record(self, asked: InputRequest, response: InputResponse, took_s: float) -> InputResponse:
        is_late = took_s >= DECISION_VALID_S
        shown = {"message": asked.message, "url": asked.url, "fields": [asdict(one) for one in asked.fields]}
        # Without what the user entered, because decision records contain no data of a call (docs/decisions/0032).
        bound = compute_digest(
            {
                "tool": self._call.tool.id,
                "arguments": to_plain_json(self._call.arguments),
                "shown": to_plain_json(shown),
            }
        )
        word = "timeout" if is_late else _WORDS[response.action]
        answer = Answer(allowed=response.action is InputAction.ACCEPT and not is_late, channel="input")
        try:
            self._agreements.record(self._call.tool, bound, word, answer, took_s)
        except ConnectionError as error:
            # XL-055: what cannot be recorded is not answered. The call goes on, since it may have done things already.
            _log.warning("%s got no answer, because decisions cannot be stored now: %s.", self._call.tool.name, error)
            return CANCELLED
        if response.action is InputAction.DECLINE:
            self._parties.session.prompt_limit.record_denial(self._subject)
        return CANCELLED if is_late else response
