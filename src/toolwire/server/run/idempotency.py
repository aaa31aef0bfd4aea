"""Run a call with an idempotency key once, between the checks and the tool.

Rules:
- A call that a check refuses is not recorded.
- If the ledger fails, a tool that only reads runs anyway; any other tool is refused.
- A repeated call waits for the first one, up to a limit.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

import anyio

from toolwire.core.http import Response
from toolwire.core.ledger import (
    CallEnding,
    Claim,
    ClaimOutcome,
    InFlight,
    Ledger,
    LedgerLimits,
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
from toolwire.server.limits import ServerLimits
from toolwire.stores.ledger.memory import IN_MEMORY, MemoryLedger
from toolwire.stores.paths import is_postgres_url

from .large_results import is_large_result, write_in_parts
from .stored_items import RecordedItems

KEY_HEADER = b"idempotency-key"
_REPLAYED = (b"idempotent-replayed", b"true")

Run: TypeAlias = Callable[[Call, Notify], Awaitable[Result]]

# The draft of this header field wants quotes, and many clients leave them out, so both are accepted.
_KEY = re.compile(rb'"[ -!#-\[\]-~]{1,255}"|[!#-~]{1,255}')
_FIRST_PAUSE_S = 0.005
_MAX_PAUSE_S = 0.1
_MAX_TOOLS = 10_000


def open_ledger(ledger: Ledger | Path | str | None, limits: ServerLimits) -> Ledger:
    """Return ``ledger``, the ledger of an SQLite file or a PostgreSQL URL, or for None a ledger in memory.

    A ledger that is opened here remembers as many calls as ``limits`` say.

    Raises:
        DefinitionError: the file or database is no ledger, or cannot be opened.
    """
    if ledger is None:
        return MemoryLedger(_build_limits(IN_MEMORY, limits))
    if isinstance(ledger, str) and is_postgres_url(ledger):
        from toolwire.stores.ledger.postgres import PostgresLedger  # only the extra brings its driver

        return PostgresLedger(ledger, _build_limits(LedgerLimits(), limits))
    if isinstance(ledger, str | Path):
        from toolwire.stores.ledger.sqlite import SqliteLedger  # most servers do not need sqlite3

        return SqliteLedger(ledger, _build_limits(LedgerLimits(), limits))
    return ledger


def _build_limits(usual: LedgerLimits, limits: ServerLimits) -> LedgerLimits:
    size = usual.bytes if limits.recorded_bytes is None else limits.recorded_bytes
    return replace(usual, rows=limits.recorded_calls, bytes=size, keep_s=limits.recorded_s)


_ToolFacts: TypeAlias = tuple[Tool, str, str, bool, Ledger]
"""A tool, its id with and without its version, whether its calls may run again, and the ledger that records them."""


class IdempotencyRunner:
    """Runs each call with a key once. Ledger ``reads`` records calls of tools that only read, ``writes`` all others.

    ``wait_s`` is how long a repeated call waits for the first one; ``pause`` sleeps for some seconds.
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
        """Use what ``observe`` returns for each ledger from now on."""
        self._writes, self._reads = observe(self._ledgers[0]), observe(self._ledgers[1])
        self._tools.clear()

    async def begin(self) -> None:
        """Open the file of the ledger, if it has one."""
        await begin_lifespan(self._ledgers[0])

    async def end(self) -> None:
        """Close the file of the ledger, if it has one."""
        await end_lifespan(self._ledgers[0])

    async def run(self, call: Call, notify: Notify, run: Run) -> Result:
        """Return the result of ``call``: of this run, or of the first call with the same key.

        Two calls are the same if tool, version, arguments (in any order) and user are the same. Tokens and secrets may
        differ, because they may be renewed between two attempts.
        """
        # OTC-019, A-42, D-26
        tool, arguments, _, context, key = call
        _, tool_id, name, may_rerun, ledger = self._tools.get(id(tool)) or self._remember_tool(call)
        fingerprint = jsontext.write_canonical((tool_id, arguments, context.user_id))
        # The caller is part of the key, so that no caller gets the result of another one by guessing a key.
        claim = make_claim((make_key((context.principal, name, key)), fingerprint, may_rerun, 0))
        outcome = await ledger.claim(claim)
        if not isinstance(outcome, Ticket):
            if isinstance(outcome, InFlight):
                # Most repeats come while the first call still runs, because its connection was lost.
                outcome = await self._wait_for_first(ledger, claim, outcome)
            if not isinstance(outcome, Ticket):
                return await _answer_unclaimed(outcome, call, notify, run)
        result: Result | None = None
        recorded = RecordedItems(notify) if context.takes_items else None
        try:
            if recorded is None:
                result = await run(call, notify)
                stored = await write_in_parts(result) if is_large_result(result) else result
                await ledger.finish(outcome, build_ending(tool, stored))
            else:
                result = await run(call, recorded.notify)
                await ledger.finish(outcome, recorded.build_ending(tool, result))
        except BaseException:
            # With a result the tool has run, and only the ledger failed.
            if result is None:
                ended: CallEnding | None = build_abandoned_ending(tool)
            else:
                ended = build_ending(tool, result) if recorded is None else recorded.build_ending(tool, result)
            with anyio.CancelScope(shield=True):  # a cancelled call is settled, too; settling twice does no harm
                await ledger.finish(outcome, ended)
            raise
        return result

    def _remember_tool(self, call: Call) -> _ToolFacts:
        """Return the facts of the tool of ``call``, and keep them for later calls."""
        # They hold the tool, so that no other object gets its id().
        if len(self._tools) >= _MAX_TOOLS:
            self._tools.clear()
        tool = call.tool
        ledger = self._reads if tool.safe else self._writes
        known = self._tools[id(tool)] = (tool, tool.id, build_key(call).tool, can_rerun(tool), ledger)
        return known

    async def _wait_for_first(self, ledger: Ledger, claim: Claim, outcome: ClaimOutcome) -> ClaimOutcome:
        """Claim again until the first run has ended, or ``wait_s`` is over; return the last outcome."""
        waited, pause = 0.0, _FIRST_PAUSE_S
        while isinstance(outcome, InFlight) and waited < self._wait_s:
            claim = claim._replace(awaited_attempt=outcome.attempt)
            await self._pause(pause)
            waited += pause
            pause = min(2 * pause, _MAX_PAUSE_S)
            outcome = await ledger.claim(claim)
        return outcome


def parse_key(value: bytes) -> str:
    """Return the key of a value that ``check_key`` accepts, without its quotes."""
    # OTC-019
    return value.strip(b'"').decode("ascii")


def mark_replayed(response: Response) -> Response:
    """Return ``response`` with the header field that says that it was replayed."""
    return response._replace(headers=(*response.headers, _REPLAYED))


def check_key(fields: Mapping[bytes, bytes]) -> Problem | None:
    """Return the refusal of an Idempotency-Key that is not well formed, or None."""
    if _KEY.fullmatch(fields[KEY_HEADER]) is not None:
        return None
    text = "An Idempotency-Key must have 1 to 255 ASCII characters, with or without quotes around them."
    return Problem(kind=Kind.MALFORMED, message=text)


async def _answer_unclaimed(outcome: StoredResult | InFlight | Problem, call: Call, notify: Notify, run: Run) -> Result:
    """Return the result of ``call`` where its claim got no ticket: stored, still running, or a failed ledger."""
    # R13: a call that only reads may run twice, so it does not depend on the ledger.
    if isinstance(outcome, StoredResult):
        await _replay_progress(call, outcome.result, notify)
        return outcome.result
    problem = _build_still_running(call) if isinstance(outcome, InFlight) else outcome
    if call.tool.safe and problem.kind is Kind.OVERLOADED:
        return await run(call, notify)
    return problem


async def _replay_progress(call: Call, result: Result, notify: Notify) -> None:
    """Send the progress of a stored stream again: its items are the result."""
    if call.tool.streams and isinstance(result, Value) and isinstance(result.value, list):
        for piece in result.value:
            await notify(Progress(piece))


def _build_still_running(call: Call) -> Problem:
    # 503 and not 409: clients of Open Tool Calling repeat a 409 without the key (docs/decisions/0013).
    return Problem(
        kind=Kind.OVERLOADED,
        message=(
            f"{call.tool.name} is still running with this idempotency key. Send the same call again to get its result."
        ),
        can_retry=True,
        retry_after_ms=1_000,
    )
