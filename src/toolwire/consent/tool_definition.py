"""Describe a tool's definition as plain data with a digest, and judge what a change of it means for its approval.

Rules:
- Every part counts: name, description, hint, schemas, method, server, security, policy. One byte is a change.
- A change counts as wider unless we know that it is not.
"""
# D-04: a tool whose description changed after approval may instruct a model to do something else.

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import fields
from enum import Enum
from hashlib import sha256
from types import NoneType
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from toolwire.core.errors import DefinitionError
from toolwire.core.model import Json, RateLimit, Schema, Tool
from toolwire.framing.visible_text import make_visible, make_visible_json

from .policy import site_level

Direction: TypeAlias = Literal["wider", "narrower", "same"]
"""Whether a tool can do more, less or the same after a change, as far as we can tell."""

_TEXT_PARTS = frozenset({"description", "hint", "question", "deprecated", "idempotent", "output_name", "output_schema"})
_MAX_SHOWN = 300


class Change(NamedTuple):
    """One part of a definition that changed."""

    part: str
    direction: Direction
    before: Json
    after: Json

    @property
    def sentence(self) -> str:
        """The change as one line of visible characters."""
        before, after = (_truncate(make_visible_json(value)) for value in (self.before, self.after))
        return f"{make_visible(self.part)} ({self.direction}): {before} -> {after}"


def build_definition(tool: Tool, *, target: str = "", credential: str = "", plan: Any = None) -> dict[str, Json]:
    """Return all parts of ``tool`` as plain JSON data; ``target`` is its method and URL as declared.

    ``plan`` is what else decides the request of a call: where each parameter goes, its name there, media types.
    """
    # XL-047: a grant is void once anything that decides the request changes.
    data = {each.name: to_plain_json(getattr(tool, each.name)) for each in fields(tool) if each.name != "claimed_safe"}
    # XL-044: the claim of the site, whether or not the user agreed to it: an agreement must not look like a change.
    data["safe"] = tool.safe or tool.claimed_safe
    return {
        **data,
        "approval": site_level(tool).value,
        "target": target,
        "plan": to_plain_json(plan),
        "credential": credential,
    }


def definition_hash(definition: Mapping[str, Json]) -> str:
    """Return the digest of a definition."""
    return compute_digest(definition)


def compute_digest(data: Json) -> str:
    """Return the SHA-256 of ``data`` as canonical JSON: names sorted, no spaces, UTF-8."""
    # XL-050
    text = json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


_PLAIN: Final = frozenset((NoneType, bool, int, float, str))


def to_plain_json(data: Any) -> Json:
    """Return ``data`` as JSON data. Equal data give equal JSON in every process."""
    # GR-04: nearly all of a definition is schemas, which are dicts and lists already.
    if type(data) is dict:
        return {str(name): value if type(value) in _PLAIN else to_plain_json(value) for name, value in data.items()}
    if type(data) is list:
        return [item if type(item) in _PLAIN else to_plain_json(item) for item in data]
    result: Json
    match data:
        case Enum():
            result = to_plain_json(data.value)
        case None | bool() | int() | float() | str():
            result = data
        case Mapping():
            result = to_plain_json(dict(data))
        case set() | frozenset():
            result = sorted((to_plain_json(item) for item in data), key=repr)
        case list() | tuple():
            result = to_plain_json([*data])
        case bytes():
            result = data.hex()
        case _ if hasattr(data, "__dataclass_fields__"):
            result = {each.name: to_plain_json(getattr(data, each.name)) for each in fields(data)}
        case _:
            result = type(data).__qualname__  # not repr: that may hold an address, which differs in each process
    return result


def find_changes(before: Mapping[str, Json], after: Mapping[str, Json]) -> tuple[Change, ...]:
    """Return each part in which two definitions differ, and whether it lets the tool do more or less."""
    parts = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    if "blanket_allowed" in parts and after.get("blanket_allowed") is None and not before.get("blanket_allowed"):
        parts.remove("blanket_allowed")  # 1.0.0rc2 and before pinned false where the server is silent
    return tuple(Change(part, _judge_change(part, before, after), before.get(part), after.get(part)) for part in parts)


def overall_direction(found: tuple[Change, ...]) -> Direction:
    """Return one direction for several changes: wider if any of them is wider."""
    words = {change.direction for change in found}
    return "wider" if "wider" in words else "narrower" if "narrower" in words else "same"


def _judge_change(part: str, before: Mapping[str, Json], after: Mapping[str, Json]) -> Direction:
    if part in _TEXT_PARTS:
        return "same"
    judge = _JUDGES.get(part)
    try:
        return "wider" if judge is None else judge(before.get(part), after.get(part))
    except (TypeError, ValueError, KeyError, DefinitionError):  # a lock from elsewhere can hold anything
        return "wider"


def _judge_risky_flag(_: Json, new: Json) -> Direction:
    return "wider" if new else "narrower"


def _judge_safe_flag(_: Json, new: Json) -> Direction:
    return "narrower" if new else "wider"


def _judge_scopes(old: Json, new: Json) -> Direction:
    return "narrower" if isinstance(new, list) and isinstance(old, list) and set(new) < set(old) else "wider"


def _judge_cost(_: Json, new: Json) -> Direction:
    return "narrower" if new in (None, "free") else "wider"


def _judge_rate_limit(old: Json, new: Json) -> Direction:
    return (
        "wider" if new is None or (old is not None and _calls_per_second(new) > _calls_per_second(old)) else "narrower"
    )


def _judge_approval(old: Json, new: Json) -> Direction:
    levels = {"auto": 0, "per-call": 1, "deny": 2}
    return "narrower" if levels.get(str(new), 0) > levels.get(str(old), 0) else "wider"


def _calls_per_second(limit: Json) -> float:
    read = RateLimit(max=limit["max"], window=limit["window"])
    return read.max / read.window_s


def _judge_schema(old: Json, new: Json) -> Direction:
    """Judge by the arguments: fewer are narrower, and the same ones with other descriptions are the same."""
    before, after = _get_properties(old), _get_properties(new)
    if set(after) - set(before):
        return "wider"
    if set(before) - set(after):
        return "narrower"
    same_types = all(_drop_texts(before[name]) == _drop_texts(after[name]) for name in before)
    return "same" if same_types and _get_required(old) == _get_required(new) else "wider"


def _get_properties(schema: Json) -> Schema:
    found = schema.get("properties") if isinstance(schema, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def _get_required(schema: Json) -> Json:
    return schema.get("required", []) if isinstance(schema, Mapping) else []


def _drop_texts(schema: Json) -> Json:
    if not isinstance(schema, Mapping):
        return schema
    return {name: value for name, value in schema.items() if name not in ("description", "title", "examples")}


def _truncate(text: str) -> str:
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}... ({len(text):,} characters)"


_JUDGES: Mapping[str, Callable[[Json, Json], Direction]] = {
    "approval": _judge_approval,
    "destructive": _judge_risky_flag,
    "blanket_allowed": _judge_risky_flag,
    "safe": _judge_safe_flag,
    "scopes": _judge_scopes,
    "cost": _judge_cost,
    "rate_limit": _judge_rate_limit,
    "input_schema": _judge_schema,
}
"""The function that judges a change of each part. A change of any other part is wider."""
