"""Store grants and decisions in memory, as long as the process lives."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from math import inf

from toolwire.consent.decision_record import FIRST_DIGEST, ChainedDecision, Decision, compute_chain_digest
from toolwire.consent.grant import (
    GRANT_LIFETIME_S,
    MAX_CLOCK_STEP_BACK_S,
    Grant,
    GrantKey,
    add_amount,
    covers_call,
    describe_step_back,
    find_end,
    find_group,
    is_set_back,
    list_grant_rows,
)
from toolwire.core.grant_bounds import GrantBounds
from toolwire.core.model import Json
from toolwire.stores.clock import ConfirmedTime

_log = logging.getLogger("toolwire.client")


class MemoryGrants:
    """The tools that the user allowed "always". At 10,000 grants no more are stored."""

    _MAX_GRANTS = 10_000

    def __init__(
        self,
        *,
        clock: Callable[[], float] = time.time,
        valid_s: float = GRANT_LIFETIME_S,
        elapsed: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._valid_s = valid_s
        self._grants: dict[GrantKey, Grant] = {}
        # GR-04: the keys of a tool, so that its outdated grants are found without a look at all others.
        self._keys: dict[tuple[str, ...], set[GrantKey]] = {}
        self._bounded: dict[str, Grant] = {}
        self._lock = threading.Lock()
        self._pins: dict[tuple[str, ...], Mapping[str, Json]] = {}
        self._count = 0
        self._latest = -inf
        self._held: dict[str, float] = {}
        self._warned_of = inf
        self._passed = ConfirmedTime(elapsed)

    def _now(self) -> float | None:
        """Return the time, or None if the clock was set back, so that it is unknown which grants are over."""
        now = self._clock()
        # RE-01: with such a clock a grant would be valid for longer than the user agreed to. None is deleted for it.
        if is_set_back(now, self._latest):
            if self._warned_of != self._latest:
                self._warned_of = self._latest
                _log.error(
                    "Permissions cannot be read, so the user is asked: %s.", describe_step_back(now, self._latest)
                )
            return None
        self._passed.find(now)
        if not self._passed.is_leap(now):  # all grants would wait until the clock is there again
            self._latest = max(self._latest, now)
        return max(now, self._latest)  # what has ended does not begin again

    def _is_usable(self, grant: Grant, now: float) -> bool:
        # Neither over, nor given by a clock that was ahead.
        if not now < grant.expires_at <= now + self._valid_s + MAX_CLOCK_STEP_BACK_S:
            return False
        return self._held.get(grant.id, -inf) <= now + MAX_CLOCK_STEP_BACK_S

    def has_grant(self, key: GrantKey) -> bool:
        """Return whether there is a grant without bounds for ``key`` that is neither revoked nor expired."""
        now = self._now()
        grant = self._grants.get(key)
        return grant is not None and now is not None and self._is_usable(grant, now)

    def has_bounded_grant(self, key: GrantKey) -> bool:
        """Return whether there is a grant with bounds for ``key``, whatever calls it covers."""
        return bool(self._bounded) and bool(self._find_bounded(key))

    def count_use(self, key: GrantKey) -> None:
        """Count a call that the grant without bounds for ``key`` covers."""
        with self._lock:
            if (grant := self._grants.get(key)) is not None:
                self._grants[key] = replace(grant, covered=grant.covered + 1, last_used_at=self._clock())

    def spend(self, key: GrantKey, arguments: Mapping[str, Json]) -> str:
        """Take one use of a grant that covers the call. A grant that does not count its uses is taken first.

        Return its id, or an empty text if there is none.
        """
        with self._lock:  # threads share it, and two must not take the last use
            for grant in self._find_bounded(key) if self._bounded else ():
                total = add_amount(grant.total, grant.conditions, arguments)
                if total is not None and covers_call(grant.conditions, arguments):
                    self._bounded[grant.id] = replace(grant, covered=grant.covered + 1, last_used_at=self._clock())
                    left = None if grant.uses_left is None else grant.uses_left - 1
                    self._change_group(grant, left, total)
                    return grant.id
        return ""

    def _change_group(self, grant: Grant, left: int | None, total: Decimal) -> None:
        """Set what is left of the uses of ``grant`` and of those that share its bounds, and their sum."""
        group = find_group(grant.id)
        ids = [id_ for id_ in self._bounded if group and find_group(id_) == group] or [grant.id]
        for id_ in ids:
            if left == 0:
                del self._bounded[id_]
            else:
                self._bounded[id_] = replace(self._bounded[id_], uses_left=left, total=total)

    def _find_bounded(self, key: GrantKey) -> list[Grant]:
        now = self._now()
        if now is None:
            return []
        found = [grant for grant in self._bounded.values() if grant.key == key and self._is_usable(grant, now)]
        return sorted(found, key=lambda grant: (grant.uses_left is not None, grant.expires_at))

    def add(
        self,
        key: GrantKey,
        bounds: GrantBounds | None = None,
        seen: Iterable[str] | None = None,
        others: Sequence[tuple[GrantKey, Iterable[str]]] = (),
    ) -> None:
        """Store a grant, with ``bounds`` or without."""
        now = self._now()
        if now is None:
            # The user decides now, so this is the time from here on. What was given before waits until the clock is
            # where it was.
            given = [*(grant.id for grant in self._grants.values()), *self._bounded]
            self._held = dict.fromkeys(given, self._latest) | self._held
            now = self._latest = self._clock()
        # Without the grant the user is asked again, which is safe.
        if len(self._grants) + len(self._bounded) + len(others) >= self._MAX_GRANTS:
            return
        self._count += 1
        grant = Grant(id=str(self._count), key=key, given_at=now, expires_at=now + self._valid_s)
        if bounds is None:
            self._grants[key] = grant
            self._keys.setdefault(key[:4], set()).add(key)
        elif (until := find_end(now, self._valid_s, bounds)) > now:
            bounded = replace(grant, expires_at=until, uses_left=bounds.uses, is_bounded=True)
            for id_, each, conditions in list_grant_rows(grant.id, key, bounds, seen, others):
                self._bounded[id_] = replace(bounded, id=id_, key=each, conditions=conditions)

    def revoke(self, id_: str) -> bool:
        """Delete the grant. The next call asks again."""
        if self._bounded.pop(id_, None) is not None:
            return True
        found = next((key for key, grant in self._grants.items() if grant.id == id_), None)
        return found is not None and self._remove(found)

    def _remove(self, key: GrantKey) -> bool:
        keys = self._keys.get(key[:4], set())
        keys.discard(key)
        if not keys:
            self._keys.pop(key[:4], None)
        return self._grants.pop(key, None) is not None

    def list_grants(self) -> Sequence[Grant]:
        """Return the valid grants, oldest first."""
        # Also those that are not used now because the clock was set back, so that they can be revoked.
        now = max(self._clock(), self._latest)
        found = [grant for grant in (*self._grants.values(), *self._bounded.values()) if now < grant.expires_at]
        return sorted(found, key=lambda grant: grant.given_at)

    def revoke_outdated(self, key: GrantKey) -> None:
        """Delete the grants of the same tool and connection for any other definition."""
        # The first four parts name the tool; the fifth is the digest of its definition.
        for other in self._keys.get(key[:4], set()) - {key}:
            self._remove(other)
        for id_ in [id_ for id_, one in self._bounded.items() if one.key[:4] == key[:4] and one.key != key]:
            del self._bounded[id_]

    def pin_definition(self, key: GrantKey, approved: Mapping[str, Json]) -> None:
        """Store the definition that was approved."""
        if key[:4] in self._pins or len(self._pins) < self._MAX_GRANTS:
            self._pins[key[:4]] = approved

    def find_pinned(self, key: GrantKey) -> Mapping[str, Json] | None:
        """Return the definition of this tool that was approved last."""
        return self._pins.get(key[:4])


class MemoryAudit:
    """The newest 100,000 decisions of this process, chained.

    The log says once that older ones are dropped. ``open_stored_session`` keeps all, in files.
    """

    # XL-055

    def __init__(self, most: int = 100_000) -> None:
        self._entries: deque[ChainedDecision] = deque(maxlen=most)
        self._has_dropped = False

    def append(self, record: Decision) -> None:
        """Add ``record`` at the end."""
        last = self._entries[-1] if self._entries else None
        number, before = (1, FIRST_DIGEST) if last is None else (last.number + 1, last.digest)
        if len(self._entries) == self._entries.maxlen and not self._has_dropped:
            self._has_dropped = True
            _log.warning(
                "The decision log in memory is full. Each new record now replaces the oldest one. A "
                "session from open_stored_session() keeps all records."
            )
        self._entries.append(ChainedDecision(number, record, compute_chain_digest(before, number, record)))

    def entries(self) -> Sequence[ChainedDecision]:
        """Return the records in order."""
        return tuple(self._entries)
