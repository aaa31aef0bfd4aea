"""Hold the call that is served now, so that the ledger and the client of a gateway can add to its record."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from opentelemetry.trace import Span


@dataclass(slots=True)
class CurrentCall:
    """A call with its id and its span. ``attempt`` is the number of its run, from 1; 0 without a ledger.

    ``has_waited`` says that it got the result of an equal call that was running already.
    """

    call_id: str
    span: Span | None
    attempt: int = 0
    has_waited: bool = False


CURRENT_CALL: ContextVar[CurrentCall | None] = ContextVar("toolwire_served", default=None)
