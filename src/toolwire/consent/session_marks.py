"""Remember that a session has read text of strangers and holds private data: then nothing leaves without a question.

Rules:
- Text is of strangers if the server says that its tool reaches other systems (``openWorldHint``), or the user says so.
- Data is private if the server says that its tool works on a closed set of its own, if the tool needs a token or a
  secret of the user, or the user says so.
- A mark stays for as long as the session, whatever a server says later: what a model has read it cannot unread.
- A call leaves if its tool reaches other systems, or takes a destination such as ``url`` or ``to``. The path of
  a file is a destination too, but not for a tool that only reads, in a closed set of its server's own.
"""
# QF-06

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import Final

from toolwire.core.model import Call
from toolwire.framing.visible_text import make_visible

from .policy import EVERY, Preferences
from .tool_facts import find_world, list_exits

CALLER_IDLE_S: Final = 3_600.0
"""For how long a gateway remembers what a caller has read, after the caller's last call."""
_MAX_CALLERS: Final = 10_000


@dataclass(slots=True)
class _Marks:
    private: str = ""
    untrusted: str = ""
    used_at: float = 0.0


class SessionMarks:
    """What each caller of a session has read: the first text of strangers, and the first private data.

    What a caller has read counts until no result came for ``idle_s`` seconds; ``clock`` returns seconds.
    """

    __slots__ = ("_callers", "_clock", "_idle_s")

    def __init__(self, clock: Callable[[], float], *, idle_s: float = inf) -> None:
        self._callers: dict[str, _Marks] = {}
        self._clock = clock
        self._idle_s = idle_s

    def add_result(self, connection: str, call: Call, preferences: Preferences) -> None:
        """Remember that the tool of ``call``, at ``connection``, has returned something."""
        tool = call.tool
        is_open, needs = find_world(tool), tool.requirements
        has_names = preferences.untrusted or preferences.private
        names = {EVERY, connection, tool.name, tool.id} if has_names else frozenset()
        is_untrusted = is_open is True or not names.isdisjoint(preferences.untrusted)
        is_private = is_open is False or bool(needs.authorization or needs.secrets)
        is_private = is_private or not names.isdisjoint(preferences.private)
        marks = self._find(call) if self._callers else None
        if marks is None and (is_untrusted or is_private):
            if len(self._callers) >= _MAX_CALLERS:
                del self._callers[min(self._callers, key=lambda one: self._callers[one].used_at)]
            marks = self._callers[call.context.principal] = _Marks()
        if marks is None:
            return
        marks.used_at = self._clock()
        if (is_untrusted and not marks.untrusted) or (is_private and not marks.private):
            source = f"{make_visible(tool.name)} of {make_visible(connection)}"
            marks.untrusted = marks.untrusted or (source if is_untrusted else "")
            marks.private = marks.private or (source if is_private else "")

    def find_reason(self, call: Call) -> str:
        """Return why the user is asked before ``call``, naming what was read and the way out, or ``""``."""
        marks = self._find(call) if self._callers else None
        ways = list_exits(call.tool) if marks is not None and marks.private and marks.untrusted else ()
        if marks is None or not ways:
            return ""
        return (
            f"This call can send data out ({' and '.join(ways)}). Before it, {marks.untrusted} returned "
            f"text that anyone could have written, and {marks.private} returned private data."
        )

    def _find(self, call: Call) -> _Marks | None:
        marks = self._callers.get(call.context.principal)
        return None if marks is None or self._clock() - marks.used_at > self._idle_s else marks
