"""A call with its caller's key runs once: the step between the checks and the tool.

Rules:
- What is refused before the run never comes here, and so is not recorded. [A-42]
- A tool that only reads runs even where nothing can be recorded; any other is refused then. [R13]
- A call that comes again while the first runs waits for it, but not for ever.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TypeAlias

import anyio

from toolwire.core.http import Response
from toolwire.core.ledger import (
    Claim,
    ClaimOutcome,
    InFlight,
    Ledger,
    StoredResult,
    Ticket,
    build_abandoned_ending,
    build_ending,
    build_key,
    can_rerun,
    make_claim,
    make_key,
)
from toolwire.core.model import Call, Kind, Problem, Progress, Result, Tool, Value
from toolwire.core.toolbox import Notify
from toolwire.framing import jsontext
from toolwire.server.http.lifespan import begin_lifespan, end_lifespan
from toolwire.stores.ledger.memory import MemoryLedger

KEY_HEADER = b"idempotency-key"
_REPLAYED = (b"idempotent-replayed", b"true")

Run: TypeAlias = Callable[[Call, Notify], Awaitable[Result]]

_KEY = re.compile(rb'"[ -!#-\[\]-~]{1,255}"|[!#-~]{1,255}')
_FIRST_PAUSE_S = 0.005
_LONGEST_PAUSE_S = 0.1
_MAX_TOOLS = 10_000


def open_ledger(ledger: Ledger | Path | str | None) -> Ledger:
    """Return the ledger that ``ledger`` names: itself, that of an SQLite file, or one that lives with this process.

    Raises:
        DefinitionError: the file is something else, or cannot be opened.
    """
    if ledger is None:
        return MemoryLedger()
    if isinstance(ledger, str | Path):
        from toolwire.stores.ledger.sqlite import SqliteLedger  # noqa: PLC0415 - sqlite3 only where it is asked for

        return SqliteLedger(ledger)
    return ledger


_ToolFacts: TypeAlias = tuple[Tool, str, str, bool, Ledger]
"""What every call of one tool has: the tool, its id with and without its version, whether it may run again, and the
ledger it is recorded in."""


class IdempotencyRunner:
    """Runs each call that has a key once: recorded in ``writes``, or in ``reads`` where the tool only reads.

    ``wait_s`` is how long a call that came again waits for the first; ``pause`` waits for some seconds.
    """

    def __init__(
        self,
        writes: Ledger,
        reads: Ledger,
        *,
        wait_s: float,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._tools: dict[int, _ToolFacts] = {}
        self._writes = writes
        self._reads = reads
        self._ledgers = (writes, reads)
        self._wait_s = wait_s
        self._pause = pause

    def observe_ledgers(self, observe: Callable[[Ledger], Ledger]) -> None:
        """Do all with what ``observe`` makes of each ledger from now on."""
        self._writes, self._reads = observe(self._ledgers[0]), observe(self._ledgers[1])
        self._tools.clear()

    async def begin(self) -> None:
        """Begin the ledgers, where they have a file to open."""
        await begin_lifespan(self._ledgers[0])

    async def end(self) -> None:
        """End the ledgers, where they have a file to close."""
        await end_lifespan(self._ledgers[0])

    async def run(self, call: Call, notify: Notify, run: Run) -> Result:
        """Return how ``call`` ended: now, or when it came first. [OTC-019, A-42]

        What it does is decided by the tool and its version, the arguments in any order, and the user; tokens and
        secrets may be renewed between two attempts. [D-26]
        """
        tool, arguments, _, context, key = call
        _, tool_id, name, may_rerun, ledger = self._tools.get(id(tool)) or self._remember_tool(call)
        fingerprint = jsontext.write_canonical((tool_id, arguments, context.user_id))
        claim = make_claim((make_key((context.principal, name, key)), fingerprint, may_rerun, 0))
        standing = await ledger.claim(claim)
        if not isinstance(standing, Ticket):
            if isinstance(standing, InFlight):
                standing = await self._wait_for_first(ledger, claim, standing)
            if not isinstance(standing, Ticket):
                return await _answer_unclaimed(standing, call, notify, run)
        result: Result | None = None
        try:
            result = await run(call, notify)
            await ledger.settle(standing, build_ending(tool, result))
        except BaseException:
            ended = build_abandoned_ending(tool) if result is None else build_ending(tool, result)
            with anyio.CancelScope(shield=True):  # also who is cancelled says what became of it; twice does no harm
                await ledger.settle(standing, ended)
            raise
        return result

    def _remember_tool(self, call: Call) -> _ToolFacts:
        """Remember what calls of the tool of ``call`` have: it is held, so that no other tool gets its identity."""
        if len(self._tools) >= _MAX_TOOLS:
            self._tools.clear()
        tool = call.tool
        ledger = self._reads if tool.safe else self._writes
        known = self._tools[id(tool)] = (tool, tool.id, build_key(call).tool, can_rerun(tool), ledger)
        return known

    async def _wait_for_first(self, ledger: Ledger, claim: Claim, standing: ClaimOutcome) -> ClaimOutcome:
        """Return what ``claim`` comes to once the run before it has ended, or has been waited for long enough."""
        waited, pause = 0.0, _FIRST_PAUSE_S
        while isinstance(standing, InFlight) and waited < self._wait_s:
            claim = claim._replace(awaited_attempt=standing.attempt)
            await self._pause(pause)
            waited += pause
            pause = min(2 * pause, _LONGEST_PAUSE_S)
            standing = await ledger.claim(claim)
        return standing


def parse_key(value: bytes) -> str:
    """Return the key that an Idempotency-Key says, which is well formed by ``malformed_key``. [OTC-019]"""
    return value.strip(b'"').decode("ascii")


def mark_replayed(response: Response) -> Response:
    """Return ``response`` with the header field that says it was told before."""
    return response._replace(headers=(*response.headers, _REPLAYED))


def check_key(fields: Mapping[bytes, bytes]) -> Problem | None:
    """Return the refusal of an Idempotency-Key that cannot be one, or None."""
    if _KEY.fullmatch(fields[KEY_HEADER]) is not None:
        return None
    text = "An Idempotency-Key has 1 to 255 characters of ASCII, with or without quotes around them."
    return Problem(kind=Kind.MALFORMED, message=text)


async def _answer_unclaimed(
    standing: StoredResult | InFlight | Problem, call: Call, notify: Notify, run: Run
) -> Result:
    """Return what is said of ``call``, which does not run: not here, not now, or only unrecorded. [R13]"""
    if isinstance(standing, StoredResult):
        await _replay_progress(call, standing.result, notify)
        return standing.result
    problem = _build_still_running(call) if isinstance(standing, InFlight) else standing
    if call.tool.safe and problem.kind is Kind.OVERLOADED:
        return await run(call, notify)
    return problem


async def _replay_progress(call: Call, result: Result, notify: Notify) -> None:
    """Send the pieces of a stored stream again: they are its result."""
    if call.tool.streams and isinstance(result, Value) and isinstance(result.value, list):
        for piece in result.value:
            await notify(Progress(piece))


def _build_still_running(call: Call) -> Problem:
    return Problem(
        kind=Kind.OVERLOADED,
        message=f"{call.tool.name} is still running under this key; send the same call again to hear how it ended.",
        can_retry=True,
        retry_after_ms=1_000,
    )
