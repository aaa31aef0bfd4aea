"""``toolwire.lock``: the definitions of every connection as somebody approved them, and what is no longer so."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from toolwire.core.errors import DefinitionError
from toolwire.core.model import Json
from toolwire.core.url_display import show_url

from .tool_definition import Change, Direction, changes, digest, reach

_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class DefinitionLock:
    """Pinned definitions: by URL of the connection, then by the tool's id."""

    connections: Mapping[str, Mapping[str, Mapping[str, Json]]] = field(default_factory=dict)

    def with_connection(self, url: str, definitions: Iterable[Mapping[str, Json]]) -> DefinitionLock:
        """Return a lock that pins ``definitions`` for ``url`` in place of what it pinned there."""
        pinned = {_id(one): one for one in definitions}
        return DefinitionLock(connections={**self.connections, _lock_key(url): pinned})

    def holds(self, url: str) -> bool:
        """Return whether the connection to ``url`` is pinned. Its query, where keys may stand, is not looked at."""
        return _lock_key(url) in self.connections

    def compared(self, url: str, definitions: Iterable[Mapping[str, Json]]) -> tuple[Difference, ...]:
        """Return every tool of ``url`` that is not as it was pinned, sorted by id."""
        pinned = self.connections.get(_lock_key(url), {})
        now = {_id(one): one for one in definitions}
        names = sorted({*pinned, *now})
        found = (_difference(name, pinned.get(name), now.get(name)) for name in names)
        return tuple(one for one in found if one is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A tool that was added, removed or changed. ``direction`` says what that does to what can be done."""

    tool: str
    what: str
    direction: Direction
    changes: tuple[Change, ...] = ()


def write_lock(lock: DefinitionLock) -> str:
    """Return ``lock`` as text, the same for the same definitions, one part a line."""
    connections = {
        url: {id_: {"sha256": digest(one), "definition": one} for id_, one in sorted(tools.items())}
        for url, tools in sorted(lock.connections.items())
    }
    return json.dumps({"lock": _VERSION, "connections": connections}, indent=1, sort_keys=True) + "\n"


def read_lock(text: str) -> DefinitionLock:
    """Return the lock that ``write_lock`` wrote.

    Raises:
        DefinitionError: it is none, of a version we do not know, or a definition in it was changed by hand.
    """
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        data = None
    match data:
        case {"lock": 1, "connections": dict(connections)}:
            return DefinitionLock(connections={url: _tools(url, tools) for url, tools in connections.items()})
        case _:
            raise DefinitionError("This is no toolwire.lock of version 1: make one with `toolwire lock URL`.")


def _tools(url: str, tools: Json) -> Mapping[str, Mapping[str, Json]]:
    pinned: dict[str, Mapping[str, Json]] = {}
    for id_, one in (tools if isinstance(tools, dict) else {"": None}).items():
        match one:
            case {"sha256": str(known), "definition": dict(found)} if digest(found) == known and _id(found) == id_:
                pinned[id_] = found
            case _:
                raise DefinitionError(f"The lock of {url} does not hold together at {id_!r}: make it anew.")
    return pinned


def _difference(tool: str, before: Mapping[str, Json] | None, after: Mapping[str, Json] | None) -> Difference | None:
    if before is None:
        return Difference(tool=tool, what="added", direction="wider")
    if after is None:
        return Difference(tool=tool, what="removed", direction="narrower")
    found = changes(before, after)
    return Difference(tool=tool, what="changed", direction=reach(found), changes=found) if found else None


def _id(definition: Mapping[str, Json]) -> str:
    name, toolkit, version = (str(definition.get(part, "")) for part in ("name", "toolkit", "version"))
    return f"{toolkit}.{name}".replace("-", "_") + f"@{version}"


def _lock_key(url: str) -> str:
    """Return the name of ``url`` in the file: without query and fragment, since keys stand there, and without user."""
    return show_url(url.partition("#")[0].partition("?")[0])  # D-26
