"""Name the changes that one process of a server tells the others, and read what another one tells.

Rules:
- A resource is told by its URI, and a list by its name behind a space, which no URI begins with.
- With a list stand the scopes of what has changed in it, so that a client hears of no change that it may not see.
"""
# MC-06, ST-01

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from toolwire.core.catalog import Catalog
from toolwire.core.codec import RemoteChanges
from toolwire.core.model import Tool

from .change_notices import find_changed
from .revision import NOTICES

_MAX_SCOPES: Final = 20
"""How many sets of scopes are told of one list; where more have changed, all clients are told."""
_MAX_LENGTH: Final = 1_000


def name_list_changes(before: Catalog, now: Catalog) -> list[str]:
    """Return what to tell other processes of the lists that differ between two catalogs."""
    names: list[str] = []
    for name in sorted(find_changed(before, now)):
        old, new = _list_parts(name, before), _list_parts(name, now)
        scopes = {one[key][1] for one, other in ((old, new), (new, old)) for key in one if one[key] != other.get(key)}
        texts = [" ".join(["", name, *some]) for some in sorted(scopes)]
        # What has changed is not a part with scopes of its own, such as the order, or it is too much.
        is_for_all = not texts or len(texts) > _MAX_SCOPES or max(map(len, texts)) > _MAX_LENGTH
        names += [f" {name}"] if is_for_all else texts
    return names


def read_remote_changes(
    names: Iterable[str], permits: Callable[[frozenset[str]], bool], *, has_gap: bool
) -> RemoteChanges:
    """Return the changes in ``names`` of which a client hears; ``permits`` says whether it has some scopes."""
    lists: set[str] = set()
    uris: set[str] = set()
    for one in names:
        if not one.startswith(" "):
            uris.add(one)
            continue
        name, *scopes = one[1:].split(" ")
        # A later version may tell of lists that this one does not know.
        if name in NOTICES and permits(frozenset(scopes)):
            lists.add(name)
    return RemoteChanges(frozenset(lists), frozenset(uris), has_gap)


def _list_parts(name: str, catalog: Catalog) -> Mapping[str, tuple[object, tuple[str, ...]]]:
    """Return each part of a list with its scopes, by what names it."""
    match name:
        case "toolsListChanged":
            return {one.id: (one, _sort_scopes(one)) for one in catalog.tools}
        case "promptsListChanged":
            return {one.name: (one, _sort_scopes(one.reader)) for one in catalog.features.prompts}
        case _:
            return {one.public_uri: (one, _sort_scopes(one.reader)) for one in catalog.features.resources}


def _sort_scopes(tool: Tool) -> tuple[str, ...]:
    return tuple(sorted(set(tool.scopes)))
