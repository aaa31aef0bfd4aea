"""Results in the words of the revision of the client: a strict client refuses a whole result for an unknown type."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from toolwire import Toolkit, asgi
from toolwire.testing.loopback import background

KIT = '''
from toolwire import Toolkit

kit = Toolkit("Media", version="1.0.0")


@kit.tool(safe=True)
def give() -> list:
    """Return audio and a link."""
    audio = {"type": "audio", "media_type": "audio/wav", "data": "UklGRg==", "name": ""}
    return [audio, {"type": "resource_link", "uri": "https://a.example/x", "name": "x"}]


@kit.prompt
def say() -> list:
    """Say audio and a link."""
    return give()
'''
FILE = {"type": "resource", "resource": {"uri": "attachment:audio", "mimeType": "audio/wav", "blob": "UklGRg=="}}
AUDIO = {"type": "audio", "data": "UklGRg==", "mimeType": "audio/wav"}
TEXT = {"type": "text", "text": "x: https://a.example/x"}
LINK = {"type": "resource_link", "uri": "https://a.example/x", "name": "x"}
CALL = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "give", "arguments": {}}}


@pytest.mark.requirement("MC-14")
@pytest.mark.parametrize(
    ("version", "blocks"),
    [
        ("2024-11-05", [FILE, TEXT]),
        ("2025-03-26", [AUDIO, TEXT]),
        ("2025-06-18", [AUDIO, LINK]),
        ("2025-11-25", [AUDIO, LINK]),
    ],
)
def test_a_host_on_stdio_gets_content_in_the_words_of_its_revision(
    version: str, blocks: list[Any], tmp_path: Path
) -> None:
    file = tmp_path / "media.py"
    file.write_text(KIT)
    opening = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "old", "version": "1"}}
    messages = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": opening},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        CALL,
        {"jsonrpc": "2.0", "id": 3, "method": "prompts/get", "params": {"name": "say"}},
    ]
    command = [sys.executable, "-m", "toolwire", "serve", str(file), "--stdio"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as host:
        assert host.stdin is not None
        assert host.stdout is not None
        host.stdin.write(b"".join(json.dumps(one).encode() + b"\n" for one in messages))
        host.stdin.flush()
        answers = {answer["id"]: answer for answer in (json.loads(host.stdout.readline()) for _ in range(3))}
        host.stdin.close()
    assert answers[1]["result"]["protocolVersion"] == version
    assert answers[2]["result"]["content"] == blocks
    assert [one["content"] for one in answers[3]["result"]["messages"]] == blocks


@pytest.mark.requirement("MC-14")
@pytest.mark.parametrize(
    ("version", "blocks"), [("", [AUDIO, TEXT]), ("2024-11-05", [FILE, TEXT]), ("2025-11-25", [AUDIO, LINK])]
)
def test_a_client_over_http_gets_content_in_the_words_of_its_revision(version: str, blocks: list[Any]) -> None:
    scope: dict[str, Any] = {}
    exec(KIT, scope)
    kit: Toolkit = scope["kit"]
    headers = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
    if version:
        headers["mcp-protocol-version"] = version
    with background(asgi(kit)) as url:
        request = urllib.request.Request(f"{url}/mcp", json.dumps(CALL).encode(), headers)
        with urllib.request.urlopen(request) as response:
            answer = json.load(response)
    assert answer["result"]["content"] == blocks
