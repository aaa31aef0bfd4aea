"""Whatever is in a document: it is read, or there is a Problem, and what was read can be written in every kind."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from toolwire import convert
from toolwire.convert import KINDS, ConvertedDocument, ReadDocument
from toolwire.core.model import Problem

from .catalogs import TEXT, VALUES, catalogs

ANY = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
NAMES = ("name", "id", "tools", "functions", "paths", "x-toolwire", "source", "is", "$ref", "type", "properties")
JSON = st.recursive(
    VALUES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES) | TEXT, inner, max_size=3),
    max_leaves=8,
)


def spots(data: Any) -> list[tuple[Any, Any]]:
    """Return each place of ``data`` as its holder and its key."""
    found: list[tuple[Any, Any]] = []
    waiting = [data]
    for holder in waiting:
        pairs = holder.items() if isinstance(holder, dict) else enumerate(holder) if isinstance(holder, list) else ()
        for key, value in pairs:
            found.append((holder, key))
            waiting.append(value)
    return found


@pytest.mark.parametrize("kind", KINDS)
@ANY
@given(catalog=catalogs(), data=st.data())
def test_mutated_document_is_converted_or_a_problem(kind: str, catalog: Any, data: st.DataObject) -> None:
    document = json.loads(json.dumps(convert.write(catalog, kind).document))
    for _ in range(data.draw(st.integers(1, 3))):
        places = spots(document)
        if places:
            holder, key = data.draw(st.sampled_from(range(len(places))).map(places.__getitem__))
            holder[key] = data.draw(JSON)
    found = convert.read(json.dumps(document).encode())
    assert isinstance(found, ReadDocument | Problem)
    if isinstance(found, ReadDocument):
        for to in KINDS:
            assert isinstance(convert.convert(document, to), ConvertedDocument)


@ANY
@given(document=JSON, kind=st.none() | st.sampled_from(KINDS))
def test_any_json_is_read_or_is_a_problem(document: Any, kind: str | None) -> None:
    assert isinstance(convert.read(json.dumps(document), kind), ReadDocument | Problem)


@ANY
@given(raw=st.binary(max_size=40))
def test_any_bytes_are_read_or_are_a_problem(raw: bytes) -> None:
    assert isinstance(convert.read(raw), ReadDocument | Problem)
