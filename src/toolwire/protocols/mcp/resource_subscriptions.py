"""Keep which single resources one client watches, and find those that have changed.

Rules:
- A client watches only what it may read: other URIs are unknown, and one that it may not read any more is not told of.
- Their number and their length are bounded.
- A resource of which nothing tells when it changes cannot be watched: a function stands behind it, and only a read
  runs it.
"""
# MC-06

from __future__ import annotations

from typing import Final

from toolwire.core.codec import NO_REMOTE_CHANGES, RemoteChanges
from toolwire.core.model import Json, Kind, Problem
from toolwire.core.resource_changes import ResourceChanges
from toolwire.core.server_features import ServerFeatures

SUBSCRIBE: Final = "resources/subscribe"
UNSUBSCRIBE: Final = "resources/unsubscribe"
UPDATED: Final = "notifications/resources/updated"

MAX_SUBSCRIPTIONS: Final = 100
"""How many resources one session, or one stream, watches."""

MAX_URI: Final = 1_000
"""The longest URI that can be watched, in characters."""


class _Watched:
    """One resource: its URI in its own toolkit, whose changes count, and the last one that the client knows."""

    __slots__ = ("changes", "known", "own_uri")

    def __init__(self, own_uri: str, changes: ResourceChanges) -> None:
        self.own_uri = own_uri
        self.changes: ResourceChanges | None = changes
        self.known = changes.last


class ResourceSubscriptions:
    """The resources that one client watches; none at first."""

    def __init__(self) -> None:
        self._watched: dict[str, _Watched] = {}
        self._offered: ServerFeatures | None = None

    def add(self, uri: Json, features: ServerFeatures) -> Problem | None:
        """Watch ``uri`` from now on; return why that cannot be. ``features`` is what the client may see."""
        if not isinstance(uri, str) or len(uri) > MAX_URI:
            text = f'"uri" must be the URI of a resource, as a string of at most {MAX_URI:,} characters.'
            return Problem(kind=Kind.INVALID_ARGUMENTS, message=text)
        found = _find_changes(uri, features)
        if isinstance(found, Problem):
            return found
        if uri in self._watched:
            return None
        if len(self._watched) >= MAX_SUBSCRIPTIONS:
            text = f"At most {MAX_SUBSCRIPTIONS} resources can be watched at a time. Unsubscribe from one first."
            return Problem(kind=Kind.INVALID_ARGUMENTS, message=text)
        self._watched[uri] = _Watched(*found)
        return None

    def remove(self, uri: Json) -> None:
        """Watch ``uri`` no more. One that is not watched is nothing."""
        if isinstance(uri, str):
            self._watched.pop(uri, None)

    def find_changed(self, features: ServerFeatures, remote: RemoteChanges = NO_REMOTE_CHANGES) -> list[str]:
        """Return the URIs that have changed since the last time, here or as ``remote`` by other processes.

        ``features`` is what the client may see now.
        """
        if not self._watched:
            return []
        if features is not self._offered:
            self._offered = features
            self._find_again(features)
        changed: list[str] = []
        for uri, watched in self._watched.items():
            changes = watched.changes
            if changes is None:
                continue
            if changes.find_last(watched.own_uri) > watched.known or remote.has_resource(uri):
                # All that has changed until now: a client that hears of it reads after that.
                watched.known = changes.last
                changed.append(uri)
        return changed

    def _find_again(self, features: ServerFeatures) -> None:
        for uri, watched in self._watched.items():
            found = _find_changes(uri, features)
            if isinstance(found, Problem):
                watched.changes = None
            elif found[1] is not watched.changes:  # another toolkit has it, or a new one after its file has changed
                watched.own_uri, watched.changes = found
                watched.known = -1


def can_subscribe(features: ServerFeatures) -> bool:
    """Return whether anything tells of changes of a resource."""
    return any(one.changes is not None for one in features.resources)


def _find_changes(uri: str, features: ServerFeatures) -> tuple[str, ResourceChanges] | Problem:
    found = features.find_resource(uri)
    if isinstance(found, Problem):
        return found
    resource = found[0]
    if resource.changes is None:
        return Problem(
            kind=Kind.INVALID_ARGUMENTS,
            message=f"The server cannot notify you of changes to {uri[:200]!r}. Read it again instead.",
        )
    return resource.find_own_uri(uri) or uri, resource.changes
