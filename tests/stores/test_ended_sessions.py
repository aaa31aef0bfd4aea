"""Sessions that were ended at one process have ended at all, and their number is bounded for each user."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from tests.postgres import Postgres, shared_postgres  # noqa: F401 - the fixtures
from toolwire.core.errors import DefinitionError
from toolwire.stores.consent.ended_sessions import MAX_EACH, ConsoleSession, EndedSessions
from toolwire.stores.consent.open import Place, open_ended_sessions

pytestmark = pytest.mark.requirement("CO-02", "ST-01")

Open: TypeAlias = Callable[[], EndedSessions]
NOW = 1_800_000_000.0


@pytest.fixture(params=["folder", "postgresql"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Open:
    """Open the sessions of one place, as each process does."""
    place: Place = tmp_path
    if request.param == "postgresql":
        place = request.getfixturevalue("shared_postgres").create_database()
    return lambda: open_ended_sessions(place)


def build(number: int, name: str = "key:ann") -> ConsoleSession:
    return ConsoleSession(f"{name}.{number}", name, NOW + number, NOW + number + 43_200)


def test_what_one_process_ends_has_ended_for_all(make: Open) -> None:
    here, there = make(), make()
    assert not there.has_ended(build(1))
    here.end(build(1))
    here.end(build(1))
    assert there.has_ended(build(1))
    assert not there.has_ended(build(2))
    assert make().has_ended(build(1))


def test_a_user_who_ends_very_many_ends_all_begun_before_and_no_other_user_notices(make: Open) -> None:
    ended, bob = make(), build(1, "key:bob")
    ended.end(bob)
    stored = build(MAX_EACH - 5)
    for number in range(MAX_EACH + 1):
        if number != MAX_EACH - 5:
            ended.end(build(number))
    assert not ended.has_ended(stored)
    ended.end(build(MAX_EACH + 1))
    assert ended.has_ended(stored)
    assert all(ended.has_ended(build(number)) for number in range(MAX_EACH + 2))
    later = build(MAX_EACH + 2)
    assert not ended.has_ended(later), "one that begins after them is known"
    ended.end(later)
    assert ended.has_ended(later)
    assert not ended.has_ended(build(MAX_EACH + 3))
    assert ended.has_ended(bob)
    assert not ended.has_ended(build(2, "key:bob"))


@pytest.mark.parametrize("name", ["\0", "\ud800", "'; --", "🎈" * 200])
def test_any_name_can_sign_out(name: str, make: Open) -> None:
    session = ConsoleSession("cookie", name, NOW, NOW + 60)
    ended = make()
    ended.end(session)
    assert ended.has_ended(session)


def test_a_session_is_forgotten_a_day_after_its_end(tmp_path: Path) -> None:
    now = [NOW]
    ended = EndedSessions(tmp_path, clock=lambda: now[0], elapsed=lambda: now[0])
    ended.end(build(0))
    now[0] += 43_200 + 86_000  # a clock that was set back by a day brings no session back
    ended.end(build(200_000, "key:bob"))
    now[0] += 60
    ended.end(build(200_001, "key:bob"))
    assert ended.has_ended(build(0))
    now[0] += 400
    ended.end(build(200_002, "key:bob"))
    assert ended.has_ended(build(0)), "the clock could still be wrong"
    now[0] += 60
    ended.end(build(200_003, "key:bob"))
    assert not ended.has_ended(build(0))


def test_a_folder_that_others_can_change_is_refused(tmp_path: Path) -> None:
    open_ended_sessions(tmp_path)
    (tmp_path / "ended_sessions.sqlite3").chmod(0o666)
    with pytest.raises(DefinitionError, match="Other users can write"):
        open_ended_sessions(tmp_path)


@pytest.mark.requirement("AT-42")
def test_only_what_one_process_began_has_begun_and_the_oldest_of_too_many_is_over(make: Open) -> None:
    here, there = make(), make()
    assert not there.has_session(build(1))
    here.begin(build(1))
    assert there.has_session(build(1))
    assert not there.has_session(build(2))
    assert not there.has_ended(build(1))
    here.end(build(1))
    assert there.has_ended(build(1))
    for number in range(2, MAX_EACH + 2):
        here.begin(build(number))
    assert not there.has_session(build(1))
    assert there.has_session(build(2))
    assert there.has_session(build(MAX_EACH + 1))
