"""Where a document hides something from people, and which of its operations that reaches. [D-01]"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from toolwire.core.model import Json
from toolwire.framing.cleaning import clean, hidden_in, is_suspect

from .findings import pointer

_MOST_PLACES = 1_000
_OWNERS = {"components": 3, "paths": 3}


class Hidden(NamedTuple):
    """``places`` are the pointers of texts that hide something; ``owners`` what says or refers to any of them."""

    places: tuple[str, ...] = ()
    owners: frozenset[str] = frozenset()

    def touches(self, path: str, method: str, reference: Json = None) -> bool:
        """Return whether the operation at ``path`` and ``method`` says, or refers to, a text that hides something."""
        own = (pointer("paths", path, method), pointer("paths", path, "parameters"), pointer("paths", path))
        return any(one in self.owners for one in own) or (
            isinstance(reference, str) and _owner(reference.removeprefix("#")) in self.owners
        )


NOTHING = Hidden()


def look(document: dict[str, Any]) -> Hidden:
    """Return what ``document`` hides; a walk over all of it, for one that is known to hide something."""
    places: list[str] = []
    tainted: set[str] = set()
    users: dict[str, set[str]] = {}
    for owner, steps, node in _parts(document):
        hides, references = _scanned(node)
        for reference in references:
            users.setdefault(_owner(reference.removeprefix("#")), set()).add(owner)
        if hides or any(clean(step).removed for step in steps):
            tainted.add(owner)
            places.extend(pointer(*steps, *map(str, path)) for path in hidden_in(node))
    waiting = list(tainted)
    while waiting:
        for user in users.get(waiting.pop(), ()):
            if user not in tainted:
                tainted.add(user)
                waiting.append(user)
    return Hidden(tuple(sorted(places)[:_MOST_PLACES]), frozenset(tainted))


def _parts(document: dict[str, Any]) -> Iterator[tuple[str, tuple[str, ...], Json]]:
    """Yield each operation, path and component with its pointer, and what else there is as one part."""
    rest: dict[str, Json] = {}
    for name, node in document.items():
        if name not in _OWNERS or not isinstance(node, dict):
            rest[name] = node
            continue
        for group, inner in node.items():
            for key, one in inner.items() if isinstance(inner, dict) else ():
                yield pointer(name, group, key), (name, group, key), one
    yield "", (), rest


def _scanned(node: Json) -> tuple[bool, set[str]]:
    """Return whether something in ``node`` hides, and what it refers to."""
    hides = False
    references: set[str] = set()
    waiting = [node]
    while waiting:
        one = waiting.pop()
        if type(one) is str:
            hides = hides or is_suspect(one)
        elif type(one) is list:
            waiting.extend(one)
        elif type(one) is dict:
            waiting.extend(one)
            waiting.extend(one.values())
            reference = one.get("$ref")
            if type(reference) is str:
                references.add(reference)
    return hides, references


def _owner(place: str) -> str:
    """Return the pointer of the operation, path or component that ``place`` is in."""
    steps = place.split("/")
    return "/".join(steps[: 1 + _OWNERS.get(steps[1] if len(steps) > 1 else "", 1)])
