"""Count calls for rate limits in Redis, or in any other storage of the ``limits`` library. Needs the extra "limits"."""

from __future__ import annotations

import time
from collections.abc import Callable
from math import ceil, inf

from toolwire.core.errors import DefinitionError
from toolwire.core.model import RateLimit
from toolwire.limits import RatesFail

from .outage import StoreOutage

try:
    from limits import RateLimitItemPerSecond
    from limits.errors import ConfigurationError, StorageError
    from limits.storage import MemoryStorage, MovingWindowSupport, Storage, storage_from_string
    from limits.strategies import MovingWindowRateLimiter
except ModuleNotFoundError as _error:
    raise DefinitionError("Rate limits by URL need the limits library: pip install 'toolwire[limits]'.") from _error

_MAX_CLOCK_STEP_BACK_S = 1.0
# R11: a Redis that hangs delays a call by no more than this (docs/decisions/0047).
_TIMEOUT_S = 2.0
_PAUSE_S = 0.5


class LibraryWindows:
    """Moving windows behind a URL such as ``redis://host:6379/0`` or ``memory://``, shared by all of one ``owner``.

    The library counts by the wall clock. If that goes back, a storage in memory is emptied: otherwise callers would
    wait until the clock has caught up. A window below a second is counted as one second.

    While the storage cannot be reached, no call is counted. One call tries it again every half second.
    """

    # XL-066, R11

    def __init__(
        self,
        url: str,
        *,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
        fail: RatesFail = "closed",
        owner: str = "",
    ) -> None:
        """Connect to what ``url`` names. ``monotonic`` gives seconds and never goes back.

        Raises:
            DefinitionError: there is no such storage, or it cannot count in moving windows.
        """
        try:
            storage = storage_from_string(url, wrap_exceptions=True, **_connect_options(url))
        except (ConfigurationError, ValueError) as error:  # ValueError: no URL at all, such as ``redis://[a``
            raise DefinitionError(f"Cannot store rate limits at this URL: {error}.") from error
        if not isinstance(storage, Storage) or not isinstance(storage, MovingWindowSupport):
            raise DefinitionError("Cannot store rate limits at this URL: it does not support moving windows.")
        self._storage = storage
        self._limiter = MovingWindowRateLimiter(storage)
        self._namespace = f"toolwire-moving{owner and f':{owner}'}"
        self._clock = clock
        self._latest = clock()
        self._outage = StoreOutage(fail, pause_s=_PAUSE_S, clock=monotonic)

    def take(self, key: str, limit: RateLimit) -> float:
        """Count a call and return 0.0, or return how many seconds must pass first and count nothing.

        Infinite if the storage cannot be reached.
        """
        if not self._outage.may_ask():
            return inf
        now = self._clock()
        if now < self._latest - _MAX_CLOCK_STEP_BACK_S and isinstance(self._storage, MemoryStorage):
            self._storage.reset()  # a shared storage is left alone: the clocks of others may be right
        self._latest = now
        item = RateLimitItemPerSecond(limit.max, max(1, ceil(limit.window_s)), namespace=self._namespace)
        try:
            wait = self._hit(item, key, now)
        except StorageError as error:
            self._outage.record_failure(type(error.storage_error).__name__)
            return inf
        self._outage.record_success()
        return wait

    def _hit(self, item: RateLimitItemPerSecond, key: str, now: float) -> float:
        if self._limiter.hit(item, key):
            return 0.0
        # Never 0.0, which would mean that the call was counted.
        return max(self._limiter.get_window_stats(item, key).reset_time - now, 1e-3)


def _connect_options(url: str) -> dict[str, float]:
    """Return the timeouts of a server on the network."""
    if not url.startswith(("redis", "valkey")):
        return {}
    return {"socket_connect_timeout": _TIMEOUT_S, "socket_timeout": _TIMEOUT_S}
