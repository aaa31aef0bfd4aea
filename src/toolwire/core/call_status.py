"""Define how a long call stands: a call that goes on when its caller leaves."""
# LC-01, LC-03

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from .model import Json, Result


class LongCallState(StrEnum):
    """The state of a long call. The last three are final."""

    ACCEPTED = "accepted"
    RUNNING = "running"
    WAITING = "waiting"
    ENDED = "ended"
    CANCELLED = "cancelled"
    INTERRUPTED = "interrupted"

    @property
    def is_final(self) -> bool:
        """Whether the call is over, so that its state never changes again."""
        return self in _FINAL


_FINAL = frozenset({LongCallState.ENDED, LongCallState.CANCELLED, LongCallState.INTERRUPTED})


@dataclass(frozen=True, slots=True, kw_only=True)
class CallStatus:
    """The status of a long call. Times are in seconds since 1970.

    - ``id``: the call's ID, the same over every protocol.
    - ``tool``: the tool's ID, such as ``Reports.build@1.0.0``.
    - ``progress``: from 0 to 1, or ``None`` if the tool has not reported any.
    - ``message``: the tool's last progress message.
    - ``created_at``, ``updated_at``: when the call was created and last changed.
    - ``expires_at``: when the server deletes the call, or ``None`` while it runs.
    - ``result``: the result, or ``None`` until the call ends. Always ``None`` in a list of calls.
    - ``input``: what the tool asks its user while it is ``waiting``. It contains MCP's ``mode``, ``message`` and
      ``requestedSchema`` for each question, by the question's name.
    - ``revision``: a number that grows with each change.
    - ``cancel_asked``: whether the caller asked to cancel the call.
    """

    id: str
    tool: str
    state: LongCallState
    progress: float | None = None
    message: str = ""
    created_at: float = 0.0
    updated_at: float = 0.0
    expires_at: float | None = None
    result: Result | None = None
    input: Mapping[str, Json] = field(default_factory=dict)
    revision: int = 0
    cancel_asked: bool = False

    @property
    def is_over(self) -> bool:
        """Whether the call has ended, with or without a value."""
        return self.state.is_final


class CallPage(NamedTuple):
    """Some calls of one caller, newest first, without results. ``next`` is the cursor of the next page, or empty."""

    calls: tuple[CallStatus, ...]
    next: str = ""
