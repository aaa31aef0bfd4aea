"""Map a place in an upgraded OpenAPI document back to the Swagger 2.0 document that it was made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from toolwire.core.json_pointer import PathStep
from toolwire.core.model import Json

_MOVED: Final = {
    "schemas": "definitions",
    "responses": "responses",
    "parameters": "parameters",
    "securitySchemes": "securityDefinitions",
}


def locate_original(old: Json, new: Json, steps: Sequence[PathStep]) -> tuple[PathStep, ...]:
    """Return the steps in the Swagger document ``old`` to the place of ``steps`` in ``new``, which was made of it.

    If ``old`` has no such place, the steps lead to the nearest object that contains what was meant.
    """
    taken: list[PathStep] = []
    rest = list(steps)
    if rest[:1] == ["components"] and len(rest) > 1:
        rest[:2] = [_MOVED.get(str(rest[1]), str(rest[1]))]
        new = {rest[0]: _get_member(_get_member(new, "components"), steps[1])}
    while rest:
        step = rest.pop(0)
        if isinstance(new, list) and isinstance(step, str) and step.isdecimal():
            step = int(step)
        inner = _get_member(new, step)
        if taken[-1:] == ["parameters"] and isinstance(step, int) and isinstance(inner, dict):
            found = _find_parameter(old, inner)
            if found is None:
                return tuple(taken[:-1])
            step = found
        elif step == "requestBody" and isinstance(old, dict):
            return (*taken, *_locate_in_body(old.get("parameters"), rest))
        # 3.0 puts the media type between a response and its schema; 2.0 has nothing there.
        elif step == "content" and not _has_step(old, step):
            inner = _get_member(inner, rest.pop(0)) if rest else inner
            new = inner
            continue
        elif step == "schema" and not _has_step(old, step):
            new = inner
            continue
        if not _has_step(old, step):
            break
        taken.append(step)
        old, new = _get_member(old, step), inner
    return tuple(taken)


def _locate_in_body(parameters: Json, rest: Sequence[PathStep]) -> tuple[PathStep, ...]:
    """Return the steps to the body parameter, or to the form parameter, and on to the place in it."""
    steps = list(rest[2:]) if rest[:1] == ["content"] else []  # what follows the media type
    for place, one in enumerate(parameters if isinstance(parameters, list) else ()):
        if not isinstance(one, dict):
            continue
        if one.get("in") == "body":
            return ("parameters", place, *_select_existing(one, steps))
        is_member = steps[:2] == ["schema", "properties"] and steps[2:3] == [one.get("name")]
        if one.get("in") == "formData" and is_member:
            return ("parameters", place, *_select_existing(one, steps[3:]))
    return ()


def _select_existing(node: Json, steps: Sequence[PathStep]) -> list[PathStep]:
    taken: list[PathStep] = []
    for step in steps:
        if not _has_step(node, step):
            break
        taken.append(step)
        node = _get_member(node, step)
    return taken


def _find_parameter(listed: Json, wanted: dict[str, Any]) -> int | None:
    """Return the index of a parameter in the old list, which still has the body and form parameters."""
    for place, one in enumerate(listed if isinstance(listed, list) else ()):
        if not isinstance(one, dict):
            continue
        # The new document has another pointer to it, with the same name at the end.
        if isinstance(one.get("$ref"), str):
            if str(wanted.get("$ref", "")).rpartition("/")[2] == one["$ref"].rpartition("/")[2]:
                return place
        elif (one.get("name"), one.get("in")) == (wanted.get("name"), wanted.get("in")):
            return place
    return None


def _has_step(node: Json, step: PathStep) -> bool:
    if isinstance(node, list):
        return isinstance(step, int) and step < len(node)
    return isinstance(node, dict) and step in node


def _get_member(node: Any, step: PathStep) -> Any:
    return node[step] if _has_step(node, step) else None
