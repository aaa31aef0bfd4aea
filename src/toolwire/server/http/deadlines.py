"""How slow and large a connection may be before its request is heard, and how long a stop may last."""

from __future__ import annotations

from dataclasses import dataclass, fields

from toolwire.core.errors import DefinitionError


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadlines:
    """How slow and how large the network may be. Times are in seconds, and none of them can be switched off.

    A connection is closed that has not sent a whole request head ``head_s`` after its first byte (or after it was
    made), that says nothing for ``idle_s`` between two requests, or that takes nothing of its answer for
    ``stall_s``. A head of more than ``head_bytes`` or ``head_fields`` is refused with 431. Where ``pipelined`` requests
    of one connection wait for their turn, no more is read from it. Once asked to stop, the
    server still answers for at least ``drain_s``, so that whoever asks after its health hears of it, and gives
    running calls ``grace_s``. [D-13, D-34]

    Raises:
        DefinitionError: a limit is not above zero.
    """

    head_s: float = 5.0
    idle_s: int = 5
    stall_s: float = 30.0
    drain_s: float = 0.5
    grace_s: float = 30.0
    head_bytes: int = 32 * 1024
    head_fields: int = 100
    pipelined: int = 16

    def __post_init__(self) -> None:
        for limit in fields(self):
            if getattr(self, limit.name) <= 0:
                raise DefinitionError(f"the limit {limit.name} must be above zero, not {getattr(self, limit.name)!r}")


DEADLINES = Deadlines()
