"""Write each field of a tool as JSON data, and read it back."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from toolwire.core.catalog import NAME
from toolwire.core.condition import read_conditions, write_conditions
from toolwire.core.model import Approval, Authorization, Condition, Cost, Json, RateLimit, Requirements, Tool
from toolwire.framing import jsontext


class ToolField(NamedTuple):
    """One field: what to call it in a sentence, its value as JSON data, and its value from there.

    ``read`` raises ValueError for what cannot be a value of the field.
    """

    words: str
    write: Callable[[Tool], Json]
    read: Callable[[Json], Any]


def write(tool: Tool) -> dict[str, Json]:
    """Return every field of ``tool`` as JSON data; hints that are none are left out."""
    return {name: field.write(tool) for name, field in FIELDS.items()}


def replace_fields(tool: Tool, values: Mapping[str, Json]) -> Tool:
    """Return ``tool`` with ``values`` for the fields they name.

    Raises:
        ValueError: a field cannot have its value.
    """
    return replace(tool, **{name: FIELDS[name].read(value) for name, value in values.items()})


def has_odd_hints(tool: Tool) -> bool:
    """Return whether ``tool`` has hints that are no JSON data, and so can be written nowhere."""
    return bool(tool.hints) and not _write_hints(tool)


def _write_hints(tool: Tool) -> Json:
    try:
        written = jsontext.write(dict(tool.hints))
    except (TypeError, ValueError):
        return {}
    return json.loads(written)  # plain data: a hint can be a mapping that is made when it is looked into


def _write_output_schema(tool: Tool) -> Json:
    return None if tool.output_schema is None else dict(tool.output_schema)


def _write_rate_limit(tool: Tool) -> Json:
    limit = tool.rate_limit
    return None if limit is None else {"max": limit.max, "window": limit.window}


def _write_requirements(tool: Tool) -> Json:
    needs = tool.requirements
    return {
        "authorization": [{"id": one.id, "scopes": list(one.scopes)} for one in needs.authorization],
        "secrets": list(needs.secrets),
        "user_id": needs.user_id,
    }


def _read_text(data: Json) -> str:
    if isinstance(data, str):
        return data
    raise ValueError(f"it must be a string, not {jsontext.describe_type(data)}")


def _read_texts(data: Json) -> tuple[str, ...]:
    if isinstance(data, list):
        return tuple(_read_text(one) for one in data)
    raise ValueError(f"it must be a list, not {jsontext.describe_type(data)}")


def _read_name(data: Json) -> str:
    if NAME.fullmatch(text := _read_text(data)):
        return text
    raise ValueError(f"{text[:80]!r} is not a valid tool name")


def _read_flag(data: Json) -> bool:
    if isinstance(data, bool):
        return data
    raise ValueError(f"it must be a boolean, not {jsontext.describe_type(data)}")


def _read_object(data: Json) -> dict[str, Json]:
    if isinstance(data, dict):
        return data
    raise ValueError(f"it must be an object, not {jsontext.describe_type(data)}")


def _read_conditions(data: Json) -> tuple[Condition, ...]:
    conditions = read_conditions(data)
    if conditions is None:
        raise ValueError("it must be a list of conditions, each with pointer, op and value")
    return conditions


def _read_seconds(data: Json) -> float:
    if isinstance(data, int | float) and not isinstance(data, bool) and 0 < data < float("inf"):
        return data
    raise ValueError("it must be a number of seconds above 0")


def _read_rate_limit(data: Json) -> RateLimit:
    match data:
        case {"max": int(most), "window": str(window)}:
            return RateLimit(max=most, window=window)
        case _:
            raise ValueError('it must contain "max" and "window"')


def _read_requirements(data: Json) -> Requirements:
    match data:
        case {"authorization": list(needed), "secrets": list(secrets), "user_id": bool(user_id)}:
            return Requirements(
                authorization=tuple(_read_authorization(_read_object(one)) for one in needed),
                secrets=_read_texts(secrets),
                user_id=user_id,
            )
        case _:
            raise ValueError('it must contain "authorization", "secrets" and "user_id"')


def _read_authorization(data: Mapping[str, Json]) -> Authorization:
    match data:
        case {"id": str(id_), "scopes": list(scopes)}:
            return Authorization(id=id_, scopes=_read_texts(scopes))
        case _:
            raise ValueError('each "authorization" must contain "id" and "scopes"')


def _allow_none(read: Callable[[Json], Any]) -> Callable[[Json], Any]:
    return lambda data: None if data is None else read(data)


FIELDS: Mapping[str, ToolField] = {
    "name": ToolField("name", lambda tool: tool.name, _read_name),
    "description": ToolField("description", lambda tool: tool.description, _read_text),
    "toolkit": ToolField("toolkit", lambda tool: tool.toolkit, _read_text),
    "version": ToolField("version", lambda tool: tool.version, _read_text),
    "input_schema": ToolField("exact input schema", lambda tool: dict(tool.input_schema), _read_object),
    "output_schema": ToolField("exact output schema", _write_output_schema, _allow_none(_read_object)),
    "output_name": ToolField("name of the result", lambda tool: tool.output_name, _read_text),
    "safe": ToolField("word that it only reads", lambda tool: tool.safe, _read_flag),
    "approval": ToolField(
        "approval", lambda tool: None if tool.approval is None else tool.approval.value, _allow_none(Approval)
    ),
    "ask_when": ToolField("conditions to ask", lambda tool: write_conditions(tool.ask_when), _read_conditions),
    "question": ToolField("question", lambda tool: tool.question, _read_text),
    "blanket_allowed": ToolField("leave to approve in advance", lambda tool: bool(tool.blanket_allowed), _read_flag),
    "destructive": ToolField("word that it destroys", lambda tool: tool.destructive, _read_flag),
    "idempotent": ToolField("word that it can be repeated", lambda tool: tool.idempotent, _read_flag),
    "hint": ToolField("hint", lambda tool: tool.hint, _read_text),
    "cost": ToolField("cost", lambda tool: None if tool.cost is None else tool.cost.value, _allow_none(Cost)),
    "rate_limit": ToolField("rate limit", _write_rate_limit, _allow_none(_read_rate_limit)),
    "requirements": ToolField("requirements", _write_requirements, _read_requirements),
    "scopes": ToolField("scopes", lambda tool: list(tool.scopes), _read_texts),
    "timeout_s": ToolField("time limit", lambda tool: tool.timeout_s, _allow_none(_read_seconds)),
    "long": ToolField("word that a call goes on without its caller", lambda tool: tool.long, _read_flag),
    "keep_s": ToolField("time that a result is kept", lambda tool: tool.keep_s, _allow_none(_read_seconds)),
    "streams": ToolField("word that it streams", lambda tool: tool.streams, _read_flag),
    "reports": ToolField("word that it says how far it is", lambda tool: tool.reports, _read_flag),
    "deprecated": ToolField("word that it is deprecated", lambda tool: tool.deprecated, _read_flag),
    "hints": ToolField("hints", _write_hints, _read_object),
}
