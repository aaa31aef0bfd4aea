"""Grants in memory and in a file: the same rules for both."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from toolwire.consent.grant import GrantKey, Grants
from toolwire.stores import MemoryGrants
from toolwire.stores.consent.grants import StoredGrants

KEY = GrantKey("ada", "recipes", "https://recipes.example", "Recipes.note@1.0.0", "d1")


class Clock:
    """Seconds since 1970, as a test says."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=["memory", "stored"])
def grants(request: pytest.FixtureRequest, tmp_path: Path, clock: Clock) -> Iterator[Grants]:
    if request.param == "memory":
        yield MemoryGrants(clock=clock)
        return
    stored = StoredGrants(tmp_path / "state", clock=clock)
    yield stored
    stored.close()


@pytest.mark.requirement("XL-047")
def test_a_grant_is_for_exactly_its_key(grants: Grants) -> None:
    grants.add(KEY)
    assert grants.has_grant(KEY)
    for part in KEY._fields:
        assert not grants.has_grant(KEY._replace(**{part: "other"}))


@pytest.mark.requirement("XL-047")
def test_a_grant_holds_for_thirty_days(grants: Grants, clock: Clock) -> None:
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
def test_a_new_definition_ends_the_grants_of_the_old_one_and_of_no_other_tool(grants: Grants) -> None:
    other = KEY._replace(tool="Recipes.other@1.0.0")
    grants.add(KEY)
    grants.add(other)
    grants.revoke_outdated(KEY._replace(definition="d2"))
    assert not grants.has_grant(KEY)
    assert grants.has_grant(other)


@pytest.mark.requirement("D-04")
def test_the_definition_that_was_approved_last_is_remembered(grants: Grants) -> None:
    assert grants.find_pinned(KEY) is None
    grants.pin_definition(KEY, {"name": "note", "description": "old"})
    grants.pin_definition(KEY, {"name": "note", "description": "new"})
    assert grants.find_pinned(KEY._replace(definition="any")) == {"name": "note", "description": "new"}


@pytest.mark.requirement("XL-047")
def test_a_stored_grant_outlives_the_process_and_is_nobody_elses_business(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    first = StoredGrants(folder, clock=lambda: 1.0)
    first.add(KEY)
    first.close()
    second = StoredGrants(folder, clock=lambda: 2.0)
    assert second.has_grant(KEY)
    second.close()
    assert folder.stat().st_mode & 0o777 == 0o700
    assert (folder / "grants.sqlite3").stat().st_mode & 0o777 == 0o600


def test_what_is_full_remembers_nothing_more() -> None:
    grants = MemoryGrants()
    for number in range(10_000):
        grants.add(KEY._replace(tool=str(number)))
    grants.add(KEY)
    assert not grants.has_grant(KEY)
    assert grants.has_grant(KEY._replace(tool="0"))
