"""Check an OpenAPI Overlay, alone or with the OpenAPI documents that it is for."""
# CL-04

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Any, Final, NamedTuple

from toolwire.core.json_pointer import parse_pointer
from toolwire.core.model import Json, Problem
from toolwire.framing import jsontext
from toolwire.framing.jsontext import describe_type
from toolwire.framing.report import MAX_FAULTS, Path, PathFault, Severity
from toolwire.framing.text_faults import Fault

from . import validator
from .document import overlay

MAX_BYTES: Final = 4 * 1024 * 1024
"""The largest overlay that is read."""

_RULE: Final = "CL-04"
_KNOWN: Final = frozenset({"overlay", "info", "extends", "actions"})
_OF_ACTION: Final = frozenset({"target", "description", "update", "remove", "copy"})


class OverlayTarget(NamedTuple):
    """An OpenAPI document that an overlay is compared with, and the name of its file."""

    name: str
    data: Json


def check(text: bytes, name: str = "", documents: Iterable[OverlayTarget] = ()) -> tuple[Fault, ...]:
    """Return what is wrong with ``text``, from the file ``name``, as an overlay, in its order.

    It is applied to each of ``documents``: a target that is in none of them is a warning, and what is wrong with a
    document only because of the overlay is a fault of it.
    """
    return validator.find_text_faults(text, name, partial(_list_faults, documents=tuple(documents)), MAX_BYTES)


def _list_faults(data: Json, *, documents: Sequence[OverlayTarget]) -> Sequence[PathFault]:
    return list(islice(_examine(data, documents), MAX_FAULTS))


def _examine(data: Json, documents: Sequence[OverlayTarget]) -> Iterator[PathFault]:
    is_usable = True
    for fault in _examine_structure(data):
        is_usable = is_usable and fault.severity != "error"
        yield fault
    read = overlay.read(data) if is_usable else None
    if isinstance(read, Problem):  # what no row above names
        yield _build(None, "error", f"Cannot use this overlay: {read.message.rstrip('.')}.")
    elif read is not None and documents:
        yield from _compare(read, documents)


def _examine_structure(data: Json) -> Iterator[PathFault]:
    if not isinstance(data, dict):
        yield _build(None, "error", f"An overlay must be an object, not {describe_type(data)}.")
        return
    if not isinstance(data.get("overlay"), str):
        yield _build((None, "overlay"), "error", '"overlay" must be the version of the specification, such as "1.0.0".')
    info = data.get("info")
    if not isinstance(info, dict) or not all(isinstance(info.get(name), str) for name in ("title", "version")):
        yield _build((None, "info"), "warning", '"info" must have a "title" and a "version".')
    for name in data:
        if name not in _KNOWN and not name.startswith("x-"):
            yield _build((None, name), "warning", f'"{name[:60]}" is not a member of an overlay, so it is ignored.')
    actions = data.get("actions")
    if not isinstance(actions, list) or not actions:
        yield _build((None, "actions"), "error", '"actions" must be a list of at least one action.')
        return
    for number, action in enumerate(actions):
        yield from _examine_action(action, ((None, "actions"), number))


def _examine_action(action: Json, path: Path) -> Iterator[PathFault]:
    from .document.overlay_target import check_target  # only users with an overlay need the library of JSONPath

    if not isinstance(action, dict):
        yield _build(path, "error", f"An action must be an object, not {describe_type(action)}.")
        return
    target, remove = action.get("target"), action.get("remove", False)
    if not isinstance(target, str):
        yield _build((path, "target"), "error", '"target" must be a JSONPath, a string such as "$.info".')
    else:
        try:
            check_target(target)
        except ValueError as error:
            yield _build((path, "target"), "error", f"Invalid JSONPath: {str(error).rstrip('.')}.")
    if not isinstance(remove, bool):
        yield _build((path, "remove"), "error", f'"remove" must be true or false, not {describe_type(remove)}.')
    elif not remove and "update" not in action and "copy" not in action:
        yield _build(path, "warning", 'This action has no effect: give it an "update", a "copy", or "remove": true.')
    elif remove and ("update" in action or "copy" in action):
        yield _build((path, "update"), "warning", "This has no effect: the action removes its targets.")
    for name in action:
        if name not in _OF_ACTION and not name.startswith("x-"):
            yield _build((path, name), "warning", f'"{name[:60]}" is not a member of an action, so it is ignored.')


def _compare(read: overlay.Overlay, documents: Sequence[OverlayTarget]) -> Iterator[PathFault]:
    """Apply the overlay to each document, and yield what that shows."""
    missing: list[frozenset[int]] = []
    for one in documents:
        if not isinstance(one.data, dict):
            continue
        outcome = overlay.apply(read, one.data)
        if isinstance(outcome, Problem):
            yield _build((None, "actions"), "error", f"{one.name}: {outcome.message.rstrip('.')}.")
            continue
        missing.append(outcome.missing)
        yield from _list_caused(read, one, outcome.document)
    for number in sorted(frozenset[int].intersection(*missing)) if missing else ():
        text = "No document here contains this target, so the action changes nothing."
        yield _build((((None, "actions"), number), "target"), "warning", text)


def _list_caused(read: overlay.Overlay, before: OverlayTarget, changed: dict[str, Any]) -> Iterator[PathFault]:
    """Yield what is wrong with a document only since it was changed, at the action that changed it."""
    known = {(one.pointer, one.rule, one.message) for one in validator.check(jsontext.write(before.data), before.name)}
    caused = [
        one
        for one in validator.check(jsontext.write(changed), before.name)
        if (one.pointer, one.rule, one.message) not in known
    ]
    places = _locate_actions(read, changed) if caused else []
    for one in caused:
        steps = tuple(map(str, parse_pointer(one.pointer)))
        number = next((number for number, found in places if any(steps[: len(place)] == place for place in found)), -1)
        path: Path = (None, "actions") if number < 0 else ((None, "actions"), number)
        text = f"With this overlay, {before.name}{f' {one.pointer}' if one.pointer else ''}: {one.message}"
        yield PathFault(path, one.severity, one.rule, text, is_structural=False)


def _locate_actions(read: overlay.Overlay, changed: dict[str, Any]) -> list[tuple[int, list[tuple[str, ...]]]]:
    """Return the places of each action in the changed document, the last action first; as many as the limits allow."""
    from .document.overlay_target import StepBudget, WorkExceededError, find_locations  # see ``_examine_action``

    budget, found = StepBudget(), list[tuple[int, list[tuple[str, ...]]]]()
    try:
        for number, action in reversed(list(enumerate(read.actions))):
            places = find_locations(action.target, changed, budget)
            found.append((number, [tuple(map(str, steps)) for steps in places]))
    except WorkExceededError:
        pass  # then the faults stand at the list of actions
    return found


def _build(path: Path, severity: Severity, message: str) -> PathFault:
    return PathFault(path, severity, _RULE, message, is_structural=True)
