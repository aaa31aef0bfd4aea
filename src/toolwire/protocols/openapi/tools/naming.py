"""Choose names that models accept: of tools by operationId, of arguments by parameter or property.

Rules:
- A name depends on its own operation alone; if two would be equal, both get a hash. Order has no effect.
- Every argument stands for exactly one parameter or property.
"""
# XL-082, CV-16, CV-23

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from toolwire.core.model import Json

_LEGAL_TOOL = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
_LEGAL_ARGUMENT = re.compile(r"[A-Za-z0-9_.-]{1,64}")


class OperationName(NamedTuple):
    """The parts of an operation that decide its name. ``origin`` is the site's, ``id`` its operationId or None."""

    origin: str
    method: str
    path: str
    id: Json


def choose_tool_names(operations: Sequence[OperationName]) -> list[str]:
    """Return a unique legal tool name for each of ``operations``, in their order."""
    # XL-080, XL-082, XL-083
    plain = [_build_plain_name(operation) for operation in operations]
    count = Counter(map(_fold, plain))
    spellings = Counter(map(_fold, set(plain)))
    own = Counter(operation.id for operation in operations if isinstance(operation.id, str))
    names: list[str] = []
    for operation, name in zip(operations, plain, strict=True):
        # A name that stands in the document exactly so is kept. One that was only made legal gets a digest.
        exact = name == operation.id and own[name] == 1 and spellings[_fold(name)] == 1
        is_unchanged = exact or count[_fold(name)] == 1
        names.append(name if is_unchanged and len(name) <= 64 else _add_digest(name, *operation[:3]))
    return names


def choose_argument_names(wanted: Iterable[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """Return an argument name for each (place, name); the place of a body property is ``body``.

    A legal and unique name is kept. If several are equal, the body property keeps it and the others get their place as
    suffix. If that name is used too, or a name is not legal, a hash makes it unique.
    """
    # CV-16
    pairs = list(wanted)
    clean = {pair: _clean(pair[1]) for pair in pairs}
    count = Counter(clean.values())
    same = Counter(name for _, name in pairs)
    names: dict[tuple[str, str], str] = {}
    taken: set[str] = set()
    for pair in pairs:
        # First those that need no change, so that they never lose their name to one that was changed.
        if _LEGAL_ARGUMENT.fullmatch(pair[1]) and (same[pair[1]] == 1 or pair[0] == "body"):
            names[pair] = clean[pair]
            taken.add(clean[pair])
    for pair in pairs:
        if pair in names:
            continue
        place, name = pair
        choice = clean[pair] if count[clean[pair]] == 1 or place == "body" else f"{clean[pair]}_{place}"
        while choice in taken or len(choice) > 64:
            choice = _add_digest(clean[pair], choice, place, name)
        names[pair] = choice
        taken.add(choice)
    return names


def _build_plain_name(operation: OperationName) -> str:
    if isinstance(operation.id, str) and operation.id:
        name = re.sub(r"[^A-Za-z0-9_-]+", "_", operation.id)
        if re.search(r"[A-Za-z0-9]", name):
            return name if _LEGAL_TOOL.match(name) else f"_{name}"
    words = re.sub(r"[^A-Za-z0-9]+", "_", operation.path).strip("_")
    return f"{operation.method.lower()}_{words}".rstrip("_")


def _fold(name: str) -> str:
    return name.replace("-", "_")  # equal in the id of a tool


def _clean(name: str) -> str:
    if _LEGAL_ARGUMENT.fullmatch(name):
        return name
    readable = name.replace("<", "_lt").replace(">", "_gt")  # a comparison is a part of some names: DateSent>=...
    return re.sub(r"[^A-Za-z0-9_.-]+", "_", readable).strip("_") or "argument"


def _add_digest(name: str, *parts: str) -> str:
    digest = hashlib.sha256("|".join(parts).encode("utf-8", "replace")).hexdigest()
    return f"{name[:55]}_{digest[:8]}"
