"""Check tool definitions: the type of each member, and members that contradict each other.

Rules:
- A walk looks at each value once and no deeper than JSON is read: no document makes it deep or long.
- A definition in ``items`` is OXP's, anywhere else the RFC's; they differ in their inputs and in what else may stand.
- Whatever is an error here does not fit the published OpenAPI description either.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from toolwire.core.catalog import NAME, VERSION
from toolwire.core.model import Json
from toolwire.core.write_names import warn_of_unasked_write
from toolwire.framing.jsontext import describe_type
from toolwire.framing.report import Path, PathFault, Report, quote_text

from .parameters import check_schema_members

_ID: Final = re.compile(rf"[A-Za-z0-9_]+\.[A-Za-z0-9_]+@({VERSION.pattern})", re.ASCII)

ObjectCheck = Callable[[Json, Path, Report], None]


class Member(NamedTuple):
    """One member of an object: the rule it comes from, what it must be in words, and what looks into it."""

    rule: str
    what: str
    is_right: Callable[[Json], bool]
    check: ObjectCheck | None = None
    is_needed: bool = True


def examine(data: Json) -> list[PathFault]:
    """Return all that is wrong with ``data`` as a list of tools or as the definition of one."""
    report = Report()
    match data:
        case {"items": _} | {"tools": _}:
            _check_lists(data, report)
        case list():
            report.add_warning(None, "OTC-034", "Only universal-tool clients read a bare array.")
            _check_tools(data, None, _RFC, report)
        case dict():
            _check_tool(data, None, _RFC, report)
        case _:
            report.add_error(
                None, "OTC-034", f'A list of tools must be an object with "tools", not {describe_type(data)}.'
            )
    return report.faults


def _check_lists(data: Mapping[str, Json], report: Report) -> None:
    if not isinstance(data.get("$schema"), str):
        report.add_error(
            None, "OTC-044", ('"$schema" is missing. It must be the version of the standard, as a string.')
        )
    if "tools" not in data:
        report.add_warning(None, "OTC-034", '"tools" is missing. RFC clients do not read "items".')
    for name, members in (("items", _OXP), ("tools", _RFC)):
        if name not in data:
            continue
        if isinstance(data[name], list):
            _check_tools(data[name], (None, name), members, report)
        else:
            report.add_error(
                (None, name), "OTC-034", f'"{name}" must be an array of tools, not {describe_type(data[name])}.'
            )


def _check_tools(tools: Sequence[Json], path: Path, members: Mapping[str, Member], report: Report) -> None:
    first: dict[str, int] = {}
    for place, tool in enumerate(tools):
        here: Path = (path, place)
        if report.is_full:
            return
        if not isinstance(tool, dict):
            report.add_error(here, "OTC-034", f"A tool definition must be an object, not {describe_type(tool)}.")
            continue
        _check_tool(tool, here, members, report)
        id_ = tool.get("id")
        if isinstance(id_, str) and first.setdefault(id_, place) != place:
            report.add_conflict((here, "id"), "OTC-002", f"{quote_text(id_)} is already the id of item {first[id_]}.")


def _check_tool(tool: Mapping[str, Json], path: Path, members: Mapping[str, Member], report: Report) -> None:
    if "input" in tool and "input_schema" not in tool:
        report.add_warning((path, "input"), "A-36", '"input" is an older form. Write "input_schema".')
    check_members(tool, path, members, report)
    if text := warn_of_unasked_write(tool.get("name"), tool.get("x-llm")):
        report.add_warning((path, "name"), "FU-52", text)
    if members is _OXP:
        for name in tool.keys() - members.keys():
            report.add_error(
                (path, name), "OXP-005", (f'{quote_text(name)} is not part of OXP\'s definition. Put it under "tools".')
            )
    id_match = _ID.fullmatch(tool["id"]) if isinstance(tool.get("id"), str) else None
    version = tool.get("version")
    if id_match and isinstance(version, str) and VERSION.fullmatch(version) and id_match[1] != version:
        report.add_conflict(
            (path, "version"), "OTC-001", f"{quote_text(version)} differs from the version in the id, {id_match[1]}."
        )


def check_members(data: Mapping[str, Json], path: Path, members: Mapping[str, Member], report: Report) -> None:
    """Note what is wrong with the members of one object."""
    for name, member in members.items():
        here: Path = (path, name)
        if name not in data:
            if member.is_needed:
                report.add_error(path, member.rule, f'"{name}" is missing. It must be {member.what}.')
        elif not member.is_right(data[name]):
            report.add_error(here, member.rule, f'"{name}" must be {member.what}, not {_show(data[name])}.')
        elif member.check is not None:
            member.check(data[name], here, report)


def _show(value: Json) -> str:
    return quote_text(value) if isinstance(value, str) else describe_type(value)


def _is_text(value: Json) -> bool:
    return isinstance(value, str)


def _is_object(value: Json) -> bool:
    return isinstance(value, dict)


def _is_output(value: Json) -> bool:
    return isinstance(value, dict | bool | None)


def _is_list(value: Json) -> bool:
    return isinstance(value, list)


def _matches(pattern: re.Pattern[str]) -> Callable[[Json], bool]:
    return lambda value: isinstance(value, str) and pattern.fullmatch(value) is not None


def _check_inputs(schema: Json, path: Path, report: Report) -> None:
    check_schema_members(schema, path, report, parameters=True)


def _check_output(schema: Json, path: Path, report: Report) -> None:
    if schema is not None:
        check_schema_members(schema, path, report, parameters=False)


def _check_wrapped_inputs(wrapper: Json, path: Path, report: Report) -> None:
    check_members(wrapper, path, _PARAMETERS, report)
    if "properties" in wrapper and "parameters" not in wrapper:
        report.add_warning(path, "A-35", 'This is OXP\'s form. The RFC puts the schema under "parameters".')


def _each(members: Mapping[str, Member], rule: str) -> ObjectCheck:
    """ObjectCheck into a list of objects of one form."""

    def check(entries: Json, path: Path, report: Report) -> None:
        for place, entry in enumerate(entries):
            if isinstance(entry, dict):
                check_members(entry, (path, place), members, report)
            else:
                report.add_error(
                    (path, place), rule, f'This must be an object with an "id", not {describe_type(entry)}.'
                )

    return check


def _within(members: Mapping[str, Member]) -> ObjectCheck:
    """ObjectCheck into one object of a form."""
    return lambda data, path, report: check_members(data, path, members, report)


def _scopes(scopes: Json, path: Path, report: Report) -> None:
    for place, scope in enumerate(scopes):
        if not isinstance(scope, str):
            report.add_error((path, place), "OTC-016", f"A scope must be a string, not {describe_type(scope)}.")


def _check_described(text: Json, path: Path, report: Report) -> None:
    if not text:
        report.add_error(
            path, "OTC-004", "The description is empty. Say what the tool is for, to people and to models."
        )


_PARAMETERS: Final = {
    "parameters": Member("OTC-008", "the schema of the inputs, an object", _is_object, _check_inputs),
}
_OAUTH: Final = {
    "scopes": Member("OTC-016", "a list of scopes", _is_list, _scopes, is_needed=False),
}
_PROVIDER: Final = {
    "id": Member("OTC-016", "the name of the provider, a string", _is_text),
    "oauth2": Member("OTC-016", "an object", _is_object, _within(_OAUTH), is_needed=False),
}
_SECRET: Final = {"id": Member("OTC-017", "the name of the secret, a string", _is_text)}
_REQUIREMENTS: Final = {
    "authorization": Member("OTC-016", "a list of providers", _is_list, _each(_PROVIDER, "OTC-016"), is_needed=False),
    "secrets": Member("OTC-017", "a list of secrets", _is_list, _each(_SECRET, "OTC-017"), is_needed=False),
    "user_id": Member("OXP-014", "true or false", lambda value: isinstance(value, bool), is_needed=False),
}
_BOTH: Final = {
    "id": Member("OTC-001", "Toolkit.Tool@1.0.0, of letters, digits and underscores", _matches(_ID)),
    "name": Member("OTC-003", "1 to 64 of a-z A-Z 0-9 - _", _matches(NAME)),
    "description": Member("OTC-004", "a text for people and models", _is_text, _check_described),
    "version": Member("OTC-005", "a semantic version, such as 1.0.0", _matches(VERSION)),
    "output_schema": Member("OTC-012", "a schema, or null", _is_output, _check_output),
    "requirements": Member("OTC-013", "an object", _is_object, _within(_REQUIREMENTS), is_needed=False),
}
_RFC: Final = {
    **_BOTH,
    "input_schema": Member("OTC-007", 'an object with "parameters"', _is_object, _check_wrapped_inputs),
}
_OXP: Final = {
    **_BOTH,
    "input_schema": Member("OTC-007", "the schema of the inputs, an object", _is_object, _check_inputs),
}
