"""What must not grow with the number of tools, sets of scopes or keys."""

from __future__ import annotations

import asyncio
import statistics
import time
from typing import Any

import toolwire
from toolwire.core.codec import Site
from toolwire.core.model import Secret
from toolwire.protocols import BUILTIN
from toolwire.server.keys import ApiKey, Keys
from toolwire.server.table import Table

from .inprocess import once
from .requests import CALLS

TOOLS = 1_000
_SCOPES = 50


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def scoped_toolkit(tools: int) -> toolwire.Toolkit:
    """Return a toolkit of that many tools, each of which needs one of fifty scopes."""
    kit = toolwire.Toolkit("Many")
    for number in range(tools):
        kit.add(add, name=f"add_{number}", approval="auto", scopes=(f"s{number % _SCOPES}",))
    return kit


class Lists:
    """Lists of a thousand tools for callers with ever other scopes."""

    def __init__(self) -> None:
        every = [f"s{number}" for number in range(_SCOPES)]
        self._sets = [frozenset(every) - {one, other} for one in every for other in every if one < other]
        keys = [
            ApiKey(key=Secret(f"key-{number}"), name=f"caller{number}", scopes=scopes)
            for number, scopes in enumerate(self._sets)
        ]
        self._app: Any = toolwire.asgi(scoped_toolkit(TOOLS), api_keys=keys)

    def list_ms(self, sets: int, requests: int = 200) -> float:
        """Return the milliseconds of one list, where ``sets`` sets of scopes take turns."""
        return asyncio.run(self._measure(sets, requests))

    async def _measure(self, sets: int, requests: int) -> float:
        calls = [
            CALLS["list"]._replace(headers=(("authorization", f"Bearer key-{number % sets}"),))
            for number in range(requests)
        ]
        await once(self._app, calls[0])
        figures = []
        for call in calls:
            started = time.process_time()
            status, _ = await once(self._app, call)
            figures.append((time.process_time() - started) * 1e3)
            if status != 200:
                raise RuntimeError(f"/tools answered {status}")
        return statistics.median(figures)


def one_more_tool_ms() -> float:
    """Return the milliseconds of the first list after one tool has come to a thousand."""

    async def measure() -> float:
        kit = scoped_toolkit(TOOLS)
        app: Any = toolwire.asgi(kit)
        await once(app, CALLS["list"])
        kit.add(add, name="one_more", approval="auto")
        started = time.process_time()
        await once(app, CALLS["list"])
        return (time.process_time() - started) * 1e3

    return asyncio.run(measure())


def key_us(keys: int) -> float:
    """Return the microseconds it takes to know a caller by one of that many keys."""
    known = Keys(f"key-{number}" for number in range(keys))
    fields = {b"x-api-key": f"key-{keys // 2}".encode()}
    started = time.process_time()
    for _ in range(20_000):
        known.known(fields)
    return (time.process_time() - started) / 20_000 * 1e6


def define_s(tools: int) -> float:
    """Return the seconds until that many tools are defined and their lists are bytes."""
    started = time.process_time()
    Table(scoped_toolkit(tools).catalog(), BUILTIN, Site(keys=True))
    return time.process_time() - started
