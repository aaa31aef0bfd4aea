"""Wait for what another thread or process does, within a limit: a hang becomes a red test that names its condition."""
# TE-01

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")

PATIENCE_S = 60.0
"""How long a condition may take on a loaded machine."""
_PAUSE_S = 0.005


def wait_until(condition: Callable[[], T], *, within: float = PATIENCE_S) -> T:
    """Return the first result of ``condition`` that is true.

    Raises:
        TimeoutError: there was none ``within`` so many seconds.
    """
    end = time.monotonic() + within
    while True:
        result = condition()
        if result:
            return result
        if time.monotonic() > end:
            raise TimeoutError(_describe(condition, within))
        time.sleep(_PAUSE_S)


async def wait_until_async(condition: Callable[[], T | Awaitable[T]], *, within: float = PATIENCE_S) -> T:
    """Return the first result of ``condition``, awaited where it can be, that is true; other tasks run meanwhile.

    Raises:
        TimeoutError: there was none ``within`` so many seconds.
    """
    end = time.monotonic() + within
    while True:
        result = condition()
        value: T = await result if inspect.isawaitable(result) else result  # type: ignore[assignment]  # T is no Awaitable here
        if value:
            return value
        if time.monotonic() > end:
            raise TimeoutError(_describe(condition, within))
        await asyncio.sleep(_PAUSE_S)


def _describe(condition: Callable[[], object], within: float) -> str:
    code = getattr(condition, "__code__", None)
    where = "" if code is None else f" at {code.co_filename}:{code.co_firstlineno}"
    return f"the condition{where} was not met within {within:g} seconds"
