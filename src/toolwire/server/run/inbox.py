"""Let users decide elsewhere about the calls of hosts that cannot ask them: in the inbox of ``toolwire approvals``.

Rules:
- A question is in the inbox for five minutes. The same call of the same caller shares it.
- An answer counts once, for exactly the call that the question shows.
- Each caller can add at most ten questions a minute, and at most 200 wait at a time.
"""
# CC-05

from __future__ import annotations

import logging
import sqlite3
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from toolwire.core.check import Question
from toolwire.core.errors import DefinitionError
from toolwire.core.model import Approval, Call, Kind, Problem
from toolwire.stores.consent.open import is_in_database, open_approvals

if TYPE_CHECKING:  # loads sqlite3
    from toolwire.consent.prompt_limit import PromptLimit
    from toolwire.stores.consent.approvals import Approvals

MAX_WAITING: Final = 200
_MAX_CALLERS: Final = 1_000
_log = logging.getLogger("toolwire")


class Inbox:
    """The questions of one server that wait in ``place`` until a user answers them with ``toolwire approvals``.

    ``place`` is a folder or the URL of a PostgreSQL. ``clock`` returns seconds and never goes back.
    """

    def __init__(self, place: Path | str, *, is_default: bool, clock: Callable[[], float] = time.monotonic) -> None:
        """Open the store.

        Raises:
            DefinitionError: the place cannot be used.
        """
        self._approvals: Approvals = open_approvals(place)
        self.is_remote = is_in_database(place)
        # D-26: a URL may have a password, and callers see this text; the operator has it in TOOLWIRE_STATE.
        is_short = is_default or self.is_remote
        self._command = "toolwire approvals" if is_short else f"toolwire approvals --path {place}"
        self._clock = clock
        self._limits: OrderedDict[str, PromptLimit] = OrderedDict()

    def find_refusal(self, call: Call, subject: bytes, reasons: Sequence[str], *, site: str = "") -> Problem | None:
        """Return None if the user has allowed ``call``, which then is spent, or why it does not run now.

        ``subject`` is the digest of what the answer counts for.
        """
        try:
            return self._ask(call, subject.hex(), reasons, site)
        except (OSError, sqlite3.Error, DefinitionError) as error:
            _log.error("A call of %s was refused: its question cannot be kept (%s).", call.tool.id, error)
            text = f"{call.tool.name} did not run: the question to its user cannot be kept now."
            return Problem(kind=Kind.OVERLOADED, message=text, can_retry=True, retry_after_ms=5_000)

    def _ask(self, call: Call, binding: str, reasons: Sequence[str], site: str) -> Problem | None:
        name = call.tool.name
        id_ = self._approvals.find(binding)
        if id_ is None:
            if self._find_limit(call).reserve_prompt() > 0.0 or len(self._approvals.list_pending()) >= MAX_WAITING:
                text = f"{name} did not run: too many questions wait for its user. Call it again in a minute."
                return Problem(kind=Kind.RATE_LIMITED, message=text, can_retry=True, retry_after_ms=60_000)
            id_ = self._approvals.ask(
                Question(
                    call,
                    site or "this server",
                    f"{name}, for {call.context.principal}",
                    Approval.PER_CALL,
                    reasons=tuple(reasons),
                    principal=call.context.principal,
                    binding=binding,
                )
            )
        answer = self._approvals.take(id_, binding)
        if answer is None:
            text = (
                f"{name} did not run: its user decides with `{self._command} allow {id_}`"
                f" (`{self._command}` shows the call), within five minutes. Then send the same call again."
            )
            return Problem(kind=Kind.UNCONFIRMED, message=text, details={"inbox": {"id": id_}})
        if answer.allowed:
            return None
        reason = f": {answer.reason}" if answer.reason else ""
        details = {"denied": True, "reason": answer.reason} if answer.reason else {"denied": True}
        return Problem(
            kind=Kind.DENIED, message=f"{name} was not called: its user did not allow it{reason}.", details=details
        )

    def _find_limit(self, call: Call) -> PromptLimit:
        """Return the limit of the caller of ``call``, so that one caller leaves room for the questions of another."""
        from toolwire.consent.prompt_limit import PromptLimit  # brings all of consent, which few servers need

        principal = call.context.principal
        limit = self._limits.pop(principal, None) or PromptLimit(self._clock)
        self._limits[principal] = limit
        if len(self._limits) > _MAX_CALLERS:
            self._limits.popitem(last=False)
        return limit
