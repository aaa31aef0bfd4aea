"""Build arguments for an example call of a tool from its input schema."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from toolwire.core.json_pointer import resolve_reference
from toolwire.core.model import Json, Tool

from .arguments import compile_schema
from .pattern_text import write_matching_text

_FORMATS: Final[Mapping[str, str]] = {
    "date": "2027-03-01",
    "date-time": "2027-03-01T09:30:00Z",
    "time": "09:30:00Z",
    "duration": "PT1H30M",
    "email": "ada@example.com",
    "hostname": "example.com",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "uri": "https://example.com/",
    "url": "https://example.com/",
    "uuid": "123e4567-e89b-12d3-a456-426614174000",
}
_TEXT: Final = "example"
_BYTES: Final = "aGVsbG8="
_CANDIDATES: Final = (
    *(letter * length for length in (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32) for letter in ("1", "a", "A")),
    *(
        "1.0",
        "1.0.0",
        "a1",
        "A1",
        "a-1",
        "a_1",
        "/example",
        "https://example.com/",
        "ada@example.com",
        "2027-03-01",
        "#aabbcc",
    ),
    *("+14155550100", "USD", "en-US", "en_US", "{build}", "09:30", "2027-03-01T09:30:00Z", *_FORMATS.values()),
)
"""Texts of which one fits most patterns."""
_CHOICES: Final = ("anyOf", "oneOf")
_SHAPES: Final = frozenset((*_CHOICES, "allOf", "properties", "required"))
_MAX_DEPTH: Final = 14
_MAX_ITEMS: Final = 20
_MAX_BRANCHES: Final = 8
_MAX_ARGUMENTS: Final = 50
_ROUNDS: Final = 3
_REPEATS: Final = (0, 1, 2, 5, 10, 20, 40)
_MAX_VALUES: Final = 1_000
_MAX_CHECKS: Final = 300


def build_example_arguments(tool: Tool) -> dict[str, Json]:
    """Return a value for each required argument of ``tool``, and for the first argument if none is required.

    Arguments that these require are added; where they still do not fit the tool's schema, every argument is tried.
    """
    # O-29
    names = [name for name in tool.required_parameters if name in tool.parameters] or list(tool.parameters)[:1]
    found = {name: build_example(tool.parameters[name], tool.input_schema) for name in names}
    for _ in range(_ROUNDS):
        needed = [name for name in _list_needed(tool, found) if name in tool.parameters and name not in found]
        found |= {name: build_example(tool.parameters[name], tool.input_schema) for name in dict.fromkeys(needed)}
    if _fits_itself(found, tool.input_schema):
        return found
    every = list(tool.parameters)[:_MAX_ARGUMENTS]
    full = found | {name: build_example(tool.parameters[name], tool.input_schema) for name in every}
    return full if _fits_itself(full, tool.input_schema) else found


def _list_needed(tool: Tool, given: Mapping[str, Json]) -> list[str]:
    """Return the arguments that those ``given`` require beside them, by ``dependentRequired`` and by conditions."""
    schema = tool.input_schema
    pairs, parts = schema.get("dependentRequired"), schema.get("allOf")
    needed = [other for name in given for other in (pairs.get(name, ()) if isinstance(pairs, Mapping) else ())]
    for part in [schema, *(parts if isinstance(parts, list) else ())]:
        condition, then = (part.get(word) for word in ("if", "then")) if isinstance(part, Mapping) else (None, None)
        if isinstance(condition, Mapping) and isinstance(then, Mapping) and _fits(dict(given), condition, schema):
            needed += then.get("required", ())
    return needed


def _fits_itself(arguments: Mapping[str, Json], schema: Mapping[str, Any]) -> bool:
    """Return whether ``arguments`` fit the input ``schema``; True where that cannot be said."""
    try:
        return compile_schema(schema)(arguments) is None
    except ValueError:
        return True


def _fits(value: Json, schema: Mapping[str, Any], root: Mapping[str, Any]) -> bool:
    """Return whether ``value`` fits ``schema``, whose references are to ``root``; True where that cannot be said."""
    whole = {"type": "object", "properties": {"v": schema}}
    whole |= {"$defs": root["$defs"]} if "$defs" in root else {}
    try:
        return compile_schema(whole)({"v": value}) is None
    except ValueError:
        return True


def build_example(schema: Json, root: Mapping[str, Any]) -> Json:
    """Return a value that ``schema`` describes: its own example if there is one, else a small value of its type."""
    return _ExampleBuilder(root).build(schema, 0)


class _ExampleBuilder:
    """Builds one example. A document can refer to itself, so depth and number of values are limited."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._left = _MAX_VALUES
        self._checks = _MAX_CHECKS

    def build(self, schema: Json, depth: int) -> Json:
        self._left -= 1
        if not isinstance(schema, Mapping) or depth > _MAX_DEPTH or self._left < 0:
            return _TEXT
        for given in _list_given_values(schema):
            if self._is_fitting(given, schema):
                return given
        if isinstance(schema.get("$ref"), str):
            beside = {word: one for word, one in schema.items() if word != "$ref"}
            target = resolve_reference(self._root, schema["$ref"])
            built = self.build(target, depth + 1)
            if not beside.keys() & _SHAPES or self._is_fitting(built, schema):
                return built
            return self._join_parts([{"$ref": schema["$ref"]}, beside], None, depth)
        choices = [schema[word] for word in _CHOICES if isinstance(schema.get(word), list) and schema[word]]
        describes_itself = bool({"type", "properties", "required"} & schema.keys()) or not choices
        plain = self._build_by_type(schema, depth) if describes_itself else None
        parts = schema.get("allOf")
        plain = self._join_parts(parts, plain, depth) if isinstance(parts, list) and parts else plain
        for branches in choices:
            plain = self._choose_branch(schema, branches, plain, depth)
        return plain

    def _join_parts(self, parts: list[Json], plain: Json, depth: int) -> Json:
        """Return what all ``parts`` of an allOf describe, beside ``plain``."""
        built = [self.build(one, depth + 1) for one in parts[:_MAX_ITEMS]]
        objects = [one for one in (plain, *built) if isinstance(one, dict)]
        if not objects:
            return built[0]
        joined = {name: value for one in objects for name, value in one.items()}
        # A part may require what another part describes.
        for part in parts[:_MAX_ITEMS]:
            known = _get_properties(self._follow(part))
            for name in [one for one in joined if one in known and not self._is_fitting(joined[one], known[one])]:
                joined[name] = self.build(known[name], depth + 1)
        return joined

    def _is_fitting(self, value: Json, schema: Mapping[str, Any]) -> bool:
        self._checks -= 1
        return self._checks < 0 or _fits(value, schema, self._root)

    def _follow(self, schema: Json) -> Mapping[str, Any]:
        for _ in range(_MAX_DEPTH):
            if not isinstance(schema, Mapping) or not isinstance(schema.get("$ref"), str):
                break
            schema = resolve_reference(self._root, schema["$ref"])
        return schema if isinstance(schema, Mapping) else {}

    def _choose_branch(self, schema: Mapping[str, Any], branches: list[Json], plain: Json, depth: int) -> Json:
        """Return ``plain`` with what the first branch adds that fits; without one that fits, with the first."""
        if plain is not None and self._is_fitting(plain, schema):
            return plain
        found: list[Json] = []
        for branch in branches[:_MAX_BRANCHES]:
            for built in self._join_branch(schema, branch, plain, depth):
                if self._is_fitting(built, schema):
                    return built
                found.append(built)
        return found[0] if plain is None else plain

    def _join_branch(self, schema: Mapping[str, Any], branch: Json, plain: Json, depth: int) -> Iterator[Json]:
        """Yield values of one ``branch``, beside ``plain``; it may require what ``schema`` describes."""
        one = self._follow(branch)
        if isinstance(plain, dict):
            required = one.get("required")
            known = {**_get_properties(schema), **_get_properties(one)}
            needed = [name for name in required if isinstance(name, str)] if isinstance(required, list) else []
            needed += [name for name in plain if name in _get_properties(one)]
            yield {**plain, **{name: self.build(known.get(name, {}), depth + 1) for name in needed[:_MAX_ITEMS]}}
        built = self.build(branch, depth + 1)
        yield {**plain, **built} if isinstance(plain, dict) and isinstance(built, dict) else built

    def _build_by_type(self, schema: Mapping[str, Any], depth: int) -> Json:
        kind = schema.get("type")
        if isinstance(kind, list):
            kind = next((one for one in kind if one != "null"), "null")
        match kind:
            case "integer" | "number":
                return _build_number(schema, is_integer=kind == "integer")
            case "boolean":
                return True
            case "null":
                return None
            case "array":
                count = max(1, min(_read_count(schema, "minItems"), _MAX_ITEMS))
                return [self.build(schema.get("items", {}), depth + 1) for _ in range(count)]
            case _ if kind == "object" or (kind is None and {"properties", "required"} & schema.keys()):
                return self._build_object(schema, depth)
            case _:
                return _build_text(schema)

    def _build_object(self, schema: Mapping[str, Any], depth: int) -> Json:
        known, required = _get_properties(schema), schema.get("required")
        others = schema.get("additionalProperties", {})
        names = required[:_MAX_ITEMS] if isinstance(required, list) else []
        if len(names) < (least := min(_read_count(schema, "minProperties"), _MAX_ITEMS)):
            names = list(dict.fromkeys([*names, *known, *(f"{_TEXT}{number}" for number in range(least))]))[:least]
        return {name: self.build(known.get(name, others), depth + 1) for name in names if isinstance(name, str)}


def _get_properties(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    properties = schema.get("properties")
    return properties if isinstance(properties, Mapping) else {}


def _list_given_values(schema: Mapping[str, Any]) -> list[Json]:
    """Return the values that the schema itself names, the best first."""
    named = ("const", "default", "example")
    found = [schema[word] for word in named if word in schema and (word != "default" or schema[word] is not None)]
    for word in ("examples", "enum"):
        values = schema.get(word)
        found += values[:_MAX_ITEMS] if isinstance(values, list) else []
    return found


def _build_number(schema: Mapping[str, Any], *, is_integer: bool) -> Json:
    lowest, above = schema.get("minimum"), schema.get("exclusiveMinimum")
    highest, step = schema.get("maximum"), schema.get("multipleOf")
    value: Any = 1
    if isinstance(lowest, int | float) and value < lowest:
        value = lowest
    if isinstance(above, int | float) and not isinstance(above, bool) and value <= above:
        value = above + 1
    if isinstance(highest, int | float) and value > highest:
        value = highest
    if isinstance(step, int | float) and step > 0 and value % step:
        value = value - value % step + step
    return int(value) if is_integer else value


def _build_text(schema: Mapping[str, Any]) -> str:
    format_ = str(schema.get("format"))
    is_bytes = "contentEncoding" in schema or format_ in ("binary", "byte")
    text = _BYTES if is_bytes else _FORMATS.get(format_, _TEXT)
    lowest = min(_read_count(schema, "minLength"), 1_000)
    highest = schema.get("maxLength")
    text = text + "x" * (lowest - len(text))
    text = text[:highest] if isinstance(highest, int) and 0 < highest < len(text) else text
    if "pattern" not in schema or _fits(text, schema, {}):
        return text
    written = [write_matching_text(str(schema["pattern"]), more) for more in _REPEATS]
    return next((one for one in (*written, *_CANDIDATES) if _fits(one, schema, {})), text)


def _read_count(schema: Mapping[str, Any], word: str) -> int:
    count = schema.get(word)
    return count if isinstance(count, int) else 0
