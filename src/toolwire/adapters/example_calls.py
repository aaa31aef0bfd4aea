"""List the example calls that a tool declares, as the provider of a model takes them.

Rules:
- Nothing is invented: a value is from ``examples``, ``example`` or ``const`` of the tool's own schema.
- An example fits both the schema that the provider gets and the tool's own: a provider refuses a request for one that
  does not.
"""
# FI-06

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from toolwire.core.model import Json, Schema
from toolwire.framing import jsontext
from toolwire.framing.jsontext import get_list, get_object
from toolwire.framing.text_cleaning import clean_data
from toolwire.validation import Validator, compile_schema

from .schema import ToolSchema

_MAX_EXAMPLES: Final = 3
_MAX_LISTED: Final = 20
_MAX_BYTES: Final = 1_000
"""The most that one example takes: about 250 tokens."""


def list_example_calls(schema: ToolSchema) -> list[dict[str, Json]]:
    """Return at most three example calls by the names in ``schema.schema``: of the whole call, or of each argument."""
    found: list[dict[str, Json]] = []
    checks: list[Validator] = []
    for given in _iterate_calls(schema.source):
        try:
            checks = checks or [compile_schema(schema.schema), compile_schema(schema.source)]
        except ValueError:  # nothing can be checked, so nothing is shown
            return []
        written = schema.write_arguments(given)
        if checks[0](written) or checks[1](given) or schema.read_arguments(written) != given or written in found:
            continue
        if len(jsontext.write(written)) <= _MAX_BYTES:
            found.append(written)
        if len(found) == _MAX_EXAMPLES:
            break
    return found


def _iterate_calls(schema: Schema) -> Iterator[dict[str, Json]]:
    """Yield the examples of whole calls; if there are none, one of the first example of each argument."""
    whole = [one for one in get_list(schema, "examples")[:_MAX_LISTED] if isinstance(one, Mapping)]
    for one in whole:
        yield _clean(one)
    if whole:
        return
    composed: dict[str, Json] = {}
    has_example = False
    for name, inner in get_object(schema, "properties").items():
        if not isinstance(inner, Mapping):
            continue
        examples = inner.get("examples")
        if isinstance(examples, list) and examples:
            composed[name], has_example = examples[0], True
        elif "example" in inner:
            composed[name], has_example = inner["example"], True
        elif "const" in inner:
            composed[name] = inner["const"]
    if has_example:
        yield _clean(composed)


def _clean(call: Mapping[str, Json]) -> dict[str, Json]:
    cleaned = clean_data(dict(call))
    return cleaned if isinstance(cleaned, dict) else {}
