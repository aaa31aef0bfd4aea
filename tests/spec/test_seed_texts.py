"""What is odd in the texts that the specifications came in, and is no part of what they say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from toolwire.protocols.opentool.validator import check

ROOT = Path(__file__).parents[2]
READ_AS = ("cp1252", "latin-1")


@pytest.mark.requirement("A-09")
def test_wrongly_decoded_full_stop_of_the_seeds_is_in_no_file() -> None:
    wrong = {"\u3002".encode().decode(encoding) for encoding in READ_AS}
    texts = [
        file
        for folder in ("docs", "spec", "src", "examples")
        for file in (ROOT / folder).rglob("*")
        if file.suffix in (".md", ".json", ".toml", ".py", ".yaml")
    ]
    assert len(texts) > 400
    assert [
        file for file in texts if any(each in file.read_text(encoding="utf-8", errors="replace") for each in wrong)
    ] == []


@pytest.mark.requirement("A-09")
def test_wrongly_decoded_full_stop_in_a_document_is_ordinary_text() -> None:
    stop = "\u3002".encode().decode("latin-1")
    document = {
        "opentool": "1.1.0",
        "info": {"title": f"Title{stop}", "version": "1.0.0"},
        "server": {"url": "http://localhost:9627", "description": f"Where it is{stop}"},
        "functions": [{"name": "f", "description": f"Does it{stop}", "parameters": []}],
    }
    assert check(json.dumps(document)) == ()
