"""Check results against a tool's output schema, compiled once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NoReturn, Protocol, TypeAlias

import jsonschema_rs

from toolwire.core.model import Json, Schema, Tool

from .cost import SchemaCost

FindFault: TypeAlias = Callable[[Json], str]
"""Return in a few words which rule of the schema a result breaks, without the result; ``""`` if it fits."""

TOO_LARGE_TO_CHECK: Final = "it is too large to be checked"
"""What ``build_foreign_result_check`` finds where a result may fit: nobody looked."""

_CONSTRAINTS: Final = frozenset(
    {
        *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength"),
        *("pattern", "minItems", "maxItems", "minProperties", "maxProperties", "propertyNames", "patternProperties"),
        *("required", "not", "contains"),
    }
)
"""What a value of the declared Python type may still break; the type itself is checked when the value is written."""
_SHOWN_STEPS: Final = 8
_PATTERNS: Final = jsonschema_rs.FancyRegexOptions(backtrack_limit=1_000)


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


def build_foreign_result_check(schema: Schema) -> FindFault:
    """Return a check of one result against ``schema``, which others have written.

    The schema is read in the dialect that its ``$schema`` names. What takes too much work to check has a fault.

    Raises:
        ValueError: results cannot be checked against it, or it comes back to itself for the same value.
    """
    # O-26: on such a circle the validators of both official MCP clients end with a stack overflow.
    try:
        cost = SchemaCost(schema)
        if cost.has_circles:
            raise ValueError("it refers back to itself for the same value")
        compiled = jsonschema_rs.validator_for(
            dict(schema), retriever=_refuse_reference, validate_formats=False, pattern_options=_PATTERNS
        )
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError) as error:
        raise ValueError(str(error).partition("\n")[0]) from error

    def find_fault(result: Json) -> str:
        if not cost.allows(result):
            return TOO_LARGE_TO_CHECK
        return "" if compiled.is_valid(result) else _describe_fault(compiled, result)

    return find_fault


def _refuse_reference(uri: str) -> NoReturn:
    raise ValueError(f"it refers to {uri[:200]}, which is outside the schema")


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


class _Validator(Protocol):
    def validate(self, instance: Any) -> None: ...


def _describe_fault(compiled: _Validator, result: Json) -> str:
    try:
        compiled.validate(result)
    except jsonschema_rs.ValidationError as error:
        path = ".".join(str(step)[:40] for step in error.instance_path[:_SHOWN_STEPS])
        rule = next((str(step) for step in reversed(error.schema_path) if step in _CONSTRAINTS), error.kind.name)
        return f'it breaks "{rule}" of its output schema{f" at {path}" if path else ""}'
    return "it breaks its output schema"  # pragma: no cover - only asked where something is wrong
