"""A word that the command line does not have is answered by what was meant, and by nothing that may be a secret."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from toolwire.hosting.targets.target import UrlTarget, read_target


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
        ("call", "The following arguments are required: TARGET, NAME. Usage: toolwire call"),
        ("install", "The following arguments are required: HOST. Usage: toolwire install"),
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


@pytest.mark.parametrize(
    ("target", "sentence"),
    [
        ("shop.pyy", "File not found: shop.pyy. Did you mean shop.py? For the host, write https://shop.pyy."),
        ("shop.PY", "File not found: shop.PY. Did you mean shop.py? For the host, write https://shop.PY."),
        ("api.jsn", "File not found: api.jsn. Did you mean api.json? For the host, write https://api.jsn."),
        ("shp.py", "File not found: shp.py. Did you mean shop.py?"),
        ("api.yml", "File not found: api.yml. Did you mean api.json?"),
        ("deep/shop.pyy", "File not found: deep/shop.pyy. Did you mean deep/shop.py?"),
        ("shop.py:shpo", "There is no 'shpo' in shop.py. It has shop."),
    ],
)
def test_mistyped_file_is_answered_by_the_file_in_its_folder(
    target: str, sentence: str, toolwire: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "deep").mkdir()
    for file in (tmp_path / "shop.py", tmp_path / "deep/shop.py"):
        file.write_text("from toolwire import Toolkit\nshop = Toolkit('Shop')\n")
    (tmp_path / "api.json").write_text("{}")
    monkeypatch.chdir(tmp_path)
    outcome = toolwire("serve", target)
    assert (outcome.code, outcome.err) == (2, f"toolwire: {sentence}\n")


def test_site_named_like_a_file_here_is_still_a_site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "shop.py").write_text("")
    monkeypatch.chdir(tmp_path)
    assert read_target("shop.pt") == UrlTarget("shop.pt")


def test_choice_is_read_in_any_case(toolwire: Callable[..., Any], tmp_path: Path) -> None:
    file = tmp_path / "shop.py"
    file.write_text("from toolwire import Toolkit\nshop = Toolkit('Shop')\n")
    assert "mcpServers" in toolwire("install", "Cursor", str(file), "--print").out
    assert toolwire("convert", str(file), "--to", "OpenTool").code == 0


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
