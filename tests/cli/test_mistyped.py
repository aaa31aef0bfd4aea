"""A word that the command line does not have is answered by what was meant, and by nothing that may be a secret."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("tols", "Unknown command 'tols'. Did you mean tools? `toolwire --help` lists all commands."),
        ("qqq", "Unknown command 'qqq'. `toolwire --help` lists all commands."),
        ("shop.py", "Write a command before the file: `toolwire serve shop.py` serves it"),
        (
            "http://127.0.0.1:9627",
            "Write a command before the URL: `toolwire tools http://127.0.0.1:9627` lists its tools.",
        ),
        ("tools shop.py --jsn", "toolwire tools has no option --jsn. Did you mean --json? `toolwire tools --help`"),
        ("check api.json --timeout 3", "toolwire check has no option --timeout; other commands have it."),
        ("tools shop.py --limit=3", "toolwire tools has no option --limit; other commands have it."),
        ("explain http://127.0.0.1:9 --tag a", "toolwire explain has no option --tag; other commands have it."),
        ("--json tools shop.py", "Write --json after the command: toolwire tools --json."),
        ("--versoin", "toolwire has no option --versoin. Did you mean --version?"),
        ("gateway run --port 9", "toolwire gateway has no option --port: it stands in the file, as port."),
        ("gateway chk", "did you mean 'check'? `toolwire"),
        ("convert shop.py --to opntool", "did you mean 'opentool'?"),
        ("install claude shop.py", "did you mean 'claude-code'? `toolwire"),
        ("resources shop.py a b", "Unexpected argument 'b'. `toolwire resources --help` shows the usage."),
    ],
)
def test_mistyped_word_is_answered_by_what_was_meant(words: str, sentence: str, toolwire: Callable[..., Any]) -> None:
    outcome = toolwire(*words.split())
    assert outcome.code == 2
    assert sentence in outcome.err
    assert outcome.err.splitlines()[-1].startswith("toolwire: ")


def test_unknown_option_of_a_command_prints_one_line(toolwire: Callable[..., Any]) -> None:
    assert len(toolwire("tools", "shop.py", "--quiet").err.splitlines()) == 1


@pytest.mark.parametrize("words", [("--api-key", "sk-12345"), ("--api-key=sk-12345",)])
def test_value_of_an_unknown_option_is_not_repeated(words: tuple[str, ...], toolwire: Callable[..., Any]) -> None:
    outcome = toolwire("call", "shop.py", "in_stock", *words, "--json")
    assert outcome.code == 2
    assert "toolwire call has no option --api-key; serve has it. Did you mean --key?" in outcome.err
    assert "sk-12345" not in outcome.err + outcome.out
    assert json.loads(outcome.out)["message"].startswith("toolwire call has no option --api-key")


def test_key_in_a_url_without_a_command_is_not_repeated(toolwire: Callable[..., Any]) -> None:
    outcome = toolwire("https://example.com/?api_key=sk-12345")
    assert (outcome.code, "sk-12345" in outcome.err) == (2, False)
