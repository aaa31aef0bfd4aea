"""Estimate how large a regular expression is with its repeats written out, without compiling it."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, NamedTuple

_REPEAT: Final = re.compile(r"\{(\d{1,9})(?:(,)(\d{0,9}))?\}")
_LOOKS_AROUND: Final = re.compile(r"\(\?(?:[=!]|<[=!]|>)|\\[1-9k]")
_BROAD: Final = frozenset("wWdDsSpPX")
_BROAD_STATES: Final = 400  # measured: a Unicode class costs about 400 times what a letter does to compile
_BACKTRACKING: Final = 1_000
_MAX_SIZE: Final = 10**12


class RegexSize(NamedTuple):
    """``states`` is what compiling costs, ``steps`` what each character of a text costs at most."""

    states: int
    steps: int


def looks_around(pattern: str) -> bool:
    """Return whether ``pattern`` has look-around, an atomic group or a reference back."""
    return _LOOKS_AROUND.search(pattern) is not None


@lru_cache(maxsize=4_096)
def measure_regex(pattern: str) -> RegexSize:
    """Return the estimated size of ``pattern``, in time linear in its length. A broken one has some size too."""
    states = _count_states(pattern, _BROAD_STATES)
    steps = _count_states(pattern, 1) + (_BACKTRACKING if looks_around(pattern) else 0)
    return RegexSize(states, steps)


def _count_states(pattern: str, broad: int) -> int:
    groups = [0]  # the states of each group that is open
    last = 0  # the states of what a repeat would repeat
    place = 0
    while place < len(pattern):
        character = pattern[place]
        place += 1
        if character == "(":
            groups.append(0)
            last = 0
            continue
        if character == ")":
            last = groups.pop() if len(groups) > 1 else 0
        elif character == "{" and (found := _REPEAT.match(pattern, place - 1)):
            place = found.end()
            times = max(int(found[1]), int(found[3] or 0), 1)
            groups[-1] = min(groups[-1] + last * (times - 1), _MAX_SIZE)
            last = min(last * times, _MAX_SIZE)
            continue
        elif character == "[":
            place, last = _measure_class(pattern, place, broad)
        elif character == "\\":
            last = broad if pattern[place : place + 1] in _BROAD else 1
            place += 1
        elif character in "*+?|^$":
            continue
        else:
            last = 1 if character != "." else max(broad // 40, 1)
        groups[-1] = min(groups[-1] + last, _MAX_SIZE)
    return sum(groups)


def _measure_class(pattern: str, place: int, broad: int) -> tuple[int, int]:
    """Return where a character class ends, and its states."""
    states = max(broad // 40, 1) if pattern[place : place + 1] == "^" else 1
    place += pattern[place : place + 1] == "^"
    place += pattern[place : place + 1] == "]"
    while place < len(pattern) and pattern[place] != "]":
        if pattern[place] == "\\":
            states += broad if broad > 1 and pattern[place + 1 : place + 2] in _BROAD else 0
            place += 1
        place += 1
    return place + 1, states
