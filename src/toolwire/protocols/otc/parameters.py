"""Check the schemas in a definition: references, definitions, keywords of a wrong type, missing descriptions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from toolwire.core.model import Json
from toolwire.core.subschemas import LISTED, NAMED, SINGLE
from toolwire.framing.jsontext import MAX_DEPTH, describe_type
from toolwire.framing.report import Path, Report, quote_text

_TYPES: Final = frozenset({"array", "boolean", "integer", "null", "number", "object", "string"})
_REFERS: Final = ("$ref", "$dynamicRef", "$defs", "definitions")


def check_schema_members(schema: Json, path: Path, report: Report, *, parameters: bool) -> None:
    """Note what is wrong with ``schema``; the ``parameters`` of a tool are an object of described members."""
    # OTC-010
    if parameters:
        _check_parameters(schema, path, report)
    tasks: list[tuple[Json, Path, int]] = [(schema, path, 1)]
    while tasks and not report.is_full:
        data, here, depth = tasks.pop()
        if isinstance(data, bool):
            continue
        if not isinstance(data, dict) or depth > MAX_DEPTH:
            report.add_error(here, "OTC-010", f"A schema must be an object, true or false, not {describe_type(data)}.")
            continue
        _check_keywords(data, here, report)
        tasks += [(inner, way, depth + 1) for inner, way in _inner(data, here, report)]


def _check_parameters(schema: Mapping[str, Json], path: Path, report: Report) -> None:
    if schema.get("type", "object") != "object":
        report.add_error((path, "type"), "OTC-008", 'A tool\'s inputs must be an object: set "type" to "object".')
    properties = schema.get("properties")
    for name, parameter in properties.items() if isinstance(properties, dict) else ():
        here: Path = ((path, "properties"), name)
        text = parameter.get("description") if isinstance(parameter, dict) else None
        if not isinstance(text, str):
            report.add_error(here, "OTC-011", f"The parameter {quote_text(name)} has no description.")
        elif not text:
            report.add_warning(here, "OTC-011", f"The description of {quote_text(name)} is empty.")


def _check_keywords(schema: Mapping[str, Json], path: Path, report: Report) -> None:
    for word in _REFERS:
        if word in schema:
            report.add_error((path, word), "OTC-009", f'"{word}" is not allowed. Write the schema out instead.')
    if "type" in schema and not _is_type(schema["type"]):
        report.add_error((path, "type"), "OTC-010", f'"type" must be one or more of {", ".join(sorted(_TYPES))}.')
    required = schema.get("required", [])
    if not isinstance(required, list) or not all(isinstance(name, str) for name in required):
        report.add_error((path, "required"), "OTC-010", '"required" must be a list of names.')
    if not isinstance(schema.get("enum", []), list):
        report.add_error((path, "enum"), "OTC-010", '"enum" must be a list of values.')
    if not isinstance(schema.get("description", ""), str):
        report.add_error((path, "description"), "OTC-010", '"description" must be a string.')


def _is_type(data: Json) -> bool:
    if isinstance(data, str):
        return data in _TYPES
    if not isinstance(data, list) or not data:
        return False
    return all(isinstance(one, str) and one in _TYPES for one in data)


def _inner(schema: Mapping[str, Json], path: Path, report: Report) -> Iterator[tuple[Json, Path]]:
    """Yield each schema in ``schema``; what should hold schemas and does not is a fault."""
    for word in NAMED:
        if isinstance(found := schema.get(word, {}), dict):
            yield from ((inner, ((path, word), name)) for name, inner in found.items())
        else:
            report.add_error(
                (path, word), "OTC-010", f'"{word}" must be an object of schemas, not {describe_type(found)}.'
            )
    for word in LISTED:
        if isinstance(found := schema.get(word, []), list):
            yield from ((inner, ((path, word), place)) for place, inner in enumerate(found))
        else:
            report.add_error(
                (path, word), "OTC-010", f'"{word}" must be a list of schemas, not {describe_type(found)}.'
            )
    for word in SINGLE:
        if word in schema:
            yield schema[word], (path, word)
