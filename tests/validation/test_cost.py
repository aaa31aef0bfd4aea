"""The work of checking data against a schema is known before it is done, and nothing costs more than that."""

from collections.abc import Callable
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolwire.core.check import ALLOW, Deny
from toolwire.core.model import Call, Problem, Tool
from toolwire.validation import build_arguments_check, compile_schema
from toolwire.validation.cost import MAX_ERROR_WORK, ORDINARY, SchemaCost
from toolwire.validation.regex_size import measure_regex


def verdict(schema: Any, arguments: dict[str, Any]) -> Problem | None:
    found = build_arguments_check()(Call(Tool(name="x", input_schema=schema), arguments))
    if found is ALLOW:
        return None
    assert isinstance(found, Deny)
    return found.problem


def build_doubling_schema(keyword: str, levels: int) -> dict[str, Any]:
    """Return a schema each level of which looks twice at the next, for the same value."""
    twice = {f"a{level}": {keyword: [{"$ref": f"#/$defs/a{level + 1}"}] * 2} for level in range(levels)}
    return {"properties": {"x": {"$ref": "#/$defs/a0"}}, "$defs": {**twice, f"a{levels}": {"type": "string"}}}


def levels(level: Callable[[dict[str, str]], dict[str, Any]]) -> dict[str, Any]:
    """Return a schema of forty levels; ``level`` makes each of a reference to the next."""
    made = {f"a{number}": level({"$ref": f"#/$defs/a{number + 1}"}) for number in range(40)}
    return {"$ref": "#/$defs/a0", "$defs": {**made, "a40": {}}}


def nest_data(levels: int, inner: Any = 1) -> Any:
    for _ in range(levels):
        inner = {"a": inner}
    return inner


TWICE = {"properties": {"a": {"$ref": "#/$defs/X"}}}
RECURSIVE = {
    "properties": {"x": {"$ref": "#/$defs/X"}},
    "$defs": {"X": {"anyOf": [TWICE, {**TWICE, "required": ["y"]}]}},
}
UNEVALUATED: dict[str, Any] = {"properties": {"z": True}}
for _ in range(40):
    UNEVALUATED = {"allOf": [UNEVALUATED], "unevaluatedProperties": {"type": "integer"}}
CLIQUE = {f"k{one}": {"oneOf": [{"$ref": f"#/$defs/k{other}"} for other in range(12)]} for one in range(12)}
DYNAMIC = {"$dynamicAnchor": "n", "properties": {"a": {"allOf": [{"$dynamicRef": "#n"}, {"$dynamicRef": "#n"}]}}}
EMBEDDED = {
    "$id": "https://a.test/root",
    "properties": {"x": {"$ref": "leaf"}},
    "$defs": {"l": {"$id": "leaf", "properties": {"a": {"oneOf": [{"$ref": "#"}, {"$ref": "https://a.test/leaf"}]}}}},
}

BOMBS = {
    "allOf": (build_doubling_schema("allOf", 40), {"x": "y"}),
    "anyOf": (build_doubling_schema("anyOf", 40), {"x": 1}),
    "oneOf": (build_doubling_schema("oneOf", 40), {"x": 1}),
    "if": (levels(lambda after: {"if": after, "then": after}), {}),
    "dependentSchemas": (levels(lambda after: {"dependentSchemas": {"a": after, "b": after}}), {"a": 1, "b": 1}),
    "recursion": (RECURSIVE, {"x": nest_data(60)}),
    "dynamic references": (DYNAMIC, nest_data(60)),
    "embedded identifiers": (EMBEDDED, {"x": nest_data(60)}),
    "unevaluated properties": (UNEVALUATED, {f"p{number}": 1 for number in range(20)}),
    "a clique": ({"$ref": "#/$defs/k0", "$defs": CLIQUE}, {}),
    "levels that double": (levels(lambda after: {"allOf": [{"properties": {"a": after}}] * 2}), nest_data(60)),
    "large repeats on a long text": ({"properties": {"x": {"pattern": "^(a{1000}){100}$"}}}, {"x": "a" * 100_000}),
    "many large patterns": ({"properties": {f"p{n}": {"pattern": rf"^\w{{{400 + n}}}$"} for n in range(500)}}, {}),
    "many choices of many items": (
        {"properties": {"x": {"items": {"anyOf": [{"enum": [{"a": n}]} for n in range(2_000)]}}}},
        {"x": [0] * 100_000},
    ),
    "a large enumeration of objects": (
        {"properties": {"x": {"items": {"enum": [{"a": n} for n in range(20_000)]}}}},
        {"x": [{"a": -1}] * 20_000},
    ),
}


@pytest.mark.requirement("D-17")
@pytest.mark.parametrize("bomb", BOMBS)
def test_validation_of_hostile_schemas_and_arguments_is_bounded(bomb: str) -> None:
    schema, arguments = BOMBS[bomb]
    problem = verdict(schema, arguments)  # it would hang here
    assert problem is not None
    assert "too much work" in problem.message or "cannot be used" in problem.message


@pytest.mark.requirement("D-17")
@pytest.mark.parametrize(
    ("schema", "arguments"),
    [
        ({"properties": {"x": {"items": {"type": "string"}}}}, {"x": [1] * 200_000}),
        ({"properties": {"x": {"items": {"anyOf": [{"type": "string"}, {"type": "null"}]}}}}, {"x": [1] * 200_000}),
        (RECURSIVE, {"x": nest_data(12, {"a": {"a": 1}})}),
    ],
)
def test_describing_validation_errors_is_bounded(schema: Any, arguments: Any) -> None:
    assert not SchemaCost(schema).allows(arguments, MAX_ERROR_WORK)
    schema = {**schema, "required": ["gone"]}
    problem = verdict(schema, arguments)
    assert problem is not None
    assert problem.message.startswith(("Invalid arguments", "The arguments do not match"))


@pytest.mark.requirement("D-17")
def test_doubling_recursion_is_checked_up_to_a_bounded_depth() -> None:
    assert verdict(RECURSIVE, {"x": nest_data(5)}) is None
    assert SchemaCost(RECURSIVE).units_per_part > ORDINARY


def test_mutually_containing_types_are_validated() -> None:
    kinds = [f"K{number}" for number in range(20)]
    base = {"oneOf": [{"$ref": f"#/$defs/{kind}"} for kind in kinds], "properties": {"kind": {"type": "string"}}}
    own = {
        kind: {"allOf": [{"$ref": "#/$defs/Base"}, {"properties": {"kind": {"const": kind}}, "required": ["kind"]}]}
        for kind in kinds
    }
    schema = {"properties": {"x": {"$ref": "#/$defs/Base"}}, "$defs": {"Base": base, **own}}
    problem = verdict(schema, {"x": {"kind": 3}})
    assert problem is not None
    assert problem.parameter_errors["x"]
    assert verdict(schema, {}) is None


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"a": {"type": "string"}, "b": {"type": "array", "items": {"type": "integer"}}}},
        {
            "properties": {"tree": {"$ref": "#/$defs/Tree"}},
            "$defs": {"Tree": {"properties": {"left": {"$ref": "#/$defs/Tree"}, "next": {"$ref": "#/$defs/Tree"}}}},
        },
    ],
)
def test_ordinary_schema_needs_no_cost_count_for_each_call(schema: Any) -> None:
    assert SchemaCost(schema).units_per_part <= ORDINARY


@pytest.mark.parametrize(
    ("pattern", "states"),
    [
        ("abc", 3),
        ("[a-z]{10}", 10),
        ("(ab{3}){5}", 20),
        ("(a|b)*c", 3),
        ("a{2,40}", 40),
        ("[]a]{3}", 3),
        ("x{y}", 4),
        (r"\{{3}", 3),
        ("(", 0),
        ("[", 1),
        ("\\", 1),
    ],
)
def test_regex_size_counts_repetitions(pattern: str, states: int) -> None:
    assert measure_regex(pattern).states == states


@given(st.text(alphabet="ab(){},0123456789[]\\^w.*?", max_size=60))
def test_regex_size_is_computed_for_any_text(pattern: str) -> None:
    assert measure_regex(pattern).states >= 0


class Counted:
    """A keyword that counts how often the validator looks at the schema that has it."""

    looks = 0

    def __init__(self, parent_schema: dict[str, Any], value: Any, schema_path: list[str | int]) -> None:
        pass

    def validate(self, instance: Any) -> None:
        Counted.looks += 1


LEVELS = 5
"""Errors are looked for after it is known that there are some: again on each level of a schema."""
SEVERAL = ("allOf", "anyOf", "oneOf")
ONE = ("not", "items", "additionalProperties", "contains", "propertyNames")
UNEVALUATED_KEYS = ("unevaluatedProperties", "unevaluatedItems")


def schemas(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    several = st.lists(inner, min_size=1, max_size=3)
    return st.one_of(
        st.builds(lambda keyword, choices: {keyword: choices}, st.sampled_from(SEVERAL), several),
        st.builds(lambda keyword, one: {keyword: one}, st.sampled_from(ONE), inner),
        st.builds(lambda one, then: {"if": one, "then": then}, inner, inner),
        st.builds(
            lambda named, rest: {"properties": named, **rest}, st.dictionaries(st.sampled_from("ab"), inner), inner
        ),
        st.builds(lambda items, one: {"prefixItems": items, "items": one}, several, inner),
        st.builds(lambda one: {"patternProperties": {"a": one}}, inner),
        st.builds(lambda one: {"dependentSchemas": {"a": one}}, inner),
        st.builds(lambda one, key: {**one, key: False}, inner, st.sampled_from(UNEVALUATED_KEYS)),
    )


LEAVES = st.sampled_from([{"type": "string"}, {"$ref": "#/$defs/p"}, {"$ref": "#/$defs/q"}, {"$ref": "#"}, {}])
SCHEMAS = st.recursive(LEAVES, schemas, max_leaves=8)
VALUES = st.recursive(
    st.none() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner),
    max_leaves=12,
)


def mark_schema(schema: Any) -> Any:
    """Return ``schema`` with the counted keyword in each schema of it."""
    if isinstance(schema, list):
        return [mark_schema(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    named = ("properties", "patternProperties", "dependentSchemas", "$defs")
    inner = {
        key: {name: mark_schema(one) for name, one in value.items()} if key in named else mark_schema(value)
        for key, value in schema.items()
        if key != "type"
    }
    return {**inner, **{key: schema[key] for key in ("type",) if key in schema}, "x-counted": True}


@pytest.mark.requirement("D-17")
@given(SCHEMAS, SCHEMAS, SCHEMAS, VALUES)
def test_validator_work_never_exceeds_the_counted_cost(root: Any, p: Any, q: Any, data: Any) -> None:
    schema = {**root, "$defs": {"p": p, "q": q}}
    try:
        cost = SchemaCost(schema)
    except ValueError:
        return
    if not cost.allows(data, 20_000):
        return
    compiled = jsonschema_rs.Draft202012Validator(
        mark_schema(cost.remove_circles(schema)), keywords={"x-counted": Counted}
    )
    for check, often in ((compiled.is_valid, 1), (lambda value: list(compiled.iter_errors(value)), LEVELS)):
        Counted.looks = 0
        check(data)
        assert Counted.looks == 0 or not cost.allows(data, -(-Counted.looks // often) - 1), schema


@pytest.mark.requirement("D-17")
def test_a_schema_of_very_many_parts_is_refused() -> None:
    with pytest.raises(ValueError, match="more than 200,000 parts"):
        compile_schema({"enum": list(range(300_000))})
