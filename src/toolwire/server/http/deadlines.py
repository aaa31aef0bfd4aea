"""Define how slow and how large a connection may be, and how long a graceful shutdown may take."""

from __future__ import annotations

from dataclasses import dataclass, fields

from toolwire.core.errors import DefinitionError


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadlines:
    """Limits of connections and of the shutdown. Times are in seconds; no limit can be switched off.

    ``head_s``: from the first byte of a request head (or the start of the connection) to its last byte.
    ``idle_s``: from a response to the next request. ``stall_s``: how long a client may read nothing of a response.
    A connection that exceeds one of these is closed. ``head_bytes`` and ``head_fields``: the size of a request head; a
    larger one is refused with 431. ``pipelined``: how many requests of one connection may wait for their turn before
    no more is read. ``drain_s``: for how long a stopping server still accepts calls, so that health checks notice.
    ``grace_s``: how long a stopping server waits for running calls.

    Raises:
        DefinitionError: a limit is not above zero.
    """

    # D-13, D-34
    head_s: float = 5.0
    idle_s: int = 5
    stall_s: float = 30.0
    drain_s: float = 3.0
    grace_s: float = 30.0
    head_bytes: int = 32 * 1024
    head_fields: int = 100
    pipelined: int = 16

    def __post_init__(self) -> None:
        for limit in fields(self):
            if getattr(self, limit.name) <= 0:
                raise DefinitionError(f"the limit {limit.name} must be above zero, not {getattr(self, limit.name)!r}")


DEADLINES = Deadlines()
