"""A ledger whose disk is full or fails: calls that must be recorded are refused, all else goes on, nothing is broken.

The full disk is a small tmpfs in a mount namespace of the server. The failing one is a limit on the size of its files,
which makes each write end with an error, as a bad disk does.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import resource
import shutil
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.programs import find_free_port
from tests.support.waiting import wait_until_async

from .peer import Answer, Peer, dial

PATIENCE_S = 30.0
TEXT = "x" * 4_000
KIT = '''
import os

from toolwire import Toolkit

kit = Toolkit("Shop")


@kit.tool(approval="auto", safe=False, blanket_allowed=True)
def pay(number: str, text: str) -> str:
    """Do what must not be done twice."""
    file = os.open(os.environ["TOOLWIRE_TEST_RUNS"], os.O_APPEND | os.O_CREAT | os.O_WRONLY, 0o600)
    os.write(file, (number + "\\n").encode())
    os.close(file)
    return number + text


@kit.tool(approval="auto", safe=True)
def look(number: str) -> str:
    """Look around."""
    return number
'''


@dataclass
class Shop:
    """A server, its port, and where this process finds the folder of its ledger."""

    process: subprocess.Popen[bytes]
    port: int
    disk: Path
    folder: Path

    def ran(self) -> Counter[str]:
        file = self.folder / "runs.txt"
        return Counter(file.read_text().splitlines() if file.exists() else ())

    def errors(self) -> str:
        return (self.folder / "errors.txt").read_text()

    def is_sound(self) -> bool:
        with contextlib.closing(sqlite3.connect(self.disk / "ledger.sqlite")) as ledger:
            return bool(ledger.execute("PRAGMA integrity_check").fetchone() == ("ok",))


@pytest.fixture
def start_shop(tmp_path: Path) -> Iterator[Callable[..., Shop]]:
    started: list[subprocess.Popen[bytes]] = []

    def serve(*before: str) -> Shop:
        (tmp_path / "shop.py").write_text(KIT)
        disk, port = tmp_path / "disk", find_free_port()
        disk.mkdir()
        argv = [*before, sys.executable, "-m", "toolwire", "serve", str(tmp_path / "shop.py"), "--port", str(port)]
        with (tmp_path / "errors.txt").open("wb") as errors:
            process = subprocess.Popen(
                [*argv, "--ledger", str(disk / "ledger.sqlite")],
                stdout=subprocess.DEVNULL,
                stderr=errors,
                env={**os.environ, "TOOLWIRE_TEST_RUNS": str(tmp_path / "runs.txt")},
            )
        started.append(process)
        return Shop(process, port, Path(f"/proc/{process.pid}/root{disk}") if before else disk, tmp_path)

    try:
        yield serve
    finally:
        for process in started:
            process.kill()
            process.wait(PATIENCE_S)


@pytest.fixture
def small_disk(tmp_path: Path) -> list[str]:
    """The command that gives what follows it a disk of 2 MiB at ``tmp_path / "disk"``."""
    unshare = [shutil.which("unshare") or "unshare", "--mount", *(["--map-root-user"] if os.getuid() else [])]
    mount = f"mount -t tmpfs -o size=2m none {tmp_path / 'disk'}"
    try:
        tried = [*unshare, "sh", "-c", f"mount -t tmpfs -o size=2m none {tmp_path}"]
        subprocess.run(tried, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("there is no mount namespace: a full disk needs `unshare --mount` to be allowed, as for root")
    return [*unshare, "sh", "-c", f'{mount} && exec "$@"', "sh"]


async def until_listening(shop: Shop) -> None:
    async def is_listening() -> bool:
        with contextlib.suppress(OSError):
            _, writer = await asyncio.open_connection("127.0.0.1", shop.port)
            writer.close()
            return True
        return False

    await wait_until_async(is_listening, within=PATIENCE_S)


async def ask(peer: Peer, tool: str, number: str) -> Answer:
    given = {"number": number, **({"text": TEXT} if tool == "pay" else {})}
    return await peer.post("/call", {"request": {"tool_id": f"Shop.{tool}", "call_id": number, "input": given}})


def is_refused(answer: Answer) -> bool:
    return answer.status == 503 and int(answer.headers["retry-after"]) >= 1 and answer.json["can_retry"] is True


async def fail_and_recover(shop: Shop, fail: Callable[[], None], mend: Callable[[], None]) -> None:
    """Call until the ledger takes no more, look at what still works, mend the disk, and look again."""
    await until_listening(shop)
    async with dial(shop) as peer:  # type: ignore[arg-type]  # it has a port, and that is all it takes
        assert (await ask(peer, "pay", "first")).json["output"]["value"] == "first" + TEXT
        fail()
        done, refused = ["first"], list[str]()

        async def is_full() -> bool:
            number = f"n{len(done) + len(refused)}"
            answer = await ask(peer, "pay", number)
            assert answer.status == 200 or is_refused(answer), answer
            (done if answer.status == 200 else refused).append(number)
            return len(refused) == 5

        await wait_until_async(is_full, within=PATIENCE_S)
        assert set(shop.ran()) >= set(done)
        assert not set(shop.ran()) & set(refused), "what is refused did not run"
        assert (await ask(peer, "look", "reads")).status == 200
        assert (await peer.get("/health")).status == 200
        assert (await ask(peer, "pay", "first")).json["output"]["value"] == "first" + TEXT, "what is recorded is known"
        mend()
        for number in (*done, *refused):

            async def pay(number: str = number) -> Answer | None:
                answer = await ask(peer, "pay", number)
                assert answer.status != 503 or is_refused(answer)
                return answer if answer.status != 503 else None

            answer = await wait_until_async(pay, within=PATIENCE_S)
            assert answer is not None
            assert answer.json["output"]["value"] == number + TEXT, number
    assert set(shop.ran().values()) == {1}, "none is doubled"
    assert shop.is_sound()
    assert "Traceback" not in shop.errors()


@pytest.mark.requirement("R13")
def test_full_disk_refuses_only_calls_that_must_be_recorded(
    start_shop: Callable[..., Shop], small_disk: list[str]
) -> None:
    shop = start_shop(*small_disk)

    def fill() -> None:
        with (shop.disk / "filler").open("wb", buffering=0) as filler, contextlib.suppress(OSError):
            while True:
                filler.write(bytes(4_096))

    asyncio.run(fail_and_recover(shop, fill, (shop.disk / "filler").unlink))
    assert "full" in shop.errors()


@pytest.mark.requirement("R13")
def test_failing_disk_refuses_only_calls_that_must_be_recorded(
    start_shop: Callable[..., Shop],
) -> None:
    shop = start_shop()

    def fail() -> None:
        size = (shop.disk / "ledger.sqlite-wal").stat().st_size
        resource.prlimit(shop.process.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

    def mend() -> None:
        resource.prlimit(shop.process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))

    asyncio.run(fail_and_recover(shop, fail, mend))
    assert "disk I/O error" in shop.errors()


CLIENT = """
import json, pathlib, sys
from toolwire import Answer, Session, connect_sync
from toolwire.stores.consent.open import open_decisions, open_grants

url, disk = sys.argv[1], pathlib.Path(sys.argv[2])
answers = {"allow": Answer(True), "always": Answer(True, always=True), "deny": Answer(False)}
given = ""
session = Session(grants=open_grants(disk / "consent"), audit=open_decisions(disk / "consent"))
with connect_sync(url, session=session, approve=lambda _: answers[given]) as remote:
    def call(which, number):
        global given
        given = which
        print(json.dumps([which, str(remote.call("pay", {"number": number, "text": ""}))]), flush=True)
    call("allow", "first")
    with (disk / "filler").open("wb", buffering=0) as filler:
        for size in (4096, 1):
            try:
                while filler.write(bytes(size)):
                    pass
            except OSError:
                pass
    call("allow", "full")
    call("always", "full too")
    call("deny", "denied")
    (disk / "filler").unlink()
    call("always", "again")
    call("deny", "covered")
"""


@pytest.mark.requirement("R13")
@pytest.mark.requirement("XL-055")
def test_consent_that_cannot_be_kept_on_a_full_disk_calls_nothing_and_a_refusal_holds(
    start_shop: Callable[..., Shop], small_disk: list[str], tmp_path: Path
) -> None:
    shop = start_shop()
    asyncio.run(until_listening(shop))
    argv = [*small_disk, sys.executable, "-c", CLIENT, f"http://127.0.0.1:{shop.port}", str(tmp_path / "disk")]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr
    first, *full, denied, again, covered = (json.loads(line)[1] for line in done.stdout.splitlines())
    assert "first" in first
    sentence = "pay was not called, because decisions cannot be stored now (audit.sqlite3 cannot be used: database or"
    assert [sentence in one for one in full] == [True, True], full
    assert "it was not allowed" in denied
    assert "again" in again
    assert "covered" in covered, "its always is kept once the disk has room"
    assert shop.ran() == Counter(["first", "again", "covered"])
