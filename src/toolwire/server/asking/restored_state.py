"""Ask about calls that may have run before the state of the server was restored from a backup.

The backup does not know the calls that ran after it was made. Their callers may repeat them, with the same idempotency
key, for as long as keys are remembered. Until then, a call with a key of a tool that must not run twice needs a
confirmation. Where the operator said that nothing ran since the backup, nothing is asked.
"""
# PL-07

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime

from toolwire.core.ledger import can_rerun
from toolwire.core.model import Call

from .confirmation import ConfirmationQuestion

_log = logging.getLogger("toolwire")


def ask_after_restore(
    required: ConfirmationQuestion | None, place: str, recorded_s: float, *, clock: Callable[[], float] = time.time
) -> ConfirmationQuestion | None:
    """Return ``required``, or a question that also asks about repeated calls, if the state was restored a while ago.

    ``place`` is that of the state, empty for none, and ``recorded_s`` for how many seconds keys are remembered.

    Raises:
        DefinitionError: the state cannot be read.
    """
    if not place:
        return required
    from toolwire.stores.restores import find_restore  # loads sqlite3

    found = find_restore(place)
    until = 0.0 if found is None else found.at + recorded_s
    if found is None or found.is_current or clock() >= until:
        return required
    when = datetime.fromtimestamp(found.made_at, UTC).strftime("%Y-%m-%d %H:%M UTC")
    _log.warning(
        "The state was restored from a backup of %s: calls with an idempotency key of tools that must not run twice are"
        " asked about until %s.",
        when,
        datetime.fromtimestamp(until, UTC).strftime("%Y-%m-%d %H:%M UTC"),
    )

    def ask(call: Call) -> str:
        if call.key and clock() < until and not can_rerun(call.tool):
            return (
                f"{call.tool.name} may have run already with this key: the state of the server was restored from a"
                f" backup of {when}. Run it?"
            )
        return "" if required is None else required(call)

    return ask
