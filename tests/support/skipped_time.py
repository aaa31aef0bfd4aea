"""Run a coroutine on an event loop whose time passes only where it would wait, and then at once."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class Selector(selectors.DefaultSelector):  # type: ignore[misc,valid-type]  # the class depends on the platform
    """A selector on which time passes only where a loop would wait for it, and then at once."""

    passed_s = 0.0

    def select(self, timeout: float | None = None) -> Any:
        ready = super().select(None if timeout is None else 0)
        if timeout and not ready:
            self.passed_s += timeout
        return ready


def run_skipping_time(build: Callable[[Callable[[], float]], Coroutine[Any, Any, T]]) -> T:
    """Run what ``build`` returns. It gets a function that returns how many seconds have passed."""
    selector = Selector()
    loop = asyncio.SelectorEventLoop(selector)
    loop.time = lambda: selector.passed_s  # type: ignore[method-assign]  # the clock of the loop is that of its selector
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        return runner.run(build(lambda: selector.passed_s))
