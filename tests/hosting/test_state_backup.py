"""``toolwire state``: what a backup of a running server holds, and what a restored state lets nobody do again."""

from __future__ import annotations

import asyncio
import json
import os
import tarfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Coroutine, Generator
from contextlib import closing, contextmanager
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Any, TypeVar

import pytest

from tests.postgres import Postgres, shared_postgres
from toolwire import Toolkit, asgi
from toolwire.auth.grants import OAuthGrant, Token
from toolwire.cli import main
from toolwire.consent.decision_record import Decision, find_chain_fault
from toolwire.consent.grant import GrantKey
from toolwire.core.check import Answer, Question
from toolwire.core.grant_bounds import GrantBounds
from toolwire.core.long_call import LongCallState, NewCall
from toolwire.core.model import Approval, Call, Tool
from toolwire.server.asking.restored_state import ask_after_restore
from toolwire.server.long_calls.long_calls import open_long_calls
from toolwire.stores.consent.open import open_approvals, open_decisions, open_grants, open_levels
from toolwire.stores.database import Database
from toolwire.stores.oauth.accounts import Accounts
from toolwire.stores.oauth.database import OAuthStore
from toolwire.stores.paths import find_state_places
from toolwire.stores.restores import RESTORES, RESTORES_FILE, add_restore
from toolwire.testing.loopback import background

__all__ = ["shared_postgres"]  # the fixture

T = TypeVar("T")
pytestmark = pytest.mark.requirement("PL-07")
KEY = GrantKey("ada", "shop", "https://a.example", "order", "d1")
RECORD = Decision(at=1.0, principal="ada", connection="a", tool="note", binding="b1", decision="allowed")
SECRET = "a-password-that-nobody-else-knows"


def ask(binding: str) -> Question:
    call = Call(Tool(name="note"), {"text": binding})
    return Question(call, "https://a.example", "POST /note", Approval.PER_CALL, binding=binding)


@pytest.fixture(params=["folder", "postgresql"])
def new_state(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], str]:
    """Make the place of a new state: a folder, or a database."""
    number = iter(range(9))

    def make() -> str:
        if request.param == "folder":
            return str(tmp_path / f"state{next(number)}")
        server: Postgres = request.getfixturevalue("shared_postgres")
        return server.create_database()

    return make


def run_state(*words: object) -> int:
    return main(["state", *map(str, words)])


@contextmanager
def serve(place: str, runs: list[str]) -> Generator[Callable[..., tuple[int, Any]]]:
    """Serve two tools with their state in ``place``, and give a function that calls one."""
    kit = Toolkit("Bank")

    @kit.tool(approval="auto", safe=False)
    def pay(amount: int) -> str:
        """Pay an amount."""
        runs.append(f"pay {amount}")
        return "paid"

    @kit.tool(approval="auto", safe=False, idempotent=True)
    def put(amount: int) -> str:
        """Set the balance."""
        runs.append(f"put {amount}")
        return "put"

    @kit.tool(destructive=True)
    def close(name: str) -> str:
        """Close an account."""
        runs.append(f"close {name}")
        return "closed"

    def confirm(call: Call) -> str:
        return "Close it?" if call.tool.name == "close" else ""

    with background(asgi(kit, state=place, require_confirmation=confirm)) as url:

        def call(tool: str, arguments: dict[str, Any], **headers: str) -> tuple[int, Any]:
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            request = urllib.request.Request(
                f"{url}/api/{tool}",
                json.dumps(arguments).encode(),
                {"content-type": "application/json", **named},
                method="POST",
            )
            try:
                with urllib.request.urlopen(request, timeout=30) as response:
                    return response.status, json.load(response)
            except urllib.error.HTTPError as error:
                with error:
                    return error.code, json.load(error)

        yield call


def find_word(said: Any) -> str:
    text = json.dumps(said)
    return text.partition('"word": "')[2].partition('"')[0]


def test_no_call_and_no_token_counts_twice_after_a_restore(new_state: Callable[[], str], tmp_path: Path) -> None:
    place, runs, backup = new_state(), list[str](), tmp_path / "one.backup"
    with serve(place, runs) as call:
        assert call("pay", {"amount": 1}, idempotency_key="before") == (200, "paid")
        status, reply = call("close", {"name": "ada"})
        assert status == 428
        word = find_word(reply)
        assert run_state("backup", backup, "--state", place) == 0
        assert call("pay", {"amount": 2}, idempotency_key="after") == (200, "paid")
        assert call("put", {"amount": 3}, idempotency_key="set") == (200, "put")
        assert call("close", {"name": "ada"}, toolwire_confirmation=word) == (200, "closed")
    assert runs == ["pay 1", "pay 2", "put 3", "close ada"]

    restored = new_state()
    assert run_state("restore", backup, "--state", restored) == 0
    with serve(restored, runs) as call:
        status, reply = call("close", {"name": "ada"}, toolwire_confirmation=word)
        assert status == 428, "the token was used after the backup"
        status, reply = call("pay", {"amount": 2}, idempotency_key="after")
        assert status == 428
        assert "might have run already" in json.dumps(reply)
        assert runs == ["pay 1", "pay 2", "put 3", "close ada"], "nothing ran without a question"
        word = find_word(reply)
        assert call("pay", {"amount": 2}, idempotency_key="after", toolwire_confirmation=word) == (200, "paid")
        assert call("pay", {"amount": 5}) == (200, "paid"), "a call without a key is no repetition"
        assert call("put", {"amount": 3}, idempotency_key="set") == (200, "put")
        assert call("pay", {"amount": 1}, idempotency_key="before") == (200, "paid"), "the backup knows its result"
    assert runs[4:] == ["pay 2", "pay 5", "put 3"], "the call that the backup knows was replayed"


def test_an_operator_can_say_that_nothing_ran_since(new_state: Callable[[], str], tmp_path: Path) -> None:
    place, runs, backup = new_state(), list[str](), tmp_path / "one.backup"
    with serve(place, runs) as call:
        call("pay", {"amount": 1}, idempotency_key="before")
        word = find_word(call("close", {"name": "ada"})[1])
    open_grants(find_state_places(place).inbox).add(KEY)
    assert run_state("backup", backup, "--state", place) == 0
    restored = new_state()
    assert run_state("restore", backup, "--state", restored, "--keep-permissions") == 0
    with serve(restored, runs) as call:
        assert call("pay", {"amount": 1}, idempotency_key="before") == (200, "paid")
        assert call("pay", {"amount": 2}, idempotency_key="new") == (200, "paid")
        assert call("close", {"name": "ada"}, toolwire_confirmation=word)[0] == 428, "a token never outlives its key"
    assert runs == ["pay 1", "pay 2"]
    assert open_grants(find_state_places(restored).inbox).has_grant(KEY)


async def use_calls(place: str, use: Callable[[Any], Coroutine[Any, Any, T]]) -> T:
    """Return what ``use`` returns of the long calls in ``place``."""
    calls: Any = open_long_calls(place)()
    try:
        return await use(calls)
    finally:
        await calls.end()


def fill(place: str) -> None:
    """Store one of everything in ``place``."""
    places = find_state_places(place)
    grants, approvals = open_grants(places.inbox), open_approvals(places.inbox)
    grants.add(KEY)
    grants.add(KEY._replace(tool="pay"), GrantBounds(uses=3))
    grants.pin_definition(KEY, {"name": "order"})
    answered = approvals.ask(ask("answered"))
    assert approvals.answer(answered, Answer(allowed=True))
    approvals.ask(ask("waiting"))
    open_decisions(places.inbox).append(RECORD)
    open_levels(places.inbox).set("https://a.example", "order", Approval.DENY)
    store = OAuthStore(places.oauth)
    with closing(Accounts(store)) as accounts:
        account = accounts.add("ada", SECRET)
        assert account is not None
        now = time.time()
        with store.write_transaction() as rows:
            rows.add(
                OAuthGrant(
                    id="g",
                    user=account.id,
                    client_id="c",
                    client_name="C",
                    fingerprint="f",
                    resource="r",
                    scopes=("read",),
                    created=now,
                    until=now + 900,
                )
            )
            for kind in ("access", "refresh"):
                rows.add(Token(digest=kind, kind=kind, grant="g", scopes=("read",), since=now, until=now + 900))

    async def accept(calls: Any) -> None:
        for name in ("may", "must-not"):
            new = NewCall(
                id=name,
                principal="ada",
                key=name,
                tool="T.t",
                fingerprint=b"f",
                can_rerun=name == "may",
                request=b"{}",
                keep_s=900.0,
            )
            await calls.accept(new)

    asyncio.run(use_calls(places.ledger or "", accept))


def test_nothing_but_what_was_decided_is_lost(new_state: Callable[[], str], tmp_path: Path) -> None:
    place, backup = new_state(), tmp_path / "one.backup"
    fill(place)
    assert run_state("backup", backup, "--state", place) == 0
    assert backup.stat().st_mode & 0o777 == 0o600
    assert [file.name for file in tmp_path.iterdir() if "backup" in file.name or "toolwire-" in file.name] == [
        backup.name
    ], "nothing is left beside it"
    restored = new_state()
    assert run_state("check", backup) == 0
    assert run_state("restore", backup, "--state", restored) == 0
    assert run_state("check", "--state", restored) == 0
    places = find_state_places(restored)

    grants, approvals = open_grants(places.inbox), open_approvals(places.inbox)
    assert not grants.list_grants()
    assert grants.find_pinned(KEY) == {"name": "order"}
    assert [one.rows[0].text for one in approvals.list_pending()], "the question that waits still does"
    assert approvals.find("waiting")
    assert approvals.find("answered") is None
    assert [one.level for one in open_levels(places.inbox).list_levels()] == [Approval.DENY]
    log = open_decisions(places.inbox)
    log.append(RECORD)
    assert len(log.entries()) == 2
    assert not log.find_start_fault()
    assert not find_chain_fault(log.entries(), log.start())
    store = OAuthStore(places.oauth)
    with closing(Accounts(store)) as accounts:
        assert accounts.check("ada", SECRET) is not None
        with store.read_transaction() as rows:
            assert rows.find_token_with_grant("access") is None
            found = rows.find_token_with_grant("refresh")
            assert found is not None
            assert found[1].revoked is not None

    async def claim_all(calls: Any) -> dict[str, LongCallState]:
        for one in await calls.find_ready(9):
            await calls.claim(one)
        return {one: (await calls.read("ada", one)).state for one in ("may", "must-not")}

    states = asyncio.run(use_calls(places.ledger or "", claim_all))
    assert states == {"may": LongCallState.RUNNING, "must-not": LongCallState.INTERRUPTED}


def test_a_backup_of_a_state_in_use_is_whole(new_state: Callable[[], str], tmp_path: Path) -> None:
    place, backup, is_over = new_state(), tmp_path / "one.backup", threading.Event()
    runs: list[str] = []
    with serve(place, runs) as call:

        def go_on() -> None:
            number = 0
            while not is_over.is_set():
                number += 1
                assert call("pay", {"amount": number}, idempotency_key=f"k{number}")[0] == 200

        callers = [threading.Thread(target=go_on)]
        callers[0].start()
        try:
            assert run_state("backup", backup, "--state", place) == 0
        finally:
            is_over.set()
            callers[0].join()
        assert call("pay", {"amount": 0}, idempotency_key="last") == (200, "paid"), "the server goes on"
    assert run_state("restore", backup, "--state", new_state(), "--keep-permissions") == 0


@pytest.mark.parametrize("fault", ["cut", "flipped", "foreign", "none", "other kind", "path"])
def test_a_bad_backup_is_refused_in_one_sentence_and_nothing_changes(
    fault: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state, backup, target = tmp_path / "state", tmp_path / "one.backup", tmp_path / "target"
    fill(str(state))
    assert run_state("backup", backup, "--state", state) == 0
    data = backup.read_bytes()
    match fault:
        case "cut":
            backup.write_bytes(data[: len(data) // 2])
        case "flipped":
            place = data.index(b"SQLite format 3") + 5_000
            backup.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
        case "foreign":
            backup.write_bytes(b"PGDMP" * 400)
        case "none":
            backup.unlink()
        case "other kind":
            rewrite(backup, kind="postgresql")
        case _:
            rewrite(backup, files={"../escaped.sqlite3": [1, "0" * 64]})
    capsys.readouterr()
    assert run_state("restore", backup, "--state", target) == 2
    reply = capsys.readouterr()
    assert reply.out == ""
    assert reply.err.count("\n") == 1
    assert "Traceback" not in reply.err
    assert not target.exists()
    assert not (tmp_path / "escaped.sqlite3").exists()


def rewrite(backup: Path, **facts: Any) -> None:
    """Write ``backup`` again with other facts in its head, as somebody could who wants it to be accepted."""
    with tarfile.open(backup) as archive:
        head = json.loads(archive.extractfile(archive.next()).read())  # type: ignore[arg-type, union-attr]
    text = json.dumps({**head, **facts}).encode()
    with tarfile.open(backup, "w") as archive:
        member = tarfile.TarInfo(f"toolwire-state-{sha256(text).hexdigest()}.json")
        member.size = len(text)
        archive.addfile(member, BytesIO(text))


def test_a_state_is_never_overwritten(new_state: Callable[[], str], tmp_path: Path) -> None:
    place, backup = new_state(), tmp_path / "one.backup"
    fill(place)
    assert run_state("backup", backup, "--state", place) == 0
    before = backup.read_bytes()
    assert run_state("backup", backup, "--state", place) == 2, "nor is a backup"
    assert backup.read_bytes() == before
    assert run_state("restore", backup, "--state", place) == 2
    assert open_grants(find_state_places(place).inbox).has_grant(KEY)


def test_an_open_backup_is_pointed_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    state, backup = tmp_path / "state", tmp_path / "one.backup"
    fill(str(state))
    old = os.umask(0)
    try:
        assert run_state("backup", backup, "--state", state) == 0
    finally:
        os.umask(old)
    assert backup.stat().st_mode & 0o777 == 0o600
    backup.chmod(0o644)
    assert run_state("check", backup) == 0
    assert "chmod 600" in capsys.readouterr().err


def test_a_damaged_state_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    state = tmp_path / "state"
    fill(str(state))
    (state / "grants.sqlite3").write_bytes(b"no database" * 1_000)
    for name in ("grants.sqlite3-wal", "grants.sqlite3-shm"):
        (state / name).unlink(missing_ok=True)
    assert run_state("check", "--state", state) == 2
    assert run_state("backup", tmp_path / "one.backup", "--state", state) == 2
    assert "grants.sqlite3" in capsys.readouterr().err
    assert not (tmp_path / "one.backup").exists()


def test_no_key_and_no_used_token_is_in_a_backup(tmp_path: Path) -> None:
    state, backup = tmp_path / "state", tmp_path / "one.backup"
    with serve(str(state), []) as call:
        find_word(call("close", {"name": "ada"})[1])
        assert run_state("backup", backup, "--state", state) == 0
    key = (state / "confirmations" / "key").read_bytes()
    assert key not in backup.read_bytes()
    with tarfile.open(backup) as archive:
        assert not [name for name in archive.getnames() if "confirmations" in name]


def test_a_tool_that_remembers_keys_for_longer_is_asked_about_for_longer(tmp_path: Path) -> None:
    day_s = 86_400.0
    with closing(Database(tmp_path / RESTORES_FILE, RESTORES)) as rows, rows.transaction() as cursor:
        add_restore(cursor, 1_000.0, 900.0, is_current=False)
    now = [1_000.0 + 5 * day_s]
    ask = ask_after_restore(str(tmp_path), day_s, clock=lambda: now[0])
    assert ask is not None
    usual, longer = (Tool(name="pay", keep_s=keep_s) for keep_s in (None, 10 * day_s))
    assert [bool(ask(Call(tool, {}, key="k"))) for tool in (usual, longer)] == [False, True]
    assert not ask(Call(longer, {}))
    now[0] += 400 * day_s
    assert ask_after_restore(str(tmp_path), day_s, clock=lambda: now[0]) is None
