"""Check results against a tool's output schema, compiled once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeAlias

import jsonschema_rs

from toolwire.core.model import Json, Tool

FindFault: TypeAlias = Callable[[Json], str]
"""Return in a few words which rule of the schema a result breaks, without the result; ``""`` if it fits."""

_CONSTRAINTS: Final = frozenset(
    {
        *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength"),
        *("pattern", "minItems", "maxItems", "minProperties", "maxProperties", "propertyNames", "patternProperties"),
        *("required", "not", "contains"),
    }
)
"""What a value of the declared Python type may still break; the type itself is checked when the value is written."""
_SHOWN_STEPS: Final = 8


def build_result_check(tool: Tool) -> FindFault | None:
    """Return a check of one result of ``tool``, or of one item of its stream; None where nothing is constrained."""
    if tool.output_schema is None:
        return None
    schema = dict(tool.output_schema)
    if tool.streams:
        items, definitions = schema.get("items"), schema.get("$defs")
        schema = dict(items) if isinstance(items, dict) else {}
        if definitions is not None:
            schema["$defs"] = definitions
    if not any(_CONSTRAINTS & one.keys() for one in _walk_objects(schema)):
        return None
    try:
        compiled = jsonschema_rs.Draft202012Validator(schema, validate_formats=False)
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError):
        return None  # an author's own words that are no JSON Schema promise nothing that could be checked
    fits = compiled.is_valid

    def find_fault(result: Json) -> str:
        return "" if fits(result) else _describe_fault(compiled, result)

    return find_fault


def _walk_objects(schema: Any) -> Iterator[Mapping[str, Any]]:
    """Yield every object in ``schema``; one too many costs a check that finds nothing."""
    waiting = [schema]
    while waiting:
        one = waiting.pop()
        if isinstance(one, Mapping):
            yield one
            waiting += one.values()
        elif isinstance(one, list):
            waiting += one


def _describe_fault(compiled: jsonschema_rs.Draft202012Validator, result: Json) -> str:
    try:
        compiled.validate(result)
    except jsonschema_rs.ValidationError as error:
        path = ".".join(str(step)[:40] for step in error.instance_path[:_SHOWN_STEPS])
        rule = next((str(step) for step in reversed(error.schema_path) if step in _CONSTRAINTS), error.kind.name)
        return f'it breaks "{rule}" of its output schema{f" at {path}" if path else ""}'
    return "it breaks its output schema"  # pragma: no cover - only asked where something is wrong
