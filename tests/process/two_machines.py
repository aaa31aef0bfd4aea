"""Two servers in network namespaces of their own, and a PostgreSQL that both reach over links; all of them have faults.

Started by ``test_two_machines.py`` as ``two_machines.py FAULT...`` in namespaces of its own for networks, mounts and
processes, so that nothing of it is left when it ends, however it ends. Each server has two workers. The clock of the
second one is five minutes ahead, and its clocks that never go back are eleven days ahead, as after another start.
Callers of both kinds of calls, ordinary and long, go on meanwhile. What they saw is printed as JSON, for each fault.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.postgres import Postgres, psycopg, run_postgres, wait_until_answering
from tests.support.waiting import wait_until, wait_until_async

from .peer import Answer, Gone, Peer, message, until

KIT = Path(__file__).with_name("machine_tools.py")
DISK = Path(__file__).with_name("failing_disk.c")
CALLERS = 6
"""Callers of ordinary calls."""
LONG_CALLERS = 4
PORT = 9_627
CUT_S = 5.5
"""For how long a machine is cut off: long enough for another one to take up its calls, after a lease."""
HANG_S = 4.0
"""For how long the database hangs: longer than a lease."""
ANSWER_S = 15.0
"""After how many seconds without an answer a server that can be reached has failed. A call that runs elsewhere is
waited for 10 seconds (``ServerLimits.repeat_s``), and the database for 1 second at a time."""
WAIT_S = 5
"""For how long a request waits for the end of a long call."""
PATIENCE_S = 90.0
DISK_MIB = int(os.environ.get("TOOLWIRE_KILLS", "0")) * 4 + 96
AHEAD_S = 300
UP_S = 1_000_000
MAX_LINES = 4  # of two workers with two stores each, which can end without their database
# Python runs a module of this name at the start of each process, also of a worker.
CLOCK = """
import os, time
real, real_ns, ahead = time.time, time.time_ns, int(os.environ["TOOLWIRE_TEST_AHEAD_S"])
time.time, time.time_ns = lambda: real() + ahead, lambda: real_ns() + ahead * 10**9
"""

Call = tuple[str, str]


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


class Machine:
    """A server with its workers in a namespace with two links: one to its callers, one to the database."""

    def __init__(self, number: int, folder: Path, database: str) -> None:
        self.number = number
        self.host = f"10.78.{number}.2"
        self.errors = folder / f"errors-{number}.txt"
        # From its first answer on. Before, a connection may wait until the workers have started.
        self.is_up = False
        self.losses = 0
        self.sockets: set[asyncio.StreamWriter] = set()
        self._folder = folder
        self._state = f"postgresql://toolwire@10.77.{number}.1/{database}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        # The machine is one namespace of processes too: when its first process is killed, all are.
        argv = ["unshare", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]
        up_s = str(UP_S * self.number)
        argv += ["--time", "--monotonic", up_s, "--boottime", up_s]
        argv += ["sh", "-c", 'read go && exec "$@"', "sh", sys.executable, "-m", "toolwire", "serve", str(KIT)]
        argv += ["--workers", "2", "--host", "0.0.0.0", "--port", str(PORT), "--state", self._state]
        environment = {
            **os.environ,
            "TOOLWIRE_TEST_RUNS": str(self._folder / "runs.txt"),
            "TOOLWIRE_TEST_AHEAD_S": str(AHEAD_S * self.number),
            "PYTHONPATH": f"{self._folder / 'clock'}:{os.environ['PYTHONPATH']}",
        }
        with self.errors.open("ab") as errors:
            self._process = subprocess.Popen(
                argv, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=errors, env=environment
            )
        for net, name in ((77, "db"), (78, "in")):
            here, there = f"{name}{self.number}", f"{name}{self.number}p"
            with contextlib.suppress(subprocess.CalledProcessError):
                subprocess.run(["ip", "link", "del", here], check=True, stderr=subprocess.DEVNULL)
            ip("link", "add", here, "type", "veth", "peer", "name", there)
            self._hand_over(there)
            ip("addr", "add", f"10.{net}.{self.number}.1/24", "dev", here)
            ip("link", "set", here, "up")
            self._inside("ip", "addr", "add", f"10.{net}.{self.number}.2/24", "dev", there)
            self._inside("ip", "link", "set", there, "up")
        self._inside("ip", "link", "set", "lo", "up")
        assert self._process.stdin is not None
        self._process.stdin.write(b"\n")
        self._process.stdin.close()

    def kill(self) -> None:
        """Kill all its processes."""
        self._lose()
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait(PATIENCE_S)

    def lose_power(self) -> None:
        """Let it vanish without another packet, in the middle of whatever it writes."""
        for link in ("db", "in"):
            ip("link", "set", f"{link}{self.number}", "down")
        self.kill()

    def set_database_link(self, state: str) -> None:
        ip("link", "set", f"db{self.number}", state)

    async def ask(self, request: bytes, wait_s: float = 0.0) -> Answer | None:
        """Return the answer to ``request``; None if the machine was lost before there was one.

        Raises:
            AssertionError: it can be reached, and does not answer in time.
        """
        losses, was_up = self.losses, self.is_up
        try:
            async with asyncio.timeout(ANSWER_S + wait_s):
                reader, writer = await asyncio.open_connection(self.host, PORT)
                self.sockets.add(writer)
                try:
                    return await Peer(reader, writer).ask(request)
                finally:
                    self.sockets.discard(writer)
                    writer.close()
        except (OSError, Gone, asyncio.IncompleteReadError) as error:  # TimeoutError is an OSError
            if isinstance(error, TimeoutError):
                assert self.losses != losses or not was_up, f"machine {self.number} is up and does not answer"
            return None

    def _lose(self) -> None:
        self.is_up = False
        self.losses += 1
        for writer in self.sockets:  # callers notice at once, so that they do not wait for what cannot come
            writer.transport.abort()

    def _hand_over(self, link: str) -> None:
        """Move ``link`` into the namespace, which exists a moment after the process."""
        assert self._process is not None
        mine = os.readlink("/proc/self/ns/net")
        own = f"/proc/{self._process.pid}/ns/net"
        wait_until(lambda: self._process.poll() is not None or os.readlink(own) != mine)
        assert self._process.poll() is None
        ip("link", "set", link, "netns", str(self._process.pid))

    def _inside(self, *command: str) -> None:
        assert self._process is not None
        subprocess.run(["nsenter", "-t", str(self._process.pid), "-n", *command], check=True)


@dataclass
class Calls:
    """What was asked and what was answered, by tool and number, as the callers saw it.

    Each number begins with the fault before or in which its call was first sent.
    """

    machines: list[Machine]
    fault: str = ""
    asked: set[Call] = field(default_factory=set)
    answers: dict[Call, Any] = field(default_factory=dict)
    """The value of each call that ended well; "interrupted", or what else its answer was, for others."""
    long_answers: int = 0
    looks: int = 0
    counts: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    """For each fault: refusals with 503, requests without an answer, and how slow the slowest answer was."""
    slowest_s: dict[str, float] = field(default_factory=dict)
    stopping: bool = False

    async def ask_until_answered(self, make_request: Callable[[], bytes], wait_s: float = 0.0) -> Answer:
        """Send a request to one machine after the other until there is an answer other than a refusal."""
        turn = secrets.randbelow(2)
        async with asyncio.timeout(PATIENCE_S):
            while True:
                turn += 1
                began, fault = time.monotonic(), self.fault
                answer = await self.machines[turn % 2].ask(make_request(), wait_s)
                if answer is None:
                    self.counts[fault]["sent_again"] += 1
                else:
                    took = time.monotonic() - began
                    if not wait_s:
                        self.slowest_s[fault] = max(self.slowest_s.get(fault, 0.0), took)
                    if not is_refusal(answer):
                        return answer
                    self.counts[fault]["refused"] += 1
                await asyncio.sleep(0.02)


def is_refusal(answer: Answer) -> bool:
    """Return whether a call did not run or its status is not known yet, and its caller is told when to ask again.

    Raises:
        AssertionError: the answer is none that the documentation names.
    """
    assert answer.status in (200, 503), answer
    if answer.status == 503:
        assert int(answer.headers["retry-after"]) >= 1, answer
        if answer.json.get("error") == "accepted":
            assert answer.headers["location"].startswith("/calls/"), answer
            return False
        assert answer.json["can_retry"] is True, answer
        assert answer.json.get("message") or answer.json.get("detail"), answer
    return answer.status == 503


def write_call(tool: str, number: str, *fields: bytes) -> bytes:
    body = {"request": {"tool_id": f"Accounts.{tool}", "call_id": number, "input": {"number": number}}}
    return message("POST", "/call", json.dumps(body).encode(), *fields)


def read_outcome(body: Any) -> str:
    """Return the value of an ordinary call, or how else it ended."""
    match body:
        case {"success": True, "output": {"value": str(value)}}:
            return value
        case {"success": False, "output": {"error": {"details": {"interrupted": True}, "can_retry": False}}}:
            return "interrupted"
        case _:
            return json.dumps(body)


async def make_calls(calls: Calls, caller: int) -> None:
    """Make one ordinary call after the other; some come to both machines at the same time."""
    for number in itertools.count():
        if calls.stopping:
            return
        call = (("pay", "put")[number % 2], f"{calls.fault}:{caller}-{number}")
        calls.asked.add(call)
        copies = 2 if number % 4 < 2 else 1
        asked = (calls.ask_until_answered(lambda call=call: write_call(*call)) for _ in range(copies))  # type: ignore[misc]  # a default
        await asyncio.gather(*asked)
        answer = await calls.ask_until_answered(lambda call=call: write_call(*call))  # type: ignore[misc]  # a default
        calls.answers[call] = read_outcome(answer.json)


async def make_long_calls(calls: Calls, caller: int) -> None:
    """Start one long call after the other and wait for its end, on any machine."""
    for number in itertools.count():
        if calls.stopping:
            return
        call = (("pay_slowly", "put_slowly")[number % 2], f"{calls.fault}:{caller}-{number}")
        calls.asked.add(call)
        calls.answers[call] = await make_long_call(calls, call)
        calls.long_answers += 1


async def make_long_call(calls: Calls, call: Call) -> str:
    accepted = await calls.ask_until_answered(lambda: write_call(*call, b"prefer: respond-async"))
    if accepted.status == 200:  # the answer to an earlier request was lost, and it is over meanwhile
        return read_outcome(accepted.json)
    address = accepted.headers["location"]
    wait = b"prefer: wait=%d" % WAIT_S
    while True:
        reply = (await calls.ask_until_answered(lambda: message("GET", address, b"", wait), WAIT_S)).json
        assert reply["state"] in ("accepted", "running", "ended", "interrupted"), reply
        if reply["state"] in ("ended", "interrupted"):
            break
    # LC-03: what one machine told is in the store, so that the others tell the same.
    again = (await calls.ask_until_answered(lambda: message("GET", address))).json
    assert (again["state"], again.get("result")) == (reply["state"], reply.get("result")), (reply, again)
    return str(reply["result"]) if reply["state"] == "ended" else "interrupted"


async def look_around(calls: Calls) -> None:
    """Call a tool that needs no database, which works on each machine that is up, whatever the database does."""
    for number in itertools.count():
        if calls.stopping:
            return
        machine = calls.machines[number % 2]
        answer = await machine.ask(write_call("look", f"look-{number}"))
        if answer is not None:
            assert answer.status == 200, answer
            calls.looks += 1
        await asyncio.sleep(0.02)


@dataclass
class World:
    """All that has faults."""

    machines: list[Machine]
    postgres: Postgres
    disk: Path
    calls: Calls

    async def wait_for_answers(self) -> None:
        """Wait until calls of both kinds, which were sent from now on, have their answers."""
        answers, long_answers, looks = len(self.calls.answers), self.calls.long_answers, self.calls.looks
        await until(
            lambda: (
                len(self.calls.answers) - self.calls.long_answers >= answers - long_answers + 2 * CALLERS
                and self.calls.long_answers >= long_answers + LONG_CALLERS
                and self.calls.looks > looks
            ),
            PATIENCE_S,
        )

    async def wait_for_refusals(self) -> None:
        """Wait until calls were refused, and others that need no database were answered meanwhile."""
        counts, looks = self.calls.counts[self.calls.fault], self.calls.looks
        refused = counts["refused"]
        await until(lambda: counts["refused"] >= refused + CALLERS and self.calls.looks >= looks + 4, PATIENCE_S)

    async def wait_until_serving(self, machine: Machine) -> None:
        await wait_until_async(lambda: machine.ask(message("GET", "/health")), within=PATIENCE_S)
        machine.is_up = True


async def kill_machine(world: World, machine: Machine) -> float:
    machine.kill()
    return await start_again(world, machine)


async def lose_power(world: World, machine: Machine) -> float:
    machine.lose_power()
    return await start_again(world, machine)


async def start_again(world: World, machine: Machine) -> float:
    machine.start()
    await world.wait_until_serving(machine)
    return time.monotonic()


async def cut_off(world: World, machine: Machine) -> float:
    machine.set_database_link("down")
    try:
        await asyncio.gather(asyncio.sleep(CUT_S), world.wait_for_refusals())  # the lease runs out meanwhile
    finally:
        machine.set_database_link("up")
    return time.monotonic()


async def kill_database(world: World, _: Machine) -> float:
    world.postgres.kill()
    await world.wait_for_refusals()
    world.postgres.start()
    await until(world.postgres.answers)
    return time.monotonic()


async def hang_database(world: World, _: Machine) -> float:
    with world.postgres.stopped():
        await asyncio.gather(asyncio.sleep(HANG_S), world.wait_for_refusals())  # all leases run out meanwhile
    return time.monotonic()


async def fill_disk(world: World, _: Machine) -> float:
    """Fill the disk of the database: first its tables cannot grow, then its log cannot, and it ends."""
    filler = world.disk / "filler"
    try:
        with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(bytes(65_536))
        await world.wait_for_refusals()
        await asyncio.to_thread(fill_log, world.postgres)
        await world.wait_for_refusals()
    finally:
        filler.unlink()
    world.postgres.kill()
    world.postgres.start()
    await until(world.postgres.answers)
    return time.monotonic()


def fill_log(server: Postgres) -> None:
    """Write to the log of the database until there is no file left for it, with which the database ends."""
    with contextlib.suppress(psycopg.OperationalError), server.connection() as connection:
        connection.autocommit = True
        while True:
            connection.execute("SELECT pg_logical_emit_message(false, 'test', repeat('x', 1000000)), pg_switch_wal()")


async def fail_disk(world: World, _: Machine) -> float:
    """Let the disk of the database fail: first it cannot be synchronized, then the log cannot be written (EIO)."""
    server, failing = world.postgres, world.disk / "fails"
    library, settings = world.disk / "failing_disk.so", server.settings
    compile_disk(library)
    server.kill()
    server.environment = {"LD_PRELOAD": str(library), "TOOLWIRE_TEST_FAILS": str(failing)}
    server.settings = [*settings, "-c", "fsync=on"]
    for fault in ("sync", "write"):
        server.start()
        await until(server.answers)
        await world.wait_for_answers()
        known = len((server.folder / "log").read_text())
        failing.write_text(fault)
        await asyncio.to_thread(write_checkpoint, server)
        await world.wait_for_refusals()
        failing.unlink()
        reply = (server.folder / "log").read_text()[known:]
        assert "PANIC" in reply, reply
        assert "Input/output error" in reply, reply
        server.kill()  # it may have ended, or try again and again to start
    server.environment, server.settings = {}, settings
    server.start()
    await until(server.answers)
    return time.monotonic()


def compile_disk(library: Path) -> None:
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(library), str(DISK), "-ldl"], check=True)


def write_checkpoint(server: Postgres) -> None:
    """Let the database write all that it holds, and end with what its disk says."""
    with contextlib.suppress(psycopg.OperationalError), server.connection() as connection:
        connection.autocommit = True
        connection.execute("CHECKPOINT")


FAULTS: dict[str, Callable[[World, Machine], Awaitable[float]]] = {
    "kill": kill_machine,
    "power": lose_power,
    "cut": cut_off,
    "database-killed": kill_database,
    "database-hangs": hang_database,
    "disk-full": fill_disk,
    "disk-fails": fail_disk,
}


async def cause_faults(world: World, faults: list[str]) -> dict[str, float]:
    """Cause one fault after the other; return how long after each, at most, all went on as before."""
    calls, back_s = world.calls, dict[str, float]()
    calls.fault = faults[0]
    for machine in world.machines:
        await world.wait_until_serving(machine)
    async with asyncio.TaskGroup() as group:
        for caller in range(CALLERS):
            group.create_task(make_calls(calls, caller))
        for caller in range(LONG_CALLERS):
            group.create_task(make_long_calls(calls, CALLERS + caller))
        group.create_task(look_around(calls))
        await world.wait_for_answers()
        for number, fault in enumerate(faults):
            calls.fault, asked = fault, len(calls.asked)
            await until(lambda asked=asked: len(calls.asked) >= asked + CALLERS, PATIENCE_S)  # type: ignore[misc]  # a default
            ended = await FAULTS[fault](world, world.machines[number // 2 % 2])
            await world.wait_for_answers()
            back_s[fault] = max(back_s.get(fault, 0.0), time.monotonic() - ended)
            if number % 20 == 19:
                print(f"{number + 1} faults, {len(calls.answers)} calls answered", file=sys.stderr, flush=True)
        calls.stopping = True
    return back_s


def describe(calls: Calls, runs: Counter[Call], back_s: dict[str, float]) -> dict[str, dict[str, Any]]:
    """Return what came of the calls of each fault."""
    assert {call[1].partition(":")[0] for call in calls.asked} == set(back_s)
    seen = {}
    for fault, longest_s in back_s.items():
        mine = {call for call in calls.asked if call[1].startswith(f"{fault}:")}
        ended = {call for call in mine if calls.answers.get(call) == call[1]}
        interrupted = {call for call in mine if calls.answers.get(call) == "interrupted"}
        seen[fault] = {
            "calls": len(mine),
            "long_calls": sum(call[0].endswith("slowly") for call in mine),
            # A call without an answer, one that must end well and did not, or one that ended well and did not run.
            "lost": sorted(
                (mine - ended - interrupted)
                | {call for call in interrupted if call[0].startswith("put")}
                | {call for call in ended if not runs[call]}
            ),
            "doubled": sorted(call for call in mine if call[0].startswith("pay") and runs[call] > 1),
            "interrupted": len(interrupted),
            "run_again": sum(runs[call] > 1 for call in mine),
            "refused": calls.counts[fault]["refused"],
            "sent_again": calls.counts[fault]["sent_again"],
            "slowest_s": round(calls.slowest_s.get(fault, 0.0), 2),
            "back_s": round(longest_s, 2),
        }
    return seen


@contextlib.contextmanager
def run_small_postgres(disk: Path) -> Iterator[tuple[Postgres, str]]:
    """Start a PostgreSQL on a small disk at ``disk`` which takes connections of both machines; make a database."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_MIB}m,mode=755", "none", str(disk)], check=True)
    with run_postgres(disk, "--wal-segsize=1") as server:
        with (server.folder / "data" / "pg_hba.conf").open("a") as rules:
            rules.write("host all all 10.77.0.0/16 trust\n")
        server.kill()
        server.settings += ["-c", "listen_addresses=*"]
        server.start()
        wait_until_answering(server)
        name = f"t{secrets.token_hex(6)}"
        with psycopg.connect(
            host=str(server.folder), user="toolwire", dbname="postgres", autocommit=True
        ) as connection:
            connection.execute(f"CREATE DATABASE {name}".encode())
        yield server, name


def main() -> None:
    ip("link", "set", "lo", "up")
    folder = Path(tempfile.mkdtemp(prefix="toolwire-machines-"))
    disk = folder / "disk"
    try:
        for name in (disk, folder / "clock"):
            name.mkdir()
        folder.chmod(0o755)  # PostgreSQL is another user
        (folder / "clock" / "sitecustomize.py").write_text(CLOCK)
        with run_small_postgres(disk) as (server, database):
            machines = [Machine(number, folder, database) for number in range(2)]
            calls = Calls(machines)
            try:
                for machine in machines:
                    machine.start()
                back_s = asyncio.run(cause_faults(World(machines, server, disk, calls), sys.argv[1:]))
            finally:
                for machine in machines:
                    machine.kill()
                    print(machine.errors.read_text()[-3_000:], file=sys.stderr)
            runs = Counter(tuple(line.split()) for line in (folder / "runs.txt").read_text().splitlines())
            for machine in machines:
                errors = machine.errors.read_text()
                assert "Traceback" not in errors
                # A store that is lost is said once until it is back, not once for each refused call.
                lost = [one for one in errors.splitlines() if "cannot be reached" in one]
                again = [one for one in errors.splitlines() if "can be reached again" in one]
                assert len(lost) <= len(again) + MAX_LINES, lost
        print(json.dumps(describe(calls, runs, back_s)))  # type: ignore[arg-type]  # two words a line
    finally:
        subprocess.run(["umount", str(disk)], check=False)
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
