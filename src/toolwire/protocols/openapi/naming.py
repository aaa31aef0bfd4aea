"""Names a model may use: of tools, from operation ids; of arguments, from parameters and properties.

Rules:
- A name depends on its own operation alone, except that two of one name both get a hash. Order never matters. [XL-082]
- Every argument stands for exactly one parameter or property. [CV-16, CV-23]
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from toolwire.core.model import Json

_LEGAL_TOOL = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
_LEGAL_ARGUMENT = re.compile(r"[A-Za-z0-9_.-]{1,64}")


class Named(NamedTuple):
    """One operation as far as its name goes. ``origin`` is the site's, ``id`` its operationId or None."""

    origin: str
    method: str
    path: str
    id: Json


def tool_names(operations: Sequence[Named]) -> list[str]:
    """Return a unique legal tool name for each of ``operations``, in their order. [XL-080, XL-082, XL-083]"""
    plain = [_plain(operation) for operation in operations]
    count = Counter(map(_folded, plain))
    spellings = Counter(map(_folded, set(plain)))
    own = Counter(operation.id for operation in operations if isinstance(operation.id, str))
    names: list[str] = []
    for operation, name in zip(operations, plain, strict=True):
        exact = name == operation.id and own[name] == 1 and spellings[_folded(name)] == 1
        keeps = exact or count[_folded(name)] == 1
        names.append(name if keeps and len(name) <= 64 else _hashed(name, *operation[:3]))
    return names


def argument_names(wanted: Iterable[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """Return an argument name for each (place, name); the place of a body property is ``body``. [CV-16]

    A name that only one of them has is kept. Where several share it, the body's stays and the others get their
    place after it; where that is taken too, or a name is not legal, a hash makes it unique.
    """
    pairs = list(wanted)
    clean = {pair: _clean(pair[1]) for pair in pairs}
    count = Counter(clean.values())
    names: dict[tuple[str, str], str] = {}
    taken: set[str] = set()
    for pair in pairs:
        if _LEGAL_ARGUMENT.fullmatch(pair[1]) and (count[clean[pair]] == 1 or pair[0] == "body"):
            names[pair] = clean[pair]
            taken.add(clean[pair])
    for pair in pairs:
        if pair in names:
            continue
        place, name = pair
        choice = clean[pair] if count[clean[pair]] == 1 or place == "body" else f"{clean[pair]}_{place}"
        while choice in taken or len(choice) > 64:
            choice = _hashed(clean[pair], choice, place, name)
        names[pair] = choice
        taken.add(choice)
    return names


def _plain(operation: Named) -> str:
    if isinstance(operation.id, str) and operation.id:
        name = re.sub(r"[^A-Za-z0-9_-]+", "_", operation.id)
        if re.search(r"[A-Za-z0-9]", name):
            return name if _LEGAL_TOOL.match(name) else f"_{name}"
    words = re.sub(r"[^A-Za-z0-9]+", "_", operation.path).strip("_")
    return f"{operation.method.lower()}_{words}".rstrip("_")


def _folded(name: str) -> str:
    return name.replace("-", "_")  # a tool's id does not tell the two apart


def _clean(name: str) -> str:
    return name if _LEGAL_ARGUMENT.fullmatch(name) else re.sub(r"[^A-Za-z0-9_.-]+", "_", name).strip("_") or "argument"


def _hashed(name: str, *parts: str) -> str:
    digest = hashlib.sha256("|".join(parts).encode("utf-8", "replace")).hexdigest()
    return f"{name[:55]}_{digest[:8]}"
