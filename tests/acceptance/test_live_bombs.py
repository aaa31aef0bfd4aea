"""Sites whose tool lists try to cost more than their size: each command and a gateway work within a bound."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from tests.client import conftest
from tests.support.document_bombs import ALL_KINDS, BOMBS, CPU_S
from tests.support.live_bombs import BombSite, many_operations
from tests.support.upstreams import connect_without_user
from toolwire import Session, asgi, connect_sync
from toolwire.convert import KINDS, ConvertedDocument, convert
from toolwire.convert.converter import MAX_GROWTH, MIN_ROOM
from toolwire.core.model import Kind, Problem
from toolwire.framing import jsontext
from toolwire.testing.loopback import background

listen, encode_response = conftest.listen, conftest.encode_response  # fixtures

BOMB: Final = BOMBS["doubling properties"]
WRITTEN: Final = 2_500_000
CONVERTED: Final = {"openapi": ["otc"], "opentool": ["oxp"], "otc": ["mcp"], "mcp": ["openapi"]}
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
        ["login", url, "--key"],
        ["chat", *only, *chat],
        ["call", *only, "op1", 'x:={"l":{"r":{}}}'],
        ["call", *only, "op1", 'arg:={"x":{"l":{"r":{}}}}'],
        *(["convert", *only, "--to", kind] for kind in (KINDS if ALL_KINDS else CONVERTED[wire])),
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
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S)),
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
        assert len(jsontext.write(found.document)) < MIN_ROOM + (MAX_GROWTH + 2) * len(source)
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
