"""The limit of a tool as a check: counted for each caller and tool, and nothing where there is none."""

from __future__ import annotations

from math import inf

import pytest

from toolwire import RateLimit
from toolwire.core.check import ALLOW, Deny
from toolwire.core.model import Call, Context, Kind, Tool
from toolwire.limits import MemoryWindows, build_rate_check


@pytest.mark.requirement("XL-066")
def test_rate_check_counts_limited_tools_for_each_caller() -> None:
    check = build_rate_check(MemoryWindows(lambda: 7.0))
    limited, free = Tool(name="look", rate_limit=RateLimit(max=1, window="1m")), Tool(name="free")

    def called(tool: Tool, principal: str) -> object:
        return check(Call(tool, {}, context=Context(principal=principal)))

    assert [called(free, "ada") for _ in range(3)] == [ALLOW] * 3
    assert [called(limited, "ada"), called(limited, "bob")] == [ALLOW] * 2
    denied = called(limited, "ada")
    assert isinstance(denied, Deny)
    assert (denied.problem.kind, denied.problem.retry_after_ms) == (Kind.RATE_LIMITED, 60_000)
    assert "was not called" not in denied.problem.message  # that is how the sentence of another's limit ends


class Gone:
    """Windows that nobody can count in."""

    def take(self, key: str, limit: RateLimit) -> float:
        return inf


@pytest.mark.requirement("R11")
def test_limited_tool_is_refused_and_unlimited_tool_runs_if_counting_fails() -> None:
    check = build_rate_check(Gone())
    denied = check(Call(Tool(name="look", rate_limit=RateLimit(max=1, window="1m")), {}))
    assert isinstance(denied, Deny)
    assert (denied.problem.kind, denied.problem.can_retry) == (Kind.OVERLOADED, True)
    assert "did not run" in denied.problem.message
    assert denied.problem.details == {"uncounted": True}
    assert check(Call(Tool(name="free"), {})) is ALLOW
