"""Describe in words what has changed in a tool since the user approved it."""
# FU-58, XL-047

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from toolwire.core.model import Json
from toolwire.framing.visible_text import make_visible, make_visible_json

from .tool_definition import Change

_MAX_LENGTH = 300
_TEXTS: Final = {
    "name": "Its name",
    "description": "Its description",
    "hint": "Its hint",
    "hints": "The set of its hints",
    "target": "Where a call goes",
    "credential": "What signs a call",
    "cost": "Its cost",
    "scopes": "The set of its scopes",
    "approval": "How much consent its server asks for",
    "version": "Its version",
    "question": "The question that its server asks",
}
_SCHEMAS: Final = {"input_schema": "argument", "parameters": "argument", "output_schema": "member of the result"}
_SWITCHES: Final = {
    "destructive": ("It now declares that it destroys something.", "It no longer declares that it destroys something."),
    "safe": ("Its server now declares that it is read-only.", "Its server no longer declares that it is read-only."),
    "long": (
        "A call can now continue after its client disconnects.",
        "A call no longer continues after its client disconnects.",
    ),
    "blanket_allowed": (
        "One answer can now apply to later calls.",
        "One answer no longer applies to later calls.",
    ),
    "idempotent": ("A call can now be repeated safely.", "A call can no longer be repeated safely."),
}


def describe_change(change: Change) -> str:
    """Return ``change`` as one line of words, with the old and the new value."""
    if change.part in _SWITCHES and isinstance(change.after, bool | None):
        return _SWITCHES[change.part][0 if change.after else 1]
    if change.part in _SCHEMAS and isinstance(change.before, Mapping) and isinstance(change.after, Mapping):
        words = "; ".join(_list_schema_changes(_SCHEMAS[change.part], change.before, change.after))
        if words:
            return f"{words[0].upper()}{words[1:]}."
    label = _TEXTS.get(change.part, f"Its {make_visible(change.part).replace('_', ' ')}")
    more = " It might do more than before." if change.direction == "wider" else ""
    return f"{label} was {_quote(change.before)}. Now it is {_quote(change.after)}.{more}"


def _list_schema_changes(kind: str, before: Mapping[str, Json], after: Mapping[str, Json]) -> Iterator[str]:
    old, new = _find_members(before), _find_members(after)
    for name in new.keys() - old.keys():
        yield f"the {kind} {make_visible(name)} is new"
    for name in old.keys() - new.keys():
        yield f"the {kind} {make_visible(name)} is gone"
    for name in sorted(old.keys() & new.keys()):
        if old[name] != new[name]:
            yield f"the {kind} {make_visible(name)} was {_quote(old[name])} and is now {_quote(new[name])}"


def _find_members(schema: Mapping[str, Json]) -> Mapping[str, Json]:
    members = schema.get("properties", schema)
    return members if isinstance(members, Mapping) else {}


def _quote(value: Json) -> str:
    if value in ("", None, [], {}):
        return "empty"
    text = f"“{make_visible(value)}”" if isinstance(value, str) else make_visible_json(value)
    return text if len(text) <= _MAX_LENGTH else f"{text[:_MAX_LENGTH]}… ({len(text):,} characters)"
