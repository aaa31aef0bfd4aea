"""The client waits as long as the strictest of site, client and server says."""

from __future__ import annotations

from email.utils import formatdate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.clock import Clock
from toolwire.core.http import Response
from toolwire.core.model import RateLimit, Tool
from toolwire.limits import ClientRateLimits, Throttle
from toolwire.limits.throttle import build_rate_limited, read_pause_s

NOW = 1_800_000_000.0
TOOL = Tool(name="x", rate_limit=RateLimit(max=2, window="1m"))


@pytest.mark.requirement("XL-065")
@pytest.mark.parametrize(
    ("fields", "seconds"),
    [
        ([(b"retry-after", b"7")], 7.0),
        ([(b"retry-after", formatdate(NOW + 30, usegmt=True).encode())], 30.0),
        ([(b"retry-after", formatdate(NOW - 30, usegmt=True).encode())], 0.0),
        ([(b"retry-after", b"soon")], 0.0),
        ([(b"retry-after", b"999999999")], 86_400.0),
        ([(b"ratelimit", b'"default";r=0;t=12')], 12.0),
        ([(b"ratelimit", b"limit=10, remaining=0, reset=12")], 12.0),
        ([(b"ratelimit", b'"default";r=3;t=12')], 0.0),
        ([(b"ratelimit-remaining", b"0"), (b"ratelimit-reset", b"5")], 5.0),
        ([(b"x-ratelimit-remaining", b"0"), (b"x-ratelimit-reset", b"1800000009")], 9.0),
        ([(b"x-ratelimit-remaining", b"0")], 0.0),
        ([], 0.0),
    ],
)
def test_throttle_reads_each_standard_rate_limit_header(fields: list[tuple[bytes, bytes]], seconds: float) -> None:
    assert read_pause_s(Response(429, fields), lambda: NOW) == seconds


@given(st.binary(max_size=40), st.sampled_from([b"retry-after", b"ratelimit", b"x-ratelimit-reset"]))
def test_any_rate_limit_header_is_read_without_error(text: bytes, name: bytes) -> None:
    assert 0.0 <= read_pause_s(Response(503, ((name, text), (b"x-ratelimit-remaining", b"0"))), lambda: NOW) <= 86_400.0


@pytest.mark.requirement("XL-065")
def test_response_headers_can_lower_a_limit_but_not_raise_it() -> None:
    clock = Clock(NOW)
    throttle = Throttle(clock=clock, wall=clock)
    throttle.record_response(TOOL, Response(429, ((b"retry-after", b"30"),)))
    throttle.record_response(TOOL, Response(429, ((b"retry-after", b"5"),)))
    throttle.record_response(TOOL, Response(200, ((b"ratelimit", b"r=100;t=0"),)))
    assert throttle.take(TOOL) == 30.0
    clock.now += 30
    assert [throttle.take(TOOL) for _ in range(3)] == [0.0, 0.0, 60.0]
    throttle.record_response(TOOL, Response(503, ((b"retry-after", b"1"),)))
    assert throttle.wait_s(TOOL) == 60.0


@pytest.mark.requirement("XL-067", "XL-062")
def test_call_refused_by_the_tool_limit_is_not_counted_for_the_connection() -> None:
    clock = Clock(NOW)
    whole = ClientRateLimits(tool=None, connection=RateLimit(max=3, window="1m"))
    throttle = Throttle(clock=clock, wall=clock, defaults=whole)
    assert [throttle.take(TOOL) == 0.0 for _ in range(5)] == [True, True, False, False, False]
    other = Tool(name="y")
    assert [throttle.take(other) == 0.0 for _ in range(2)] == [True, False]
    assert (throttle.count_remaining(other), throttle.wait_s(other)) == (0, 60.0)


def test_throttle_without_limits_counts_nothing() -> None:
    throttle = Throttle(clock=Clock(NOW), wall=Clock(NOW), defaults=ClientRateLimits(tool=None, connection=None))
    assert all(throttle.take(Tool(name="y")) == 0.0 for _ in range(1_000))
    assert throttle.count_remaining(Tool(name="y")) is None


@pytest.mark.requirement("XL-063")
def test_rate_limited_problem_details_have_an_exact_form() -> None:
    problem = build_rate_limited(TOOL, 1.2345)
    assert problem.details == {"rate_limited": True, "retry_after_ms": 1_235}
    assert (problem.can_retry, problem.retry_after_ms) == (True, 1_235)


def test_limit_holds_after_the_throttle_forgets_a_tool() -> None:
    clock = Clock(NOW)
    throttle = Throttle(clock=clock, wall=clock, defaults=ClientRateLimits(tool=None, connection=None))
    assert [throttle.take(TOOL), throttle.take(TOOL)] == [0.0, 0.0]
    stored = [Tool(name=f"t{number}") for number in range(10_001)]
    assert all(throttle.take(one) == 0.0 for one in stored)
    assert len(throttle._known) < len(stored)
    assert throttle.take(TOOL) == 60.0


def test_call_runs_after_waiting_out_a_pause_and_pauses_are_bounded() -> None:
    clock = Clock(NOW)
    throttle = Throttle(clock=clock, wall=clock)
    throttle.pause(TOOL, 0.0)
    assert throttle.wait_s(TOOL) == 0.0
    throttle.pause(TOOL, 30.0)
    assert throttle.take(TOOL) == 30.0
    assert throttle.take(TOOL, has_waited=True) == 0.0
    for number in range(10_000):
        throttle.pause(Tool(name=f"t{number}"), 9.0)
    throttle.pause(TOOL, 30.0)
    assert throttle.wait_s(TOOL) == 0.0
    throttle.pause(Tool(name="t7"), 30.0)
    assert throttle.wait_s(Tool(name="t7")) == 30.0


@pytest.mark.requirement("XL-067")
def test_calls_of_many_tools_cannot_exceed_the_connection_limit() -> None:
    clock = Clock(NOW)
    throttle = Throttle(clock=clock, wall=clock)
    assert sum(throttle.take(Tool(name=f"t{number}")) == 0.0 for number in range(11_000)) == 300
