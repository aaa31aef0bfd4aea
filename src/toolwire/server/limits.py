"""How much the server takes on: sizes, times and numbers, each with a safe default."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerLimits:
    """The limits of one server.

    ``body_bytes`` and ``body_s``: size of a request body, and how long it may take to arrive. ``tool_s``: how long
    a call may run where its tool names no limit. ``running``: calls in flight; more are told to come back.
    ``running_each``: how many of them one named caller may have, by default half.
    ``threads``: worker threads for sync tools, of which one caller holds at most three in four; a caller without a name
    is known by their address. ``repeat_s``: how long a call that comes again while the first still
    runs waits for its answer. [D-34, R1, R10]
    """

    body_bytes: int = 1 << 20
    body_s: float = 10.0
    tool_s: float = 60.0
    running: int = 512
    running_each: int | None = None
    threads: int = 40
    repeat_s: float = 10.0
