"""Ask about calls that might have run before the server's state was restored from a backup.

The backup does not contain calls that ran after it was made. Their callers can repeat them with the same idempotency
key for as long as keys are stored. Until then, a call of a tool that must not run twice needs a confirmation if the
restored state does not contain its key. If the operator said that nothing ran since the backup, nothing is asked.
"""
# PL-07

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime

from toolwire.core.ledger import can_rerun
from toolwire.core.model import Call
from toolwire.define.options import MAX_KEEP_S

from .confirmation import ConfirmationQuestion

_log = logging.getLogger("toolwire")


def ask_after_restore(
    place: str, stored_s: float, *, clock: Callable[[], float] = time.time
) -> ConfirmationQuestion | None:
    """Return a function that asks about calls that might have run before, if the state was restored recently.

    ``place`` is the state's place, or empty without a state. ``stored_s`` is how long keys are stored, in seconds,
    unless a tool sets a longer time.

    Raises:
        DefinitionError: the state cannot be read.
    """
    if not place:
        return None
    from toolwire.stores.restores import find_restore  # loads sqlite3

    found = find_restore(place)
    if found is None or found.is_current or clock() >= found.at + max(stored_s, MAX_KEEP_S):
        return None
    until = found.at + stored_s
    when = datetime.fromtimestamp(found.made_at, UTC).strftime("%Y-%m-%d %H:%M UTC")
    if clock() < until:
        _log.warning(
            (
                "The state was restored from a backup of %s. Until %s, calls with an idempotency key need "
                "consent if the tool must not run twice."
            ),
            when,
            datetime.fromtimestamp(until, UTC).strftime("%Y-%m-%d %H:%M UTC"),
        )

    def ask(call: Call) -> str:
        tool = call.tool
        if call.key and not can_rerun(tool) and clock() < max(until, found.at + (tool.keep_s or 0.0)):
            return (
                f"{tool.name} might have run already with this idempotency key: the server's state was "
                f"restored from a backup of {when}. Run it?"
            )
        return ""

    return ask
