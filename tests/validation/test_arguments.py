"""Arguments against schemas: every argument that does not fit is named, and nothing is fetched."""

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolwire.core.check import ALLOW, Deny
from toolwire.core.model import Call, Kind, Problem, Tool
from toolwire.validation import build_arguments_check, compile_schema, copy_arguments

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 5},
        "tags": {"type": "array", "items": {"$ref": "#/$defs/Tag"}},
    },
    "required": ["name"],
    "$defs": {"Tag": {"type": "object", "properties": {"of": {"type": "integer"}}}},
}


def verdict(schema: Any, arguments: dict[str, Any]) -> Problem | None:
    found = build_arguments_check()(Call(Tool(name="x", input_schema=schema), arguments))
    if found is ALLOW:
        return None
    assert isinstance(found, Deny)
    return found.problem


def errors(schema: Any, arguments: dict[str, Any]) -> dict[str, str]:
    problem = verdict(schema, arguments)
    assert problem is not None
    assert problem.kind is Kind.INVALID_ARGUMENTS
    return dict(problem.parameter_errors)


@pytest.mark.requirement("OXP-009")
def test_each_invalid_argument_is_named() -> None:
    found = errors(PERSON, {"tags": [{"of": 1}, {"of": "x"}]})
    assert found == {"name": "is required", "tags": '[1].of "x" is not of type "integer"'}


def test_message_lists_all_argument_errors() -> None:
    problem = verdict(PERSON, {})
    assert problem is not None
    assert problem.message == "Invalid arguments: name: is required."


def test_missing_nested_member_is_reported_at_its_parent_argument() -> None:
    schema = {"properties": {"a": {"type": "object", "required": ["b"]}}}
    assert errors(schema, {"a": {}}) == {"a": '"b" is a required property'}


def test_error_about_all_arguments_is_in_the_message_without_a_name() -> None:
    assert errors({"minProperties": 1}, {}) == {}
    problem = compile_schema({"minProperties": 1})({})
    assert problem is not None
    assert problem.message == "Invalid arguments: {} has less than 1 property."


@pytest.mark.requirement("OXP-009")
def test_forbidden_additional_argument_is_named() -> None:
    assert errors({"properties": {"a": {}}, "additionalProperties": False}, {"a": 1, "b": 2, "c": 3}) == {
        "b": "is not an argument: it takes `a`.",
        "c": "is not an argument: it takes `a`.",
    }


@pytest.mark.requirement("A-49", "S-15")
def test_an_undeclared_argument_is_refused_with_the_name_that_was_meant() -> None:
    properties = {"tag_name": {"type": "string"}, "dry_run": {"type": "boolean"}}
    schema = {"type": "object", "properties": properties, "additionalProperties": False}
    problem = verdict(schema, {"tag": "old"})
    assert problem is not None
    assert (problem.kind, problem.message) == (Kind.INVALID_ARGUMENTS, "x takes no `tag`: did you mean `tag_name`?")
    assert problem.parameter_errors == {"tag": "is not an argument: did you mean `tag_name`?"}
    problem = verdict({**schema, "required": ["tag_name"]}, {"zzz": 1})
    assert problem is not None
    assert (
        problem.message == "x takes no `zzz`: it takes `dry_run`, `tag_name`. Invalid arguments: tag_name: is required."
    )
    assert list(problem.parameter_errors) == ["zzz", "tag_name"]


@pytest.mark.requirement("A-49")
@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"type": "object"},
        {"properties": {"a": {}}, "additionalProperties": True},
        {"properties": {"a": {}}, "additionalProperties": {"type": "string"}},
        {"properties": {"a": {}}, "unevaluatedProperties": {}},
        {"properties": {"a": {}}, "patternProperties": {"^b": {}}},
        {"properties": {"a": {}}, "propertyNames": {"maxLength": 3}},
        {"properties": {"a": {}}, "anyOf": [{"properties": {"b": {}}}, {"required": ["a"]}]},
        {"properties": {"a": {}}, "if": {"required": ["a"]}, "else": {"properties": {"b": {}}}},
        {"properties": {"a": {}}, "required": ["b"]},
        {"properties": {"a": {}}, "dependentSchemas": {"a": {"properties": {"b": {}}}}},
        {"allOf": [{"$ref": "#/$defs/Named"}], "$defs": {"Named": {"properties": {"b": {}}}}},
        {
            "$ref": "#/$defs/Named",
            "$defs": {"Named": {"anyOf": [{"$ref": "#/$defs/Named"}, {"properties": {"b": {}}}]}},
        },
        {"properties": {"a": {}}, "$dynamicRef": "#here", "$defs": {"Here": {"$dynamicAnchor": "here"}}},
    ],
)
def test_argument_named_or_required_anywhere_in_the_schema_is_accepted(schema: Any) -> None:
    assert verdict(schema, {"b": "s"}) is None


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {}},
        {"properties": {"a": {}}},
        {},
        {"properties": {"a": {"properties": {"b": {}}}}},
        {"properties": {"a": {}}, "not": {"properties": {"b": {"const": 1}}}},
    ],
)
def test_argument_named_only_inside_another_schema_part_is_refused(schema: Any) -> None:
    assert verdict(schema, {"b": "s"}) is None  # I-28: an open schema accepts what it does not name
    problem = verdict({**schema, "additionalProperties": False}, {"b": "s"})
    assert problem is not None
    assert problem.message.startswith("x takes no `b`: ")


def test_list_of_undeclared_names_is_cut() -> None:
    problem = verdict(
        {"properties": {f"p{number}": {} for number in range(300)}, "additionalProperties": False},
        {"x" * 1_000_000 + str(one): 1 for one in range(50)},
    )
    assert problem is not None
    assert len(problem.message) < 10_000
    assert len(problem.parameter_errors) == 20


def test_many_errors_and_long_values_are_cut_short() -> None:
    schema = {"properties": {f"p{number}": {"type": "integer"} for number in range(50)}}
    found = errors(schema, {f"p{number}": "x" * 10_000 for number in range(50)})
    assert len(found) == 20
    assert all(len(text) < 320 for text in found.values())


def test_a_schema_is_compiled_once_for_a_tool() -> None:
    check, tool = build_arguments_check(), Tool(name="x", input_schema=PERSON)
    assert check(Call(tool, {"name": "Ada"})) is ALLOW
    assert check(Call(tool, {"name": "Augusta"})) is not ALLOW


@pytest.mark.requirement("D-18")
@pytest.mark.parametrize("uri", ["http://127.0.0.1:9/schema.json", "file:///etc/hostname", "other.json#/$defs/A"])
def test_reference_outside_the_schema_is_never_fetched(uri: str) -> None:
    with pytest.raises(ValueError, match="this input schema cannot be used"):
        compile_schema({"$ref": uri})


@pytest.mark.parametrize(
    "schema", [{"type": "no such type"}, {"$ref": "#/nowhere"}, {"properties": 7}, {"minimum": "x"}]
)
def test_tool_with_an_invalid_schema_cannot_be_called(schema: Any) -> None:
    problem = verdict(schema, {})
    assert problem is not None
    assert problem.kind is Kind.INVALID_ARGUMENTS
    assert problem.message.startswith("x cannot be called: this input schema cannot be used")


@pytest.mark.requirement("D-15")
@pytest.mark.parametrize(
    "pattern", [r"^(a+)+$", r"^(a|aa)+$", r"^(a|a)*$", r"^([a-zA-Z]+)*$", r"^(.*a){20}$", r"(?=(a+)+b)^a*$"]
)
def test_no_pattern_blocks_the_server(pattern: str) -> None:
    schema = {"properties": {"a": {"type": "string", "pattern": pattern}}}
    assert verdict(schema, {"a": "a" * 50_000 + "!"}) is not None


CAT = {"properties": {"kind": {"const": "cat"}, "lives": {"type": "integer"}}, "required": ["kind", "lives"]}
DOG = {"properties": {"kind": {"const": "dog"}, "name": {"type": "string"}}, "required": ["kind", "name"]}


@pytest.mark.requirement("FU-16")
@pytest.mark.parametrize(
    ("schema", "value", "text"),
    [
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "x", '"x" is not of type integer or null'),
        (
            {"oneOf": [{"type": "null"}, {"type": ["string", "integer"]}]},
            [1],
            "[1] is not of type integer or string or null",
        ),
        (
            {"anyOf": [{"type": "object", **CAT}, {"type": "object", **DOG}, {"type": "null"}]},
            {"kind": "cow"},
            '.kind "cow" is not one of "cat" or "dog"',
        ),
        ({"anyOf": [{"type": "integer", "minimum": 5}, {"type": "null"}]}, 3, "3 is less than the minimum of 5"),
        (
            {"anyOf": [{"type": "integer"}, {"enum": ["a", "b"], "type": "string"}, {"type": "null"}]},
            "zzz",
            '"zzz" is not one of "a" or "b"; or another type: integer',
        ),
        ({"anyOf": [{"anyOf": [{"type": "null"}, {"type": "array"}]}, {"type": "null"}]}, 3, None),
    ],
)
def test_error_for_a_failed_union_lists_what_each_form_requires(schema: Any, value: Any, text: str | None) -> None:
    reply = errors({"properties": {"a": schema}}, {"a": value})["a"]
    assert reply == text if text else "listed in the" not in reply


@pytest.mark.requirement("FU-16")
def test_error_for_many_forms_is_bounded_and_ends_with_one_full_stop() -> None:
    forms = [{"required": [f"member{number}"]} for number in range(50)]
    problem = verdict({"properties": {"a": {"anyOf": forms}}}, {"a": {"x": "y" * 1_000}})
    assert problem is not None
    assert "or 46 more forms" in problem.message
    assert len(problem.message) < 2_000
    assert problem.message.endswith("forms.")
    cut = verdict({"properties": {"a": {"maximum": 1, "type": "string"}}}, {"a": ["y" * 1_000]})
    assert cut is not None
    assert cut.message.endswith(".")
    assert ".." not in cut.message[-2:]


@pytest.mark.requirement("CV-33")
@given(st.integers())
def test_schema_type_integer_accepts_integers_of_any_size(number: int) -> None:
    schema = {"properties": {"a": {"type": "integer", "minimum": 0}}}
    assert (verdict(schema, {"a": number}) is None) == (number >= 0)


@given(
    st.dictionaries(st.text(), st.none() | st.booleans() | st.floats(allow_nan=False) | st.text() | st.lists(st.text()))
)
def test_any_arguments_are_accepted_or_refused_as_invalid(arguments: dict[str, Any]) -> None:
    found = verdict(PERSON, arguments)
    assert found is None or found.kind is Kind.INVALID_ARGUMENTS


@pytest.mark.requirement("CV-33")
def test_decimal_argument_keeps_its_value_or_is_refused() -> None:
    tool = Tool(name="pay")

    def copied(text: str) -> Any:
        made = copy_arguments(Call(tool, {"a": [Decimal(text)]}))
        return made.arguments["a"][0] if isinstance(made, Call) else made.message

    assert [copied(text) for text in ("1.10", "-0.1", "5.00", "1E+30", "12345678901234567890123")] == [
        1.1, -0.1, 5, 10**30, 12345678901234567890123,
    ]  # fmt: skip
    assert "has more digits than a JSON number can hold" in copied("3.14159265358979323846")
    for text in ("NaN", "Infinity", "1E+999999999", "1E-999999999"):
        assert "was not called" in copied(text)


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        (["a"], '"zz" is not one of "a"'),
        (["a", 1, None], '"zz" is not one of "a", 1 or null'),
        (["tool", "bug", "timeout", "list"], '"zz" is not one of "tool", "bug", "timeout" or "list"'),
        (
            [f"v{number}" for number in range(25)],
            f'"zz" is not one of {", ".join(f"{chr(34)}v{number}{chr(34)}" for number in range(20))} or 5 others',
        ),
    ],
)
def test_every_allowed_value_is_named_as_far_as_there_is_room(values: list[Any], sentence: str) -> None:
    assert errors({"properties": {"how": {"enum": values}}}, {"how": "zz"}) == {"how": sentence}


def test_long_allowed_values_do_not_make_a_message_long() -> None:
    reply = errors({"properties": {"how": {"enum": ["y" * 100 + str(n) for n in range(51)]}}}, {"how": 1})
    assert reply["how"].endswith("or 49 others")
    assert len(reply["how"]) < 400
    assert len(errors({"properties": {"how": {"enum": ["y" * 10_000]}}}, {"how": 1})["how"]) < 400
