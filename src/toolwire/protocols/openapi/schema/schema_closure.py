"""Select the definitions of a schema, and how detailed each is: those that a call needs first, up to a size."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from heapq import heappop, heappush
from typing import NamedTuple

from toolwire.core.model import Json

from .relaxation import CUT, EXACT, Looseness
from .schema_size import STUB

_STUB_BYTES = 40
_STRUCTURE_SHARE = 0.85
_BYTES_A_STEP = 20_000
_MAX_REACHED = 5_000


class Definition(NamedTuple):
    """A converted definition, the names of the definitions it refers to, its size in bytes, and its own looseness.

    ``is_guarded``: it has a keyword that forbids or counts, so that wider definitions inside it have an effect on it.
    """

    schema: dict[str, Json]
    names: tuple[str, ...]
    size: int
    looseness: Looseness = EXACT
    is_guarded: bool = False


class Forms(NamedTuple):
    """A definition in three sizes, the most detailed first, and the distance of each definition it refers to."""

    brief: Definition
    bare: Definition
    outline: Definition
    near: Mapping[str, float]


class SchemaClosure(NamedTuple):
    """The definitions of a schema by name, the names of those left out, and the size of the complete schema."""

    found: dict[str, Definition]
    left_out: set[str]
    size: int


def gather_whole(
    names: Iterable[str], size: int, most: int, define: Callable[[str], Definition]
) -> SchemaClosure | None:
    """Return all definitions reachable from ``names``, or None if the result is larger than ``most`` bytes."""
    found: dict[str, Definition] = {}
    waiting = deque(sorted(names))
    while waiting:
        name = waiting.popleft()
        if name not in found:
            one = found[name] = define(name)
            # A definition costs its name, two quotes, a colon and a comma besides its schema.
            size += len(name) + 4 + one.size
            if size > most:
                return None
            waiting.extend(one.names)
    return SchemaClosure(found, set(), size)


def gather_ranked(names: Mapping[str, float], size: int, most: int, forms: Callable[[str], Forms]) -> SchemaClosure:
    """Return the definitions reachable from ``names``, the nearest first, in at most ``most`` bytes.

    First each is added without descriptions, then the nearest get theirs. If not all fit, 15 percent of the room is
    reserved for descriptions.
    """
    gathered = _gather(names, size, most, most, forms)
    if gathered.left_out:
        gathered = _gather(names, size, most, size + int((most - size) * _STRUCTURE_SHARE), forms)
    return gathered


def _gather(
    names: Mapping[str, float], size: int, most: int, full: int, forms: Callable[[str], Forms]
) -> SchemaClosure:
    found: dict[str, Definition] = {}
    left_out: set[str] = set()
    waiting: list[tuple[float, str]] = sorted((distance, name) for name, distance in names.items())
    ranked: list[str] = []
    while waiting:
        distance, name = heappop(waiting)
        if name in found:
            continue
        several = forms(name)
        size += len(name) + 4
        chosen = next((one for one in several[1:3] if size + one.size <= full), None) if _has_room(found) else None
        if chosen is None:
            left_out.add(name)
            # A reference must lead somewhere, so what has no room gets a stub that accepts anything.
            found[name] = Definition(STUB, (), _STUB_BYTES, CUT)
            size += _STUB_BYTES
            continue
        found[name] = chosen
        size += chosen.size
        ranked.append(name)
        # A large definition counts as farther: its parts are many, and each is needed less often.
        farther = distance + several.bare.size / _BYTES_A_STEP
        for other in chosen.names:
            if other not in found:
                heappush(waiting, (farther + several.near.get(other, 1.0), other))
    for name in ranked:
        more = forms(name).brief
        # The nearest come first, so their descriptions take the room that is left.
        if found[name] is forms(name).bare and size - found[name].size + more.size <= most:
            size += more.size - found[name].size
            found[name] = more
    return SchemaClosure(found, left_out, size)


def _has_room(found: Mapping[str, Definition]) -> bool:
    return len(found) < _MAX_REACHED
