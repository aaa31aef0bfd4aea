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

    Calls:

    - ``body_bytes``, ``body_s``: the size of a request body, and how long it can take to arrive.
    - ``tool_s``: the time limit of a call, unless its tool sets one.
    - ``running``: how many calls can run at once. Further calls are refused with 503.
    - ``running_each``: how many of them one named caller can have. Default: half.
    - ``threads``: worker threads for plain functions. One caller can use three quarters of them. Unnamed callers are
      told apart by IP address.
    - ``repeat_s``: how long a repeated call with the same key waits for the first one, and how long a request waits for
      a long call.

    Long calls:

    - ``long_s``: the time limit of a long call, unless its tool sets one.
    - ``long_running``: how many run at once in one process.
    - ``keep_s``: how long a result is stored.

    Calls with an idempotency key. A caller who exceeds a limit loses their own oldest records:

    - ``recorded_calls``, ``recorded_s``: how many are stored, and for how long.
    - ``recorded_bytes``: their total size. None means 256 MiB in a file or database, and 64 MiB in memory.

    MCP sessions:

    - ``sessions``, ``sessions_each``: how many can exist, in total and for one caller. Unnamed callers are told apart
      by IP address.
    - ``session_idle_s``, ``session_s``: the longest time without a request, and the longest total time.
    - ``session_calls``: how many calls of one session can run or wait for the user.
    - ``resume_s``: how long a call waits for a client whose connection broke.
    - ``answer_s``: how long a question waits for the user.
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
