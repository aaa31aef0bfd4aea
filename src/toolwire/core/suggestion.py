"""Suggest the name that was probably meant, for a helpful error message."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from .lazy_import import import_lazily

if TYPE_CHECKING:
    from difflib import SequenceMatcher

# Only an error message needs the module.
(_match_sequences,) = import_lazily("difflib", "SequenceMatcher")

_MAX_CHARACTERS = 64
_MAX_NAMES = 1_000
_LIKENESS = 0.5
_MIN_PREFIX = 3


def find_nearest(name: str, names: Iterable[str]) -> str:
    """Return the most similar of ``names`` to ``name``, or ``""`` if none is similar."""
    wanted = _normalize(name)
    best, likeness = "", _LIKENESS
    for number, one in enumerate(names):
        if number == _MAX_NAMES:
            break
        normalized = _normalize(one)
        # Generated names begin with the one that people know: get_item and get_item_items__item_id__get.
        if len(wanted) >= _MIN_PREFIX and normalized.startswith(wanted):
            begun = _LIKENESS + _LIKENESS * len(wanted) / len(normalized)
            if begun > likeness:
                best, likeness = one, begun
            continue
        matcher: SequenceMatcher[str] = _match_sequences(None, normalized, wanted, autojunk=False)
        if matcher.real_quick_ratio() >= likeness and (ratio := matcher.ratio()) > likeness:
            best, likeness = one, ratio
    return best


def _normalize(name: str) -> str:
    """Return ``name`` in lower case, with letters and digits only: people spell the rest differently."""
    return "".join(character for character in name[:_MAX_CHARACTERS].lower() if character.isalnum())
