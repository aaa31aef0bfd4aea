"""Documents from text, bytes and files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from toolwire.core.errors import DefinitionError
from toolwire.opentool import OpenToolJsonLoader

from .conftest import DOCUMENT

VECTORS = Path(__file__).parents[1] / "vectors" / "opentool"


@pytest.mark.parametrize("path", sorted(VECTORS.glob("sdk_*.json")), ids=lambda path: path.stem)
@pytest.mark.requirement("OT-031")
def test_the_documents_of_the_sdks_load_from_text_bytes_and_file_alike(path: Path) -> None:
    loader, text = OpenToolJsonLoader(), path.read_text(encoding="utf-8")
    loaded = loader.load_from_file(path)
    assert loaded == loader.load(text) == loader.load(text.encode()) == loader.loadFromFile(str(path))
    assert loaded.info.title == json.loads(text)["info"]["title"]


@pytest.mark.parametrize(
    ("text", "message"),
    [("{", "not valid JSON"), ("7", "document"), (json.dumps({**DOCUMENT, "info": 7}), "info"), ("\ud800", "UTF-8")],
)
def test_invalid_document_is_refused_in_one_sentence(text: str, message: str) -> None:
    with pytest.raises(DefinitionError, match=message):
        OpenToolJsonLoader().load(text)


def test_load_error_names_its_file(tmp_path: Path) -> None:
    file = tmp_path / "tool.json"
    with pytest.raises(DefinitionError, match=r"Cannot read the document .*tool\.json"):
        OpenToolJsonLoader().load_from_file(file)
    file.write_text("{")
    with pytest.raises(DefinitionError, match=r"tool\.json: The body is not valid JSON"):
        OpenToolJsonLoader().load_from_file(file)
