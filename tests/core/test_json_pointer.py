"""JSON Pointers (RFC 6901) have one home: what is built is parsed back, and no value of a document raises."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

import toolwire
from toolwire.core.json_pointer import (
    MISSING,
    build_pointer,
    extend_reference,
    join_pointer,
    parse_pointer,
    parse_reference,
    resolve_pointer,
    resolve_reference,
)

SOURCE = Path(toolwire.__file__).parent
STEPS = st.lists(st.one_of(st.text(max_size=8), st.sampled_from(["~", "/", "~1", "~01", "%25", "%2F", "", "#", "a b"])))
DATA = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=4)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=12,
)
# The examples of RFC 6901, sections 5 and 6.
DOCUMENT = {"foo": ["bar", "baz"], "": 0, "a/b": 1, "c%d": 2, "e^f": 3, "g|h": 4, "i\\j": 5, 'k"l': 6, " ": 7, "m~n": 8}


@pytest.mark.parametrize(
    ("pointer", "reference", "value"),
    [
        ("", "#", DOCUMENT),
        ("/foo", "#/foo", ["bar", "baz"]),
        ("/foo/0", "#/foo/0", "bar"),
        ("/", "#/", 0),
        ("/a~1b", "#/a~1b", 1),
        ("/c%d", "#/c%25d", 2),
        ("/e^f", "#/e%5Ef", 3),
        ("/g|h", "#/g%7Ch", 4),
        ("/i\\j", "#/i%5Cj", 5),
        ('/k"l', "#/k%22l", 6),
        ("/ ", "#/%20", 7),
        ("/m~0n", "#/m~0n", 8),
    ],
)
def test_the_examples_of_the_rfc_are_resolved(pointer: str, reference: str, value: Any) -> None:
    assert resolve_pointer(DOCUMENT, pointer) == value
    assert resolve_reference(DOCUMENT, reference) == value


@pytest.mark.parametrize(
    "pointer", ["foo", "/foo/2", "/foo/-1", "/foo/x", "/foo/\u0661", "/foo/9999999999", "/a/b", None, 1]
)
def test_pointer_to_an_absent_place_resolves_to_missing(pointer: Any) -> None:
    assert resolve_pointer(DOCUMENT, pointer) is MISSING


@pytest.mark.parametrize("reference", ["", "/foo", "foo#/foo", "#foo", None, 1, "#/foo/2"])
def test_reference_to_another_document_resolves_to_missing(reference: Any) -> None:
    assert resolve_reference(DOCUMENT, reference) is MISSING


@given(STEPS)
def test_built_pointer_parses_back_to_the_same_steps(steps: list[str]) -> None:
    pointer = build_pointer(steps)
    assert parse_pointer(pointer) == steps
    assert parse_reference(extend_reference("#", *steps)) == steps
    assert parse_reference("#" + quote(pointer, safe="/~")) == steps
    assert join_pointer(build_pointer(steps[:1]), *steps[1:]) == pointer


def every(data: Any, steps: tuple[str | int, ...] = ()) -> list[tuple[tuple[str | int, ...], Any]]:
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    return [(steps, data), *(found for step, inner in items for found in every(inner, (*steps, step)))]


@given(DATA)
def test_pointer_to_each_value_resolves_to_that_value(data: Any) -> None:
    for steps, value in every(data):
        assert resolve_pointer(data, build_pointer(steps)) is value
        assert resolve_reference(data, extend_reference("#", *map(str, steps))) is value


@given(DATA, st.text(max_size=12))
def test_resolving_any_text_raises_no_exception(data: Any, text: str) -> None:
    resolve_pointer(data, text)
    resolve_reference(data, text)


def test_no_other_module_escapes_or_unescapes_steps() -> None:
    found = {
        str(path.relative_to(SOURCE))
        for path in SOURCE.rglob("*.py")
        if re.search(r'replace\("~[01]?"|replace\("/", "~1"\)', path.read_text(encoding="utf-8"))
    }
    assert found == {"core/json_pointer.py"}
