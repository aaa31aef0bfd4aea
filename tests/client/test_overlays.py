"""An API that is not ours becomes tools by an overlay: from a file, over a real connection."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from toolwire import connect_sync
from toolwire.client.discovery.overlays import MAX_BYTES, read_overlay
from toolwire.protocols.openapi.document import overlay

DOCUMENT: dict[str, Any] = {
    "openapi": "3.1.0",
    "info": {"title": "Pets", "version": "1.0.0"},
    "servers": [{"url": "https://pets.example"}],
    "paths": {"/pets": {"get": {"operationId": "list_pets", "responses": {}}}},
}


def test_connect_reads_a_document_with_an_overlay(tmp_path: Path) -> None:
    said = overlay.build_starter(DOCUMENT)
    said["actions"][1]["update"] |= {"summary": "List the pets"}
    (tmp_path / "overlay.json").write_text(json.dumps(said), encoding="utf-8")
    (tmp_path / "openapi.json").write_text(json.dumps(DOCUMENT), encoding="utf-8")
    for given in (tmp_path / "overlay.json", str(tmp_path / "overlay.json"), said):
        with connect_sync(str(tmp_path / "openapi.json"), overlay=given) as remote:
            assert [(tool.name, tool.description) for tool in remote.tools] == [("list_pets", "List the pets")]


@pytest.mark.parametrize("text", ["{", "<html>", "[]", '{"overlay": "1.0.0", "actions": [{"target": "x"}]}'])
def test_invalid_overlay_is_refused_at_once(tmp_path: Path, text: str) -> None:
    file = tmp_path / "overlay.json"
    with pytest.raises(ValueError, match="cannot be read"):
        read_overlay(file)
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match="overlay"):
        connect_sync("https://pets.example", overlay=file)


def test_overlay_above_the_limit_is_refused_and_not_cut(tmp_path: Path) -> None:
    file = tmp_path / "large.yaml"
    head = "overlay: 1.0.0\ninfo: {title: Mine, version: '1'}\nactions:\n- {target: $.paths, update: {}}\n"
    file.write_text(head + "- {target: $.paths, update: {}}\n" * (MAX_BYTES // 32 + 1), encoding="utf-8")
    with pytest.raises(ValueError, match=r"larger than 4 MiB"):
        read_overlay(file)
