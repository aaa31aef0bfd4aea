"""The call that is served now, for whoever learns more of it on the way: the ledger, and the client of a gateway."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from opentelemetry.trace import Span


@dataclass(slots=True)
class CurrentCall:
    """A call under its id, with its span if it has one; ``attempt`` counts its runs, ``attached`` that it waited."""

    call_id: str
    span: Span | None
    attempt: int = 0
    has_waited: bool = False


CURRENT_CALL: ContextVar[CurrentCall | None] = ContextVar("toolwire_served", default=None)
