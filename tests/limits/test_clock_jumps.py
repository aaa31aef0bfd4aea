"""Clocks that jump by an hour or a day, either way: nobody is locked out for longer than a window, nobody let in."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from joserfc import jwt
from joserfc.jwk import OctKey

from tests.support.clock import Clock
from toolwire.auth.caller_token import ExpectedClaims, read_secret
from toolwire.core.ledger import CallKey, Claim, StoredResult, Ticket, build_ending
from toolwire.core.model import Kind, Problem, RateLimit, Tool, Value
from toolwire.limits import MemoryWindows, Windows
from toolwire.server.access.callers import Caller
from toolwire.server.access.signed_tokens import SignedTokenCallers
from toolwire.stores.ledger.sqlite import SqliteLedger
from toolwire.stores.limits.sqlite_windows import SqliteWindows

NOW = 1_800_000_000.0
HOUR_S, DAY_S = 3_600.0, 86_400.0
LEEWAY_S = 30.0
CLAIM = Claim(CallKey("ada", "pay", "1"), b"print", can_rerun=False)
SECRET = b"a secret of the server, long enough"
JUMPS = pytest.mark.parametrize("jump", [HOUR_S, -HOUR_S, DAY_S, -DAY_S], ids=["+1h", "-1h", "+1d", "-1d"])
pytestmark = pytest.mark.requirement("R14")


@pytest.fixture
def clock() -> Clock:
    return Clock(NOW)


@pytest.fixture(params=["memory", "shared"])
def windows(request: pytest.FixtureRequest, tmp_path: Path, clock: Clock) -> Iterator[Windows]:
    if request.param == "memory":
        yield MemoryWindows(clock)
        return
    shared = SqliteWindows(tmp_path, clock=clock)
    yield shared
    shared.close()


@pytest.mark.requirement("OB-1")
@JUMPS
@pytest.mark.parametrize("limit", [RateLimit(max=3, window="1m"), RateLimit(max=2_000, window="1m")], ids=str)
def test_limit_works_again_at_once_after_a_clock_jump(
    windows: Windows, clock: Clock, limit: RateLimit, jump: float
) -> None:
    if limit.max > 1_000 and isinstance(windows, SqliteWindows):
        limit = RateLimit(max=100, window="1m")  # a file is written for each
    for round_ in range(2):
        taken = sum(windows.take("k", limit) == 0.0 for _ in range(limit.max + 5))
        assert taken == limit.max, round_
        assert 0.0 < windows.take("k", limit) <= limit.window_s
        clock.now += jump


@JUMPS
def test_signed_token_is_valid_only_before_its_expiry_after_a_clock_jump(clock: Clock, jump: float) -> None:
    claims = {"sub": "ada", "iss": "https://i.example", "aud": "https://t.example", "exp": NOW + 60}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        token = jwt.encode({"alg": "HS256"}, claims, OctKey.import_key(SECRET), algorithms=["HS256"]).encode()
    expected = ExpectedClaims(issuer="https://i.example", audience="https://t.example", leeway_s=LEEWAY_S)
    tokens = SignedTokenCallers(read_secret(SECRET), expected, clock=clock)
    fields = {b"authorization": b"Bearer " + token}

    def said() -> Caller | Problem:
        known = tokens.find_caller(fields)
        return asyncio.run(tokens.verify(fields)) if known is None else known

    assert isinstance(said(), Caller)
    clock.now += jump
    received = said()
    if jump > 0:
        assert isinstance(received, Problem)
        assert received.kind is Kind.UNAUTHORIZED
    else:
        assert isinstance(received, Caller)
    clock.now = NOW + 60 + LEEWAY_S + 1
    assert isinstance(said(), Problem)
    clock.now = NOW
    assert isinstance(said(), Caller)


@JUMPS
def test_recorded_call_runs_once_despite_clock_jumps(tmp_path: Path, clock: Clock, jump: float) -> None:
    ledger = SqliteLedger(tmp_path / "calls.sqlite", clock=clock, boot="one")
    ended = build_ending(Tool(name="pay"), Value(1))

    async def story() -> None:
        ticket = await ledger.claim(CLAIM)
        assert isinstance(ticket, Ticket)
        clock.now += jump
        assert not isinstance(await ledger.claim(CLAIM), Ticket)
        await ledger.finish(ticket, ended)
        if jump != DAY_S:
            assert await ledger.claim(CLAIM) == StoredResult(Value(1))
        await ledger.end()

    asyncio.run(story())
