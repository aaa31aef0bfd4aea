"""Long calls under any order of events: processes that claim, report, ask, end, die, and come back too late.

What is true outside stands in ``Known``; every store is asked in the same way.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from tests.postgres import LedgerDatabase, run_postgres, wait_until_answering
from tests.process.amounts import report
from toolwire.core.call_status import CallStatus, LongCallState
from toolwire.core.long_call import CallChange, Lease, NewCall
from toolwire.core.model import Kind, Problem, Value
from toolwire.stores.ledger.postgres_long_calls import PostgresLongCalls
from toolwire.stores.ledger.sqlite_long_calls import SqliteLongCalls

HUNT = os.environ.get("TOOLWIRE_CASES") == "hunt"
MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None
DAY_S = 86_400.0


@dataclass
class Known:
    """A call as its caller and its runs know it."""

    can_rerun: bool
    fingerprint: bytes
    runs: int = 0
    lease: Lease | None = None
    holder: Process | None = None
    end: int | None = None
    is_over: bool = False
    pinned: bool = True
    cancel_asked: bool = False
    asked: str = ""


@dataclass
class Process:
    store: Any
    leases: dict[str, Lease] = field(default_factory=dict)


class Machine(RuleBasedStateMachine):
    """Processes that share a store, and one caller with a few calls."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.processes: list[Process] = []
        self.dead: list[Process] = []
        self.calls: dict[str, Known] = {}
        self.by_key: dict[str, str] = {}
        self.values = 0
        self.now = 1_000.0
        self.start()

    def open(self) -> Any:
        raise NotImplementedError

    def do(self, work: Any) -> Any:
        return self.loop.run_until_complete(work)

    # What happens

    @precondition(lambda self: len(self.processes) < 3)
    @rule()
    def start(self) -> None:
        self.processes.append(Process(self.open()))

    @precondition(lambda self: self.processes)
    @rule(data=st.data(), key=st.sampled_from(["", "a", "b"]), body=st.sampled_from([b"1", b"1", b"2"]))
    def accept(self, data: Any, key: str, body: bytes) -> None:
        process = data.draw(st.sampled_from(self.processes))
        can_rerun, offered = data.draw(st.booleans()), data.draw(st.booleans())
        id_ = f"call-{len(self.calls)}"
        known = self.calls.get(self.by_key.get(key, "")) if key else None
        can_rerun = known.can_rerun if known is not None else can_rerun
        new = NewCall("ada", id_, key, "T.t", body, b"{}", can_rerun=can_rerun, keep_s=DAY_S, is_queued=offered)
        reply = self.do(process.store.accept(new))
        if known is None:
            assert (reply.id, reply.state) == (id_, LongCallState.ACCEPTED)
            self.calls[id_] = Known(can_rerun, body)
            if key:
                self.by_key[key] = id_
        elif known.fingerprint != body:
            assert isinstance(reply, Problem)
            assert reply.kind is Kind.CONFLICT
        else:
            assert reply.id == self.by_key[key]
            if known.is_over and not known.pinned:
                assert reply.state is LongCallState.ACCEPTED
                known.is_over, known.end, known.cancel_asked, known.runs, known.pinned = False, None, False, 0, True
            else:
                assert reply.state.is_final is known.is_over

    @precondition(lambda self: self.processes and self.calls)
    @rule(data=st.data())
    def claim(self, data: Any) -> None:
        process, id_ = data.draw(st.sampled_from(self.processes)), data.draw(st.sampled_from(sorted(self.calls)))
        self._claim(process, id_)

    @precondition(lambda self: self._holders())
    @rule(data=st.data(), how=st.sampled_from(["report", "end", "end", "fail", "ask"]))
    def go_on(self, data: Any, how: str) -> None:
        id_ = data.draw(st.sampled_from(self._holders()))
        known = self.calls[id_]
        assert known.holder is not None
        assert known.lease is not None
        self.values += 1
        status = self.do(known.holder.store.change(known.lease, self._change(how)))
        assert isinstance(status, CallStatus), "who holds a call can change it"
        self._note(known, how)
        assert self._read(id_) == status

    @precondition(lambda self: self.processes and any(known.asked for known in self.calls.values()))
    @rule(data=st.data())
    def answer(self, data: Any) -> None:
        id_ = data.draw(st.sampled_from(sorted(id_ for id_, known in self.calls.items() if known.asked)))
        known = self.calls[id_]
        status = self.do(self.processes[0].store.answer("ada", id_, {known.asked: {"action": "accept"}}))
        assert status.state is LongCallState.ACCEPTED
        known.asked, known.runs = "", 0

    @precondition(lambda self: self.processes and self.calls)
    @rule(data=st.data())
    def cancel(self, data: Any) -> None:
        id_ = data.draw(st.sampled_from(sorted(self.calls)))
        known = self.calls[id_]
        status = self.do(data.draw(st.sampled_from(self.processes)).store.cancel("ada", id_))
        if known.is_over:
            assert status.state.is_final
        elif known.lease is not None and known.holder in self.processes:
            assert (status.state, status.cancel_asked) == (LongCallState.RUNNING, True)
            known.cancel_asked = True
            assert known.holder is not None
            assert self.do(known.holder.store.renew())[id_] is True
        else:
            assert status.state is LongCallState.CANCELLED
            known.is_over, known.asked, known.lease, known.pinned = True, "", None, True

    @precondition(lambda self: self.dead)
    @rule(data=st.data(), how=st.sampled_from(["report", "end"]))
    def come_late(self, data: Any, how: str) -> None:
        """A process that was taken for dead goes on with what it had."""
        process = data.draw(st.sampled_from(self.dead))
        if not process.leases:
            return
        id_ = data.draw(st.sampled_from(sorted(process.leases)))
        lease, known = process.leases[id_], self.calls[id_]
        self.values += 1
        before = self._read(id_)
        self.do(process.store.begin())
        status = self.do(process.store.change(lease, self._change(how)))
        self.do(process.store.end())
        is_mine = known.lease == lease and not known.is_over
        if not is_mine:
            assert status is None, "who lost a call cannot change it"
            assert self._read(id_) == before
        elif status is not None:
            self._note(known, how)

    @rule(seconds=st.sampled_from([0.5, 60.0, 3_600.0]))
    def jump(self, seconds: float) -> None:
        self.now += seconds

    # What must be true

    def _claim(self, process: Process, id_: str) -> None:
        known = self.calls[id_]
        is_held = known.lease is not None and known.holder in self.processes
        claimed = self.do(process.store.claim(id_))
        status = self._read(id_)
        if isinstance(claimed, Lease):
            assert not known.is_over
            assert not known.asked
            assert not is_held, "two processes run one call"
            assert known.can_rerun or known.runs == 0, "what must not run twice does"
            known.runs += 1
            known.lease, known.holder = claimed, process
            process.leases[id_] = claimed
            assert status.state is LongCallState.RUNNING
            return
        assert claimed is None
        if status.state is LongCallState.INTERRUPTED and not known.is_over:
            assert not is_held
            assert known.runs
            assert not known.can_rerun
            known.is_over, known.lease, known.pinned = True, None, True
        elif status.state is LongCallState.CANCELLED and not known.is_over:
            assert known.cancel_asked
            assert not is_held
            known.is_over, known.lease, known.pinned = True, None, True

    def _change(self, how: str) -> CallChange:
        match how:
            case "report":
                return CallChange(progress=0.5, message=str(self.values))
            case "ask":
                return CallChange(input={f"q{self.values}": {"message": "?"}})
            case "end":
                return CallChange(result=Value(self.values))
            case _:
                problem = Problem(kind=Kind.TOOL_FAILED, message=str(self.values), can_retry=True)
                return CallChange(result=problem, pinned=False)

    def _note(self, known: Known, how: str) -> None:
        if how == "report":
            return
        known.lease, known.holder = None, None
        if how == "ask":
            known.asked = f"q{self.values}"
        else:
            known.is_over, known.pinned = True, how == "end"
            known.end = self.values

    def _read(self, id_: str) -> CallStatus:
        status = self.do(self.processes[0].store.read("ada", id_))
        known = self.calls[id_]
        assert isinstance(status, CallStatus)
        if known.end is not None:
            assert status.state is LongCallState.ENDED
            reply = status.result.value if isinstance(status.result, Value) else int(status.result.message)  # type: ignore[union-attr]  # it has ended
            assert reply == known.end
        assert self.do(self.processes[0].store.read("bob", id_)) is None
        return status

    def _holders(self) -> list[str]:
        return sorted(
            id_ for id_, known in self.calls.items() if known.lease is not None and known.holder in self.processes
        )

    def kill_process(self, process: Process) -> None:
        self.processes.remove(process)
        self.dead.append(process)
        self.do(process.store.end())
        if not self.processes:
            self.start()

    def teardown(self) -> None:
        """Every accepted call comes to an end, whoever died."""
        if len(self.processes) < 3:
            self.start()
        last = self.processes[-1]
        for process in self.processes[:-1]:
            self.processes.remove(process)
            self.do(process.store.end())
        for _ in range(3):
            for id_ in self.do(last.store.find_ready(100)):
                self._claim(last, id_)
        for id_, known in self.calls.items():
            if not known.is_over and not known.asked:
                assert known.holder is last, "no accepted call is lost"
                assert id_ in self.do(last.store.renew())
        self.do(last.store.end())
        self.loop.close()


class InMemory(Machine):
    """One process, whose calls are orphans once it ends."""

    def __init__(self) -> None:
        self.only = SqliteLongCalls(None, clock=lambda: self.now, boot="one", wall=lambda: self.now)
        super().__init__()

    def open(self) -> Any:
        return self.only

    @precondition(lambda self: False)
    @rule()
    def start(self) -> None:
        if not self.processes:
            self.processes.append(Process(self.only))

    def teardown(self) -> None:
        self.loop.close()


class InFile(Machine):
    """Processes that share a file, and are killed."""

    def __init__(self) -> None:
        self.folder = tempfile.TemporaryDirectory(dir=MEMORY)
        super().__init__()

    @precondition(lambda self: self.processes)
    @rule(data=st.data())
    def kill(self, data: Any) -> None:
        self.kill_process(data.draw(st.sampled_from(self.processes)))

    def open(self) -> Any:
        path = Path(self.folder.name) / "calls.sqlite"
        return SqliteLongCalls(path, clock=lambda: self.now, boot="one", wall=lambda: self.now)

    def teardown(self) -> None:
        super().teardown()
        self.folder.cleanup()


class InPostgres(Machine):
    """Machines that share a database, and are killed or cut off. Time is the database's."""

    database: LedgerDatabase

    def __init__(self) -> None:
        self.database.empty()
        self.database.connection.execute(
            "DROP TABLE IF EXISTS toolwire_long_calls, toolwire_long_shares;"
            "DELETE FROM toolwire_schema WHERE part = 'long_calls'"
        )
        super().__init__()

    @precondition(lambda self: self.processes)
    @rule(data=st.data())
    def kill(self, data: Any) -> None:
        self.kill_process(data.draw(st.sampled_from(self.processes)))

    @rule(seconds=st.sampled_from([0.5, 60.0, 3_600.0]))
    def jump(self, seconds: float) -> None:
        self.database.pass_time(seconds)

    def open(self) -> Any:
        return PostgresLongCalls(self.database.url)


def run_machine(machine: type[Machine], few: int) -> None:
    """Run ``machine`` so often, or 2,000 times in the long run, which records it."""
    runs = 2_000 if HUNT else few
    run_state_machine_as_test(machine, settings=settings(max_examples=runs, stateful_step_count=30))
    if HUNT:
        report("LC-04", "states", **{f"runs_{machine.__name__}": runs})


@pytest.mark.requirement("LC-03", "LC-04", "R8")
@pytest.mark.parametrize(("machine", "few"), [(InMemory, 40), (InFile, 30)])
def test_random_events_never_run_a_long_call_twice_or_lose_it(machine: type[Machine], few: int) -> None:
    run_machine(machine, few)


@pytest.mark.requirement("LC-03", "LC-04", "ST-02", "R8")
def test_random_events_on_several_machines_never_run_a_long_call_twice() -> None:
    with run_postgres() as server:
        wait_until_answering(server)
        with closing(LedgerDatabase(server)) as InPostgres.database:
            run_machine(InPostgres, 15)
