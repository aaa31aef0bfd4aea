"""Idempotency under any order of events: duplicates, endings, cancellations, kills, restarts, reboots and jumps.

What is true outside stands in ``History``; the ledgers are asked through the step that servers use.
"""

from __future__ import annotations

import asyncio
import logging
import os
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from tests.postgres import LedgerDatabase, run_postgres, wait_until_answering
from tests.process.amounts import report
from toolwire.core.ledger import CallEnding, Claim, ClaimOutcome, Ledger, Ticket
from toolwire.core.model import ANONYMOUS, Call, Kind, Problem, Result, Tool, Value
from toolwire.core.toolbox import Notify, ignore_progress
from toolwire.server.run.idempotency import IdempotencyRunner
from toolwire.stores.ledger.memory import MemoryLedger
from toolwire.stores.ledger.postgres import PostgresLedger
from toolwire.stores.ledger.sqlite import SqliteLedger

TOOLS = {"pay": Tool(name="pay", toolkit="Kit"), "put": Tool(name="put", toolkit="Kit", idempotent=True)}
WAIT_S = 0.02
HUNT = os.environ.get("TOOLWIRE_CASES") == "hunt"
MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None

FREES = ("retry", "nothing")
"""The endings after which even a tool that must not run twice may run."""


class Cable:
    """A server's line to its ledger: once it is cut, nothing that the server does arrives."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.whole = True
        self.busy = 0

    async def claim(self, claim: Claim) -> ClaimOutcome:
        if not self.whole:
            await asyncio.Future()
        with self._asking():
            return await self.ledger.claim(claim)

    async def finish(self, ticket: Ticket, ending: CallEnding | None) -> None:
        if self.whole:
            with self._asking():
                await self.ledger.finish(ticket, ending)

    @contextmanager
    def _asking(self) -> Iterator[None]:
        self.busy += 1
        try:
            yield
        finally:
            self.busy -= 1


@dataclass
class Run:
    """One time that a tool ran. ``ended`` is "" while it runs."""

    body: int
    server: Server
    future: asyncio.Future[Result]
    ended: str = ""

    @property
    def going(self) -> bool:
        return not self.ended and self.server.cable.whole


@dataclass
class Server:
    cable: Cable
    once: IdempotencyRunner
    asked: list[tuple[tuple[str, str], int, asyncio.Task[Result]]] = field(default_factory=list)


class Machine(RuleBasedStateMachine):
    """Servers that share a ledger, and callers who send the same few calls again and again."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.servers: list[Server] = []
        self.runs: dict[tuple[str, str], list[Run]] = defaultdict(list)
        self.pauses: list[asyncio.Future[None]] = []
        self.now, self.boot = 1_000.0, 1
        self.values = 0
        self.start()

    def open(self) -> Ledger:
        raise NotImplementedError

    def close(self, ledger: Ledger) -> None:
        raise NotImplementedError

    # What happens

    @precondition(lambda self: len(self.servers) < 3)
    @rule()
    def start(self) -> None:
        cable = Cable(self.open())
        self.servers.append(Server(cable, IdempotencyRunner(cable, MemoryLedger(), wait_s=WAIT_S, pause=self._pause)))

    @precondition(lambda self: self.servers)
    @rule(
        data=st.data(), tool=st.sampled_from(sorted(TOOLS)), name=st.sampled_from("ab"), body=st.sampled_from([1, 1, 2])
    )
    def send(self, data: Any, tool: str, name: str, body: int) -> None:
        self._send(data.draw(st.sampled_from(self.servers)), (tool, name), body)

    @precondition(lambda self: self._going())
    @rule(data=st.data(), how=st.sampled_from(["value", "value", "fail", "retry", "nothing", "timeout"]))
    def finish(self, data: Any, how: str) -> None:
        run = data.draw(st.sampled_from(self._going()))
        run.ended = how
        self.values += 1
        endings: dict[str, Result] = {
            "value": Value(self.values),
            "fail": Problem(kind=Kind.TOOL_FAILED, message=f"No {self.values}."),
            "retry": Problem(kind=Kind.TOOL_FAILED, message="Later.", can_retry=True),
            "nothing": Problem(kind=Kind.RATE_LIMITED, message="Too many.", can_retry=True),
            "timeout": Problem(kind=Kind.TIMEOUT, message="Too long."),
        }
        run.future.set_result(endings[how])
        self._go_on()

    @precondition(lambda self: self._going())
    @rule(data=st.data())
    def leave(self, data: Any) -> None:
        """The caller of a running call goes away."""
        run = data.draw(st.sampled_from(self._going()))
        run.ended = "left"
        run.future.cancel()
        self._go_on()

    @rule()
    def wait(self) -> None:
        waiting, self.pauses = self.pauses, []
        for pause in waiting:
            if not pause.done():
                pause.set_result(None)
        self._go_on()

    @rule(seconds=st.sampled_from([0.5, 60.0, 3_600.0]))
    def jump(self, seconds: float) -> None:
        """The machine slept, or stood still."""
        self.now += seconds

    # What must be true

    def _tool(self, server: Server, key: tuple[str, str]) -> Any:
        async def run(call: Call, notify: Notify) -> Result:
            earlier = self.runs[key]
            assert not any(run.going for run in earlier), "the same call runs twice at the same time"
            if key[0] == "pay":
                assert all(run.ended in FREES for run in earlier), "what must not run twice does"
            else:
                assert not any(run.ended in ("value", "fail") for run in earlier), "it runs again with an answer known"
            bound = [run.body for run in earlier if run.ended != "nothing"]
            assert bound in ([], [call.arguments["n"]] * len(bound)), "another body runs under the same key"
            mine = Run(call.arguments["n"], server, self.loop.create_future())
            earlier.append(mine)
            return await mine.future

        return run

    def _look(self, key: tuple[str, str], body: int, result: Result) -> None:
        """Check an answer against what happened."""
        runs = self.runs[key]
        if isinstance(result, Value):
            assert any(run.ended == "value" and run.body == body for run in runs)
            return
        match result.kind:
            case Kind.CONFLICT:
                assert any(run.body != body for run in runs)
            case Kind.INTERRUPTED:
                assert any(not run.ended and not run.going for run in runs)
                assert key[0] == "pay"
            case Kind.OVERLOADED:
                assert any(run.going for run in runs)
            case Kind.CANCELLED:
                assert any(run.ended == "left" for run in runs)
            case _:
                assert any(run.ended in ("fail", "retry", "nothing", "timeout") for run in runs)

    def teardown(self) -> None:
        """Every call has a final answer in the end, and what must not run twice does not run for it."""
        for server in list(self.servers):
            self._kill(server)
        self.start()
        for key in list(self.runs):
            runs = self.runs[key]
            body = next((run.body for run in runs if run.ended != "nothing"), 1)
            before = len(runs)
            bound = any(run.ended not in FREES for run in runs)
            self._send(self.servers[0], key, body)
            if key[0] == "pay" and bound:
                assert len(runs) == before
                assert all(asked != key for asked, _, _ in self.servers[0].asked), "it is answered at once"
        self._kill(self.servers[0])
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        self.loop.close()

    # How it is driven

    async def _pause(self, seconds: float) -> None:
        self.now += seconds
        pause = self.loop.create_future()
        self.pauses.append(pause)
        await pause

    def _send(self, server: Server, key: tuple[str, str], body: int) -> None:
        call = Call(TOOLS[key[0]], {"n": body}, key[1], ANONYMOUS, key[1])
        task = self.loop.create_task(server.once.run(call, ignore_progress, self._tool(server, key)))
        server.asked.append((key, body, task))
        self._go_on()

    def _going(self) -> list[Run]:
        return [run for runs in self.runs.values() for run in runs if run.going]

    def _go_on(self) -> None:
        """Let every task run until it waits for something, and look at what was answered."""
        self.loop.run_until_complete(self._idle())
        for server in self.servers:
            done = [asked for asked in server.asked if asked[2].done()]
            server.asked = [asked for asked in server.asked if not asked[2].done()]
            for key, body, task in done:
                if not task.cancelled():
                    self._look(key, body, task.result())

    async def _idle(self) -> None:
        """Wait until every task waits for something other than a ledger."""
        for _ in range(12):
            await asyncio.sleep(0)
            while any(server.cable.busy for server in self.servers):  # noqa: ASYNC110 - it is what is looked at
                await asyncio.sleep(0)

    def _cut(self, server: Server) -> None:
        server.cable.whole = False

    def _kill(self, server: Server) -> None:
        self._cut(server)
        self.servers.remove(server)
        self.close(server.cable.ledger)
        tasks = [task for _, _, task in server.asked]
        for task in tasks:
            task.cancel()
        self.loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True) if tasks else self._idle())


class InMemory(Machine):
    """One process: its ledger lives and dies with it, so nothing of it is killed before the end."""

    def __init__(self) -> None:
        self.ledger = MemoryLedger(clock=lambda: self.now)
        super().__init__()

    def open(self) -> Ledger:
        return self.ledger

    def close(self, ledger: Ledger) -> None:
        """Keep it: there is one."""

    def _cut(self, server: Server) -> None:
        for run in self._going():
            run.ended = "left"


class InFile(Machine):
    """Processes that share a file, are killed, and start again; the machine too."""

    def __init__(self) -> None:
        self.folder = tempfile.TemporaryDirectory(dir=MEMORY)
        super().__init__()

    @precondition(lambda self: self.servers)
    @rule(data=st.data())
    def kill(self, data: Any) -> None:
        self._kill(data.draw(st.sampled_from(self.servers)))
        self._go_on()

    @rule(clock=st.sampled_from([0.0, 5.0, 2_000.0]))
    def reboot(self, clock: float) -> None:
        """Everything dies, and the machine's clock begins anew."""
        for server in list(self.servers):
            self._kill(server)
        self.now, self.boot = clock, self.boot + 1

    def open(self) -> Ledger:
        return SqliteLedger(Path(self.folder.name) / "calls.sqlite", clock=lambda: self.now, boot=f"boot-{self.boot}")

    def close(self, ledger: Ledger) -> None:
        assert isinstance(ledger, SqliteLedger)
        self.loop.run_until_complete(ledger.end())

    def teardown(self) -> None:
        super().teardown()
        self.folder.cleanup()


class Errors(logging.Handler):
    """Counts what a ledger logs when it cannot be reached."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.seen = 0

    def emit(self, record: logging.LogRecord) -> None:
        self.seen += 1


class InPostgres(Machine):
    """Machines that share a database, are killed, and start again. Time is the database's."""

    database: LedgerDatabase

    def __init__(self) -> None:
        self.database.empty()
        self.errors = Errors()
        logging.getLogger("toolwire.ledger").addHandler(self.errors)
        super().__init__()

    def teardown(self) -> None:
        logging.getLogger("toolwire.ledger").removeHandler(self.errors)
        with self._unless_too_busy():
            super().teardown()

    def _go_on(self) -> None:
        with self._unless_too_busy():
            super()._go_on()

    @contextmanager
    def _unless_too_busy(self) -> Iterator[None]:
        """Leave this run out if a statement took longer than its deadline: the calls were refused, as they must be."""
        try:
            yield
        except AssertionError:
            assume(not self.errors.seen)
            raise

    @precondition(lambda self: self.servers)
    @rule(data=st.data())
    def kill(self, data: Any) -> None:
        self._kill(data.draw(st.sampled_from(self.servers)))
        self._go_on()

    @rule(seconds=st.sampled_from([0.5, 60.0, 3_600.0]))
    def jump(self, seconds: float) -> None:
        """Time passes, in which each process renews its lease."""
        self.now += seconds
        self.database.pass_time(seconds)

    def open(self) -> Ledger:
        return PostgresLedger(self.database.url)

    def close(self, ledger: Ledger) -> None:
        assert isinstance(ledger, PostgresLedger)
        self.loop.run_until_complete(ledger.end())


def run_machine(machine: type[Machine], few: int) -> None:
    """Run ``machine`` so often, or 5,000 times in the long run, which records it."""
    runs = 5_000 if HUNT else few
    run_state_machine_as_test(machine, settings=settings(max_examples=runs, stateful_step_count=30))
    if HUNT:
        report("R8", "states", **{f"runs_{machine.__name__}": runs})


@pytest.mark.requirement("ST-02", "R8", "A-42", "OTC-019")
def test_random_events_on_several_machines_never_run_a_call_twice() -> None:
    with run_postgres() as server:
        wait_until_answering(server)
        with closing(LedgerDatabase(server)) as InPostgres.database:
            run_machine(InPostgres, 20)


@pytest.mark.requirement("R8", "R14", "A-42", "OTC-019")
@pytest.mark.parametrize(("machine", "few"), [(InMemory, 40), (InFile, 30)])
def test_random_events_never_run_a_call_twice_or_lose_its_result(machine: type[Machine], few: int) -> None:
    run_machine(machine, few)
