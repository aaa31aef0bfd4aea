"""A script that asks for JSON gets JSON for a failure too."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from toolwire.cli.parser import read_command

COMMANDS = {
    "tools": ["TARGET"],
    "call": ["TARGET", "name"],
    "size": ["TARGET"],
    "explain": ["TARGET"],
    "conform": ["TARGET"],
    "diff": ["TARGET"],
}


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


def test_every_command_with_json_is_here() -> None:
    for command, argv in COMMANDS.items():
        assert read_command([command, *argv, "--json"], "1").json


def test_the_version_has_a_short_option(toolwire: Callable[..., Any]) -> None:
    assert toolwire("-V").out == toolwire("--version").out != ""
