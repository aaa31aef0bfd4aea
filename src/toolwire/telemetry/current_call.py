"""Hold the call that is served now, so that the ledger and the client of a gateway can add to its record.

``Arrival`` says in which message it came, and from which address.
"""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from toolwire.core.http import Request

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


class Arrival(NamedTuple):
    """The request of a call, the address of its client, and the version of HTTP; an empty text if unknown."""

    request: Request
    client: str = ""
    http_version: str = ""
