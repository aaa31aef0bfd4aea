"""What a question shows of a pasted key is what is sent: one credential, once, where the document wants it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

KEY = "pasted-key-0001"
DOCUMENT = {
    "openapi": "3.1.0",
    "info": {"title": "Pets", "version": "1"},
    "servers": [{"url": "/"}],
    "components": {"securitySchemes": {"petKey": {"type": "apiKey", "in": "header", "name": "X-Pet-Key"}}},
    "security": [{"petKey": []}],
    "paths": {"/pets": {"post": {"operationId": "addPet", "responses": {"200": {"description": "ok"}}}}},
}


class Api:
    """Another organization's API, and the header fields of each call of it."""

    def __init__(self) -> None:
        self.url = ""
        self.calls: list[list[tuple[str, str]]] = []


@pytest.fixture
def api() -> Iterator[Api]:
    api = Api()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.reply(200 if self.path == "/openapi.json" else 404, DOCUMENT)

        def do_POST(self) -> None:
            api.calls.append([(name.lower(), value) for name, value in self.headers.items()])
            self.reply(200, "added")

        def reply(self, status: int, value: Any) -> None:
            body = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        api.url = f"http://127.0.0.1:{server.server_port}"
        yield api
        server.shutdown()


@pytest.mark.requirement("FU-01")
def test_pasted_key_is_displayed_by_scheme_and_sent_once(
    api: Api, tmp_path: Path, terminal: Callable[..., Any]
) -> None:
    for words, signed in (
        ((), b"signed with: none"),
        (("--key", KEY), b"signed with: the key of `petKey` in the header X-Pet-Key"),
    ):
        asked = terminal(
            "call", api.url, "addPet", "--include", "all", *words, NO_COLOR="1", XDG_STATE_HOME=str(tmp_path)
        )
        asked.wait_for(b"Call it? [y/N] ")
        assert signed in asked.shown
        assert KEY.encode() not in asked.shown
        assert b"server has changed" not in asked.shown
        asked.type("y")
        assert asked.end() == 0
    without, with_key = api.calls
    assert [value for _, value in without if KEY in value] == []
    assert [(name, value) for name, value in with_key if KEY in value] == [("x-pet-key", KEY)]
    assert "authorization" not in dict(with_key)
