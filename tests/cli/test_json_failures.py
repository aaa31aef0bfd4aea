"""A script that asks for JSON gets JSON for a failure too."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from toolwire.cli.parser import list_commands

COMMANDS = {
    "tools": ["TARGET"],
    "find": ["TARGET", "tea"],
    "call": ["TARGET", "name"],
    "calls": ["list", "TARGET"],
    "show": ["TARGET", "name"],
    "size": ["TARGET"],
    "resources": ["TARGET", "config://app"],
    "prompts": ["TARGET"],
    "explain": ["TARGET"],
    "conform": ["TARGET"],
    "diff": ["TARGET"],
}

pytestmark = pytest.mark.requirement("FU-40")


@pytest.mark.parametrize(("target", "kind"), [("http://127.0.0.1:1", "unreachable"), ("no_such_file.py", "usage")])
@pytest.mark.parametrize("command", COMMANDS)
def test_json_is_printed_for_a_failure(command: str, target: str, kind: str, toolwire: Callable[..., Any]) -> None:
    if command == "diff" and kind == "unreachable":
        kind = "usage"  # there is no lock, which is looked at first
    argv = [word.replace("TARGET", target) for word in COMMANDS[command]]
    outcome = toolwire(command, *argv, "--json")
    assert outcome.code in (2, 4)
    failure = json.loads(outcome.out)
    if "probes" in failure or isinstance(failure, list):
        return  # explain prints what it tried, which is its result
    assert (failure["ok"], failure["kind"]) == (False, kind)
    assert failure["message"]


WITHOUT_TARGET = {"approvals", "calls", "check", "connections", "gateway", "settings", "state", "users"}
"""``check`` lists the files that it cannot read in its JSON; ``connections`` reads only what is stored here, and
``gateway``, ``users``, ``settings`` and ``state`` their files; ``calls`` asks the servers of stored handles."""


def test_every_command_with_json_is_here() -> None:
    with_json = {
        name
        for name, command in list_commands("1").items()
        if any("--json" in action.option_strings for action in command._actions)
    }
    assert with_json == COMMANDS.keys() | WITHOUT_TARGET


@pytest.mark.parametrize("words", [("gateway", "check"), ("users", "list"), ("users", "add", "ann")])
def test_gateway_file_that_is_missing_is_in_the_json(words: tuple[str, ...], toolwire: Callable[..., Any]) -> None:
    outcome = toolwire(*words, "--json", "--file", "no_such_file.toml")
    failure = json.loads(outcome.out)
    assert (outcome.code, failure["ok"], failure["kind"]) == (2, False, "usage")
    assert "no_such_file.toml" in failure["message"]


def test_a_fault_is_in_the_json_of_settings(
    toolwire: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "toolwire.toml").write_text("[defaults]\nprot = 1\n", encoding="utf-8")
    failure = json.loads(toolwire("settings", "--json").out)
    assert (failure["ok"], failure["kind"]) == (False, "usage")
    assert 'toolwire.toml:2:1: there is no setting "prot" here' in failure["message"]
    # A command that a faulty file stops says so in its JSON too.
    assert json.loads(toolwire("tools", "http://127.0.0.1:1", "--json").out)["message"] == failure["message"]


def test_unreadable_file_is_reported_in_the_json_of_check(toolwire: Callable[..., Any]) -> None:
    outcome = toolwire("check", "no_such_file.json", "--json")
    assert outcome.code == 2
    assert [one["file"] for one in json.loads(outcome.out)["not_checked"]] == ["no_such_file.json"]


@pytest.mark.parametrize(
    "argv",
    [
        ["tools", "--json"],
        ["approvals", "no-such-action", "--json"],
        ["call", "--nothing", "--json"],
        ["no-such-command", "--json"],
    ],
)
def test_usage_error_is_reported_in_json(argv: list[str], toolwire: Callable[..., Any]) -> None:
    outcome = toolwire(*argv)
    assert outcome.code == 2
    failure = json.loads(outcome.out)
    assert (failure["ok"], failure["kind"]) == (False, "usage")
    assert failure["message"] in outcome.err


def test_the_version_has_a_short_option(toolwire: Callable[..., Any]) -> None:
    assert toolwire("-V").out == toolwire("--version").out != ""
