"""Check the rules of an OpenTool document that span several members."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import Final, TypeAlias

from toolwire.core.catalog import NAME
from toolwire.core.model import Json
from toolwire.core.write_names import warn_of_unasked_write
from toolwire.framing import jsontext
from toolwire.framing.jsontext import get_list
from toolwire.framing.report import Path, Report, quote_text

from .narrow_schema import TYPES
from .shapes import SHAPES, Member

_Rule: TypeAlias = Callable[[Mapping[str, Json], Path, Report], None]

_KNOWN_MAJOR: Final = re.compile(r"[12](\..*)?", re.DOTALL)  # FD-10: 2.0.0 has a "stream" in functions
_NO_SERVER: Final = re.compile(r"1\.0(\..*)?", re.DOTALL)


def examine(shape: str, data: Mapping[str, Json], path: Path, report: Report) -> None:
    """Note what is wrong between the members of one object of ``shape``."""
    rule = _RULES.get(shape)
    if rule is not None:
        rule(data, path, report)


def list_members(shape: str, data: Mapping[str, Json]) -> Collection[Member]:
    """Return the members that an object of ``shape`` has; ``server`` is not one in 1.0.0."""
    # OT-003
    whole = SHAPES[shape].values()
    if shape == "document" and lacks_server(data.get("opentool")):
        return [member for member in whole if member.name != "server"]
    return whole


def lacks_server(version: Json) -> bool:
    """Return whether this version of the specification knows no ``server``."""
    # OT-003
    return isinstance(version, str) and _NO_SERVER.fullmatch(version) is not None


def _check_document(data: Mapping[str, Json], path: Path, report: Report) -> None:
    version = data.get("opentool")
    if isinstance(version, str) and _KNOWN_MAJOR.fullmatch(version) is None:
        text = f"Unknown specification version {quote_text(version)}. Known versions: 1.0.0, 1.1.0 and 2.0.0."
        report.add_warning((path, "opentool"), "A-05", text)
    if "server" in data and lacks_server(version):
        text = f'Version {version} of the specification does not define "server". Set "opentool" to "1.1.0".'
        report.add_warning((path, "server"), "OT-003", text)
    _check_unique("functions", data, path, report)


def _check_function(data: Mapping[str, Json], path: Path, report: Report) -> None:
    name = data.get("name")
    if text := warn_of_unasked_write(name, data.get("x-llm")):
        report.add_warning((path, "name"), "FU-52", text)
    if isinstance(name, str) and NAME.fullmatch(name) is None:
        text = f"{quote_text(name)} is not a valid function name. Use 1 to 64 of a-z A-Z 0-9 - _."
        report.add_error((path, "name"), "OT-011", text)
    if data.get("description") == "":
        text = "The description is empty. Say what the function does, so that people and models can choose it."
        report.add_warning((path, "description"), "OT-012", text)
    _check_unique("parameters", data, path, report)


def _check_parameter(data: Mapping[str, Json], path: Path, report: Report) -> None:
    if data.get("name") == "":
        report.add_error((path, "name"), "OT-015", "The name is empty. It must be a non-empty string.")


def _check_schema(data: Mapping[str, Json], path: Path, report: Report) -> None:
    type_ = data.get("type")
    if isinstance(type_, str) and type_ not in TYPES:
        text = f"{quote_text(type_)} is not a valid type. Use boolean, integer, number, string, array or object."
        report.add_error((path, "type"), "OT-022", text)
    elif type_ == "object" and "properties" not in data:
        report.add_error(path, "OT-024", '"properties" is missing. An object needs it, even if it is {}.')
    elif type_ == "array" and "items" not in data:
        report.add_error(path, "OT-025", '"items" is missing. An array needs a schema for its items.')
    _check_values(data, path, report)
    properties = data.get("properties")
    for place, name in enumerate(get_list(data, "required")):
        if isinstance(name, str) and isinstance(properties, dict) and name not in properties:
            text = f"{quote_text(name)} is required but is not a property."
            report.add_warning(((path, "required"), place), "OT-027", text)


def _check_values(data: Mapping[str, Json], path: Path, report: Report) -> None:
    type_ = data.get("type")
    if data.get("enum") == []:
        report.add_warning((path, "enum"), "OT-026", "The list of values is empty, so no value is valid.")
    for place, value in enumerate(get_list(data, "enum")):
        if report.is_full:
            return
        if isinstance(type_, str) and type_ in TYPES and not _is_of_type(value, type_):
            text = f'The type is "{type_}", but the value is {jsontext.describe_type(value)}.'
            report.add_error(((path, "enum"), place), "A-02", text)


def _is_of_type(value: Json, type_: str) -> bool:
    match value:
        case bool():
            return type_ == "boolean"
        case int():
            return type_ in ("integer", "number")
        case float():
            return type_ == "number" or (type_ == "integer" and value.is_integer())
        case str():
            return type_ == "string"
        case list():
            return type_ == "array"
        case _:
            return type_ == "object" and value is not None


def _check_unique(list_name: str, data: Mapping[str, Json], path: Path, report: Report) -> None:
    """Note each item of a list whose name an earlier one has."""
    #
    seen: set[str] = set()
    for place, item in enumerate(get_list(data, list_name)):
        name = item.get("name") if isinstance(item, dict) else None
        if isinstance(name, str) and name in seen:
            text = f"The name {quote_text(name)} is already used. Names of {list_name} must be unique."
            report.add_conflict((((path, list_name), place), "name"), "A-07", text)
        elif isinstance(name, str):
            seen.add(name)


_RULES: Final[Mapping[str, _Rule]] = MappingProxyType(
    {"document": _check_document, "function": _check_function, "parameter": _check_parameter, "schema": _check_schema}
)
