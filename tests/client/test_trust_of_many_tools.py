"""Trusting many tools: the work grows with their number, and does not run on the event loop."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
from collections.abc import Iterable
from types import FrameType
from typing import Any

import pytest

from toolwire import Session, Toolkit, asgi, connect, connect_sync
from toolwire.consent.grant import GrantKey
from toolwire.core.grant_bounds import GrantBounds
from toolwire.stores.consent.memory import MemoryGrants
from toolwire.testing import background


def build_kit(count: int) -> Toolkit:
    kit = Toolkit("Many")

    def tool(text: str) -> str:
        """Return the text."""
        return text

    for number in range(count):
        tool.__name__ = f"tool_{number}"
        kit.tool(approval="auto", safe=True)(tool)
    return kit


def count_lines(count: int) -> int:
    """Return how many lines of Python run from the user's yes to ``count`` tools until the connection is there."""
    lines = 0

    def trace(_frame: FrameType, event: str, _argument: Any) -> Any:
        nonlocal lines
        lines += event == "line"
        return trace

    def agree(_tools: Any) -> bool:
        sys.settrace(trace)
        return True

    before = sys.gettrace()
    with background(asgi(build_kit(count))) as url:
        try:
            with connect_sync(url, protocol="otc", agree=agree) as remote:
                sys.settrace(before)
                assert all(tool.safe for tool in remote.tools)
        finally:
            sys.settrace(before)
    return lines


@pytest.mark.requirement("GR-04")
def test_work_for_trust_grows_with_the_number_of_tools_and_not_with_its_square() -> None:
    few, many = count_lines(40), count_lines(320)
    assert many < 9 * few


class WatchedGrants(MemoryGrants):
    """Grants that note the threads in which they are read and written, and whether the collector may run then."""

    def __init__(self) -> None:
        super().__init__()
        self.threads: set[int] = set()
        self.collects: set[bool] = set()

    def has_grant(self, key: GrantKey) -> bool:
        self.threads.add(threading.get_ident())
        return super().has_grant(key)

    def add(self, key: GrantKey, bounds: GrantBounds | None = None, seen: Iterable[str] | None = None) -> None:
        self.threads.add(threading.get_ident())
        self.collects.add(gc.isenabled())
        super().add(key, bounds, seen)


@pytest.mark.requirement("GR-04")
def test_definitions_and_permissions_are_not_handled_on_the_event_loop() -> None:
    grants, asked = WatchedGrants(), list[int]()

    def agree(_tools: Any) -> bool:
        asked.append(threading.get_ident())
        return True

    async def open_it(url: str) -> None:
        async with connect(url, protocol="otc", session=Session(grants=grants), agree=agree) as remote:
            assert remote.tools[0].safe

    with background(asgi(build_kit(3))) as url:
        asyncio.run(open_it(url))
    assert asked == [threading.get_ident()]
    assert threading.get_ident() not in grants.threads
    assert grants.collects == {False}, "a collection stops the event loop, too"
    assert gc.isenabled()


@pytest.mark.requirement("GR-04")
def test_a_connection_whose_question_fails_leaves_its_name_free() -> None:
    def agree(_tools: Any) -> bool:
        raise RuntimeError("no answer")

    session = Session()
    with background(asgi(build_kit(1))) as url:
        with pytest.raises(RuntimeError, match="no answer"):
            connect_sync(url, protocol="otc", session=session, name="many", agree=agree).__enter__()
        with connect_sync(url, protocol="otc", session=session, name="many") as remote:
            assert remote.name == "many"


@pytest.mark.requirement("GR-04")
def test_grants_of_another_definition_are_found_by_their_tool() -> None:
    grants = MemoryGrants()
    keys = [GrantKey("me", "c", "o", f"tool{tool}", definition) for tool in range(3) for definition in "ab"]
    for key in keys:
        grants.add(key)
    grants.revoke_outdated(keys[1])
    assert [grants.has_grant(key) for key in keys] == [False, True, True, True, True, True]
    assert grants.revoke(grants.list_grants()[0].id)
    grants.revoke_outdated(keys[0])
    grants.add(keys[0])
    assert grants.has_grant(keys[0])
