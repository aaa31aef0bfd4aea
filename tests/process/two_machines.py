"""Two servers in network namespaces of their own, and a PostgreSQL that both reach over links that are cut.

Started by ``test_two_machines.py`` in a namespace of its own; prints what it saw as JSON. ``ROUNDS`` is how often each
machine is killed and cut off from the database.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from tests.postgres import Postgres, psycopg, run_postgres, wait_until_answering

from .peer import Gone, Peer
from .test_kills import (
    CALLERS,
    KIT,
    PATIENCE_S,
    Call,
    Calls,
    Said,
    _read_outcome,
    check,
    report_kills,
    wait_for_answers,
)

ROUNDS = int(os.environ.get("TOOLWIRE_KILLS", "0")) // 10 or 2
PORT = 9_627
CUT_S = 5.0
"""For how long a machine is cut off: longer than a lease."""
# The second machine's clock is five minutes ahead.
PROGRAM = """
import sys, time
real, ahead = time.time, float(sys.argv.pop(1))
time.time = lambda: real() + ahead
sys.stdin.readline()
from toolwire.cli import main
sys.exit(main(sys.argv[1:]))
"""


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


class Machine:
    """A network namespace with two links: one to its callers, one to the database."""

    def __init__(self, number: int, folder: Path, database: str) -> None:
        self.number = number
        self.host = f"10.78.{number}.2"
        self._folder = folder
        self._state = f"postgresql://toolwire@10.77.{number}.1/{database}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        argv = [sys.executable, "-c", PROGRAM, str(300 * self.number), "serve", str(KIT)]
        argv += ["--host", "0.0.0.0", "--port", str(PORT), "--state", self._state]
        with (self._folder / f"errors-{self.number}.txt").open("ab") as errors:
            self._process = subprocess.Popen(
                ["unshare", "--net", *argv],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                env={**os.environ, "TOOLWIRE_TEST_RUNS": str(self._folder / "runs.txt")},
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
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._process.wait(PATIENCE_S)

    def set_database_link(self, state: str) -> None:
        ip("link", "set", f"db{self.number}", state)

    def _hand_over(self, link: str) -> None:
        """Move ``link`` into the namespace, which exists a moment after the process."""
        assert self._process is not None
        mine = os.readlink("/proc/self/ns/net")
        while os.readlink(f"/proc/{self._process.pid}/ns/net") == mine:
            assert self._process.poll() is None
        ip("link", "set", link, "netns", str(self._process.pid))

    def _inside(self, *command: str) -> None:
        assert self._process is not None
        subprocess.run(["nsenter", "-t", str(self._process.pid), "-n", *command], check=True)


async def call_until_answered(machines: list[Machine], calls: Calls, call: Call) -> Said:
    """Send ``call`` to one machine after the other until there is an answer to it."""
    tool, number = call
    body = {"request": {"tool_id": f"Accounts.{tool}", "call_id": number, "input": {"number": number}}}
    turn = secrets.randbelow(2)
    async with asyncio.timeout(2 * PATIENCE_S):
        while True:
            turn += 1
            with contextlib.suppress(OSError, Gone, asyncio.IncompleteReadError, TimeoutError):
                async with asyncio.timeout(8):
                    reader, writer = await asyncio.open_connection(machines[turn % 2].host, PORT)
                    try:
                        answer = await Peer(reader, writer).post("/call", body)
                    finally:
                        writer.close()
                assert answer.status in (200, 503), answer
                if answer.status == 200:
                    return _read_outcome(answer.json)
            calls.again += 1
            await asyncio.sleep(0.02)


async def call_on(machines: list[Machine], calls: Calls, caller: int) -> None:
    number = 0
    while not calls.stopping:
        number += 1
        call = (("pay", "put")[number % 2], f"{caller}-{number}")
        calls.asked.add(call)
        copies = 2 if number % 4 < 2 else 1  # some come to both machines at the same time
        await asyncio.gather(*(call_until_answered(machines, calls, call) for _ in range(copies)))
        calls.answers[call] = await call_until_answered(machines, calls, call)


async def run_rounds(machines: list[Machine], calls: Calls) -> None:
    async with asyncio.TaskGroup() as group:
        for caller in range(CALLERS):
            group.create_task(call_on(machines, calls, caller))
        for number in range(ROUNDS):
            machine = machines[number % 2]
            await wait_for_answers(calls, 2 * CALLERS)
            machine.kill()
            machine.start()
            await wait_for_answers(calls, 2 * CALLERS)
            machines[(number + 1) % 2].set_database_link("down")
            await asyncio.sleep(CUT_S)  # the time of the fault, in which the lease runs out
            machines[(number + 1) % 2].set_database_link("up")
            await wait_for_answers(calls, 2 * CALLERS)
        calls.stopping = True


def allow_network(server: Postgres) -> str:
    """Let ``server`` take connections of both machines; return the name of a new database."""
    with (server.folder / "data" / "pg_hba.conf").open("a") as rules:
        rules.write("host all all 10.77.0.0/16 trust\n")
    name = f"t{secrets.token_hex(6)}"
    server.kill()
    server.settings += ["-c", "listen_addresses=*"]
    server.start()
    wait_until_answering(server)
    with psycopg.connect(host=str(server.folder), user="toolwire", dbname="postgres", autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    return name


def main() -> None:
    ip("link", "set", "lo", "up")
    calls = Calls()
    with run_postgres() as server, tempfile.TemporaryDirectory() as folder:
        database = allow_network(server)
        machines = [Machine(number, Path(folder), database) for number in range(2)]
        try:
            for machine in machines:
                machine.start()
            asyncio.run(run_rounds(machines, calls))
        finally:
            for machine in machines:
                machine.kill()
                print((Path(folder) / f"errors-{machine.number}.txt").read_text()[-3000:], file=sys.stderr)
        written: Any = type("Runs", (), {"runs": Path(folder) / "runs.txt"})
        ran: Counter[Call] = check(calls, written)
        for machine in machines:
            assert "Traceback" not in (Path(folder) / f"errors-{machine.number}.txt").read_text()
    report_kills("ST-02", ROUNDS, calls, ran, cuts=ROUNDS)


if __name__ == "__main__":
    main()
