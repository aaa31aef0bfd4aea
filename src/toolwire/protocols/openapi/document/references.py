"""Resolve references inside one document.

Rules:
- Only JSON Pointers are followed; ``bundle.py`` has rewritten other names as pointers before.
- A chain of references has at most 32 steps, so that a cycle ends.
"""
# CV-17

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

from toolwire.core.json_pointer import MISSING, parse_fragment, take_step
from toolwire.core.model import Json

_MAX_HOPS = 32
_MAX_PARTS = 100


class References:
    """The references of one document, each resolved once: ``resolve`` and ``follow`` with a cache."""

    __slots__ = ("_found", "document")

    def __init__(self, document: Json) -> None:
        self.document: Json = document
        self._found: dict[str, Json] = {}

    def resolve(self, reference: str) -> Json:
        """Return the target of ``reference``."""
        found = self._found.get(reference)
        if found is None:
            found = self._found[reference] = resolve(self.document, reference)
        return found

    def follow(self, node: Json, what: str) -> dict[str, Any]:
        """Return ``node``, or the target of its reference."""
        for _ in range(_MAX_HOPS):
            if type(node) is not dict:
                raise Unusable(f"its {what} is not an object")
            reference = node.get("$ref")
            if type(reference) is not str:
                return node
            node = self.resolve(reference)
        raise Unusable(f"the references in its {what} form a cycle")

    def list_layers(self, node: Json, what: str) -> list[dict[str, Any]]:
        """Return the target of ``node``, then the siblings of each reference on the way, the outermost last.

        Raises:
            Unusable: as ``follow`` does.
        """
        beside: list[dict[str, Any]] = []
        for _ in range(_MAX_HOPS):
            if type(node) is not dict:
                raise Unusable(f"its {what} is not an object")
            reference = node.get("$ref")
            if type(reference) is not str:
                return [node, *reversed(beside)]
            beside.append({name: one for name, one in node.items() if name != "$ref"})
            node = self.resolve(reference)
        raise Unusable(f"the references in its {what} form a cycle")

    def iterate_parts(self, node: Json, keys: Sequence[str], *, beside: bool) -> Iterator[dict[str, Any] | None]:
        """Yield each part of the schema ``node``: the targets of references, and the branches under ``keys``.

        Each part comes once, also in cycles. With ``beside`` the siblings of a reference are a part too, after its
        target. None stands for a part that is missing or no object, and ends the parts after 100.
        """
        # The dict keeps each seen part alive, so that no new object gets the id of an old one.
        waiting, seen = deque([node]), dict[int, Json]()
        while waiting:
            one = waiting.popleft()
            if id(one) in seen:
                continue
            seen[id(one)] = one
            # A schema with more parts than that is built to make readers work; what it says is not worth the time.
            if len(seen) > _MAX_PARTS:
                yield None
                return
            if type(one) is not dict:
                yield None
                continue
            reference = one.get("$ref")
            if type(reference) is str:
                # Put in first, so that the target, put in next, comes out before its siblings.
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
        """Return the result of ``follow``, or an empty object if it would raise."""
        try:
            return self.follow(node, "part")
        except Unusable:
            return {}


class Unusable(Exception):  # it is a reason, not an error of ours: one operation is left out for it
    """An operation of a document cannot be a tool; the message is the text of its finding."""


def resolve(document: Json, reference: str) -> Json:
    """Return the target of ``reference``, a JSON Pointer after ``#``, in ``document``.

    Raises:
        Unusable: it refers to another document, or has no target.
    """
    # CV-17
    if not reference.startswith("#"):
        raise Unusable(f"it refers to {reference[:100]!r}, which is outside the document")
    if reference != "#" and not reference.startswith("#/"):
        raise Unusable(f"it refers to the anchor {reference[:100]!r}, which does not exist")
    return _resolve(document, reference, _MAX_HOPS)


def _resolve(document: Json, reference: str, hops: int) -> Json:
    node = document
    for step in parse_fragment(reference):
        # A pointer may lead through a reference: components that are another file, say.
        while isinstance(node, dict) and step not in node and isinstance(node.get("$ref"), str):
            if not hops or not node["$ref"].startswith("#/"):
                raise Unusable(f"it refers to {reference[:100]!r}, which does not exist")
            hops -= 1
            node = _resolve(document, node["$ref"], hops)
        node = take_step(node, step)
        if node is MISSING:
            raise Unusable(f"it refers to {reference[:100]!r}, which does not exist")
    return node


def follow(document: Json, node: Json, what: str) -> dict[str, Any]:
    """Return ``node``, or the target of its chain of references. ``what`` names it in the message of an error.

    Raises:
        Unusable: a reference has no target or is part of a cycle, or the target is no object.
    """
    for _ in range(_MAX_HOPS):
        if not isinstance(node, dict):
            raise Unusable(f"its {what} is not an object")
        reference = node.get("$ref")
        if not isinstance(reference, str):
            return node
        node = resolve(document, reference)
    raise Unusable(f"the references in its {what} form a cycle")
