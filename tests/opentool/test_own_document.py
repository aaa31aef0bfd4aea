"""What ``/opentool/load`` serves of a tool's own document: all of it, with every reference written out."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any
from urllib.request import urlopen

import pytest

from toolwire.opentool import SyncOpenToolClient

from .conftest import DOCUMENT, Notes, Serve

ID = {"type": "integer", "description": "The number of a text."}
BOOK = {"type": "object", "properties": {"id": {"$ref": "#/schemas/Id"}}, "required": ["id"]}
BOOK_INLINE = {"type": "object", "properties": {"id": ID}, "required": ["id"]}


def load_document(url: str) -> dict[str, Any]:
    with urlopen(f"{url}/opentool/load", timeout=10) as answer:
        data: dict[str, Any] = json.load(answer)
    return data


@pytest.mark.requirement("OTRPC-013", "OT-005", "A-01", "I-07")
def test_served_document_is_complete_without_references(serve: Serve) -> None:
    document = deepcopy(DOCUMENT)
    document["schemas"]["Book"] = BOOK
    url = serve(Notes(document)).url
    served = load_document(url)
    assert served.keys() == document.keys()
    assert served["schemas"] == {"Id": ID, "Book": BOOK_INLINE}
    assert "$ref" not in json.dumps(served)
    with SyncOpenToolClient(url) as client:
        known = client.load()
    assert known is not None
    assert known.schemas is not None
    assert set(known.schemas) == {"Id", "Book"}


@pytest.mark.requirement("A-11", "OTRPC-013")
def test_streams_of_a_function_are_served_unchanged(serve: Serve) -> None:
    stream = {
        "token": {"name": "Token", "description": "One word.", "schema": {"type": "string"}},
        "book": {"name": "Book", "schema": {"$ref": "#/schemas/Book"}},
    }
    document = deepcopy(DOCUMENT)
    document["schemas"]["Book"] = BOOK
    document["functions"][0]["stream"] = stream
    served = load_document(serve(Notes(document)).url)["functions"][0]
    assert served["stream"] == {"token": stream["token"], "book": {"name": "Book", "schema": BOOK_INLINE}}
    assert served["return"] == document["functions"][0]["return"]


@pytest.mark.requirement("OTRPC-013")
def test_functions_whose_names_differ_only_by_a_dash_can_be_called(serve: Serve) -> None:
    document = deepcopy(DOCUMENT)
    document["functions"] = [
        {"name": name, "description": name, "parameters": []} for name in ("a-b", "a_b", "a.b", "plain")
    ]

    class Named:
        def call(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
            return {"called": name, "with": arguments}

        def load(self) -> dict[str, Any]:
            return document

    url = serve(Named()).url
    assert [one["name"] for one in load_document(url)["functions"]] == ["a-b", "a_b", "a.b", "plain"]
    from toolwire import Value, connect_sync
    from toolwire.opentool import FunctionCall

    with SyncOpenToolClient(url) as client:
        for name in ("a-b", "a_b", "a.b"):
            assert client.call(FunctionCall("1", name, {})).result["called"] == name
    with connect_sync(url, protocol="opentool", approve=lambda question: True) as remote:
        for name in ("a-b", "a_b", "a.b"):
            assert remote.call(name) == Value({"called": name, "with": {}})
        assert len([one for one in remote.findings() if "either name" in one]) == 2
