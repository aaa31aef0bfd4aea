"""How often a user is asked, and which limits a site can declare, as a user of a connection meets them."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.clock import Clock
from toolwire import Answer, Kind, Problem, Question, Result, Session, Toolkit, asgi, connect, connect_sync
from toolwire.testing.loopback import background

WINDOWS: dict[str, bool] = {
    **dict.fromkeys(("100ms", "999999ms", "1s", "59s", "1m", "60m", "1h", "24h", "1d", "30d"), True),
    **dict.fromkeys(("", "0s", "99ms", "31d", "1w", "1 m", "-1m", "1.5m", "01m", "1000000s", "1M", "m"), False),
}
COUNTS: dict[Any, bool] = {1: True, 1_000_000: True, 0: False, -1: False, 1_000_001: False, 1.5: False, "30": False}


@pytest.mark.requirement("XL-054", "D-19")
def test_of_twenty_concurrent_calls_ten_cause_questions_and_the_rest_a_retry_time() -> None:
    kit, ran, asked, clock = Toolkit("Kit"), list[int](), list[Question](), Clock(100.0)
    for number in range(20):
        kit.add(lambda number=number: ran.append(number), name=f"act{number}", description="Act.", approval="per-call")

    def approve(question: Question) -> Answer:
        asked.append(question)
        clock.now += 1  # a person reads it
        return Answer(allowed=True)

    async def call_all(url: str) -> list[Result]:
        async with connect(url, approve=approve, session=Session(clock=clock)) as remote:
            return list(await asyncio.gather(*(remote.call(f"act{number}") for number in range(20))))

    with background(asgi(kit)) as url:
        results = asyncio.run(call_all(url))
    throttled = [result for result in results if isinstance(result, Problem)]
    assert (len(asked), len(ran), len(throttled)) == (10, 10, 10)
    assert {problem.kind for problem in throttled} == {Kind.RATE_LIMITED}
    assert all((problem.retry_after_ms or 0) > 0 for problem in throttled)


@pytest.mark.requirement("XL-054", "XL-052")
def test_after_three_denials_of_a_tool_the_user_is_not_asked_again() -> None:
    kit, asked = Toolkit("Kit"), list[str]()

    for name in ("act", "other"):
        kit.add(lambda n=0: n, name=name, description="Act.", approval="per-call")

    def deny(question: Question) -> Answer:
        asked.append(question.call.tool.name)
        return Answer(allowed=False)

    with background(asgi(kit)) as url, connect_sync(url, approve=deny) as remote:
        results = [remote.call("act", {"n": number}) for number in range(5)]
        remote.call("other")
    assert asked == ["act", "act", "act", "other"]
    details = [dict(result.details) for result in results if isinstance(result, Problem)]
    assert details[:3] == [{"denied": True}] * 3
    assert details[3:] == [{"denied": True, "reason": "blocked for this session"}] * 2


@pytest.mark.requirement("XL-060")
def test_only_a_valid_declared_limit_is_used(tmp_path: Path) -> None:
    limits = {
        **{
            f"w{number}": ({"max": 30, "window": window}, good) for number, (window, good) in enumerate(WINDOWS.items())
        },
        **{f"c{number}": ({"max": count, "window": "1m"}, good) for number, (count, good) in enumerate(COUNTS.items())},
    }
    paths = {
        f"/{name}": {"get": {"operationId": name, "x-llm": {"rateLimit": limit}, "responses": {}}}
        for name, (limit, _) in limits.items()
    }
    info = {"title": "Shop", "version": "1"}
    document = {
        "openapi": "3.1.0",
        "info": info,
        "x-llm": {},
        "paths": paths,
        "servers": [{"url": "http://127.0.0.1:9"}],
    }
    file = tmp_path / "shop.json"
    file.write_text(json.dumps(document))
    with connect_sync(file) as remote:
        found = {tool.name: tool.rate_limit for tool in remote.tools}
    for name, (limit, good) in limits.items():
        taken = found[name]
        assert taken is not None
        # XL-035: what is no limit counts as the default of clients, not as none.
        assert {"max": taken.max, "window": taken.window} == (limit if good else {"max": 60, "window": "1m"})
    assert len(WINDOWS) >= 20
