"""A tool's definition as plain data with a digest, and what a change of it means to the person who approved it.

Rules:
- Every part counts: name, description, hint, schemas, method, server, security, policy. One byte is a change. [D-04]
- A change widens unless it is known not to: the careful word where there is doubt.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import fields
from enum import Enum
from hashlib import sha256
from typing import Any, Literal, NamedTuple, TypeAlias

from toolwire.core.model import Json, RateLimit, Schema, Tool
from toolwire.framing.visible_text import visible_json

from .policy import site_level

Direction: TypeAlias = Literal["wider", "narrower", "same"]
"""What a change does to the reach of a tool: more, less, or nothing that we know of."""

_WORDS = frozenset({"description", "hint", "deprecated", "idempotent", "output_name", "output_schema"})
_SHOWN = 300


class Change(NamedTuple):
    """One part of a definition that is not what it was."""

    part: str
    direction: Direction
    before: Json
    after: Json

    @property
    def sentence(self) -> str:
        """The change as one line that is fit to show."""
        return f"{self.part} ({self.direction}): {_cut(visible_json(self.before))} -> {_cut(visible_json(self.after))}"


def definition(tool: Tool, *, target: str = "", credential: str = "", plan: Any = None) -> dict[str, Json]:
    """Return all there is to ``tool`` as plain JSON data; ``target`` is its method and URL as declared.

    ``plan`` is what else decides the requests of a call: the places of parameters, their names there, media types.
    """
    # XL-047: a grant is void once anything that decides the request is another.
    data = {each.name: plain(getattr(tool, each.name)) for each in fields(tool) if each.name != "claimed_safe"}
    # XL-044: what the site says, whether or not it was agreed to; agreeing must not look like a change.
    data["safe"] = tool.safe or tool.claimed_safe
    return {**data, "approval": site_level(tool).value, "target": target, "plan": plain(plan), "credential": credential}


def definition_hash(definition: Mapping[str, Json]) -> str:
    """Return the digest of a definition."""
    return digest(definition)


def digest(data: Json) -> str:
    """Return the SHA-256 of ``data`` in one spelling: names sorted, no spaces, UTF-8. [XL-050]"""
    text = json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def plain(data: Any) -> Json:  # noqa: PLR0911 - a sort of data each
    """Return ``data`` as JSON data, the same for equal data in every process."""
    match data:
        case Enum():
            return plain(data.value)
        case None | bool() | int() | float() | str():
            return data
        case Mapping():
            return {str(name): plain(value) for name, value in data.items()}
        case set() | frozenset():
            return sorted((plain(item) for item in data), key=repr)
        case list() | tuple():
            return [plain(item) for item in data]
        case bytes():
            return data.hex()
        case _ if hasattr(data, "__dataclass_fields__"):
            return {each.name: plain(getattr(data, each.name)) for each in fields(data)}
        case _:
            return type(data).__qualname__


def changes(before: Mapping[str, Json], after: Mapping[str, Json]) -> tuple[Change, ...]:
    """Return every part in which two definitions differ, and whether it lets the tool do more or less."""
    parts = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    return tuple(Change(part, _direction(part, before, after), before.get(part), after.get(part)) for part in parts)


def reach(found: tuple[Change, ...]) -> Direction:
    """Return the one word for several changes: wider if any is wider."""
    words = {change.direction for change in found}
    return "wider" if "wider" in words else "narrower" if "narrower" in words else "same"


def _direction(part: str, before: Mapping[str, Json], after: Mapping[str, Json]) -> Direction:
    if part in _WORDS:
        return "same"
    judge = _JUDGES.get(part)
    return "wider" if judge is None else judge(before.get(part), after.get(part))


def _given(_: Json, new: Json) -> Direction:
    return "wider" if new else "narrower"


def _taken(_: Json, new: Json) -> Direction:
    return "narrower" if new else "wider"


def _scopes(old: Json, new: Json) -> Direction:
    return "narrower" if isinstance(new, list) and isinstance(old, list) and set(new) < set(old) else "wider"


def _cost(_: Json, new: Json) -> Direction:
    return "narrower" if new in (None, "free") else "wider"


def _limit(old: Json, new: Json) -> Direction:
    return "wider" if new is None or (old is not None and _rate(new) > _rate(old)) else "narrower"


def _approval(old: Json, new: Json) -> Direction:
    levels = {"auto": 0, "per-call": 1, "deny": 2}
    return "narrower" if levels.get(str(new), 0) > levels.get(str(old), 0) else "wider"


def _rate(limit: Json) -> float:
    read = RateLimit(max=limit["max"], window=limit["window"])
    return read.max / read.window_s


def _schema(old: Json, new: Json) -> Direction:
    """Compare what arguments there are: fewer is narrower; the same names with other words in them is the same."""
    before, after = _properties(old), _properties(new)
    if set(after) - set(before):
        return "wider"
    if set(before) - set(after):
        return "narrower"
    same_types = all(_type(before[name]) == _type(after[name]) for name in before)
    return "same" if same_types and _required(old) == _required(new) else "wider"


def _properties(schema: Json) -> Schema:
    found = schema.get("properties") if isinstance(schema, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def _required(schema: Json) -> Json:
    return schema.get("required", []) if isinstance(schema, Mapping) else []


def _type(schema: Json) -> Json:
    if not isinstance(schema, Mapping):
        return schema
    return {name: value for name, value in schema.items() if name not in ("description", "title", "examples")}


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}... ({len(text):,} characters)"


_JUDGES: Mapping[str, Callable[[Json, Json], Direction]] = {
    "approval": _approval,
    "destructive": _given,
    "blanket_allowed": _given,
    "safe": _taken,
    "scopes": _scopes,
    "cost": _cost,
    "rate_limit": _limit,
    "input_schema": _schema,
}
"""Who says what a change of a part means; a part that nobody judges is wider."""
