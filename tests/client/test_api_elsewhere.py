"""A document at another origin than its API: the user agrees to the API by its host, and it alone gets keys."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from toolwire import Problem, Selection, Value, connect, connect_sync
from toolwire.framing import jsontext

pytestmark = pytest.mark.requirement("PL-01")


class Site:
    """A site with documents or with orders, which records every credential that it is sent."""

    def __init__(self, key: str) -> None:
        self.documents: dict[str, Any] = {}
        self.secrets: list[str] = []
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                given = self.headers["x-vendor-key"] or self.headers["authorization"]
                site.secrets += [given] if given else []
                status, body = (200, ["one"]) if self.path == "/v1/orders" and given == key else (401, None)
                if self.path in site.documents:
                    status, body = 200, site.documents[self.path]
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

    def describe(self, api: str) -> str:
        """Publish a document about the API at ``api``, and return its URL."""
        responses = {
            "200": {"description": "The orders", "content": {"application/json": {"schema": {"type": "array"}}}}
        }
        operation = {
            "operationId": "list_orders",
            "x-llm": {"approval": "auto"},
            "responses": responses,
            "security": [{"key": []}],
        }
        self.documents["/openapi.json"] = {
            "openapi": "3.1.0",
            "x-llm": {},
            "info": {"title": "Vendor", "version": "1"},
            "servers": [{"url": f"{api}/v1"}],
            "paths": {"/orders": {"get": operation}},
            "components": {"securitySchemes": {"key": {"type": "apiKey", "in": "header", "name": "X-Vendor-Key"}}},
        }
        return f"{self.url}/openapi.json"


class Vendor:
    """A site with documents, two APIs, and the key of a user."""

    def __init__(self) -> None:
        self.key = secrets.token_hex(16)
        self.docs, self.api, self.other = Site(self.key), Site(self.key), Site(self.key)
        self.target = self.docs.describe(self.api.url)


@pytest.fixture
def vendor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Vendor]:
    monkeypatch.setenv("TOOLWIRE_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("HOME", str(tmp_path))
    made = Vendor()
    yield made
    for one in (made.docs, made.api, made.other):
        one.server.shutdown()
        one.server.server_close()


def call(target: str, form: str, **options: Any) -> Any:
    given: dict[str, Any] = {"selection": Selection(include="all"), "approve": lambda _: True, **options}

    async def run() -> Any:
        async with connect(target, **given) as remote:
            return await remote.call("list_orders")

    if form == "async":
        return anyio.run(run)
    with connect_sync(target, **given) as remote:
        return remote.call("list_orders")


@pytest.mark.parametrize("form", ["async", "blocking"])
def test_user_agrees_once_to_an_api_and_again_to_another_one(vendor: Vendor, form: str) -> None:
    asked: list[tuple[str, str]] = []

    def agree(here: str, there: str) -> bool:
        asked.append((here, there))
        return True

    refused = call(vendor.target, form, api_key=vendor.key)
    assert isinstance(refused, Problem)
    assert f"--server {vendor.api.url}" in refused.message
    assert isinstance(call(vendor.target, form, api_key=vendor.key, approve_relocation=lambda *_: False), Problem)
    assert call(vendor.target, form, api_key=vendor.key, approve_relocation=agree) == Value(["one"])
    assert call(vendor.target, form, api_key=vendor.key, approve_relocation=agree) == Value(["one"])
    assert asked == [(vendor.docs.url, vendor.api.url)]
    vendor.docs.describe(vendor.other.url)
    assert isinstance(call(vendor.target, form, api_key=vendor.key), Problem)
    assert call(vendor.target, form, api_key=vendor.key, approve_relocation=agree) == Value(["one"])
    assert asked[1:] == [(vendor.docs.url, vendor.other.url)]
    assert vendor.docs.secrets == [], "the key is for the API, and not for who describes it"
    assert vendor.api.secrets == [vendor.key] * 2


@pytest.mark.parametrize("form", ["async", "blocking"])
def test_api_that_the_user_names_gets_the_key_whatever_the_document_says(vendor: Vendor, form: str) -> None:
    vendor.docs.describe(vendor.other.url)
    named = Selection(include="all", server=f"{vendor.api.url}/v1")
    assert call(vendor.target, form, api_key=vendor.key, selection=named) == Value(["one"])
    assert (vendor.docs.secrets, vendor.other.secrets) == ([], [])
    assert vendor.api.secrets == [vendor.key]


@pytest.fixture
def env(vendor: Vendor, tmp_path: Path) -> dict[str, str]:
    return {**os.environ, "TOOLWIRE_STATE": str(tmp_path / "state"), "HOME": str(tmp_path), "VENDOR_KEY": vendor.key}


def run(*words: str, env: dict[str, str], typed: str = "") -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "toolwire", *words]
    return subprocess.run(argv, check=False, env=env, input=typed, capture_output=True, text=True, timeout=60)


def start_entry(entry: dict[str, Any], env: dict[str, str]) -> Any:
    """Start an entry as its host does, and return the result of its tool."""

    async def start() -> Any:
        parameters = StdioServerParameters(command=entry["command"], args=entry["args"], env=env)
        async with Client(stdio_client(parameters)) as client:
            return await client.call_tool("list_orders", {})

    return anyio.run(start)


@pytest.mark.parametrize("form", ["--key-env", "login"])
def test_commands_and_an_installed_entry_call_the_api_that_they_name(
    vendor: Vendor, env: dict[str, str], tmp_path: Path, form: str
) -> None:
    words = [vendor.target, "--include", "all", "--server", f"{vendor.api.url}/v1"]
    if form == "login":
        signed_in = run("login", *words, "--key", env=env, typed=f"{vendor.key}\n")
        assert signed_in.stdout.endswith(f"Signed in to {vendor.api.url}.\n"), signed_in.stderr
    else:
        words += ["--key-env", "VENDOR_KEY"]
    called = run("call", words[0], "list_orders", *words[1:], "--agree", env=env)
    assert (called.returncode, json.loads(called.stdout or "0")) == (0, ["one"]), called.stderr
    installed = run(
        "install", "cursor", *words, "--name", "vendor", "--agree", "--file", f"{tmp_path}/mcp.json", env=env
    )
    assert installed.returncode == 0, installed.stderr
    text = (tmp_path / "mcp.json").read_text()
    result = start_entry(jsontext.read(text.encode())["mcpServers"]["vendor"], env)
    assert not result.is_error, result
    assert vendor.key not in text
    assert vendor.docs.secrets == []
    assert vendor.api.secrets == [vendor.key] * 2


def test_without_a_terminal_a_command_says_what_to_name(vendor: Vendor, env: dict[str, str]) -> None:
    words = ("--include", "all", "--key-env", "VENDOR_KEY", "--agree")
    called = run("call", vendor.target, "list_orders", *words, env=env)
    assert called.returncode != 0
    assert f"--server {vendor.api.url}" in called.stderr
    assert (vendor.docs.secrets, vendor.api.secrets) == ([], [])
