"""Read and write a list of connections as JSON that people can share: names and URLs, never a key.

The file is ``{"connections": [{"name": "tasks", "url": "https://tasks.example"}]}``.
"""
# OQ-7

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from toolwire.core.errors import DefinitionError
from toolwire.core.model import Json, Problem
from toolwire.core.url_origin import read_origin
from toolwire.framing import jsontext

_MEMBERS = frozenset({"name", "url"})
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,31}")
_MOST = 1_000
_LARGEST_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedConnection:
    """One connection of a list: what it is called, and where it is."""

    name: str
    url: str


def read_connections(file: Path | str) -> tuple[ListedConnection, ...]:
    """Return the connections that a file lists, in its order.

    Raises:
        DefinitionError: the file cannot be read or is no such list, two have one name, or something in it looks like
            a credential; the sentence says which.
    """
    path = Path(file)
    try:
        if path.stat().st_size > _LARGEST_BYTES:
            raise DefinitionError(f"{path.name} is no list of connections: it is larger than {_LARGEST_BYTES:,} bytes.")
        data = jsontext.read(path.read_bytes())
    except OSError as error:
        raise DefinitionError(f"{path} cannot be read: {error.strerror}.") from error
    if isinstance(data, Problem):
        raise DefinitionError(f"{path.name} cannot be read: {data.message}")
    entries = data.get("connections") if isinstance(data, dict) else None
    if not isinstance(entries, list) or len(entries) > _MOST:
        raise DefinitionError(f'{path.name} is no list of connections: it needs "connections", an array of objects.')
    found = tuple(_read(entry, number, path.name) for number, entry in enumerate(entries, 1))
    names = [one.name.casefold() for one in found]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise DefinitionError(f"{path.name} calls two connections {twice!r}: give one of them another name.")
    return found


def write_connections(connections: Iterable[ListedConnection]) -> str:
    """Return the text of a file that lists ``connections``."""
    entries: list[Json] = [{"name": one.name, "url": one.url} for one in connections]
    return jsontext.write({"connections": entries}).decode() + "\n"


def _read(entry: Any, number: int, file: str) -> ListedConnection:
    where = f"Connection {number} of {file}"
    if not isinstance(entry, dict):
        raise DefinitionError(f"{where} is {jsontext.describe_type(entry)}, not an object.")
    more = sorted(set(entry) - _MEMBERS)
    if more:
        text = "a list is shared, so keys do not belong there" if _is_secret(more) else "nobody reads it"
        raise DefinitionError(f'{where} has "{more[0][:40]}": {text}; it may have name and url.')
    name, url = entry.get("name"), entry.get("url")
    if not isinstance(name, str) or _NAME.fullmatch(name) is None:
        raise DefinitionError(f"{where} needs a name: a letter, then letters, digits, - and _.")
    if not isinstance(url, str) or not url:
        raise DefinitionError(f"{where} needs a url.")
    if (origin := read_origin(url)) is not None and origin.has_user_info:
        raise DefinitionError(f"{where} has a user or password in its url: sign in with toolwire login instead.")
    return ListedConnection(name=name, url=url)


def _is_secret(names: Iterable[str]) -> bool:
    return any(re.search(r"key|token|secret|password|authorization|header", name, re.IGNORECASE) for name in names)
