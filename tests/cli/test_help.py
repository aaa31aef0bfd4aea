"""The help of the program and of its commands, and what it answers to the first words that somebody tries."""

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from toolwire.cli.help_text import OTHER_WORDS
from toolwire.cli.parser import Parser, list_commands

pytestmark = pytest.mark.requirement("FD-03")

LINES, COLUMNS = 40, 80
COMMANDS = list_commands("1")


def list_names(parser: Parser) -> set[str]:
    return {one.option_strings[-1] for one in parser._actions if one.option_strings}


@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_a_command_fits_a_screen(name: str, toolwire: Callable[..., Any]) -> None:
    outcome = toolwire(name, "--help")
    lines = outcome.out.rstrip("\n").split("\n")
    assert (outcome.code, outcome.err) == (0, "")
    assert len(lines) <= LINES
    assert max(map(len, lines)) <= COLUMNS


@pytest.mark.parametrize("name", COMMANDS)
def test_help_all_lists_every_option(name: str, toolwire: Callable[..., Any]) -> None:
    outcome = toolwire(name, "--help-all")
    assert outcome.code == 0
    assert [one for one in list_names(COMMANDS[name]) if one not in outcome.out] == []
    assert f"`toolwire {name} --help-all` shows all" in toolwire(name, "--help").out


def test_help_of_the_program_lists_the_usual_commands(toolwire: Callable[..., Any]) -> None:
    outcome = toolwire("--help")
    shown = {line.split()[0] for line in outcome.out.split("\n") if line.startswith("  ")}
    assert shown == set(COMMANDS) - {"completion", "publish", "work"}
    assert len(outcome.out.rstrip("\n").split("\n")) <= LINES
    assert all(name in toolwire("--help-all").out for name in COMMANDS)


def test_help_with_a_command_is_the_help_of_the_command(toolwire: Callable[..., Any]) -> None:
    assert toolwire("help", "serve").out == toolwire("serve", "--help").out
    assert toolwire("help").out == toolwire("--help").out
    assert "Unknown command 'sreve'. Did you mean serve?" in toolwire("help", "sreve").err


def test_program_alone_says_what_to_do_first(toolwire: Callable[..., Any]) -> None:
    outcome = toolwire()
    assert (outcome.code, outcome.out) == (2, "")
    named = [line.split()[1] for line in outcome.err.split("\n") if line.startswith("  toolwire")]
    assert named == ["example", "serve", "tools", "call", "install"]


@pytest.mark.parametrize("word", OTHER_WORDS)
def test_words_of_other_programs_are_answered_with_commands_that_exist(word: str, toolwire: Callable[..., Any]) -> None:
    outcome = toolwire(word, "x")
    assert outcome.code == 2
    assert outcome.err.startswith(f"toolwire: Unknown command '{word}'. `toolwire ")
    assert outcome.err.count("\n") == 1
    named = [part.split()[1] for part in outcome.err.split("`")[1::2]]
    assert [one for one in named if one not in COMMANDS and one != "--version"] == []


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        (
            ["serve", "a.py", "--port", "x"],
            "--port: 'x' must be a port from 0 to 65535. `toolwire serve --help` lists the options.",
        ),
        (["call", "a.py"], "Usage: toolwire call [options] TARGET NAME [KEY=VALUE ...]."),
        (["serve", "a.py", "--log", "jsn"], "did you mean 'json'?"),
        (["serve", "a.py", "--workers"], "--workers: expected one argument."),
    ],
)
def test_faults_of_values_take_one_line(argv: list[str], sentence: str, toolwire: Callable[..., Any]) -> None:
    outcome = toolwire(*argv)
    assert (outcome.code, outcome.out, outcome.err.count("\n")) == (2, "", 1)
    assert sentence in outcome.err


@pytest.mark.parametrize(
    "options",
    [
        ["--port", "1"],
        ["--host", "127.0.0.1"],
        ["--tls-cert", "a.pem"],
        ["--root-path", "/a"],
        ["--trusted-proxies", "127.0.0.1"],
        ["--api-key", "k"],
        ["--allow-origin", "https://a.example"],
        ["--access-log"],
        ["--workers", "2"],
        ["--reload"],
        ["--private"],
    ],
    ids=lambda options: options[0],
)
def test_stdio_refuses_the_options_of_a_listening_server(options: list[str], toolwire: Callable[..., Any]) -> None:
    outcome = toolwire("serve", "examples/calculator.py", "--stdio", *options)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err == (
        f"toolwire: --stdio serves one MCP host over standard input and output. Leave out {options[0]}.\n"
    )


def test_help_is_the_same_without_a_terminal_and_in_a_narrow_one() -> None:
    outputs = {
        subprocess.run(
            [sys.executable, "-m", "toolwire", "serve", "--help"],
            env={**os.environ, "COLUMNS": columns},
            stdout=subprocess.PIPE,
            check=True,
        ).stdout
        for columns in ("40", "80", "200")
    }
    assert len(outputs) == 1
