"""What ``toolwire install HOST`` writes asks the user of that host as its profile and the command say."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.mcp_hosts import CLIENTS, declare
from tests.support.silent_bank import SilentBank
from toolwire.cli import main
from toolwire.hosting.mcp_hosts.host_files import HOSTS, read_host_file
from toolwire.protocols.mcp.host_profiles import HOST_PROFILES
from toolwire.testing import background

pytestmark = pytest.mark.requirement("QF-07")
INSTALLED = [(host, client) for host, client in CLIENTS if host in HOSTS]


class StartedHost:
    """A host that started an entry: it declares what its profile says, and allows what it is asked by form."""

    def __init__(self, entry: dict[str, Any], client: str, capabilities: dict[str, Any]) -> None:
        self.forms: list[Any] = []
        self.later = "ask me each time"
        self._process = subprocess.Popen(
            [entry["command"], *entry["args"]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=dict(os.environ)
        )
        about = {"name": client, "version": "1"}
        params = {"protocolVersion": "2025-06-18", "capabilities": capabilities, "clientInfo": about}
        assert "result" in self.request("initialize", params)
        self._write({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Return the response, after each form was answered."""
        self._write({"jsonrpc": "2.0", "id": "asked", "method": method, "params": params})
        while True:
            assert self._process.stdout is not None
            message = json.loads(self._process.stdout.readline())
            if message.get("id") == "asked" and "method" not in message:
                return dict(message)
            if message.get("method") == "elicitation/create":
                self.forms.append(message["params"])
                content = {"allow": True, "later": self.later}
                wanted = message["params"]["requestedSchema"]["properties"]
                result = {"action": "accept", "content": {name: content[name] for name in wanted}}
                self._write({"jsonrpc": "2.0", "id": message["id"], "result": result})

    def pay(self, amount: float) -> tuple[bool, str]:
        """Return whether the call ran, and its text."""
        done = self.request("tools/call", {"name": "pay", "arguments": {"to": "Ada", "amount": amount}})["result"]
        return not done.get("isError"), done["content"][0]["text"]

    def _write(self, message: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message).encode() + b"\n")
        self._process.stdin.flush()

    def close(self) -> None:
        with self._process as process:
            assert process.stdin is not None
            process.stdin.close()
            process.wait(20)


@pytest.fixture
def bank() -> Iterator[tuple[str, SilentBank]]:
    """The URL of a bank of another maker, by MCP alone."""
    bank = SilentBank()
    bank.has_document = False
    with background(bank) as url:
        yield f"{url}/mcp", bank


@pytest.mark.parametrize(("host", "client"), INSTALLED)
def test_bridge_asks_the_user_of_its_host_as_the_profile_says(
    host: str,
    client: str,
    bank: tuple[str, SilentBank],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (url, served), profile, file = bank, HOST_PROFILES[host], tmp_path / "host-file"
    assert main(["install", host, url, "--name", "bank", "--file", str(file)]) == 0
    told = capsys.readouterr().out
    started = StartedHost(read_host_file(HOSTS[host], file).servers()["bank"], client, declare(profile))
    try:
        ran, text = started.pay(20)
        if profile.shows_forms:
            assert told.rstrip().endswith(f"{profile.title} shows a form.")
            assert (ran, len(started.forms), len(served.paid)) == (True, 1, 1)
        else:
            assert "you decide with `toolwire approvals`" in told
            assert (ran, started.forms, served.paid) == (False, [], [])
            assert "toolwire approvals allow" in text
    finally:
        started.close()


@pytest.mark.requirement("QF-03")
def test_form_of_the_bridge_offers_the_same_call_for_later_where_the_server_is_silent(
    bank: tuple[str, SilentBank], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (url, served), file = bank, tmp_path / "host-file"
    assert main(["install", "cursor", url, "--name", "bank", "--file", str(file)]) == 0
    entry = read_host_file(HOSTS["cursor"], file).servers()["bank"]
    started = StartedHost(entry, "cursor-vscode", declare(HOST_PROFILES["cursor"]))
    started.later = "do not ask about the same call again until this server stops"
    try:
        assert all(started.pay(amount)[0] for amount in (20, 20, 21))
    finally:
        started.close()
    offered = [form["requestedSchema"]["properties"]["later"]["enum"] for form in started.forms]
    assert offered == [["ask me each time", started.later]] * 2
    assert len(served.paid) == 3
