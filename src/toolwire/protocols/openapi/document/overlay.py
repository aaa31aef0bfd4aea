"""Read and apply Overlays 1.0 and 1.1, with which a user adds ``x-llm`` or better texts to a document of another.

Rules:
- Actions apply in order, each to the result of the one before. An action without effect is a finding.
- Since 1.1 an action can copy a value of the document, and an update replaces a text, a number or a boolean.
- The document is not changed; a changed copy is returned.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

from toolwire.core.model import Json, Kind, Problem
from toolwire.framing.jsontext import MAX_DEPTH, describe_type

from .findings import Note

_VERSION: Final = re.compile(r"1\.(\d{1,3})\.\d{1,3}", re.ASCII)
_LATEST_MINOR: Final = 1
_MAX_ACTIONS: Final = 10_000
_MAX_ADDED: Final = 1_000_000
_CHARACTERS_OF_VALUE: Final = 32
_Step: TypeAlias = str | int


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """One action: the matches of ``target``, a JSONPath (RFC 9535), are removed or merged with ``update``.

    ``copy`` is the JSONPath of the one value that is merged instead, or empty. ``does_nothing``: it has none of them.
    """

    target: str
    update: Json = None
    remove: bool = False
    copy: str = ""
    does_nothing: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlay:
    """An overlay: its title, its actions in order, and its minor version, such as 1 of 1.1.0."""

    title: str
    actions: tuple[Action, ...]
    minor: int = 0


class _Size(NamedTuple):
    """How many values something has, a long text counting as several, and how many levels."""

    values: int
    depth: int


class OverlayOutcome(NamedTuple):
    """A document with an overlay applied, a finding for each target without a match, and those actions' numbers."""

    document: dict[str, Any]
    notes: list[Note]
    missing: frozenset[int] = frozenset()


def read(data: Json) -> Overlay | Problem:
    """Return the overlay in ``data``, or a Problem that says why it cannot be used."""
    from .overlay_target import check_target  # only users with an overlay need the library of JSONPath

    if not isinstance(data, dict):
        return _build_problem(f"an overlay must be an object, not {describe_type(data)}")
    version, listed = data.get("overlay"), data.get("actions")
    form = _VERSION.fullmatch(version) if isinstance(version, str) else None
    if form is None:
        return _build_problem('its "overlay" must be a version such as "1.0.0"')
    if not isinstance(listed, list) or not 1 <= len(listed) <= _MAX_ACTIONS:
        return _build_problem(f'its "actions" must be a list of 1 to {_MAX_ACTIONS:,}')
    actions: list[Action] = []
    minor = int(form[1])
    for number, one in enumerate(listed):
        match one:
            case {"target": str(target)}:
                actions.append(_read_action(target, one, minor))
            case _:
                return _build_problem(f"action {number} has no target")
        try:
            check_target(actions[-1].target)
            if actions[-1].copy:
                check_target(actions[-1].copy)
        except ValueError as error:
            return _build_problem(f"the target of action {number} is not a JSONPath: {error}")
    info = data.get("info")
    title = info.get("title") if isinstance(info, dict) else None
    return Overlay(title=title if isinstance(title, str) else "Overlay", actions=tuple(actions), minor=minor)


def _read_action(target: str, one: Mapping[str, Any], minor: int) -> Action:
    update, remove, copy = one.get("update"), one.get("remove") is True, one.get("copy")
    # Overlay 1.1: copy counts only without the other two, and 1.0 does not know it.
    copied = copy if isinstance(copy, str) and minor >= 1 and not remove and "update" not in one else ""
    return Action(
        target=target,
        update=update,
        remove=remove,
        copy=copied,
        does_nothing=not remove and not copied and "update" not in one,
    )


def apply(overlay: Overlay, document: Mapping[str, Any]) -> OverlayOutcome | Problem:
    """Return a copy of ``document`` with every action of ``overlay`` applied.

    Return a Problem if its targets look at each value of the document more than ten times (a small document: half a
    million values in all), or its updates add more than a million values, or make it deeper than 200 levels.
    """
    # D-17: the author of an overlay is often not its user.
    from .overlay_target import StepBudget, WorkExceededError, find_locations  # see ``read``

    changed = deepcopy(dict(document))
    notes = list(_note_version(overlay))
    missing: set[int] = set()
    budget, room = StepBudget(_measure(changed).values), _MAX_ADDED
    for number, action in enumerate(overlay.actions):
        try:
            places = _find_places(find_locations, action.target, changed, budget)
            sources = _find_places(find_locations, action.copy, changed, budget) if action.copy else []
        except WorkExceededError:
            return _build_problem(f"its targets up to action {number} take too much work. Use more specific targets")
        if not places:
            missing.add(number)
            notes.append(Note("", f"The overlay's target {action.target[:200]} is not in the document"))
            continue
        update = deepcopy(_get_node(changed, sources[0])) if len(sources) == 1 else action.update
        added = _measure(update)
        # Counted before anything is copied, so that the limit holds for the work too.
        room -= 0 if action.remove else added.values * len(places)
        if room < 0:
            return _build_problem(f"actions 1 to {number} add more than {_MAX_ADDED:,} values")
        if not action.remove and added.depth + max(map(len, places), default=0) > MAX_DEPTH:
            return _build_problem(f"action {number} nests the document deeper than {MAX_DEPTH} levels")
        idle = _describe_idle(action, len(sources)) or _change(changed, action, places, update, overlay.minor)
        if idle:  # O-36
            notes.append(Note("", f"The overlay's action {number} has no effect at {action.target[:200]}: {idle}"))
    return OverlayOutcome(changed, notes, frozenset(missing))


def _describe_idle(action: Action, sources: int) -> str:
    """Return why ``action`` does nothing anywhere; empty if it may do something."""
    if action.does_nothing:
        return "it has no update, no remove and, for Overlay 1.1, no copy"
    if action.copy and sources != 1:
        return f"{action.copy[:200]} is {sources:,} values of the document, and one can be copied"
    return ""


def _change(document: Any, action: Action, places: list[tuple[_Step, ...]], update: Json, minor: int) -> str:
    """Change ``document`` at ``places``; return why that had no effect somewhere, or nothing."""
    if action.remove:
        # Removed from the deepest and last place on: a removal moves the items behind it.
        for steps in sorted(places, key=_order_from_last, reverse=True):
            _remove_at(document, steps)
        return "" if all(places) else "the whole document is not removed"
    done = [_merge_at(document, steps, update, minor=minor, is_copy=bool(action.copy)) for steps in places]
    return "" if all(done) else "the update is not of the kind of the value there"


def _note_version(overlay: Overlay) -> Iterator[Note]:
    if overlay.minor > _LATEST_MINOR:
        yield Note("", f"Overlay 1.{overlay.minor} is newer than 1.{_LATEST_MINOR}, and read like it")


def _find_places(find: Any, target: str, document: Json, budget: Any) -> list[tuple[_Step, ...]]:
    try:
        places: list[tuple[_Step, ...]] = find(target, document, budget)
    except ValueError:
        return []
    return places


def _measure(data: Json) -> _Size:
    """Return how large and how deep ``data`` is."""
    values, characters, max_depth = 0, 0, 0
    waiting: list[tuple[Any, int]] = [(data, 1)]
    while waiting:
        value, depth = waiting.pop()
        values, max_depth = values + 1, max(max_depth, depth)
        if isinstance(value, dict):
            characters += sum(map(len, value))
            waiting.extend((member, depth + 1) for member in value.values())
        elif isinstance(value, list):
            waiting.extend((item, depth + 1) for item in value)
        elif isinstance(value, str):
            characters += len(value)
    return _Size(values + characters // _CHARACTERS_OF_VALUE, max_depth)


def _order_from_last(steps: tuple[_Step, ...]) -> tuple[int, int]:
    last = steps[-1] if steps else 0
    return len(steps), last if isinstance(last, int) else 0


def _remove_at(document: Any, steps: tuple[_Step, ...]) -> None:
    if steps:
        del _get_node(document, steps[:-1])[steps[-1]]


def _merge_at(document: Any, steps: tuple[_Step, ...], update: Json, *, minor: int, is_copy: bool) -> bool:
    """Merge ``update`` into what is at ``steps``; return whether that had an effect."""
    found = _get_node(document, steps)
    if isinstance(found, list):
        # An update of an array is one item to append; since 1.1 a list that is copied is added to it. A copy of its
        # own, because later actions may change it here.
        found.extend(deepcopy(update) if is_copy and isinstance(update, list) else [deepcopy(update)])
    elif isinstance(found, dict) and isinstance(update, dict):
        _merge(found, update)
    elif minor >= 1 and steps and not isinstance(found, dict) and not isinstance(update, dict | list):
        _get_node(document, steps[:-1])[steps[-1]] = update
    else:
        return False
    return True


def _merge(whole: dict[str, Any], update: Mapping[str, Any]) -> None:
    for key, value in update.items():
        old = whole.get(key)
        if isinstance(old, dict) and isinstance(value, dict):
            _merge(old, value)
        elif isinstance(old, list) and isinstance(value, list):
            old.extend(deepcopy(value))
        else:
            whole[key] = deepcopy(value)


def _get_node(document: Any, steps: tuple[_Step, ...]) -> Any:
    for step in steps:
        if isinstance(step, str):
            document = document.get(step) if isinstance(document, dict) else None
        else:
            document = document[step] if isinstance(document, list) and step < len(document) else None
    return document


def _build_problem(reason: str) -> Problem:
    return Problem(kind=Kind.MALFORMED, message=f"Cannot use the overlay: {reason}.")
