"""What a connection stands for at the moment, and when its server is to be looked at again.

Rules:
- Before a call, where the documents are no longer fresh; after one, where its answer puts them in doubt. [OQ-4]
- Never twice within ten seconds for the same reason, and one look serves all calls that wait for it.
- What a site takes back ends with the look that shows it: grants are void, and nothing withdrawn is called. [XL-048]
"""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import replace
from math import inf
from typing import Any, NamedTuple, Protocol

from toolwire.client.discovery.document_snapshot import DocumentSnapshot
from toolwire.consent.definition_lock import DefinitionLock, Difference
from toolwire.core.codec import Flow
from toolwire.core.http import Response
from toolwire.core.model import Json, Kind, Problem, Result, Tool, Value

from .connection import Connection

MIN_INTERVAL_S = 10.0
_DOUBTFUL = frozenset({404, 405, 410, 415, 422})
_UNKNOWN = frozenset({Kind.UNKNOWN_TOOL})
_UNFIT = frozenset({Kind.UNKNOWN_TOOL, Kind.INVALID_ARGUMENTS})


class FetchPeer(Protocol):
    """Looks at the server of a connection again; ``anew`` asks it whatever was kept."""

    def __call__(self, connection: Connection, *, anew: bool) -> Awaitable[Connection | Problem]:
        """Return the connection as it is now, or why that is not known; NOT_FOUND means that nothing may be called."""
        ...


class SyncFetchPeer(Protocol):
    """What Look is, blocking."""

    def __call__(self, connection: Connection, *, anew: bool) -> Connection | Problem:
        """Return the connection as it is now, or why that is not known; NOT_FOUND means that nothing may be called."""
        ...


class CallOutcome(NamedTuple):
    """How a call ended, and the status of the last answer to it, None where there was none."""

    result: Result
    status: int | None

    def suggests_stale_catalog(self, basis: DocumentSnapshot) -> bool:
        """Return whether the server does not know the tool as it was described. [OQ-4]

        Where there are documents, statuses say so; where there are none, as with MCP, the kind of the problem does.
        """
        if self.status is None or not isinstance(self.result, Problem):
            return False
        unknown = _UNKNOWN if basis.digests else _UNFIT
        return self.status in _DOUBTFUL or self.result.kind in unknown


def record_status(flow: Flow[Result]) -> Flow[CallOutcome]:
    """Return how ``flow`` ended, with the status of its last answer."""
    status: int | None = None
    said: Any = None
    try:
        while True:
            said = yield flow.send(said)
            if isinstance(said, Response):
                status = said.status
    except StopIteration as stop:
        result: Result = stop.value
        return CallOutcome(result, status)
    finally:
        flow.close()


class Freshness:
    """Holds the connection of now. ``gone`` says why nothing is called, where a site took everything back."""

    __slots__ = ("_doubted_at", "_looked_at", "_session", "connection", "withdrawal")

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.withdrawal: Problem | None = None
        self._session = connection.pipeline.session
        source = connection.source
        age_s = 0.0 if source is None else max(0.0, self._session.wall() - source.fetched_at)
        self._looked_at = self._session.clock() - age_s
        self._doubted_at = -inf

    def is_due(self) -> bool:
        """Return whether to look before the next call."""
        if self.withdrawal is None and self._session.wall() < self.connection.snapshot.fresh_until:
            return False
        return self._session.clock() - self._looked_at >= MIN_INTERVAL_S

    def is_doubted(self) -> bool:
        """Return whether to look after a doubtful answer, and count that as done."""
        now = self._session.clock()
        if now - self._doubted_at < MIN_INTERVAL_S:
            return False
        self._doubted_at = now
        return True

    def replace_connection(self, came: Connection | Problem) -> Problem | None:
        """Stand for what a look gave, and return what went wrong; what was before serves where it could not look."""
        self._looked_at = self._session.clock()
        if isinstance(came, Connection):
            self.connection, self.withdrawal = came, None
            return None
        if came.kind is Kind.NOT_FOUND or self._session.wall() >= self.connection.snapshot.serves_until:
            self.withdrawal = came
        return came


def find_differences(before: Connection, after: Connection) -> tuple[Difference, ...]:
    """Return every tool that is not as it was, sorted by id."""
    if before.peer is after.peer:
        return ()
    pinned = DefinitionLock().with_connection("", before.pipeline.definitions())
    return pinned.find_differences("", after.pipeline.definitions())


def explain_change(result: Result, tool: Tool, before: Connection, now: Freshness) -> Result:
    """Return ``result`` with what became of its tool, where the site changed it since ``before``."""
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
            return f"The site offers {other.id} in place of {tool.id} now: look at it before you call it."
        return f"The site does not offer {tool.name} any more."
    parts = ", ".join(change.part for change in difference.changes)
    return f"The site has changed {tool.name} meanwhile ({parts}): look at it again before you call it."


def _with(problem: Problem, sentence: str, facts: dict[str, Json]) -> Problem:
    details = {**problem.details, "changed": facts}
    return replace(problem, message=f"{problem.message} {sentence}", details=details)
