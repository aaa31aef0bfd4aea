"""Assign a legal, unique name to each tool of a server, whatever the server calls its tools."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from hashlib import sha256

from .catalog import NAME

_SHOWN = 100


def assign_names(wire_names: Iterable[str]) -> dict[str, str]:
    """Return a legal name for each of ``wire_names``; no two give the same tool id, and order does not matter.

    A legal name stays, unless it differs from another only in dashes, because ids have no dashes. Any other name is
    made legal, and gets a few characters of its digest if the result is taken.
    """
    wanted = dict.fromkeys(wire_names)
    plain = {name: re.sub(r"[^A-Za-z0-9_-]", "_", name)[:64] for name in wanted}
    names: dict[str, str] = {}
    taken: set[str] = set()
    for group in _group_by_legality(plain):
        count = Counter(_fold_dashes(plain[name]) for name in group)
        free = {
            name for name in group if _fold_dashes(plain[name]) not in taken and count[_fold_dashes(plain[name])] == 1
        }
        for name in group:
            names[name] = plain[name] if name in free else add_digest(plain[name], name)
            taken.add(_fold_dashes(names[name]))
    return {name: names[name] for name in wanted}


def describe_renamed(wire_name: str, name: str) -> str:
    """Return a sentence that says how the tool ``wire_name`` is called here."""
    shown = wire_name if len(wire_name) <= _SHOWN else wire_name[:_SHOWN] + "..."
    return f"the tool {shown!r} is called {name!r} here; a call finds it by either name"


def _group_by_legality(plain: dict[str, str]) -> tuple[list[str], list[str], list[str]]:
    """Return the names in three groups: legal as an id has them, legal with dashes, and not legal."""
    legal = [name for name in plain if NAME.fullmatch(name)]
    exact = [name for name in legal if _fold_dashes(name) == name]
    return (
        exact,
        [name for name in legal if _fold_dashes(name) != name],
        [name for name in plain if not NAME.fullmatch(name)],
    )


def _fold_dashes(name: str) -> str:
    return name.replace("-", "_")


def add_digest(name: str, wire_name: str) -> str:
    """Return ``name`` with a few characters of the digest of ``wire_name``, which make it unique."""
    return f"{name[:55]}_{sha256(wire_name.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"
