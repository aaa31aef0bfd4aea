"""Find texts of a document that hide characters from people, and the operations that use them."""
# D-01

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
"""An operation, path or component, by the steps of its pointer; ``()`` for the rest of the document."""

_MAX_PLACES = 1_000
_OWNERS = {"components": 3, "paths": 3}
_REFERRING = b'"$ref":"'
_REFERENCE = re.compile(_REFERRING.replace(b"$", rb"\$") + rb'((?:[^"\\]|\\.)*+)"')


class HiddenTexts(NamedTuple):
    """The pointers of texts with hidden characters, and the ``owners`` that contain or refer to such a text."""

    places: tuple[str, ...] = ()
    owners: frozenset[Owner] = frozenset()

    def affects(self, path: str, method: str, reference: Json = None) -> bool:
        """Return whether the operation at ``path`` and ``method`` contains or refers to hidden characters."""
        # Parameters of the path item are parameters of each of its operations.
        own = (("paths", path, method), ("paths", path, "parameters"), ("paths", path))
        return any(one in self.owners for one in own) or (
            isinstance(reference, str) and _find_owner(reference) in self.owners
        )


NOTHING = HiddenTexts()


def find_hidden_text(document: dict[str, Any]) -> HiddenTexts:
    """Return the hidden text of ``document``. It walks the complete document, so call it only after a quick check."""
    places: list[str] = []
    tainted: set[Owner] = set()
    users: dict[bytes, list[Owner]] = {}
    for owner, node in _iterate_parts(document):
        text = jsontext.write([*owner[2:], node])  # a search of bytes is faster than a walk of the data
        escapes = b"\\" in text
        for reference in _find_references(text, escapes=escapes):
            users.setdefault(reference, []).append(owner)
        if ((escapes or not text.isascii()) and may_hide(text)) or _is_odd(owner):
            tainted.add(owner)
            places.extend(join_pointer("", *owner, *map(str, path)) for path in find_hidden(node))
    return HiddenTexts(tuple(sorted(places)[:_MAX_PLACES]), frozenset(_find_reachable(tainted, users)))


def _find_references(text: bytes, *, escapes: bool) -> set[bytes]:
    """Return the references in a JSON text, still escaped."""
    if escapes:
        return set(_REFERENCE.findall(text))
    return {
        one.partition(b'"')[0] for one in text.split(_REFERRING)[1:]
    }  # equal to the pattern if nothing is escaped, in half the time


def _is_odd(owner: Owner) -> bool:
    """Return whether the path itself has hidden characters."""
    return len(owner) > 1 and is_suspect(owner[1]) and clean(owner[1]).removed > 0


def _find_reachable(tainted: set[Owner], users: dict[bytes, list[Owner]]) -> set[Owner]:
    """Return the ``tainted`` owners and all that refer to one of them, directly or through others."""
    using: dict[Owner, list[Owner]] = {}
    # References are decoded only if something is hidden at all, which is rare.
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
    """Yield each operation, path and component with its owner, and the rest of the document as one part."""
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
    """Return the owner that ``reference`` points into."""
    steps = parse_fragment(reference)
    return tuple(steps[: _OWNERS[steps[0]]]) if steps and steps[0] in _OWNERS else ()
