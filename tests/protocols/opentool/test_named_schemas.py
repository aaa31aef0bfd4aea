"""References between the named schemas of a document: read in place, and never served. [A-01]"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.wire import HERE, SyncAppTransport
from toolwire.core.http import Request
from toolwire.core.model import Problem
from toolwire.opentool.serve_object import build_app, build_toolbox
from toolwire.protocols.opentool import document
from toolwire.protocols.opentool.validator import check
from toolwire.server.options import ServerOptions


def ref(name: str) -> dict[str, str]:
    return {"$ref": f"#/schemas/{name}"}


SCHEMAS = {
    "Id": {"type": "integer", "description": "A number."},
    "Point": {"type": "object", "properties": {"x": ref("Id"), "y": ref("Id")}, "required": ["x"]},
    "Line": {"type": "array", "items": ref("Point")},
    "Tree": {"type": "object", "properties": {"label": {"type": "string"}, "below": ref("Tree")}},
}
ID = {"type": "integer", "description": "A number."}
POINT = {"type": "object", "properties": {"x": ID, "y": ID}, "required": ["x"]}


def whole(schema: Any) -> dict[str, Any]:
    parameters = [{"name": "a", "schema": schema, "required": True}]
    function = {"name": "f", "description": "F.", "parameters": parameters}
    info = {"title": "T", "version": "1.0.0"}
    return {"opentool": "1.1.0", "info": info, "functions": [function], "schemas": SCHEMAS}


@pytest.mark.requirement("A-01")
@pytest.mark.parametrize(
    ("schema", "read", "note"),
    [
        (ref("Id"), ID, ""),
        (ref("Line"), {"type": "array", "items": POINT}, ""),
        (ref("Tree"), {"type": "object", "properties": {"label": {"type": "string"}, "below": {}}}, "#/schemas/Tree"),
        (ref("Gone"), {}, "#/schemas/Gone"),
        ({"$ref": "https://elsewhere.test/s.json"}, {}, "https://elsewhere.test"),
        ({"$ref": "file:///etc/passwd"}, {}, "file:///etc/passwd"),
        ({"$ref": "other.json#/schemas/Id"}, {}, "other.json"),
    ],
)
def test_only_local_references_are_resolved_and_others_noted(schema: Any, read: Any, note: str) -> None:
    found = document.read(whole(schema))
    assert not isinstance(found, Problem)
    assert found.catalog.tools[0].parameters["a"] == read
    assert (note in " ".join(found.notes)) if note else found.notes == ()
    errors = [one for one in check(json.dumps(whole(schema))) if one.rule == "A-01" and note]
    assert bool(errors) is bool(note)


class Drawing:
    """A tool that has a document with references."""

    def call(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        return arguments

    def load(self) -> dict[str, Any]:
        return whole({"type": "object", "properties": {"line": ref("Line"), "tree": ref("Tree")}})


@pytest.mark.requirement("A-01", "S-2")
def test_served_document_has_no_references_and_cuts_recursion() -> None:
    transport = SyncAppTransport(build_app(build_toolbox(Drawing()), ServerOptions()))
    try:
        body = transport.send(Request("GET", f"{HERE}/opentool/load", ((b"host", b"127.0.0.1:9627"),))).body
    finally:
        transport.close()
    assert b"$ref" not in body
    small = json.loads(body)["functions"][0]["parameters"][0]["schema"]["properties"]
    assert small["line"] == {"type": "array", "items": POINT}
    assert small["tree"]["properties"]["below"] == {"type": "object", "properties": {}}
