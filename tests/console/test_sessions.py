"""The sessions of a console with a clock: when they end, whose they are, and how many wrong keys are checked."""

from __future__ import annotations

import asyncio
import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable
from hashlib import sha256
from hmac import digest
from typing import Any

import pytest

from tests.console.conftest import Started, build_question
from tests.interleaving import interrupt_each_await
from tests.support.clock import Clock
from toolwire.console.sessions import SESSION_S, OperatorSessions, SessionUser
from toolwire.console.wrong_keys import MAX_WRONG, WINDOW_S, WrongKeys
from toolwire.server.access.browser_session import SessionSigner

HOSTILE = "<script>alert(1)</script>\"'&<i id=x>"


class Desk:
    """Counts which keys are checked, and how many at the same time. A check waits once."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def sign_in(self, key: str) -> str | None:
        self.asked.append(key)
        await asyncio.sleep(0)
        return "ann" if key == "right" else None


@pytest.fixture
def clock() -> Clock:
    return Clock(1_000_000.0)


def open_sessions(desk: Desk, clock: Clock, **given: Any) -> OperatorSessions:
    return OperatorSessions(desk.sign_in, secret=b"s" * 32, wall=clock, clock=clock, **given)


@pytest.mark.requirement("TE-03", "TE-02", "CO-02")
def test_session_ends_after_twelve_hours_and_not_before(clock: Clock) -> None:
    sessions = open_sessions(Desk(), clock)
    cookie = asyncio.run(sessions.start("right", "192.0.2.1"))
    assert cookie is not None
    clock.now += SESSION_S - 1
    session = sessions.find(cookie)
    assert session is not None
    assert session.name == "ann"
    clock.now += 1
    assert sessions.find(cookie) is None


@pytest.mark.requirement("TE-03", "TE-02", "CO-02")
@pytest.mark.parametrize(("lasts_s", "ends_s"), [(600.0, 600.0), (10 * SESSION_S, SESSION_S)])
def test_session_lasts_as_long_as_its_token_and_never_longer_than_twelve_hours(
    lasts_s: float, ends_s: float, clock: Clock
) -> None:
    sessions = open_sessions(Desk(), clock)
    cookie = sessions.start_for(SessionUser("ann", lasts_s))
    clock.now += ends_s - 1
    assert sessions.find(cookie) is not None
    clock.now += 1
    assert sessions.find(cookie) is None


@pytest.mark.requirement("TE-03", "TE-02", "D-19")
def test_cookie_of_another_end_name_or_kind_is_nobodys(clock: Clock) -> None:
    sessions = open_sessions(Desk(), clock)
    cookie = sessions.start_for(SessionUser("ann", SESSION_S))
    text, _, signature = cookie.partition(".")
    content = json.loads(urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    assert sessions.find(cookie) is not None
    for place, value in ((0, "inbox"), (1, "account"), (2, "bob"), (4, content[4] + 1)):
        forged = [value if number == place else one for number, one in enumerate(content)]
        forged_text = urlsafe_b64encode(json.dumps(forged).encode()).decode().rstrip("=")
        assert sessions.find(f"{forged_text}.{signature}") is None
    assert OperatorSessions(lambda _: None, secret=b"t" * 32, wall=clock).find(cookie) is None


@pytest.mark.requirement("TE-03", "D-22", "D-19")
def test_cookie_of_other_pages_with_the_same_secret_or_of_an_earlier_version_is_nobodys(clock: Clock) -> None:
    secret = b"s" * 32
    console, inbox = (SessionSigner(secret, audience, wall=clock) for audience in ("console", "inbox"))
    cookie = console.write("key", "ann", 60.0)
    session = console.read(cookie)
    assert session is not None
    assert (session.name, session.owns(session.form_token), session.owns("")) == ("ann", True, False)
    assert inbox.read(cookie) is None
    for old in (["ann", clock() + 60, "nonce", "key", clock()], [clock() + 60, "nonce", "00"], {}):
        text = urlsafe_b64encode(json.dumps(old).encode()).decode().rstrip("=")
        signed = f"{text}.{digest(secret, f'cookie {text}'.encode(), sha256).hex()}"
        assert console.read(signed) is None, old


@pytest.mark.requirement("TE-03", "D-25")
def test_name_of_an_operator_is_text_on_every_page(start: Callable[..., Started]) -> None:
    console = start(stores_actions=True)
    console.key._name = HOSTILE
    console.source.approvals.ask(build_question())
    browser = console.browser()
    page = browser.get("/inbox").text
    id_ = page.partition('name="id" value="')[2].partition('"')[0]
    browser.submit("/inbox", id=id_, answer="deny")
    for path in ("/", "/inbox", "/permissions", "/rules", "/log"):
        text = browser.get(path).text
        assert HOSTILE not in text, path
        assert "<i id=x>" not in text, path
        assert "&lt;script&gt;alert(1)" in text, path


@pytest.mark.requirement("AT-58", "TE-02", "D-19")
def test_five_hundred_keys_at_the_same_time_are_ten_guesses(clock: Clock) -> None:
    desk = Desk()
    sessions = open_sessions(desk, clock)

    async def guess() -> list[str | None]:
        return await asyncio.gather(*(sessions.start(f"k{number}", "10.0.0.1") for number in range(500)))

    assert set(asyncio.run(guess())) == {None}
    assert len(desk.asked) == MAX_WRONG == 10
    asyncio.run(sessions.start("another", "10.0.0.1"))
    assert len(desk.asked) == 10
    asyncio.run(sessions.start("another", "10.0.0.2"))
    assert len(desk.asked) == 11, "another address has ten of its own"
    clock.now += WINDOW_S
    asyncio.run(sessions.start("one more", "10.0.0.1"))
    assert len(desk.asked) == 12


@pytest.mark.requirement("AT-58", "TE-02")
@pytest.mark.parametrize("key", ["right", "wrong"])
def test_guesses_that_come_while_a_key_is_checked_count_at_each_await(key: str, clock: Clock) -> None:
    desk = Desk()
    sessions = open_sessions(desk, clock)
    runs = 0

    def make() -> Any:
        nonlocal desk, sessions, runs
        runs += 1
        desk = Desk()
        sessions = open_sessions(desk, clock)

        async def rival() -> None:
            for number in range(30):
                await sessions.start(f"guess {number}", "10.0.0.1")

        return sessions.start(key, "10.0.0.1"), rival

    def check(cookie: str | None) -> None:
        assert (cookie is not None) is (key == "right")
        assert len(desk.asked) in (1, 10)

    assert asyncio.run(interrupt_each_await(make, check)) >= 1
    assert runs >= 2


@pytest.mark.requirement("AT-37", "AT-50", "TE-02")
def test_known_key_is_let_in_after_any_number_of_wrong_ones(clock: Clock) -> None:
    desk = Desk()
    sessions = open_sessions(desk, clock, find_known=lambda key: "ops" if key == "known" else None)

    async def use() -> None:
        for number in range(40):
            assert await sessions.start(f"k{number}", "10.0.0.1") is None
        assert len(desk.asked) == 10
        cookie = await sessions.start("known", "10.0.0.1")
        assert cookie is not None
        session = sessions.find(cookie)
        assert session is not None
        assert session.name == "ops"

    asyncio.run(use())


@pytest.mark.requirement("AT-37", "AT-50")
def test_wrong_key_that_comes_again_is_checked_once_and_counts_once(clock: Clock) -> None:
    desk = Desk()
    sessions = open_sessions(desk, clock)

    async def use() -> str | None:
        for address in ("10.0.0.1", "10.0.0.2"):
            for _ in range(13):
                assert await sessions.start("the same", address) is None
        assert desk.asked == ["the same"]
        return await sessions.start("right", "10.0.0.1")

    assert asyncio.run(use()) is not None
    clock.now += WINDOW_S
    asyncio.run(sessions.start("the same", "10.0.0.1"))
    assert desk.asked == ["the same", "right", "the same"]


@pytest.mark.requirement("AT-58")
def test_right_keys_and_checks_that_fail_do_not_count(clock: Clock) -> None:
    wrong = WrongKeys(clock)
    for number in range(50):
        at = wrong.begin(f"k{number}", "10.0.0.1")
        assert at is not None
        wrong.forgive("10.0.0.1", at)
    assert wrong.begin("last", "10.0.0.1") is not None

    async def fail(_key: str) -> str | None:
        await asyncio.sleep(0)
        raise ConnectionError

    sessions = OperatorSessions(fail, clock=clock)

    async def use() -> None:
        for _ in range(20):
            with pytest.raises(ConnectionError):
                await sessions.start("right", "10.0.0.1")

    asyncio.run(use())


@pytest.mark.requirement("AT-37")
def test_memory_for_wrong_keys_is_bounded(clock: Clock) -> None:
    wrong = WrongKeys(clock)
    for number in range(12_000):
        wrong.begin(f"k{number}", f"address {number}")
        wrong.remember(f"k{number}")
    assert (len(wrong._times), len(wrong._keys)) == (1_000, 10_000)
