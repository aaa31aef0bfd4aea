"""Small parts of a document that few sites get wrong: each has one meaning, or none."""

from __future__ import annotations

from typing import Any

import pytest

from toolwire.core.resources import Resource
from toolwire.protocols.openapi.combining import joined, told_apart
from toolwire.protocols.openapi.files import file_name
from toolwire.protocols.openapi.references import Unusable, follow


@pytest.mark.parametrize(
    ("node", "said"),
    [
        (7, "its body is not an object"),
        ({"$ref": "#/a"}, "go round in a circle"),
        ({"$ref": "#/b"}, "its body is not an object"),
        ({"$ref": "#/nowhere"}, "which is not there"),
    ],
)
def test_a_reference_that_leads_nowhere_is_said_to(node: Any, said: str) -> None:
    document = {"a": {"$ref": "#/a"}, "b": [], "c": {"d": 1}}
    with pytest.raises(Unusable, match=said):
        follow(document, node, "body")
    assert follow(document, {"$ref": "#/c"}, "body") == {"d": 1}


@pytest.mark.requirement("CV-13")
@pytest.mark.parametrize(
    ("name", "otherwise", "sent"),
    [
        ("../a b.png", "x", "a_b.png"),
        ("", "photo", "photo"),
        ("...", "///", "file"),
        ("C:\\dir\\cat.png", "", "cat.png"),
    ],
)
def test_a_file_is_sent_under_a_plain_name(name: str, otherwise: str, sent: str) -> None:
    assert file_name(Resource(data=b"", name=name), otherwise) == sent


@pytest.mark.requirement("CV-19")
def test_a_discriminator_that_names_nothing_changes_nothing() -> None:
    branches = [{"$ref": "#/components/schemas/Cat"}, {"type": "object", "properties": {"a": {}}}, "odd"]
    schema = {"oneOf": [{"type": "object"}, {"type": "object", "properties": {"a": {}}}, {}]}
    for discriminator in (7, {}, {"propertyName": 7}):
        assert told_apart(schema, {"oneOf": branches, "discriminator": discriminator}) == schema
    told = told_apart(schema, {"oneOf": branches, "discriminator": {"propertyName": "kind", "mapping": {"cat": 7}}})
    tagged, *others = told["oneOf"]
    assert tagged == {"type": "object", "properties": {"kind": {"const": "Cat"}}, "required": ["kind"]}
    assert others == schema["oneOf"][1:]


@pytest.mark.requirement("CV-19")
def test_the_branch_of_every_other_value_is_not_tied_to_its_own() -> None:
    branches = [{"$ref": "#/components/schemas/Cat"}, {"$ref": "#/components/schemas/Other"}]
    schema = {"oneOf": [{"type": "object"}, {"type": "object"}]}
    told = told_apart(schema, {"oneOf": branches, "discriminator": {"propertyName": "kind", "defaultMapping": "Other"}})
    assert [one.get("required") for one in told["oneOf"]] == [["kind"], None]


@pytest.mark.requirement("CV-19")
def test_objects_of_an_all_of_are_one_object_and_what_is_no_object_stays_apart() -> None:
    first, second = {"type": "object", "properties": {"a": {}}}, {"properties": {"c": {}}, "required": ["c"]}
    assert joined({"properties": {"b": {}}, "allOf": [first, second]}) == {
        "type": "object", "properties": {"b": {}, "a": {}, "c": {}}, "required": ["c"],
    }  # fmt: skip
    text = {"type": "string", "allOf": [first, second]}
    assert joined(text) == text
    assert joined({"type": "object", "allOf": 7}) == {"type": "object", "allOf": 7}
