"""Describe the errors of a JSON Schema validator in sentences that a model or a person can act on."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from toolwire.core.model import Json, Schema

from .tags import find_node, find_tag, find_tag_values

_SHOWN_CHARACTERS: Final = 300
_SHOWN_BRANCHES: Final = 4
_SHOWN_REASONS: Final = 3
_SHOWN_VALUES: Final = 20
_CHOICES: Final = ("anyOf", "oneOf")


def cut_text(text: str) -> str:
    """Return ``text`` in at most 300 characters."""
    return text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "..."


def write_path(steps: Iterable[object]) -> str:
    """Return the place of a value inside an argument, such as ``.lines[0].sku``."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)


def describe_error(error: Any, schema: Schema) -> str:  # noqa: PLR0911 - a kind of error each
    """Return what is wrong, without the place; for a choice of schemas, what each of them asks for.

    ``schema`` is the whole schema that was checked.
    """
    # O-35: whatever the schema and the value are, nothing here raises.
    name = error.kind.name
    if name == "enum":
        return _describe_values(error)
    if name == "required" and (values := _find_values(error, schema)):
        return f"{_show_name(error.kind.property)} is needed: {_join_values(values, _write_plain)}"
    if name not in _CHOICES:
        return cut_text(error.message)
    context = getattr(error.kind, "context", None) or []
    if not any(context):
        return _describe_several(error, context)
    tag_text = _describe_by_tag(error, schema, context)
    if tag_text:
        return tag_text
    branches = _list_apt_branches(error)
    types = _list_types(branches, error)
    if types:
        return f"{_show_value(error)} is not of type {' or '.join(types)}"
    forms = list(dict.fromkeys(_describe_branch(one, error, schema) for one in branches))
    others = _list_other_types(error)
    other = f"; or another type: {' or '.join(others)}" if others else ""
    if len(forms) == 1:
        return forms[0] + other
    more = f"; or {len(forms) - _SHOWN_BRANCHES} more forms" if len(forms) > _SHOWN_BRANCHES else ""
    listed = "; or ".join(forms[:_SHOWN_BRANCHES])
    return f"{_show_value(error)} fits none of {len(branches)} forms: {listed}{more}{other}"


def describe_missing(error: Any, schema: Schema) -> str:
    """Return that a required property is missing, and its values where the schema lists them."""
    # O-22
    values = _find_values(error, schema)
    return f"is needed: {_join_values(values, _write_plain)}" if values else "is required"


def _find_values(error: Any, schema: Schema) -> list[Json]:
    return find_tag_values(schema, find_node(schema, error.schema_path), error.kind.property)


def _describe_several(error: Any, context: Sequence[Any]) -> str:
    """Return that a value fits more than one branch of a oneOf, or that there is no branch at all."""
    if not context:
        return f"{_show_value(error)} fits none of the forms: there is none"
    return f"{_show_value(error)} fits more than one of {len(context)} forms, and only one is allowed"


def _describe_by_tag(error: Any, schema: Schema, context: Sequence[Sequence[Any]]) -> str:
    """Return what the branch that the value is meant for asks for; ``""`` where no property tells the branch."""
    value = error.instance
    tag = find_tag(schema, find_node(schema, error.schema_path).get(error.kind.name))
    if tag is None or not isinstance(value, dict) or len(tag.values) != len(context):
        return ""
    if tag.name not in value:
        if not all(_misses(branch, tag.name, error) for branch, own in zip(context, tag.values, strict=True) if own):
            return ""
        return f"{_show_name(tag.name)} is needed: {_join_values(tag.list_all(), _write_plain)}"
    chosen = tag.list_branches(value[tag.name])
    if not chosen:
        given = cut_text(_write_json(value[tag.name]))
        return f"{write_path([tag.name])} {given} is not one of {_join_values(tag.list_all(), _write_json)}"
    return _describe_branch(context[chosen[0]], error, schema) if len(chosen) == 1 else ""


def _misses(branch: Sequence[Any], name: str, error: Any) -> bool:
    depth = len(error.instance_path)
    return any(
        one.kind.name == "required" and one.kind.property == name and len(one.instance_path) == depth for one in branch
    )


def _describe_values(error: Any) -> str:
    """Return which values are allowed: the validator itself names two, and a caller could not know the others."""
    values = list(error.kind.options)
    given = cut_text(str(error.message).partition(" is not one of ")[0])
    if not values:
        return f"{given} is not allowed: the schema allows no value"
    return f"{given} is not one of {_join_values(values, _write_json)}"


def _join_values(values: Sequence[Json], write: Callable[[Json], str]) -> str:
    """Return ``values`` as a list in a sentence, cut where it is long; there is at least one."""
    shown = [cut_text(write(one)) for one in values[:_SHOWN_VALUES]]
    while len(shown) > 1 and sum(map(len, shown)) > _SHOWN_CHARACTERS:
        shown.pop()
    rest = len(values) - len(shown)
    if rest or len(shown) == 1:
        return ", ".join(shown) + (f" or {rest} others" if rest else "")
    return f"{', '.join(shown[:-1])} or {shown[-1]}"


def _write_json(value: Json) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)


def _write_plain(value: Json) -> str:
    return value if isinstance(value, str) and value else _write_json(value)


def _show_name(name: str) -> str:
    return cut_text(name) if name else '""'


def _list_apt_branches(error: Any) -> Sequence[Sequence[Any]]:
    """Return the errors of each branch; branches for another type are left out if there are some for this one."""
    branches: list[list[Any]] = [one for one in error.kind.context if one]
    apt = [one for one in branches if not _is_of_other_type(one, error)]
    return apt or branches


def _list_other_types(error: Any) -> list[str]:
    """Return the types of the branches that are left out because they are for another type, without null."""
    branches = [one for one in error.kind.context if one]
    others = [one for one in branches if _is_of_other_type(one, error)]
    if len(others) == len(branches):
        return []
    return [name for name in _list_types(others, error) if name != "null"]


def _is_of_other_type(branch: Sequence[Any], error: Any) -> bool:
    depth = len(error.instance_path)
    return any(one.kind.name == "type" and len(one.instance_path) == depth for one in branch)


def _list_types(branches: Sequence[Sequence[Any]], error: Any) -> list[str]:
    """Return the types that are asked for, if a type is all that is wrong in each branch; else nothing."""
    types: dict[str, None] = {}
    for branch in branches:
        if len(branch) != 1 or not _is_of_other_type(branch, error):
            return []
        types.update(dict.fromkeys(branch[0].kind.types))
    return [name for name in types if name != "null"] + (["null"] if "null" in types else [])


def _describe_branch(branch: Sequence[Any], error: Any, schema: Schema) -> str:
    depth = len(error.instance_path)
    branches = [
        f"{write_path(list(one.instance_path)[depth:])} {describe_error(one, schema)}".strip() for one in branch
    ]
    more = f" and {len(branches) - _SHOWN_REASONS} more" if len(branches) > _SHOWN_REASONS else ""
    return cut_text(" and ".join(branches[:_SHOWN_REASONS]) + more)


def _show_value(error: Any) -> str:
    """Return the value as the validator shows it, which begins its message."""
    return cut_text(
        str(error.message).partition(" is valid under more than one")[0].partition(" is not valid under")[0]
    )
