"""OpenAPI documents as they are converted: what a person cannot see in them is said to be lost."""

import json

from toolwire import convert
from toolwire.convert import ReadDocument


def test_hidden_text_is_a_loss() -> None:
    reply = {
        "openapi": "3.1.0",
        "info": {"title": "A\u200bB", "version": "1"},
        "x-llm": {"version": "0.1"},
        "paths": {},
    }
    found = convert.read(json.dumps(reply))
    assert isinstance(found, ReadDocument)
    assert found.catalog.title == "AB"
    assert [loss.pointer for loss in found.losses] == ["/info/title"]
