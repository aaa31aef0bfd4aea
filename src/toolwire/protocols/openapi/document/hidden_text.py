"""Where a document hides something from people, and which of its operations that reaches. [D-01]"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple, TypeAlias

import orjson

from toolwire.core.json_pointer import join_pointer, parse_fragment
from toolwire.core.model import Json
from toolwire.framing import jsontext
from toolwire.framing.text_cleaning import clean, find_hidden, is_suspect, may_hide

Owner: TypeAlias = tuple[str, ...]
"""An operation, path or component: the steps to it from the root, or none for all the rest."""

_MOST_PLACES = 1_000
_OWNERS = {"components": 3, "paths": 3}
_REFERRING = b'"$ref":"'
_REFERENCE = re.compile(_REFERRING.replace(b"$", rb"\$") + rb'((?:[^"\\]|\\.)*+)"')


class HiddenTexts(NamedTuple):
    """``places`` are the pointers of texts that hide something; ``owners`` what says or refers to any of them."""

    places: tuple[str, ...] = ()
    owners: frozenset[Owner] = frozenset()

    def affects(self, path: str, method: str, reference: Json = None) -> bool:
        """Return whether the operation at ``path`` and ``method`` says, or refers to, a text that hides something."""
        own = (("paths", path, method), ("paths", path, "parameters"), ("paths", path))
        return any(one in self.owners for one in own) or (
            isinstance(reference, str) and _find_owner(reference) in self.owners
        )


NOTHING = HiddenTexts()


def find_hidden_text(document: dict[str, Any]) -> HiddenTexts:
    """Return what ``document`` hides; a walk over all of it, for one that is known to hide something."""
    places: list[str] = []
    tainted: set[Owner] = set()
    users: dict[bytes, list[Owner]] = {}
    for owner, node in _iterate_parts(document):
        text = jsontext.write([*owner[2:], node])  # quicker to look through than the data
        escapes = b"\\" in text
        for reference in _find_references(text, escapes=escapes):
            users.setdefault(reference, []).append(owner)
        if ((escapes or not text.isascii()) and may_hide(text)) or _is_odd(owner):
            tainted.add(owner)
            places.extend(join_pointer("", *owner, *map(str, path)) for path in find_hidden(node))
    return HiddenTexts(tuple(sorted(places)[:_MOST_PLACES]), frozenset(_find_reachable(tainted, users)))


def _find_references(text: bytes, *, escapes: bool) -> set[bytes]:
    """Return the references in a JSON text, as they are written between their quotes."""
    if escapes:
        return set(_REFERENCE.findall(text))
    return {one.partition(b'"')[0] for one in text.split(_REFERRING)[1:]}  # the same, in half the time


def _is_odd(owner: Owner) -> bool:
    """Return whether the name of a path hides something."""
    return len(owner) > 1 and is_suspect(owner[1]) and clean(owner[1]).removed > 0


def _find_reachable(tainted: set[Owner], users: dict[bytes, list[Owner]]) -> set[Owner]:
    """Return what is ``tainted``, and what refers to any of it, by however many references."""
    using: dict[Owner, list[Owner]] = {}
    for reference, owners in users.items() if tainted else ():
        using.setdefault(_find_owner(str(orjson.loads(b'"%b"' % reference))), []).extend(owners)
    reached, waiting = set(tainted), list(tainted)
    while waiting:
        for user in using.get(waiting.pop(), ()):
            if user not in reached:
                reached.add(user)
                waiting.append(user)
    return reached


def _iterate_parts(document: dict[str, Any]) -> Iterator[tuple[Owner, Json]]:
    """Yield each operation, path and component, and what else there is as one part."""
    rest: dict[str, Json] = {}
    for name, node in document.items():
        if name not in _OWNERS or not isinstance(node, dict):
            rest[name] = node
            continue
        for group, inner in node.items():
            for key, one in inner.items() if isinstance(inner, dict) else ():
                yield (name, group, key), one
    yield (), rest


def _find_owner(reference: str) -> Owner:
    """Return the operation, path or component that ``reference`` points into."""
    steps = parse_fragment(reference)
    return tuple(steps[: _OWNERS[steps[0]]]) if steps and steps[0] in _OWNERS else ()
