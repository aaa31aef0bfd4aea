"""Callers of a gateway give their own key of an API that only a vendor's document describes, once, on its page."""

from __future__ import annotations

import json
import logging
import secrets
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx2
import pytest

from toolwire import Problem, ToolwireError, Value, connect_sync
from toolwire.core.model import Result
from toolwire.hosting import open_gateway
from toolwire.testing import background

pytestmark = pytest.mark.requirement("PL-01")

ANN = "key-of-ann"


class Vendor:
    """An API that knows its users by a header field, and publishes nothing but what ``documents`` has."""

    def __init__(self) -> None:
        self.documents: dict[str, Any] = {}
        self.seen: list[tuple[str, str | None]] = []
        vendor = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                key = self.headers["x-vendor-key"]
                vendor.seen.append((self.path, key))
                body = vendor.documents.get(self.path)
                status = 404 if body is None else 200
                if self.path == "/orders":
                    status, body = (200, ["one"]) if key == "key-at-vendor" else (401, {"error": "no key"})
                data = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def api() -> Iterator[Vendor]:
    made = Vendor()
    yield made
    made.close()


def describe(servers: list[str], *, keys: int = 1) -> dict[str, Any]:
    schemes = {
        f"key{number}": {"type": "apiKey", "in": "header", "name": ("X-Vendor-Key", "X-Other")[number]}
        for number in range(keys)
    }
    responses = {"200": {"description": "The orders", "content": {"application/json": {"schema": {"type": "array"}}}}}
    security = [{name: [] for name in schemes}]
    return {
        "openapi": "3.1.0",
        "info": {"title": "Vendor", "version": "1"},
        "servers": [{"url": url} for url in servers],
        "paths": {"/orders": {"get": {"operationId": "list_orders", "responses": responses, "security": security}}},
        "components": {"securitySchemes": schemes},
    }


def write_file(folder: Path, target: str, more: str = "") -> Path:
    (folder / "keys.txt").write_text(f"{ANN} ann\n")
    key = folder / "vault.key"
    key.touch(mode=0o600)
    key.write_text(secrets.token_hex(32))
    file = folder / "toolwire.toml"
    file.write_text(f"""
api-key-file = "keys.txt"
key-file = "vault.key"
state = "{folder / "state"}"
public-url = "https://tools.example"
[upstreams.vendor]
target = "{target}"
credentials = "caller"
{more}
""")
    return file


def give_key(url: str) -> str:
    """Give the key of the vendor on the page of the gateway, and return the page that asked for it."""
    page = httpx2.post(f"{url}/sign-in/vendor", data={"key": ANN}).text
    kept = httpx2.post(f"{url}/sign-in/vendor", data={"key": ANN, "step": "key", "site_key": "key-at-vendor"})
    assert "Your calls of <b>vendor</b> are made with your own credentials now" in kept.text
    return page


def call(url: str) -> Result:
    with connect_sync(url, api_key=ANN, protocol="otc", approve=lambda _: True) as remote:
        return remote.call("list_orders")


@pytest.mark.parametrize("place", ["file", "file with server"])
def test_call_has_the_callers_key_where_the_document_wants_it(tmp_path: Path, api: Vendor, place: str) -> None:
    more = 'include = "all"\n' + ("" if place == "file" else f'server = "{api.url}"')
    document = describe([api.url] if place == "file" else ["https://old.example"])
    (tmp_path / "vendor.json").write_text(json.dumps(document))
    with background(open_gateway(write_file(tmp_path, "vendor.json", more))) as url:
        refused = call(url)
        page = give_key(url)
        found = call(url)
    assert isinstance(refused, Problem)
    assert "https://tools.example/sign-in/vendor" in str(refused)
    assert "go to <b>127.0.0.1" in page
    assert "in the header X-Vendor-Key" in page
    assert page.count('name="site_key"') == 1
    assert found == Value(["one"])
    assert [key for path, key in api.seen if path == "/orders"] == ["key-at-vendor"]


@pytest.mark.parametrize(
    ("servers", "keys", "said"),
    [(["https://api.example"], 1, "save its document as a file"), ([], 2, "need several keys at once")],
)
def test_what_will_fail_is_said_before_anyone_calls(
    tmp_path: Path,
    api: Vendor,
    caplog: pytest.LogCaptureFixture,
    servers: list[str],
    keys: int,
    said: str,
) -> None:
    api.documents["/vendor.json"] = describe(servers or [api.url], keys=keys)
    with caplog.at_level(logging.WARNING, "toolwire"):
        open_gateway(write_file(tmp_path, f"{api.url}/vendor.json", 'include = "all"'))
    assert said in caplog.text


def test_code_as_an_upstream_takes_no_key_of_a_caller(tmp_path: Path) -> None:
    with pytest.raises(ToolwireError, match="or at the API of an OpenAPI document; the target is neither"):
        open_gateway(write_file(tmp_path, "tasks.py"))
