"""Count calls in this process alone while the store that several processes share cannot be reached."""
# R11: a lost store stops no call, and lets no caller call without end.

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import inf
from typing import Final, Literal, TypeAlias, get_args

from toolwire.core.errors import DefinitionError
from toolwire.core.model import RateLimit, Tool

from .window import MemoryWindows

RatesFail: TypeAlias = Literal["open", "closed-for-destructive", "closed"]
"""What a tool with a rate limit does while its calls cannot be counted in the store.

``open`` counts in each process alone, ``closed`` refuses the call with 503, ``closed-for-destructive`` refuses only
calls of destructive tools.
"""
CONSEQUENCES: Final = {
    "open": "each process counts alone until then",
    "closed-for-destructive": "until then each process counts alone, and destructive tools with a limit do not run",
    "closed": "tools with a limit do not run until then",
}


class LocalRates:
    """The limits of one of ``replicas`` processes, which together allow no more than each limit says.

    A process allows at least one call in a window, so many processes may allow more than a small limit.
    """

    def __init__(self, fail: RatesFail, replicas: int, clock: Callable[[], float]) -> None:
        """Count by ``clock``, which gives seconds and never goes back.

        Raises:
            DefinitionError: ``fail`` is no word of ``RatesFail``, or there are no ``replicas``.
        """
        if fail not in get_args(RatesFail):
            raise DefinitionError(f"rates_fail is {fail!r}, but must be one of {', '.join(get_args(RatesFail))}.")
        if replicas < 1:
            raise DefinitionError(f"rates_replicas is {replicas}, but there is at least one process.")
        self._fail = fail
        self._replicas = replicas
        self._windows = MemoryWindows(clock)

    def take(self, key: str, limit: RateLimit, tool: Tool) -> float:
        """Count a call of ``tool`` and return 0.0, or the seconds that must pass first; infinite if it may not run."""
        if self._fail == "closed" or (self._fail != "open" and tool.destructive):
            return inf
        return self._windows.take(key, replace(limit, max=max(1, limit.max // self._replicas)))
