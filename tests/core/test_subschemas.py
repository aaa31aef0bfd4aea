"""The schemas inside a schema are found as another library finds them, and data that looks like one is left alone."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from referencing.jsonschema import DRAFT7, DRAFT201909, DRAFT202012

from toolwire.core.subschemas import DEFINITIONS, LISTED, NAMED, SINGLE, change_subschemas, iterate_schemas
from toolwire.core.subschemas import list_subschemas as list_inner

LEAVES: st.SearchStrategy[Any] = st.one_of(
    st.booleans(),
    st.builds(dict),
    st.sampled_from(
        ({"type": "string"}, {"default": {"items": {"type": "null"}}}, {"enum": [{"properties": {"a": 1}}]})
    ),
)


def hold(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Return schemas that hold some of ``inner`` under keywords of draft 2020-12."""
    members: dict[str, st.SearchStrategy[Any]] = {
        **dict.fromkeys((*SINGLE, "contentSchema"), inner),
        **{keyword: st.lists(inner, min_size=1, max_size=3) for keyword in LISTED},
        **{keyword: st.dictionaries(st.sampled_from("abc"), inner, max_size=3) for keyword in (*NAMED, "$defs")},
        "const": inner,
        "examples": st.lists(inner, max_size=2),
        "required": st.lists(st.sampled_from("abc"), max_size=2, unique=True),
    }
    return st.fixed_dictionaries({}, optional=members)


SCHEMAS = st.recursive(LEAVES, hold, max_leaves=12)


def identities(schemas: Any) -> list[int]:
    return sorted(id(one) for one in schemas if isinstance(one, dict))


@given(SCHEMAS.filter(lambda one: isinstance(one, dict)))
def test_inner_schemas_equal_those_of_the_referencing_library(schema: dict[str, Any]) -> None:
    found = [one for _, _, one in list_inner(schema)]
    assert identities(found) == identities(DRAFT202012.subresources_of(schema))


@given(SCHEMAS.filter(lambda one: isinstance(one, dict)))
def test_walk_visits_every_nested_schema_once(schema: dict[str, Any]) -> None:
    expected, waiting = [], [schema]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            expected.append(id(one))
            waiting.extend(DRAFT202012.subresources_of(one))
    assert sorted(map(id, iterate_schemas(schema))) == sorted(expected)


@given(SCHEMAS.filter(lambda one: isinstance(one, dict)))
def test_change_subschemas_calls_the_change_once_for_each_inner_schema(schema: dict[str, Any]) -> None:
    seen: list[tuple[str, str, Any]] = []

    def change(one: Any, keyword: str, name: str) -> Any:
        seen.append((keyword, name, one))
        return one

    assert change_subschemas(schema, change) == schema
    assert seen == list_inner(schema)


def test_change_subschemas_does_not_modify_the_original() -> None:
    schema = {"properties": {"a": {"type": "string"}}, "allOf": [{}], "not": {}, "default": {"not": {}}}
    changed = change_subschemas(schema, lambda _one, keyword, name: f"{keyword}/{name}")
    assert changed == {"properties": {"a": "properties/a"}, "allOf": ["allOf/0"], "not": "not/", "default": {"not": {}}}
    assert schema["properties"] == {"a": {"type": "string"}}


@pytest.mark.parametrize(
    ("draft", "schema"),
    [
        (DRAFT7, {"items": [{"a": 1}, {"a": 2}], "additionalItems": {"a": 3}}),
        (DRAFT7, {"definitions": {"one": {"a": 1}}}),
        (DRAFT201909, {"items": [{"a": 1}], "additionalItems": {"a": 2}, "$defs": {"one": {"a": 3}}}),
    ],
)
def test_keywords_of_older_drafts_contain_schemas(draft: Any, schema: dict[str, Any]) -> None:
    assert identities(one for _, _, one in list_inner(schema)) == identities(draft.subresources_of(schema))


@pytest.mark.parametrize("keyword", [*NAMED, *DEFINITIONS, *LISTED])
@pytest.mark.parametrize("wrong", [None, 5, "text"])
def test_keyword_with_a_wrong_type_contains_no_schemas(keyword: str, wrong: object) -> None:
    assert list_inner({keyword: wrong}) == []
    assert change_subschemas({keyword: wrong}, lambda *_: 0) == {keyword: wrong}
