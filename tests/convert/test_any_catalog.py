"""Whatever the catalog: what is not reported as lost is there when the document is read back."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from toolwire import convert
from toolwire.convert import KINDS, ConvertedDocument, ReadDocument
from toolwire.core.catalog import Catalog
from toolwire.core.model import Requirements, Tool

from .catalogs import catalogs, text_of

WITH_ROOM = tuple(kind for kind in KINDS if kind != "universal")
WITHOUT_ROOM_FOR_TOOLS = ("oxp", "universal")
ANY = settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


def read_back(document: object) -> ReadDocument:
    found = convert.read(text_of(document))
    assert isinstance(found, ReadDocument)
    return found


@pytest.mark.requirement("OT-030")
@pytest.mark.parametrize("kind", KINDS)
@ANY
@given(catalog=catalogs())
def test_losses_are_reported_exactly_if_the_catalog_changed(kind: str, catalog: Catalog) -> None:
    written = convert.write(catalog, kind)
    found = read_back(written.document)
    assert found.kind == kind
    assert (found.catalog == catalog) is (not written.losses)


@pytest.mark.parametrize("kind", KINDS)
@ANY
@given(catalog=catalogs())
def test_written_document_is_read_without_further_losses(kind: str, catalog: Catalog) -> None:
    written = convert.write(catalog, kind)
    assert read_back(written.document).losses == () or (written.losses and kind in WITHOUT_ROOM_FOR_TOOLS)


@pytest.mark.parametrize("kind", KINDS)
@ANY
@given(catalog=catalogs())
def test_every_tool_is_written_or_reported_as_a_loss(kind: str, catalog: Catalog) -> None:
    written = convert.write(catalog, kind)
    lost = [loss for loss in written.losses if loss.what.startswith("the tool ")]
    assert len(read_back(written.document).catalog.tools) + len(lost) == len(catalog.tools)


@pytest.mark.parametrize("kind", WITH_ROOM)
@ANY
@given(catalog=catalogs(), other=st.sampled_from(WITH_ROOM))
def test_conversion_to_another_kind_and_back_restores_the_text(kind: str, catalog: Catalog, other: str) -> None:
    text = text_of(convert.write(catalog, kind).document)
    there = convert.convert(text, other)
    assert isinstance(there, ConvertedDocument)
    back = convert.convert(there.text.encode(), kind)
    assert isinstance(back, ConvertedDocument)
    assert (back.text, back.losses) == (text, ())


@pytest.mark.parametrize("kind", WITH_ROOM)
@ANY
@given(catalog=catalogs(), other=st.sampled_from(WITH_ROOM))
def test_two_conversions_without_losses_change_nothing(kind: str, catalog: Catalog, other: str) -> None:
    first = convert.convert(catalog, kind)
    assert isinstance(first, ConvertedDocument)
    second = convert.convert(first.text, other)
    assert isinstance(second, ConvertedDocument)
    if not first.losses and not second.losses:
        assert read_back(second.document).catalog == catalog


@pytest.mark.requirement("OT-030", "O-34")
def test_mended_schema_is_a_loss_only_if_the_exact_one_is_not_beside_it() -> None:
    circular = {"type": "object", "properties": {}, "$defs": {"Thing": {"$ref": "#/$defs/Thing"}}}
    needs = Requirements(secrets=("KEY",))
    tool = Tool(name="a", input_schema=circular, output_schema={"$ref": "#/$defs/Thing"}, requirements=needs)
    document = convert.write(Catalog(tools=(tool,)), "opentool").document
    found = read_back(document)
    assert (found.losses, found.catalog.tools) == ((), (tool,))
    assert isinstance(document, dict)
    plain = read_back({key: one for key, one in document.items() if key != "x-toolwire"})
    assert {loss.what.partition(":")[0] for loss in plain.losses} >= {
        "the input schema of the tool 'a'",
        "the output schema of the tool 'a'",
    }
