"""References inside one document: what a JSON pointer points at, and what an object stands for.

Rules:
- Only pointers are followed; names of other sorts were made pointers before (``canonical.py``). [CV-17]
- Nothing is followed without end: a chain has at most 32 steps.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

from toolwire.core.json_pointer import MISSING, parse_fragment, take_step
from toolwire.core.model import Json

_MOST_HOPS = 32
_MOST_PARTS = 100


class References:
    """The references of one document, each looked up once. ``follow`` and ``resolve`` are those of this module."""

    __slots__ = ("_found", "document")

    def __init__(self, document: Json) -> None:
        self.document = document
        self._found: dict[str, Json] = {}

    def resolve(self, reference: str) -> Json:
        """Return what ``reference`` points at."""
        found = self._found.get(reference)
        if found is None:
            found = self._found[reference] = resolve(self.document, reference)
        return found

    def follow(self, node: Json, what: str) -> dict[str, Any]:
        """Return the object that ``node`` is or stands for."""
        for _ in range(_MOST_HOPS):
            if type(node) is not dict:
                raise Unusable(f"its {what} is not an object")
            reference = node.get("$ref")
            if type(reference) is not str:
                return node
            node = self.resolve(reference)
        raise Unusable(f"the references of its {what} go round in a circle")

    def list_layers(self, node: Json, what: str) -> list[dict[str, Any]]:
        """Return the object that ``node`` is or stands for, and what stands beside each reference to it, nearest last.

        Raises:
            Unusable: as ``follow`` does.
        """
        beside: list[dict[str, Any]] = []
        for _ in range(_MOST_HOPS):
            if type(node) is not dict:
                raise Unusable(f"its {what} is not an object")
            reference = node.get("$ref")
            if type(reference) is not str:
                return [node, *reversed(beside)]
            beside.append({name: one for name, one in node.items() if name != "$ref"})
            node = self.resolve(reference)
        raise Unusable(f"the references of its {what} go round in a circle")

    def iterate_parts(self, node: Json, keys: Sequence[str], *, beside: bool) -> Iterator[dict[str, Any] | None]:
        """Yield each object that the schema ``node`` is put together of: by references, and branches under ``keys``.

        Each comes once, however they refer to each other. What stands ``beside`` a reference is one too, after what is
        referred to. None stands for what is no object or not there, and at the end for more than 100.
        """
        waiting, seen = deque([node]), dict[int, Json]()  # what was seen is held: no other gets its identity
        while waiting:
            one = waiting.popleft()
            if id(one) in seen:
                continue
            seen[id(one)] = one
            if len(seen) > _MOST_PARTS:
                yield None
                return
            if type(one) is not dict:
                yield None
                continue
            reference = one.get("$ref")
            if type(reference) is str:
                if beside and len(one) > 1:
                    waiting.appendleft({name: value for name, value in one.items() if name != "$ref"})
                try:
                    waiting.appendleft(self.resolve(reference))
                except Unusable:
                    yield None
                continue
            yield one
            for key in keys:
                branches = one.get(key)
                waiting.extend(branches if isinstance(branches, list) else ())

    def follow_or_empty(self, node: Json) -> dict[str, Any]:
        """Return what ``follow`` would, or an empty object where that would be nothing."""
        try:
            return self.follow(node, "part")
        except Unusable:
            return {}


class Unusable(Exception):  # noqa: N818 - it is a reason, not an error of ours: one operation is left out for it
    """Why one operation of a document cannot be a tool; the text is its finding."""


def resolve(document: Json, reference: str) -> Json:
    """Return what ``reference``, a JSON pointer after ``#``, points at in ``document``. [CV-17]

    Raises:
        Unusable: it leaves the document, or points at nothing.
    """
    if not reference.startswith("#"):
        raise Unusable(f"it refers to {reference[:100]!r}, outside the document")
    if reference != "#" and not reference.startswith("#/"):
        raise Unusable(f"it refers to {reference[:100]!r} by an anchor that is not there")
    return _resolve(document, reference, _MOST_HOPS)


def _resolve(document: Json, reference: str, hops: int) -> Json:
    node = document
    for step in parse_fragment(reference):
        # A pointer may lead through a reference: components that are another file, say.
        while isinstance(node, dict) and step not in node and isinstance(node.get("$ref"), str):
            if not hops or not node["$ref"].startswith("#/"):
                raise Unusable(f"it refers to {reference[:100]!r}, which is not there")
            hops -= 1
            node = _resolve(document, node["$ref"], hops)
        node = take_step(node, step)
        if node is MISSING:
            raise Unusable(f"it refers to {reference[:100]!r}, which is not there")
    return node


def follow(document: Json, node: Json, what: str) -> dict[str, Any]:
    """Return the object that ``node`` is or, by however many references, stands for. ``what`` names it in a finding.

    Raises:
        Unusable: a reference leads nowhere or round in a circle, or ``node`` is no object.
    """
    for _ in range(_MOST_HOPS):
        if not isinstance(node, dict):
            raise Unusable(f"its {what} is not an object")
        reference = node.get("$ref")
        if not isinstance(reference, str):
            return node
        node = resolve(document, reference)
    raise Unusable(f"the references of its {what} go round in a circle")
