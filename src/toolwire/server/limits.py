"""Define the limits of a server: sizes, times and numbers, each with a safe default."""

from __future__ import annotations

from dataclasses import dataclass

THREADS = 40
"""The usual number of worker threads for plain functions."""
QUESTION_WAIT_S = 300
"""How long a call may wait for the answer of its user, in seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerLimits:
    """The limits of one server. Times are in seconds.

    ``body_bytes`` and ``body_s``: the size of a request body, and how long it may take to arrive. ``tool_s``: how long
    a call may run if its tool names no limit. ``running``: how many calls may run; further calls are refused with 503.
    ``running_each``: how many of them one named caller may have, by default half. ``threads``: worker threads for
    plain functions; one caller holds at most three in four, and a caller without a name is known by the address.
    ``repeat_s``: how long a repeated call with the same key waits while the first one runs, and how long a caller waits
    for a long call. ``long_s``: how long a long call may run if its tool names no limit; ``long_running``: how many run
    at the same time in one process; ``keep_s``: how long its result is kept.

    ``recorded_calls``: how many calls with an idempotency key are remembered. ``recorded_bytes``: their size; None is
    256 MiB in a file or a database, and 64 MiB in memory. ``recorded_s``: for how long. A caller who needs more room
    loses the oldest of their own.

    ``sessions``: how many MCP sessions there may be, ``sessions_each``: how many of one caller, or of one address if
    callers have no names. ``session_idle_s`` and ``session_s``: how long a session lasts without use, and at most.
    ``session_calls``: how many of its calls may run or wait for the user. ``resume_s``: how long a call of a session
    waits for a client whose connection broke. ``answer_s``: how long a question in a session waits for the user.
    """

    # D-34, R1, R10, MC-10

    body_bytes: int = 1 << 20
    body_s: float = 10.0
    tool_s: float = 60.0
    running: int = 512
    running_each: int | None = None
    threads: int = THREADS
    repeat_s: float = 10.0
    sessions: int = 1_000
    sessions_each: int = 50
    session_idle_s: float = 1_800.0
    session_s: float = 86_400.0
    session_calls: int = 50
    resume_s: float = 30.0
    answer_s: float = 300.0
    long_s: float = 86_400.0
    long_running: int = 100
    keep_s: float = 86_400.0
    recorded_calls: int = 100_000
    recorded_bytes: int | None = None
    recorded_s: float = 86_400.0
