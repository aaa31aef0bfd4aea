"""Decide which regular expressions of schemas can be used."""

from __future__ import annotations

from functools import lru_cache

import jsonschema_rs

from .regex_size import looks_around, measure_regex

MAX_CHARACTERS = 2_000
_MAX_STATES = 400_000
_MAX_STATES_OF_ALL = 10_000_000
_STATES_OF_ANY = 250  # measured: what the smallest pattern costs, in states


@lru_cache(maxsize=4_096)
def is_pattern(text: str) -> bool:
    """Return whether ``text`` is a regular expression that the validator takes, and neither long nor large.

    At most 2,000 characters, and 400,000 states once its repeats are written out.
    """
    # D-15
    if len(text) > MAX_CHARACTERS or measure_regex(text).states > _MAX_STATES:
        return False
    try:
        jsonschema_rs.Draft202012Validator({"pattern": text}, validate_formats=False)
    except (jsonschema_rs.ValidationError, ValueError):
        return False
    return True


def is_linear_pattern(text: str) -> bool:
    """Return whether ``text`` is a pattern that is matched in time linear in the text: one without look-around.

    A pattern with look-around or references back is matched by trying, and one that gives up looks like one that does
    not match.
    """
    # CC-01, D-15
    return not looks_around(text) and is_pattern(text)


class PatternBudget:
    """Accept the patterns of one document until compiling them would take more than about a second."""

    __slots__ = ("_known", "_left")

    def __init__(self) -> None:
        self._known: dict[str, bool] = {}
        self._left = _MAX_STATES_OF_ALL

    def accepts(self, text: str) -> bool:
        """Return whether ``text`` is a pattern that can be used; what was asked before costs nothing."""
        # D-15, D-17
        known = self._known.get(text)
        if known is None:
            self._left -= _STATES_OF_ANY + (measure_regex(text).states if len(text) <= MAX_CHARACTERS else 0)
            known = self._known[text] = self._left >= 0 and is_pattern(text)
        return known
