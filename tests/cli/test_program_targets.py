"""Targets that are programs: ``stdio:COMMAND`` and an entry of an mcp.json, in each command, with one agreement."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Outcome
from toolwire import connect_sync
from toolwire.client.transport.server_command import read_server_command
from toolwire.core.check import Question
from toolwire.stores.consent.agreed_digests import open_agreed_commands

Run = Callable[..., Outcome]


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state" / "toolwire"


@pytest.fixture
def command(desk: Path, state: Path) -> str:
    return shlex.join([sys.executable, "-m", "toolwire", "serve", str(desk), "--stdio"])


@pytest.fixture
def target(command: str, state: Path) -> str:
    """A target whose command was agreed to."""
    known = read_server_command(f"stdio:{command}")
    assert known is not None
    open_agreed_commands(state).add(known.digest, str(known))
    return f"stdio:{command}"


@pytest.mark.requirement("MC-02")
def test_the_user_sees_the_whole_command_and_agrees_once(command: str, terminal: Callable[..., Any]) -> None:
    first = terminal("tools", f"stdio:TOKEN=hidden {command}", COLUMNS="1000")
    first.wait_for(b"Run it, now and whenever you name exactly this command? [y/N] ")
    asked = first.shown.decode()
    assert f"TOKEN=*** {command}" in asked.replace("\r\n", "\n")
    assert "it is given   TOKEN" in asked
    assert "hidden" not in asked
    first.type("y")
    assert first.end() == 0
    second = terminal("tools", f"stdio:TOKEN=another {command}")
    assert second.end() == 0
    assert b"Run it" not in second.shown
    assert b"shred" in second.shown
    other = terminal("tools", f"stdio:{command} --log json")
    other.wait_for(b"[y/N] ")
    other.type("")
    assert other.end() == 3
    assert b"was not run: it was denied" in other.shown


@pytest.mark.requirement("MC-02")
def test_unapproved_program_does_not_run_without_a_terminal(command: str, toolwire: Run, tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    outcome = toolwire("tools", f"stdio:touch {marker}")
    assert outcome.code == 3
    assert "there is no terminal to ask at" in outcome.err
    assert not marker.exists()


@pytest.mark.requirement("MC-02")
def test_each_command_with_a_target_accepts_a_program(target: str, toolwire: Run, tmp_path: Path) -> None:
    assert "shred" in toolwire("tools", target).out
    shown = toolwire("show", target, "add").out
    assert f"connect_sync({target!r})" in shown
    assert toolwire("call", target, "add", "a=2", "b=3", "--agree").out == "5\n"
    assert "Model Context Protocol was chosen: 9 tools" in toolwire("explain", target).out
    assert json.loads(toolwire("convert", target, "--to", "openapi").out)["openapi"]
    assert toolwire("size", target).code == 0
    lock = str(tmp_path / "toolwire.lock")
    assert "9 tools pinned" in toolwire("lock", target, "--file", lock).out
    assert "is as it was locked" in toolwire("diff", target, "--file", lock).out
    assert toolwire("call", target, "add", "a=2", "--locked", "--file", lock, "--agree").out == "3\n"
    assert toolwire("approvals", "set", target, "add", "deny").code == 0
    assert toolwire("call", target, "add", "a=2", "--agree").code == 3
    assert toolwire("approvals", "unset", target, "add").code == 0


@pytest.mark.requirement("MC-02")
@pytest.mark.parametrize("section", ["mcpServers", "servers", "context_servers"])
def test_an_entry_of_a_file_of_hosts_is_a_target(target: str, section: str, toolwire: Run, tmp_path: Path) -> None:
    words = shlex.split(target.removeprefix("stdio:"))
    file = tmp_path / "hosts.json"
    file.write_text(json.dumps({section: {"desk": {"command": words[0], "args": words[1:]}}}))
    assert "shred" in toolwire("tools", f"{file}:desk").out
    missing = toolwire("tools", f"{file}:desc")
    assert (missing.code, missing.err) == (2, f"toolwire: {file} has no server 'desc'; it has: desk.\n")
    assert toolwire("tools", f"{file}x.json:desk").code == 2


def test_an_entry_with_a_url_is_that_url(site: str, toolwire: Run, tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    file.write_text(
        json.dumps({"mcpServers": {"desk": {"url": f"{site}/mcp"}, "keyed": {"url": site, "headers": {"a": "b"}}}})
    )
    assert "shred" in toolwire("tools", f"{file}:desk").out
    with connect_sync(f"{file}:desk") as remote:
        assert remote.tools
    assert "use its URL as the target" in toolwire("tools", f"{file}:keyed").err


@pytest.mark.requirement("MC-02")
def test_agreed_commands_are_listed_and_forgotten(target: str, toolwire: Run) -> None:
    assert target in toolwire("connections").out
    assert {"resource": target.removeprefix("stdio:"), "kind": "command", "issuer": "", "scopes": []} in json.loads(
        toolwire("connections", "--json").out
    )
    assert toolwire("logout", target).code == 0
    assert toolwire("tools", target).code == 3
    assert toolwire("logout", target).code == 1


@pytest.mark.requirement("MC-02", "MC-04")
def test_program_is_installed_in_a_host_with_a_reference_to_its_key(
    target: str, toolwire: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state: Path
) -> None:
    monkeypatch.setenv("SHOP_TOKEN", "theirs")
    file, keyed = tmp_path / "mcp.json", target.replace("stdio:", "stdio:TOKEN=$SHOP_TOKEN ")
    refused = toolwire("install", "cursor", keyed, "--name", "shop", "--file", str(file))
    assert (refused.code, file.exists()) == (3, False), "the host has no terminal to ask at"
    known = read_server_command(keyed)
    assert known is not None
    open_agreed_commands(state).add(known.digest, str(known))
    assert toolwire("install", "cursor", keyed, "--name", "shop", "--file", str(file), "--agree").code == 0
    entry = json.loads(file.read_text())["mcpServers"]["shop"]
    assert entry["args"] == ["-m", "toolwire", "serve", keyed, "--agree", "--stdio"]
    assert entry["env"] == {"SHOP_TOKEN": "${env:SHOP_TOKEN}"}
    assert "theirs" not in file.read_text()
    literal = toolwire("install", "cursor", target.replace("stdio:", "stdio:TOKEN=theirs "), "--file", str(file))
    assert (literal.code, "write TOKEN=$TOKEN instead" in literal.err) == (2, True)
    # What the host starts is a bridge to the program that speaks MCP itself.
    with connect_sync(f"{file}:shop", approve_command=lambda _: True, agree=lambda _: True) as remote:
        assert remote.call("add", {"a": 2, "b": 3}).unwrap() == 5


@pytest.mark.parametrize("words", [("login",), ("conform",), ("overlay",)])
def test_command_for_urls_refuses_a_program(target: str, toolwire: Run, words: tuple[str, ...]) -> None:
    outcome = toolwire(*words, target)
    assert outcome.code == 2
    assert "this command takes the URL of a server" in outcome.err


def test_key_option_for_a_program_is_refused_with_advice(target: str, toolwire: Run) -> None:
    outcome = toolwire("tools", target, "--key", "abc")
    assert (outcome.code, outcome.err) == (
        2,
        "toolwire: a program speaks mcp, and takes keys from its environment: stdio:NAME=$NAME COMMAND.\n",
    )


@pytest.fixture
def bridge(target: str) -> Iterator[str]:
    """The URL where ``toolwire serve`` serves the program."""
    argv = [sys.executable, "-m", "toolwire", "serve", target, "--port", "0", "--agree"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = iter(process.stdout.readline, "")
        found = next(match for line in lines if (match := re.match(r"at +(http://\S+)", line)))
        try:
            yield found[1]
        finally:
            process.terminate()
            assert process.wait(30) == 0


@pytest.mark.requirement("MC-03")
@pytest.mark.parametrize("protocol", ["openapi", "opentool", "otc", "mcp"])
def test_program_is_served_over_every_protocol(bridge: str, protocol: str) -> None:
    asked: list[str] = []

    def approve(question: Question) -> bool:
        asked.append(question.call.tool.name)
        return True

    with connect_sync(bridge, protocol=protocol, approve=approve) as remote:
        assert remote.call("add", {"a": 2, "b": 3}).unwrap() == 5
        assert remote.call("shred", {"pages": [1]}).unwrap() == "shredded"
    assert "shred" in asked
