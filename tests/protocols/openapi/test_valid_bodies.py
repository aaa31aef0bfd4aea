"""Whatever body a document accepts, the schema that a model sees accepts too, however much of it was cut."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import assume, event, given
from hypothesis import strategies as st

from toolwire.core.http import Request
from toolwire.core.selection import Selection
from toolwire.framing import jsontext
from toolwire.protocols.openapi.document.references import References
from toolwire.protocols.openapi.request import build_request
from toolwire.protocols.openapi.schema.converter import SchemaConverter, Sizes
from toolwire.protocols.openapi.tools import operations
from toolwire.validation import compile_schema
from toolwire.validation.declared import find_declared_names

from .made_schemas import DEFINED, PREFIX, VALUES, documents, is_hidden_in, judge

ALL = Selection(include="all")
BODY = ("paths", "/a", "post", "requestBody", "content", "application/json", "schema")


def body_of(document: Any) -> Any:
    for step in BODY:
        document = document[step]
    return document


@pytest.mark.requirement("CV-19", "CV-20", "CV-21", "CV-25", "O-02")
@given(
    document=documents(),
    values=st.lists(VALUES, min_size=4, max_size=12),
    telling=st.sampled_from([0, 10_000]),
    most=st.sampled_from([60, 150, 400, 10_000]),
)
def test_cut_schema_accepts_every_value_of_the_original(
    document: dict[str, Any], values: list[Any], telling: int, most: int
) -> None:
    schema = body_of(document)
    judged = judge(document, schema)
    assume(judged is not None)
    assert judged is not None
    sizes = Sizes(telling=telling, most=most, largest=most + most // 8)
    schemas = SchemaConverter(References(document), used_in="request", notes=[], sizes=sizes)
    converted = schemas.add_definitions(*schemas.read(schema, "POST /a"), "POST /a")
    check = compile_schema(converted)
    for value in values:
        if judged.is_valid(value) and not is_hidden_in(document, schema, value):
            event("accepted")
            assert check(value) is None, (value, converted)


@pytest.mark.requirement("CV-15", "CV-19", "CV-21", "XL-086")
@given(document=documents(), values=st.lists(VALUES, min_size=4, max_size=12))
def test_body_valid_in_the_document_is_valid_as_arguments(document: dict[str, Any], values: list[Any]) -> None:
    schema = body_of(document)
    judged = judge(document, schema)
    assume(judged is not None)
    assert judged is not None
    offer = operations.read_operations(document, "https://api.test/openapi.json", ALL)
    (tool,) = offer.catalog.tools
    plan = offer.memo.plans[tool.id]
    check = compile_schema(tool.input_schema)
    declared = find_declared_names(tool.input_schema)
    arguments = {name: argument for argument, name in plan.properties}
    for value in values:
        if not judged.is_valid(value) or is_hidden_in(document, schema, value):
            continue
        if plan.whole_body is not None:
            event("a whole body")
            given = {plan.whole_body: value}
        elif isinstance(value, dict) and arguments.keys() >= value.keys():  # only an object has properties
            event("a body taken apart")
            given = {arguments[name]: one for name, one in value.items()}
        else:
            continue
        assert check(given) is None, (given, dict(tool.input_schema))
        request = build_request.build_request(plan, given)
        assert isinstance(request, Request), (request, given)
        assert request.url == "https://api.test/a"
        assert json.loads(request.body) == value  # what is sent is the body, and nothing else
        assert declared is None or given.keys() <= declared


def cut(schema: Any, **defined: Any) -> dict[str, Any]:
    """Return ``schema`` as it is where there is room for next to nothing."""
    document = {"openapi": "3.1.1", "components": {"schemas": defined}}
    schemas = SchemaConverter(
        References(document), used_in="request", notes=[], sizes=Sizes(telling=0, most=400, largest=800)
    )
    return schemas.add_definitions(*schemas.read(schema, "x"), "x")


LARGE = {"type": "object", "properties": {f"p{n}": {"type": "string", "enum": ["x" * 9]} for n in range(40)}}
REFERENCES = [{"$ref": PREFIX + name} for name in DEFINED]


@pytest.mark.requirement("CV-25")
@pytest.mark.parametrize(
    ("schema", "accepted"),
    [
        ({"oneOf": [{"type": "string"}, *REFERENCES]}, [{"p0": "x" * 9}, {"other": 1}]),
        ({"not": REFERENCES[0]}, ["text"]),
        (
            {"if": REFERENCES[0], "then": {"type": "object", "required": ["q"]}, "else": {"type": "string"}},
            ["text", {"q": 1}],
        ),
        ({"contains": REFERENCES[0], "maxContains": 1}, [[{}, 1, 2]]),
        ({"allOf": REFERENCES, "unevaluatedProperties": False}, [{"p0": "x" * 9}]),
        ({"type": "array", "items": {"oneOf": REFERENCES[:2]}}, [[{"p0": 1}]]),
    ],
)
def test_cut_schema_refuses_no_valid_value(schema: Any, accepted: list[Any]) -> None:
    one = {**LARGE, "properties": {**LARGE["properties"], "p0": {"type": "integer"}}}
    found = cut(schema, One=one, Two=LARGE, Three={"type": "object", "maxProperties": 1, "properties": LARGE})
    assert "Cut" in jsontext.write(found).decode()
    check = compile_schema(found)
    for value in accepted:
        assert check(value) is None, value


@pytest.mark.requirement("CV-19", "CV-30")
def test_unchecked_formats_do_not_make_one_of_ambiguous() -> None:
    branches = [{"type": "string", "format": "date"}, {"type": "string", "format": "uuid"}]
    assert compile_schema(cut({"oneOf": branches}))("2020-01-01") is None
    assert compile_schema(cut({"not": {"format": "uuid"}}))("2020-01-01") is None
    apart = cut({"oneOf": [{"type": "string"}, {"type": "integer"}]})
    assert "oneOf" in apart
    assert compile_schema(apart)("a") is None


@pytest.mark.requirement("CV-30", "D-15")
def test_names_for_an_invalid_pattern_are_accepted() -> None:
    closed = {"patternProperties": {"(": {}, "^n": {"type": "integer"}}, "additionalProperties": False}
    check = compile_schema(cut({"allOf": [closed], "unevaluatedProperties": False}))
    assert check({"x": 1, "n": 1}) is None
    assert check({"n": "text"}) is not None


@pytest.mark.requirement("CV-21")
def test_property_required_in_one_part_and_read_only_in_another_is_optional() -> None:
    base = {"type": "object", "required": ["id", "n"], "properties": {"id": {"type": "string"}, "n": {}}}
    schema = {"properties": {"id": {"readOnly": True}}, "allOf": [{"$ref": f"{PREFIX}Base"}]}
    check = compile_schema(cut(schema, Base=base))
    assert check({"n": 1}) is None
    assert check({}) is not None
    needs = {"properties": {"id": {"readOnly": True}, "n": {}}, "dependentRequired": {"n": ["id"], "id": ["x"]}}
    assert cut(needs) == {"properties": {"n": {}}, "dependentRequired": {"n": []}}
