"""What toolwire reads differently from how a document says it, told to the user who lists the tools."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.client import conftest
from toolwire import connect_sync

listen, encode_response = conftest.listen, conftest.encode_response  # fixtures
JSON = "content-type: application/json"
KINDS = ("opentool", "otc", "oxp", "mcp")


@pytest.fixture
def open_document(listen: Callable[..., Any], encode_response: Callable[..., bytes]) -> Callable[[str, Any], str]:
    """Serve one document at ``path``."""

    def start(path: str, document: Any) -> str:
        def answer(seen: Any) -> list[bytes]:
            asked = seen.line.split()[1]
            if asked == path:
                return [encode_response(json.dumps(document).encode(), JSON)]
            if asked == "/opentool/version" and path.startswith("/opentool"):
                return [encode_response(b'{"version": "1.0.0"}', JSON)]
            return [encode_response(b"{}", status="404 None")]

        return str(listen(answer).origin)

    return start


@pytest.mark.requirement("A-02", "A-05", "XL-088")
def test_enum_numbers_as_strings_and_unknown_major_version_are_reported(
    open_document: Callable[[str, Any], str], toolwire: Callable[..., Any]
) -> None:
    parameter = {"name": "size", "schema": {"type": "integer", "enum": ["1", 2]}, "required": True}
    function = {"name": "order", "description": "Order.", "parameters": [parameter]}
    info = {"title": "Shop", "version": "7.0.0"}
    url = open_document("/opentool/load", {"opentool": "9.0.0", "info": info, "functions": [function]})
    with connect_sync(url, protocol="opentool") as remote:
        assert remote.tools[0].parameters["size"]["enum"] == [1, 2]
        findings = " ".join(remote.findings())
    outcome = toolwire("tools", url, "--protocol", "opentool", "--findings")
    assert outcome.code == 0
    for text in (findings, outcome.out):
        assert "values of an enum of numbers that are strings" in text
        assert "9.0.0" in text
        assert "7.0.0" not in text  # the document's own version is not that of the specification


@pytest.mark.requirement("XL-026", "XL-030")
@pytest.mark.parametrize("root", [{}, {"name": ""}, {"name": 7, "version": "0.1"}])
def test_missing_name_falls_back_to_the_title_and_missing_version_is_reported(
    root: dict[str, Any], open_document: Callable[[str, Any], str], toolwire: Callable[..., Any]
) -> None:
    policy = {"approval": "auto", "blanketApprovalAllowed": True}
    paths = {"/a": {"post": {"operationId": "act", "x-llm": policy, "responses": {}}}}
    document = {"openapi": "3.1.0", "info": {"title": "Shop", "version": "1"}, "x-llm": root, "paths": paths}
    url = open_document("/openapi.json", document)
    with connect_sync(url, agree=lambda _: True) as remote:
        assert remote.catalog().title == "Shop"
        # 0.1 is what is assumed: a later version would offer no blanket approval.
        assert remote.tools[0].blanket_allowed
    outcome = toolwire("tools", url, "--findings").out
    assert ("has no version: 0.1 is assumed" in outcome) is ("version" not in root)


@pytest.mark.requirement("XL-030")
@pytest.mark.parametrize("root", [7, "yes", [], True])
def test_root_x_llm_that_is_no_object_is_ignored_and_reported(
    root: Any, open_document: Callable[[str, Any], str], toolwire: Callable[..., Any]
) -> None:
    paths = {"/a": {"get": {"operationId": "look", "x-llm": {}, "responses": {}}}}
    info = {"title": "Shop", "version": "1"}
    url = open_document("/api.json", {"openapi": "3.1.0", "info": info, "x-llm": root, "paths": paths})
    assert "counts as absent" in toolwire("tools", f"{url}/api.json", "--findings").out


@pytest.mark.requirement("XL-030", "XL-037")
@pytest.mark.parametrize("kind", KINDS)
def test_unknown_members_survive_conversion_through_each_kind(
    kind: str, tmp_path: Path, toolwire: Callable[..., Any]
) -> None:
    root = {"version": "0.1", "name": "Shop", "x-mine": {"a": [1, None]}, "mood": "good"}
    paths = {"/a": {"get": {"operationId": "look", "x-llm": {"colour": "red"}, "responses": {}}}}
    document = {"openapi": "3.1.0", "info": {"title": "Shop", "version": "1"}, "x-llm": root, "paths": paths}
    source, there, back = (tmp_path / name for name in ("source.json", "there.json", "back.json"))
    source.write_text(json.dumps(document))
    assert toolwire("convert", source, "--to", kind, "-o", there).code == 0
    assert toolwire("convert", there, "--to", "openapi", "-o", back).code == 0
    found = json.loads(back.read_text())
    assert found["x-llm"] == root
    assert found["paths"]["/a"]["get"]["x-llm"] == {"colour": "red"}
