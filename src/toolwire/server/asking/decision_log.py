"""Record what users decided about one server's calls: who decided, where, for whom and about what.

Rules:
- Each decision is a line of the log ``toolwire.decisions``, without arguments.
- If the server's state is persistent, a named caller's decisions are also added to the decision chain. Anonymous
  callers cannot be told apart and must not fill the disk.
"""
# FU-60, XL-055

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from toolwire.core.check import Answer
from toolwire.core.errors import DefinitionError
from toolwire.core.model import ANONYMOUS, Call
from toolwire.stores.consent.open import is_in_database, open_decisions
from toolwire.stores.outage_log import OutageLog, list_store_errors

if TYPE_CHECKING:  # loads sqlite3
    from toolwire.stores.consent.open import StoredDecisions

CLIENT = "caller"
"""Where a caller decided whose program sent the word of a question: the program asked its user, or nobody."""
_log = logging.getLogger("toolwire.decisions")


class DecisionLog:
    """The decisions about one server's calls, stored in ``place`` (a folder or a PostgreSQL URL) unless it is empty."""

    def __init__(self, place: Path | str = "", *, clock: Callable[[], float] = time.time) -> None:
        self._place = place
        self._clock = clock
        self._outages = OutageLog(logging.getLogger("toolwire"), "Decisions can be stored again.")
        self.is_remote: bool = bool(str(place)) and is_in_database(place)

    @cached_property
    def _audit(self) -> StoredDecisions:
        return open_decisions(self._place)

    def record(self, call: Call, binding: str, answer: Answer) -> bool:
        """Record a decision about ``call``, and return whether that succeeded. The decision covers ``binding``.

        It blocks.
        """
        context, decision = call.context, "allowed" if answer.allowed else "denied"
        fields = {
            "principal": context.principal,
            "tool": call.tool.id,
            "decision": decision,
            "decided_by": answer.decided_by or context.principal,
            "channel": answer.channel,
            "call_id": call.call_id,
            "trace_id": context.trace_id or None,
        }
        _log.info("%s: %s", decision, call.tool.id, extra={"fields": fields})
        if not str(self._place) or context.principal == ANONYMOUS.principal:
            return True
        from toolwire.consent.decision_record import Decision  # most servers store none

        record = Decision(
            at=self._clock(),
            principal=answer.decided_by or context.principal,
            caller=context.principal if answer.decided_by else "",
            connection="",
            tool=call.tool.id,
            binding=binding,
            decision=decision,
            channel=answer.channel,
            always=answer.always,
        )
        try:
            self._audit.append(record)
        except list_store_errors(DefinitionError) as error:
            text = "A call of %s was refused: its decision cannot be stored (%s)."
            self._outages.record_failure(text, call.tool.id, error)
            return False
        self._outages.record_success()
        return True


def find_channel(call: Call) -> str:
    """Return where the user of ``call`` was asked, as far as this server knows."""
    answer = call.context.user_answer
    return CLIENT if answer is None else answer.channel
