"""Describe the errors of a JSON Schema validator in sentences that a model or a person can act on."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, Final

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


def describe_error(error: Any) -> str:
    """Return what is wrong, without the place; for a choice of schemas, what each of them asks for."""
    if error.kind.name == "enum":
        return _describe_values(error)
    if error.kind.name not in _CHOICES or not getattr(error.kind, "context", None):
        return cut_text(error.message)
    branches = _list_apt_branches(error)
    types = _list_types(branches, error)
    if types:
        return f"{_show_value(error)} is not of type {' or '.join(types)}"
    forms = list(dict.fromkeys(_describe_branch(one, error) for one in branches))
    others = _list_other_types(error)
    other = f"; or another type: {' or '.join(others)}" if others else ""
    if len(forms) == 1:
        return forms[0] + other
    more = f"; or {len(forms) - _SHOWN_BRANCHES} more forms" if len(forms) > _SHOWN_BRANCHES else ""
    listed = "; or ".join(forms[:_SHOWN_BRANCHES])
    return f"{_show_value(error)} fits none of {len(branches)} forms: {listed}{more}{other}"


def _describe_values(error: Any) -> str:
    """Return which values are allowed: the validator itself names two, and a caller could not know the others."""
    values = list(error.kind.options)
    shown = [cut_text(json.dumps(one, ensure_ascii=False, separators=(",", ":"))) for one in values[:_SHOWN_VALUES]]
    while len(shown) > 1 and sum(map(len, shown)) > _SHOWN_CHARACTERS:
        shown.pop()
    rest = len(values) - len(shown)
    if rest or len(shown) == 1:
        listed = ", ".join(shown) + (f" or {rest} others" if rest else "")
    else:
        listed = f"{', '.join(shown[:-1])} or {shown[-1]}"
    given = cut_text(str(error.message).partition(" is not one of ")[0])
    return f"{given} is not one of {listed}"


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


def _describe_branch(branch: Sequence[Any], error: Any) -> str:
    depth = len(error.instance_path)
    said = [f"{write_path(list(one.instance_path)[depth:])} {describe_error(one)}".strip() for one in branch]
    more = f" and {len(said) - _SHOWN_REASONS} more" if len(said) > _SHOWN_REASONS else ""
    return cut_text(" and ".join(said[:_SHOWN_REASONS]) + more)


def _show_value(error: Any) -> str:
    """Return the value as the validator shows it, which begins its message."""
    return cut_text(str(error.message).partition(" is not valid under any")[0])
