"""Small parts of a document that few sites get wrong: each has one meaning, or none."""

from __future__ import annotations

from typing import Any

import pytest

from toolwire.core.resources import Resource
from toolwire.protocols.openapi.document.references import References, Unusable, follow
from toolwire.protocols.openapi.request.files import choose_file_name
from toolwire.protocols.openapi.schema.combine import join_branches
from toolwire.protocols.openapi.schema.discriminator import mark_branches


@pytest.mark.parametrize(
    ("node", "said"),
    [
        (7, "its body is not an object"),
        ({"$ref": "#/a"}, "the references in its"),
        ({"$ref": "#/b"}, "its body is not an object"),
        ({"$ref": "#/nowhere"}, "which does not exist"),
    ],
)
def test_dangling_reference_is_reported(node: Any, said: str) -> None:
    document = {"a": {"$ref": "#/a"}, "b": [], "c": {"d": 1}}
    with pytest.raises(Unusable, match=said):
        follow(document, node, "body")
    assert follow(document, {"$ref": "#/c"}, "body") == {"d": 1}


@pytest.mark.requirement("CV-13")
@pytest.mark.parametrize(
    ("name", "otherwise", "sent"),
    [
        ("../a b.png", "x", "a b.png"),
        ("", "photo", "photo"),
        ("...", "///", "file"),
        ("C:\\dir\\cat.png", "", "cat.png"),
    ],
)
def test_file_is_sent_with_a_safe_file_name(name: str, otherwise: str, sent: str) -> None:
    assert choose_file_name(Resource(data=b"", name=name), otherwise) == sent


@pytest.mark.requirement("CV-19", "O-01")
def test_discriminator_without_matching_branches_changes_nothing() -> None:
    schemas = {"Cat": {"type": "object"}, "Dog": {"properties": {"kind": {"enum": ["dog"]}}}, "Eel": {}}
    references = References({"components": {"schemas": schemas}})
    branches = [{"$ref": f"#/components/schemas/{name}"} for name in schemas] + [{"type": "object"}, "odd"]
    schema = {"oneOf": [{"$ref": f"#/$defs/{name}"} for name in schemas] + [{"type": "object"}, {}]}
    for discriminator in (7, {}, {"propertyName": 7}):
        assert mark_branches(schema, {"oneOf": branches, "discriminator": discriminator}, references) == schema
    mapping = {"cat": 7, "eel": "Eel", "long eel": "#/components/schemas/Eel"}
    discriminator = {"propertyName": "kind", "mapping": mapping}
    marked = mark_branches(schema, {"oneOf": branches, "discriminator": discriminator}, references)
    assert marked["oneOf"] == [
        {"$ref": "#/$defs/Cat", "properties": {"kind": {"type": "string", "enum": ["Cat"]}}},
        {"$ref": "#/$defs/Dog"},
        {"$ref": "#/$defs/Eel", "properties": {"kind": {"type": "string", "enum": ["eel", "long eel"]}}},
        {"type": "object"},
        {},
    ]


@pytest.mark.requirement("CV-19")
def test_join_branches_merges_only_objects_of_an_all_of() -> None:
    first, second = {"type": "object", "properties": {"a": {}}}, {"properties": {"c": {}}, "required": ["c"]}
    assert join_branches({"properties": {"b": {}}, "allOf": [first, second]}) == {
        "type": "object", "properties": {"b": {}, "a": {}, "c": {}}, "required": ["c"],
    }  # fmt: skip
    text = {"type": "string", "allOf": [first, second]}
    assert join_branches(text) == text
    assert join_branches({"type": "object", "allOf": 7}) == {"type": "object", "allOf": 7}
