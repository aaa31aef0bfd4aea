"""Read, write and compare ``toolwire.lock``: the approved tool definitions of each connection."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from toolwire.core.errors import DefinitionError
from toolwire.core.model import Json
from toolwire.core.url_display import show_url

from .tool_definition import Change, Direction, compute_digest, find_changes, overall_direction

_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class DefinitionLock:
    """Approved tool definitions, by the connection's URL and the tool's ID."""

    connections: Mapping[str, Mapping[str, Mapping[str, Json]]] = field(default_factory=dict)

    def with_connection(self, url: str, definitions: Iterable[Mapping[str, Json]]) -> DefinitionLock:
        """Return a lock in which ``definitions`` replace the approved definitions for ``url``."""
        pinned = {_tool_id(one): one for one in definitions}
        return DefinitionLock(connections={**self.connections, _lock_key(url): pinned})

    def has_connection(self, url: str) -> bool:
        """Return whether the lock covers ``url``. The query is ignored, because it can contain keys."""
        return _lock_key(url) in self.connections

    def find_differences(self, url: str, definitions: Iterable[Mapping[str, Json]]) -> tuple[Difference, ...]:
        """Return each tool of ``url`` whose definition differs from the approved one, sorted by ID."""
        pinned = self.connections.get(_lock_key(url), {})
        now = {_tool_id(one): one for one in definitions}
        names = sorted({*pinned, *now})
        found = (_compare_tool(name, pinned.get(name), now.get(name)) for name in names)
        return tuple(one for one in found if one is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A tool that was added, removed or changed. ``direction`` says whether more or less can be done now."""

    tool: str
    what: str
    direction: Direction
    changes: tuple[Change, ...] = ()

    def list_lines(self) -> list[str]:
        """Return the tool and what happened to it, and a line for each change (untrusted text)."""
        return [f"{self.tool}: {self.what}, {self.direction}", *(f"  {one.sentence}" for one in self.changes)]


def write_lock(lock: DefinitionLock) -> str:
    """Return ``lock`` as text with one part per line. Equal definitions give equal text, so that a diff is small."""
    connections = {
        url: {id_: {"sha256": compute_digest(one), "definition": one} for id_, one in sorted(tools.items())}
        for url, tools in sorted(lock.connections.items())
    }
    return json.dumps({"lock": _VERSION, "connections": connections}, indent=1, sort_keys=True) + "\n"


def read_lock(text: str) -> DefinitionLock:
    """Return the lock in ``text``, which ``write_lock`` wrote.

    Raises:
        DefinitionError: ``text`` is not a lock of a supported version, or a definition in it was edited by hand.
    """
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        data = None
    match data:
        case {"lock": 1, "connections": dict(connections)}:
            return DefinitionLock(connections={url: _read_tools(url, tools) for url, tools in connections.items()})
        case _:
            raise DefinitionError("This is not a version 1 toolwire.lock file. Create one with `toolwire lock URL`.")


def _read_tools(url: str, tools: Json) -> Mapping[str, Mapping[str, Json]]:
    pinned: dict[str, Mapping[str, Json]] = {}
    for id_, one in (tools if isinstance(tools, dict) else {"": None}).items():
        match one:
            # The digest shows that the definition was not edited by hand: an edit would approve what no user saw.
            case {"sha256": str(stored), "definition": dict(found)} if (
                compute_digest(found) == stored and _tool_id(found) == id_
            ):
                pinned[id_] = found
            case _:
                text = f"The lock entry of {url} is damaged at {id_!r}: the definition does not match its digest."
                raise DefinitionError(f"{text} Make a new lock.")
    return pinned


def _compare_tool(tool: str, before: Mapping[str, Json] | None, after: Mapping[str, Json] | None) -> Difference | None:
    if before is None:
        return Difference(tool=tool, what="added", direction="wider")
    if after is None:
        return Difference(tool=tool, what="removed", direction="narrower")
    found = find_changes(before, after)
    return Difference(tool=tool, what="changed", direction=overall_direction(found), changes=found) if found else None


def _tool_id(definition: Mapping[str, Json]) -> str:
    name, toolkit, version = (str(definition.get(part, "")) for part in ("name", "toolkit", "version"))
    return f"{toolkit}.{name}".replace("-", "_") + f"@{version}"


def _lock_key(url: str) -> str:
    """Return the name of ``url`` in the file: the URL without user, query and fragment."""
    # D-26: these parts can contain keys and passwords, and the file is meant to be committed.
    return show_url(url.partition("#")[0].partition("?")[0])
