"""Decide when the documents of a connection must be fetched again.

Rules:
- Before a call, if the documents are no longer fresh. After a call, if its response contradicts them.
- Before a call that needs no question, as soon as the documents are stale: its server may have tightened the tool.
- Before a call that a grant would let run without a question, if the documents are ten seconds old.
- Else at most once in ten seconds for the same reason, as after a fetch that failed. Concurrent calls wait for the same
  fetch.
- In a gateway, also without a call, as soon as the documents are stale, but at most once in a minute.
- If a fetch shows that the site withdrew a tool, its grants are void and it is not called any more.
"""

# OQ-4: documents are fetched again when HTTP or a response says so. XL-048: what was withdrawn must not run.

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from math import inf
from typing import NamedTuple, Protocol

from toolwire.client.discovery.document_snapshot import DocumentSnapshot
from toolwire.consent.definition_lock import DefinitionLock, Difference
from toolwire.core.model import Json, Kind, Problem, Result, Tool, Value

from .connection import Connection

MIN_INTERVAL_S = 10.0
POLL_S = 60.0
_DOUBTFUL = frozenset({404, 405, 410, 415, 422})
_UNKNOWN = frozenset({Kind.UNKNOWN_TOOL})
_UNFIT = frozenset({Kind.UNKNOWN_TOOL, Kind.INVALID_ARGUMENTS})


class FetchPeer(Protocol):
    """Fetches the documents of a connection again; with ``anew`` from the server, however fresh the cached ones are."""

    def __call__(self, connection: Connection, *, anew: bool) -> Awaitable[Connection | Problem]:
        """Return the present connection, or why it is unknown; NOT_FOUND means that nothing may be called."""
        ...


class DueFetch(NamedTuple):
    """A fetch that is due while ``is_due`` returns True; with ``anew``, cached documents do not count."""

    is_due: Callable[[], bool]
    anew: bool


class Freshness:
    """Holds the present connection. If the site withdrew everything, ``withdrawal`` says why nothing is called."""

    __slots__ = (
        "_begun_at",
        "_doubted_at",
        "_fetched_at",
        "_fetches",
        "_has_failed",
        "_session",
        "connection",
        "withdrawal",
    )

    def __init__(self, connection: Connection) -> None:
        self.connection: Connection = connection
        self.withdrawal: Problem | None = None
        self._session = connection.pipeline.session
        source = connection.source
        # A cached document may be old already when the connection is made.
        age_s = 0.0 if source is None else max(0.0, self._session.wall() - source.fetched_at)
        self._fetched_at = self._session.clock() - age_s
        self._doubted_at = -inf
        self._fetches = 0
        self._begun_at = -inf
        self._has_failed = False

    def find_due(self, reference: str) -> DueFetch | None:
        """Return which fetch is due before a call of ``reference``, or None."""
        if self._session.clock() - self._fetched_at < MIN_INTERVAL_S:
            # FU-61: a site that says "no-store" or "max-age=1" is asked that often, where no user would be.
            is_stale = self._session.wall() >= self.connection.snapshot.fresh_until
            return self._build_check() if is_stale and self._may_be_tightened(reference) else None
        if self.is_due():
            return DueFetch(self.is_due, anew=False)
        is_grant_due = partial(self.is_grant_due, reference)
        return DueFetch(is_grant_due, anew=True) if is_grant_due() else None

    def _build_check(self) -> DueFetch:
        """Return a fetch that is due until one has begun from now on."""
        seen = self._fetches

        def is_due() -> bool:
            return self._fetches == seen and not self._has_failed

        return DueFetch(is_due, anew=False)

    def _may_be_tightened(self, reference: str) -> bool:
        """Return whether a call of ``reference`` would need no question, by a document that a server can change."""
        connection = self.connection
        if self._has_failed or any(request.url.startswith("file:") for request in connection.snapshot.digests):
            return False
        tool = connection.peer.find(reference)
        if not isinstance(tool, Tool):
            return False
        return connection.pipeline.may_run_unasked(tool)

    def begin_fetch(self) -> None:
        """Note that the documents are fetched from now on."""
        self._fetches += 1
        self._begun_at = self._session.wall()

    def is_due(self) -> bool:
        """Return whether the documents must be fetched again before the next call."""
        if self.withdrawal is None and self._session.wall() < self.connection.snapshot.fresh_until:
            return False
        return self._session.clock() - self._fetched_at >= MIN_INTERVAL_S

    def is_grant_due(self, reference: str) -> bool:
        """Return whether the tool would run on a grant, and its documents were fetched ten seconds ago or earlier."""
        # XL-048: freshness is the site's word for reading. A permission that it takes back must not last as long.
        if self._session.clock() - self._fetched_at < MIN_INTERVAL_S or not self.connection.snapshot.digests:
            return False
        tool = self.connection.peer.find(reference)
        return isinstance(tool, Tool) and self.connection.pipeline.has_grant(tool)

    def is_doubted(self) -> bool:
        """Return whether to fetch the documents after a doubtful response. A True counts as done."""
        now = self._session.clock()
        if now - self._doubted_at < MIN_INTERVAL_S:
            return False
        self._doubted_at = now
        return True

    def find_pause_s(self) -> float:
        """Return the seconds until the documents may be fetched for a doubt again."""
        return max(0.0, self._doubted_at + MIN_INTERVAL_S - self._session.clock())

    def find_poll_s(self) -> float:
        """Return the seconds until the documents are to be fetched again without a call, at least a minute."""
        return max(POLL_S, self.connection.snapshot.fresh_until - self._session.wall())

    def replace_connection(self, fetched: Connection | Problem) -> Problem | None:
        """Take the outcome of a fetch, and return its Problem. If the fetch failed, the old connection still serves."""
        self._fetched_at = self._session.clock()
        # A cached document that serves in place of one that could not be fetched was fresh before only.
        self._has_failed = not isinstance(fetched, Connection) or fetched.snapshot.fresh_until < self._begun_at
        if isinstance(fetched, Connection):
            self.connection = fetched
            self.withdrawal = None
            return None
        # A server that fails keeps its tools for as long as HTTP lets the old document serve.
        if fetched.kind is Kind.NOT_FOUND or self._session.wall() >= self.connection.snapshot.serves_until:
            self.withdrawal = fetched
        return fetched


def suggests_stale_catalog(problem: Problem, status: int | None, snapshot: DocumentSnapshot) -> bool:
    """Return whether the end of a call contradicts the catalog, so that it should be fetched again.

    ``status`` is that of the last response, or None if no response arrived.
    """
    if status is None:
        return False
    # OQ-4: a server with documents says so by the status. MCP has no documents: there the kind of problem decides.
    unknown = _UNKNOWN if snapshot.digests else _UNFIT
    return status in _DOUBTFUL or problem.kind in unknown


def find_differences(before: Connection, after: Connection) -> tuple[Difference, ...]:
    """Return each tool whose definition changed, sorted by id."""
    if before.peer is after.peer:
        return ()
    pinned = DefinitionLock().with_connection("", before.pipeline.definitions())
    return pinned.find_differences("", after.pipeline.definitions())


def explain_change(result: Result, tool: Tool, before: Connection, now: Freshness) -> Result:
    """Return ``result`` with what changed in its tool since ``before``, if anything did."""
    if isinstance(result, Value):
        return result
    if now.withdrawal is not None:
        return _with(result, now.withdrawal.message, {"what": "removed", "direction": "narrower", "changes": []})
    found = [one for one in find_differences(before, now.connection) if one.tool == tool.id]
    if not found:
        return result
    facts: dict[str, Json] = {
        "what": found[0].what,
        "direction": found[0].direction,
        "changes": [change.sentence for change in found[0].changes],
    }
    return _with(result, _describe_difference(tool, found[0], now.connection), facts)


def _describe_difference(tool: Tool, difference: Difference, now: Connection) -> str:
    if difference.what == "removed":
        other = now.peer.catalog.find(f"{tool.toolkit}.{tool.name}")
        if isinstance(other, Tool):
            return f"The server now offers {other.id} instead of {tool.id}. Check it before you call it."
        return f"The server no longer offers {tool.name}."
    parts = ", ".join(change.part for change in difference.changes)
    return f"The server has changed {tool.name} ({parts}). Check it before you call it."


def _with(problem: Problem, sentence: str, facts: dict[str, Json]) -> Problem:
    details = {**problem.details, "changed": facts}
    return replace(problem, message=f"{problem.message} {sentence}", details=details)
