"""Sites whose tool lists try to cost more than their size: each command and a gateway work within a bound."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.acceptance import test_document_bombs as bombs
from tests.client import conftest
from toolwire import Session, asgi, connect_sync
from toolwire.client.connection.connect import connect_without_user
from toolwire.convert import KINDS, ConvertedDocument, convert
from toolwire.convert.converter import LEAST_ROOM, MOST_GROWTH
from toolwire.core.model import Kind, Problem
from toolwire.framing import jsontext
from toolwire.testing.loopback import background

listen, encode_response = conftest.listen, conftest.encode_response  # fixtures
BOMB: Final = bombs.BOMBS["doubling properties"]
TOOLS: Final = 6
WRITTEN: Final = 2_500_000
CONVERTED: Final = {"openapi": ["otc"], "opentool": ["oxp"], "otc": ["jsonschema"], "mcp": ["openapi"]}
CHILD: Final = """
import io, json, sys
from toolwire.cli import main
for argv in json.loads(sys.argv[1]):
    sys.stdin = io.StringIO("y\\n")
    try:
        code = main(argv)
    except SystemExit as end:
        code = end.code
    sys.stdout.flush()
    print(f"DONE {code}", file=sys.stderr, flush=True)
"""


def many_operations(schema: dict[str, Any], count: int = TOOLS) -> dict[str, Any]:
    """Return a document whose operations share one page of definitions."""
    document = bombs.openapi(schema)
    operation = document["paths"]["/a"]["post"]
    document["paths"] = {f"/a{n}": {"post": {**operation, "operationId": f"op{n}"}} for n in range(count)}
    return document


def many_functions(schema: dict[str, Any]) -> dict[str, Any]:
    document = bombs.opentool(schema)
    document["functions"] = [{**document["functions"][0], "name": f"op{n}"} for n in range(TOOLS)]
    return document


def many_items(schema: dict[str, Any]) -> dict[str, Any]:
    (item,) = bombs.otc(schema)["items"]
    items = [{**item, "id": f"T.op{n}@1.0.0", "name": f"op{n}"} for n in range(TOOLS)]
    return {"items": items, "tools": items}


class BombSite:
    """A site of one wire, every tool of which has the same bomb in its input and its output."""

    def __init__(
        self, wire: str, schema: dict[str, Any], listen: Callable[..., Any], said: Callable[..., bytes]
    ) -> None:
        self._said = said
        (tool,) = bombs.mcp(schema)["tools"]
        self._tools = [{**tool, "name": f"op{n}"} for n in range(TOOLS)]
        self._documents: dict[str, Any] = {
            "openapi": {"/openapi.json": many_operations(schema)},
            "opentool": {"/opentool/version": {"version": "1.0.0"}, "/opentool/load": many_functions(schema)},
            "otc": {"/tools": many_items(schema)},
            "mcp": {},
        }[wire]
        self._wire = wire
        self.origin: str = listen(self._answer).origin
        self.url = self.origin + {"openapi": "/openapi.json"}.get(wire, "")

    def _answer(self, seen: Any) -> Iterator[bytes]:
        method, path, _ = seen.line.split(" ")
        body: Any = self._documents.get(path.partition("?")[0]) if method == "GET" else None
        if method == "POST" and self._wire == "mcp" and path == "/mcp":
            body = self._say_mcp(json.loads(seen.body))
        elif method == "POST" and path.startswith("/model"):
            message = {"role": "assistant", "content": "Hello."}
            body = {"id": "1", "object": "chat.completion", "created": 1, "model": "m"}
            body["choices"] = [{"index": 0, "finish_reason": "stop", "message": message}]
        fields = ("content-type: application/json", "cache-control: no-store")
        yield self._said(json.dumps(body).encode(), *fields, status="404 X" if body is None else "200 X")

    def _say_mcp(self, asked: Any) -> Any:
        match asked.get("method"):
            case "initialize":
                info = {"name": "T", "version": "1"}
                result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info}
            case "tools/list":
                result = {"tools": self._tools}
            case _:
                result = {}
        return {"jsonrpc": "2.0", "id": asked.get("id"), "result": result}


def build_commands(url: str, wire: str) -> list[list[str]]:
    """Return every command that reads the tools of a site, for the site at ``url``."""
    only = [url, "--protocol", wire]
    chat = ["--model", "m", "--base-url", f"{url}/model".replace("/openapi.json", ""), "--model-key-env", "MODEL_KEY"]
    return [
        ["tools", *only],
        ["tools", *only, "--json"],
        ["explain", url],
        ["size", *only],
        ["lock", *only],
        ["diff", *only],
        ["overlay", url],
        ["login", url, "--key"],
        ["chat", *only, *chat],
        ["call", *only, "op1", 'x:={"l":{"r":{}}}'],
        ["call", *only, "op1", 'arg:={"x":{"l":{"r":{}}}}'],
        *(["convert", *only, "--to", kind] for kind in (KINDS if bombs.ALL_KINDS else CONVERTED[wire])),
    ]


@pytest.mark.requirement("D-17")
@pytest.mark.parametrize("wire", ["openapi", "opentool", "otc", "mcp"])
def test_no_command_works_long_on_a_hostile_list(
    wire: str, tmp_path: Path, listen: Callable[..., Any], encode_response: Callable[..., bytes]
) -> None:
    url = BombSite(wire, BOMB, listen, encode_response).url
    commands = build_commands(url, wire)
    folders = dict.fromkeys(("HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"), str(tmp_path))
    done = subprocess.run(
        [sys.executable, "-c", CHILD, json.dumps(commands)],
        cwd=tmp_path,
        env={**os.environ, **folders, "MODEL_KEY": "k", "PYTHON_KEYRING_BACKEND": "keyring.backends.null.Keyring"},
        capture_output=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (bombs.CPU_S, bombs.CPU_S)),
    )
    assert (done.stderr.count(b"DONE "), b"Traceback" in done.stderr) == (len(commands), False), done.stderr[-2000:]
    assert len(done.stdout) / len(commands) < WRITTEN
    assert sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file()) < WRITTEN


@pytest.mark.requirement("D-17")
def test_converted_document_has_bounded_growth() -> None:
    source = json.dumps(many_operations(BOMB, 40)).encode()
    for kind in ("openapi", "otc"):
        found = convert(source, kind)
        assert isinstance(found, ConvertedDocument)
        assert len(jsontext.write(found.document)) < LEAST_ROOM + (MOST_GROWTH + 2) * len(source)
    refused = convert(source, "opentool")  # each operation is the whole page of definitions again
    assert isinstance(refused, Problem)
    assert (refused.kind, "--match" in refused.message) == (Kind.TOO_LARGE, True)


@pytest.mark.requirement("D-17", "XL-087")
def test_the_tools_of_a_connection_become_a_document_of_every_kind(
    listen: Callable[..., Any], encode_response: Callable[..., bytes]
) -> None:
    schema = {"type": "object", "properties": {"x": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"type": "string"}}}
    with connect_sync(BombSite("openapi", schema, listen, encode_response).url, protocol="openapi") as remote:
        for kind in KINDS:
            found = convert(remote.catalog(), kind)
            assert isinstance(found, ConvertedDocument)
            assert json.loads(found.text) == found.document


@pytest.mark.requirement("D-17")
def test_gateway_lists_hostile_tools_with_bounded_growth(
    listen: Callable[..., Any], encode_response: Callable[..., bytes]
) -> None:
    site = BombSite("openapi", BOMB, listen, encode_response)
    remote = connect_without_user(site.url, Session())
    with background(asgi(remote)) as url, connect_sync(url, protocol="otc") as near:
        listed = len(json.dumps([dict(tool.input_schema) for tool in near.tools]))
    own = len(json.dumps([dict(tool.input_schema) for tool in remote.catalog().tools]))
    assert listed < 12 * own
