"""Name the definitions of converted schemas.

Rules:
- A definition has its name in the document, without namespaces and without the place of the document.
"""
# CV-17, CV-25

from __future__ import annotations

import re
from collections import Counter

from toolwire.core.json_pointer import parse_fragment
from toolwire.core.model import Json
from toolwire.protocols.openapi.document.bundle import OTHERS

_HOLDERS = (("components", "schemas"), ("definitions",), ("$defs",))
"""The places of named schemas in a document."""


class DefinitionNames:
    """Names the definitions for the schemas of one document and of the documents it refers to."""

    __slots__ = ("_last", "_several")

    def __init__(self, document: Json) -> None:
        others = document.get(OTHERS) if isinstance(document, dict) else None
        others = others if isinstance(others, dict) else {}
        own = [name for name, _ in _list_definitions(document)]
        foreign = [name for one in others.values() for name, _ in _list_definitions(one)]
        foreign += [_get_stem(url) for url in others]
        # Generators put the name of the package before each name; it is dropped where the rest is still unique.
        self._last = Counter(name.rpartition(".")[2] for name in (*own, *foreign))
        self._several = {
            name for name, number in Counter(map(_make_legal, (*set(own), *foreign))).items() if number > 1
        }

    def name(self, reference: str) -> str:
        """Return the name of the definition for ``reference``; the caller makes it unique."""
        steps = parse_fragment(reference)
        beside = steps[1] if steps[:1] == [OTHERS] and len(steps) > 1 else ""
        if beside:
            steps = steps[2:] or [_get_stem(beside)]
        for holder in _HOLDERS:
            if tuple(steps[: len(holder)]) == holder:
                steps = steps[len(holder) :]
                break
        if len(steps) == 1:
            last = steps[0].rpartition(".")[2]
            steps = [last] if last and self._last[last] == 1 else steps
        name = _make_legal(".".join(steps))
        if not beside or name not in self._several:
            return name
        return _make_legal(beside if steps == [_get_stem(beside)] else f"{beside}.{name}")


def _list_definitions(document: Json) -> list[tuple[str, Json]]:
    """Return the named schemas of ``document``."""
    found: list[tuple[str, Json]] = []
    for holder in _HOLDERS:
        node = document
        for step in holder:
            node = node.get(step) if isinstance(node, dict) else None
        found += [(name, one) for name, one in node.items() if isinstance(name, str)] if isinstance(node, dict) else []
    return found


def _get_stem(url: str) -> str:
    """Return the file name of a document without extension."""
    return url.rpartition("/")[2].partition(".")[0]


def _make_legal(name: str) -> str:
    # The end of a long name is kept: generators put the package at the beginning.
    return re.sub(r"[^A-Za-z0-9_.-]+", "_", name)[-64:].lstrip("_.-") or "document"
