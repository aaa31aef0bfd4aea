"""Grants in memory and in a file: the same rules for both."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.support.clock import Clock
from toolwire import GrantBounds
from toolwire.consent.grant import GrantKey, Grants
from toolwire.core.model import Condition, Tool
from toolwire.stores import MemoryGrants
from toolwire.stores.consent.grants import StoredGrants

KEY = GrantKey("ada", "recipes", "https://recipes.example", "Recipes.note@1.0.0", "d1")
NOTE = Tool(name="note")


@pytest.fixture
def clock() -> Clock:
    return Clock(1_000.0)


@pytest.fixture(params=["memory", "stored"])
def grants(request: pytest.FixtureRequest, tmp_path: Path, clock: Clock) -> Iterator[Grants]:
    if request.param == "memory":
        yield MemoryGrants(clock=clock, elapsed=clock)
        return
    stored = StoredGrants(tmp_path / "state", clock=clock, elapsed=clock)
    yield stored
    stored.close()


@pytest.mark.requirement("XL-047")
def test_grant_covers_only_its_exact_key(grants: Grants) -> None:
    grants.add(KEY)
    assert grants.has_grant(KEY)
    for part in KEY._fields:
        assert not grants.has_grant(KEY._replace(**{part: "other"}))


@pytest.mark.requirement("XL-047")
def test_grant_expires_after_30_days(grants: Grants, clock: Clock) -> None:
    grants.add(KEY)
    clock.now += 30 * 86_400 - 1
    assert grants.has_grant(KEY)
    clock.now += 1
    assert not grants.has_grant(KEY)
    assert list(grants.list_grants()) == []


@pytest.mark.requirement("XL-047")
def test_a_grant_is_listed_and_can_be_revoked(grants: Grants) -> None:
    grants.add(KEY)
    (grant,) = grants.list_grants()
    assert grant.key == KEY
    assert not grants.revoke("never there")
    assert grants.revoke(grant.id)
    assert not grants.has_grant(KEY)
    assert not grants.revoke(grant.id)


@pytest.mark.requirement("XL-048", "D-04")
def test_new_definition_revokes_grants_of_the_old_definition_only(grants: Grants) -> None:
    other = KEY._replace(tool="Recipes.other@1.0.0")
    grants.add(KEY)
    grants.add(other)
    grants.revoke_outdated(KEY._replace(definition="d2"))
    assert not grants.has_grant(KEY)
    assert grants.has_grant(other)


@pytest.mark.requirement("D-04")
def test_last_approved_definition_is_stored(grants: Grants) -> None:
    assert grants.find_pinned(KEY) is None
    grants.pin_definition(KEY, {"name": "note", "description": "old"})
    grants.pin_definition(KEY, {"name": "note", "description": "new"})
    assert grants.find_pinned(KEY._replace(definition="any")) == {"name": "note", "description": "new"}


@pytest.mark.requirement("XL-047")
def test_stored_grant_survives_a_restart_in_a_private_file(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    first = StoredGrants(folder, clock=lambda: 1.0)
    first.add(KEY)
    first.close()
    second = StoredGrants(folder, clock=lambda: 2.0)
    assert second.has_grant(KEY)
    second.close()
    assert folder.stat().st_mode & 0o777 == 0o700
    assert (folder / "grants.sqlite3").stat().st_mode & 0o777 == 0o600


def test_full_grant_store_accepts_no_further_grant() -> None:
    grants = MemoryGrants()
    for number in range(10_000):
        grants.add(KEY._replace(tool=str(number)))
    grants.add(KEY)
    assert not grants.has_grant(KEY)
    assert grants.has_grant(KEY._replace(tool="0"))


def take(grants: Grants, arguments: dict[str, Any], key: GrantKey = KEY) -> bool:
    return bool(grants.spend(key, arguments))


SMALL = GrantBounds(conditions=[Condition("/amount", "le", 50)], uses=2)


@pytest.mark.requirement("CC-03")
def test_bounded_grant_ends_after_its_last_use(grants: Grants) -> None:
    grants.add(KEY, SMALL)
    assert not grants.has_grant(KEY)
    assert grants.has_bounded_grant(KEY)
    assert [one.uses_left for one in grants.list_grants()] == [2]
    assert not take(grants, {"amount": 51})
    assert not take(grants, {})
    assert not take(grants, {"amount": 1}, KEY._replace(definition="d2"))
    assert [take(grants, {"amount": 50}) for _ in range(3)] == [True, True, False]
    assert grants.list_grants() == []
    assert not grants.has_bounded_grant(KEY)


@pytest.mark.requirement("CC-03")
def test_empty_conditions_cover_no_call_and_none_covers_any(grants: Grants) -> None:
    grants.add(KEY, GrantBounds(conditions=[], uses=5))
    assert not take(grants, {"amount": 1})
    assert not take(grants, {})
    grants.add(KEY, GrantBounds(uses=1))
    assert [take(grants, {}) for _ in range(2)] == [True, False]


@pytest.mark.requirement("CC-03")
def test_bounded_grant_expires_at_its_time_and_after_at_most_30_days(grants: Grants, clock: Clock) -> None:
    month = 30 * 86_400
    grants.add(KEY, GrantBounds(until=clock.now + 10))
    assert take(grants, {})
    clock.now += 10
    assert not take(grants, {})
    grants.add(KEY, GrantBounds(until=clock.now - 1))
    assert grants.list_grants() == []
    grants.add(KEY, GrantBounds(until=clock.now + 10 * month))
    clock.now += month - 1
    assert take(grants, {})
    clock.now += 1
    assert not take(grants, {})
    grants.add(KEY, SMALL)
    clock.now -= 301
    assert not take(grants, {"amount": 1})


@pytest.mark.requirement("CC-03")
def test_bounded_grant_can_be_revoked_and_ends_with_its_definition(grants: Grants) -> None:
    grants.add(KEY, SMALL)
    [listed] = grants.list_grants()
    assert (listed.is_bounded, listed.conditions) == (True, (Condition("/amount", "le", 50),))
    assert grants.revoke(listed.id)
    assert not take(grants, {"amount": 1})
    grants.add(KEY, SMALL)
    grants.revoke_outdated(KEY)
    assert take(grants, {"amount": 1})
    grants.revoke_outdated(KEY._replace(definition="d2"))
    assert not take(grants, {"amount": 1})


@pytest.mark.requirement("QF-03")
def test_grant_says_how_many_calls_it_has_covered_and_when_the_last_was(grants: Grants) -> None:
    grants.add(KEY)
    grants.add(KEY._replace(tool="other"), GrantBounds(uses=5))
    grants.count_use(KEY._replace(tool="none"))
    assert [(one.covered, one.last_used_at) for one in grants.list_grants()] == [(0, 0.0)] * 2
    for _ in range(3):
        grants.count_use(KEY)
    id_ = grants.spend(KEY._replace(tool="other"), {})
    used = {one.key.tool: one for one in grants.list_grants()}
    assert (used[KEY.tool].covered, used["other"].covered, used["other"].id) == (3, 1, id_)
    assert all(one.last_used_at >= one.given_at for one in used.values())
    grants.add(KEY)
    assert next(one.covered for one in grants.list_grants() if one.key == KEY) == 0, "it was given anew"


@pytest.mark.requirement("CC-03")
def test_uncounted_grant_is_used_before_counted_grants(grants: Grants) -> None:
    grants.add(KEY, GrantBounds(conditions=[Condition("/to", "eq", "Bob")], uses=1))
    grants.add(KEY, SMALL)
    grants.add(KEY, GrantBounds(conditions=[Condition("/amount", "le", 5)]))
    assert [take(grants, {"amount": 5, "to": "Bob"}) for _ in range(9)] == [True] * 9
    assert take(grants, {"amount": 60, "to": "Bob"})
    assert not take(grants, {"amount": 60, "to": "Bob"})
    assert sorted(one.uses_left or 0 for one in grants.list_grants()) == [0, 2]


@pytest.mark.requirement("CC-03")
@pytest.mark.parametrize(
    ("column", "value"),
    [("conditions", "null"), ("conditions", "[]"), ("conditions", "[{}]"), ("conditions", "{"), ("conditions", "x"),
     ("conditions", '[{"pointer":"/amount","op":"le","value":50,"only":"x"}]'), ("uses_left", "many"),
     ("uses_left", 0), ("uses_left", -1), ("expires_at", "later")],
)  # fmt: skip
def test_unreadable_grant_row_covers_no_call(tmp_path: Path, column: str, value: Any) -> None:
    stored = StoredGrants(tmp_path / "state", clock=lambda: 1_000.0)
    stored.add(KEY, SMALL)
    with closing(sqlite3.connect(tmp_path / "state" / "grants.sqlite3")) as database:
        database.execute(f"UPDATE bounded_grants SET {column} = ?", (value,))
        database.commit()
    assert not take(stored, {"amount": 1})
    stored.list_grants()
    stored.close()


RACE = """
import sys
from pathlib import Path
from toolwire.consent.grant import GrantKey
from toolwire.stores.consent.grants import StoredGrants

stored = StoredGrants(Path(sys.argv[1]))
print("ready", flush=True)
sys.stdin.readline()
print(sum(bool(stored.spend(GrantKey(*sys.argv[2:]), {})) for _ in range(20)))
"""


@pytest.mark.requirement("CC-03")
def test_concurrent_processes_never_exceed_the_uses_of_a_grant(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    stored = StoredGrants(folder)
    stored.add(KEY, GrantBounds(uses=50))
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", RACE, str(folder), *KEY]
    processes = [subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) for _ in range(6)]
    try:
        for one in processes:
            assert one.stdout is not None
            assert one.stdout.readline() == "ready\n"
        for one in processes:
            assert one.stdin is not None
            one.stdin.write("go\n")
            one.stdin.flush()
        taken = [int(one.communicate(timeout=60)[0]) for one in processes]
    finally:
        for one in processes:
            one.kill()
    assert sum(taken) == 50
    assert stored.list_grants() == []
    stored.close()


@pytest.mark.requirement("CC-03")
def test_concurrent_threads_never_exceed_the_uses_of_a_grant(grants: Grants) -> None:
    grants.add(KEY, GrantBounds(uses=30))
    with ThreadPoolExecutor(8) as pool:
        taken = list(pool.map(lambda _: take(grants, {}), range(60)))
    assert sum(taken) == 30


SUM = GrantBounds(conditions=[Condition("/to", "in", ["Ada", "Bob"]), Condition("/amount", "sum", 100)])


@pytest.mark.requirement("QF-03")
def test_calls_of_a_grant_never_add_up_to_more_than_its_sum(grants: Grants) -> None:
    grants.add(KEY, SUM)
    taken = [take(grants, {"to": "Ada", "amount": amount}) for amount in (60.1, 40, 39.9, 0.1, 0)]
    assert taken == [True, False, True, False, True]
    assert [str(one.total) for one in grants.list_grants()] == ["100.0"], "60.1 + 39.9 is not rounded"
    assert [one.covered for one in grants.list_grants()] == [3]
    grants.add(KEY, SUM)
    assert take(grants, {"to": "Ada", "amount": 100}), "it is a permission of its own"


@pytest.mark.requirement("QF-03")
@pytest.mark.parametrize("amount", [-1, "5", True, None, 1e400, float("nan"), 2**53 + 1, [5], 101])
def test_what_is_not_an_amount_is_not_covered_by_a_sum(grants: Grants, amount: Any) -> None:
    grants.add(KEY, SUM)
    assert not take(grants, {"to": "Ada", "amount": amount})
    assert not take(grants, {"to": "Ada"})
    assert not take(grants, {"to": "Eve", "amount": 1})


@pytest.mark.requirement("QF-03")
def test_tools_that_share_their_bounds_share_the_sum(grants: Grants) -> None:
    other = KEY._replace(tool="other")
    grants.add(KEY, SUM, ["to", "amount"], [(other, ["to", "amount"])])
    assert [take(grants, {"to": "Bob", "amount": 60}, key) for key in (KEY, other)] == [True, False]
    assert take(grants, {"to": "Bob", "amount": 40}, other)
    assert [one.total for one in grants.list_grants()] == [100, 100]


@pytest.mark.requirement("QF-03")
def test_concurrent_threads_never_exceed_the_sum_of_a_grant(grants: Grants) -> None:
    grants.add(KEY, SUM)
    with ThreadPoolExecutor(8) as pool:
        taken = list(pool.map(lambda _: take(grants, {"to": "Ada", "amount": 3.3}), range(60)))
    assert sum(taken) == 30


@pytest.mark.requirement("QF-03")
def test_sum_that_cannot_be_read_covers_no_call_and_ends_with_its_grant(tmp_path: Path) -> None:
    stored = StoredGrants(tmp_path / "state", clock=lambda: 1_000.0)
    stored.add(KEY, SUM)
    assert take(stored, {"to": "Ada", "amount": 1})
    with closing(sqlite3.connect(tmp_path / "state" / "grants.sqlite3")) as database:
        for total in ("x", "-5", "NaN"):
            database.execute("UPDATE grant_sums SET total = ?", (total,))
            database.commit()
            assert not take(stored, {"to": "Ada", "amount": 1})
        stored.list_grants()
        stored.revoke(stored.list_grants()[0].id)
        stored.add(KEY, SUM)
        assert database.execute("SELECT count(*) FROM grant_sums").fetchone() == (0,)
    stored.close()
