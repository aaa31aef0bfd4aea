"""Remember which page sessions their users ended, so that a copied cookie is useless after a sign-out.

Rules:
- With a place, an ended session is over in all processes that share the place. Without one, only in this process.
- The place is queried in a thread, and only if the cookie is otherwise valid.
- A session is not trusted while it is unknown whether it has ended.
"""
# LC-05, D-39

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from toolwire.core.errors import DefinitionError
from toolwire.core.model import Kind, Problem
from toolwire.stores.consent.open import open_ended_sessions
from toolwire.stores.outage_log import OutageLog, list_store_errors

from .browser_session import BrowserSession

if TYPE_CHECKING:  # loads sqlite3
    from toolwire.stores.consent.ended_sessions import ConsoleSession, EndedSessions

MAX_HERE: Final = 10_000
T = TypeVar("T")

_UNKNOWN: Final = Problem(
    kind=Kind.OVERLOADED,
    message="Cannot read or end this server's sessions now. Try again.",
    can_retry=True,
    retry_after_ms=5_000,
)
_log = logging.getLogger("toolwire")


class SessionEnds:
    """The ended sessions, stored in ``place`` (a folder or the URL of a PostgreSQL database) or else in this process.

    A process remembers 10,000. If another session ends then, all sessions that began earlier are over.
    """

    def __init__(self, place: Path | str = "") -> None:
        self._place = place
        self._store: EndedSessions | None = None
        self._here: dict[bytes, float] = {}  # by a digest of the cookie, when the session began
        self._all_until = 0.0  # sessions that began earlier are over
        self._outages = OutageLog(_log, "Page sessions can be read again.")

    async def end(self, session: BrowserSession) -> Problem | None:
        """End ``session``. Return a Problem if that cannot be stored."""
        if self._place:
            return await self._ask(lambda store: store.end(_build_stored(session)), "ended")
        self._here[_digest(session)] = session.began_at
        if len(self._here) > MAX_HERE:
            self._all_until = max(self._here.values()) + 1.0
            self._here.clear()
        return None

    async def begin(self, session: BrowserSession) -> Problem | None:
        """Remember that ``session`` began here, because others can read the secret that signs its cookie."""
        # AT-42
        return await self._ask(lambda store: store.begin(_build_stored(session)), "begun") if self._place else None

    async def has_ended(self, session: BrowserSession, *, is_kept: bool = False) -> bool | Problem:
        """Return whether ``session`` was ended or, with ``is_kept``, did not begin here. A Problem if unknown."""
        stored_session = _build_stored(session)

        def has_ended(store: EndedSessions) -> bool:
            return store.has_ended(stored_session) or (is_kept and not store.has_session(stored_session))

        if self._place:
            return await self._ask(has_ended, "read")
        return session.began_at < self._all_until or _digest(session) in self._here

    async def _ask(self, ask: Callable[[EndedSessions], T], done: str) -> T | Problem:
        """Return the result of ``ask``, or a Problem that says what cannot be ``done`` because the store failed."""

        def ask_store() -> T | Problem:
            try:
                if self._store is None:
                    self._store = open_ended_sessions(self._place)
                found = ask(self._store)
            except list_store_errors(DefinitionError) as error:
                self._outages.record_failure("the sessions of pages cannot be %s: %s.", done, error)
                return _UNKNOWN
            self._outages.record_success()
            return found

        return await asyncio.to_thread(ask_store)


def _build_stored(session: BrowserSession) -> ConsoleSession:
    # A caller is nobody of a console that shares the place.
    return session.build_record(f"calls of {session.name}")


def _digest(session: BrowserSession) -> bytes:
    return sha256(session.cookie.encode("latin-1", "replace")).digest()
