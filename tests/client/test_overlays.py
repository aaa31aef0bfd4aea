"""An API that is not ours becomes tools by an overlay: from a file, over a real connection."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from toolwire import ConnectError, connect_sync
from toolwire.client.discovery.overlays import MAX_BYTES, read_overlay
from toolwire.testing.loopback import background

DOCUMENT: dict[str, Any] = {
    "openapi": "3.1.0",
    "info": {"title": "Pets", "version": "1.0.0"},
    "servers": [{"url": "https://pets.example"}],
    "paths": {"/pets": {"get": {"operationId": "list_pets", "responses": {}}}},
}


def test_connect_reads_a_document_with_an_overlay(tmp_path: Path) -> None:
    update = {"summary": "List the pets", "x-llm": True}
    reply = {
        "overlay": "1.0.0",
        "info": {"title": "Ours", "version": "1"},
        "actions": [{"target": "$.paths.*.*", "update": update}],
    }
    (tmp_path / "overlay.json").write_text(json.dumps(reply), encoding="utf-8")
    (tmp_path / "openapi.json").write_text(json.dumps(DOCUMENT), encoding="utf-8")
    for given in (tmp_path / "overlay.json", str(tmp_path / "overlay.json"), reply):
        with connect_sync(str(tmp_path / "openapi.json"), overlay=given) as remote:
            assert [(tool.name, tool.description) for tool in remote.tools] == [("list_pets", "List the pets")]


@pytest.mark.parametrize("text", ["{", "<html>", "[]", '{"overlay": "1.0.0", "actions": [{"target": "x"}]}'])
def test_invalid_overlay_is_refused_at_once(tmp_path: Path, text: str) -> None:
    file = tmp_path / "overlay.json"
    with pytest.raises(ValueError, match="cannot read the overlay"):
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


@pytest.mark.requirement("AT-54")
@pytest.mark.parametrize(
    ("action", "count", "words"),
    [
        ({"target": "$..[?$..nothing]", "update": {"a": 1}}, 50, "take too much work"),
        ({"target": "$..*", "update": {"many": list(range(100_000))}}, 2, "add more than"),
    ],
)
def test_overlay_that_is_too_much_work_is_reported_as_such(action: dict[str, Any], count: int, words: str) -> None:
    document = json.dumps(DOCUMENT | {"x-llm": {}, "x-many": list(range(1_500))}).encode()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        found = scope["path"] == "/openapi.json"
        headers = [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": 200 if found else 404, "headers": headers})
        await send({"type": "http.response.body", "body": document if found else b"{}"})

    laid = {"overlay": "1.0.0", "info": {"title": "Mine", "version": "1"}, "actions": [action] * count}
    with background(app) as url, pytest.raises(ConnectError) as caught, connect_sync(url, overlay=laid):
        pass
    assert "annot use the overlay" in str(caught.value)
    assert words in str(caught.value)
    assert "does not speak a supported protocol. `toolwire explain" not in str(caught.value)
