"""Whatever stands where a file should: one sentence, the exit code for it, and nothing half-written."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from toolwire.cli.parser import list_commands
from toolwire.consent import DefinitionLock, write_lock

SHOP = '{"openapi": "3.1.0", "info": {"title": "S", "version": "1"}, "paths": {}}'
NOWHERE = "http://127.0.0.1:1"
KIT = """
from toolwire import Toolkit

kit = Toolkit("K")


@kit.tool(approval="auto", safe=True)
def weigh(x: bytes) -> int:
    return len(x)
"""
POSITIONALS = {
    "serve": ["kit.py", "--port", "0", "--stdio"],
    "work": ["kit.py"],
    "gateway": ["check"],
    "users": ["list"],
    "install": ["cursor", "kit.py", "--project"],
    "tools": [NOWHERE],
    "find": [NOWHERE, "tea"],
    "show": [NOWHERE, "x"],
    "call": [NOWHERE, "x"],
    "calls": ["wait", NOWHERE, "x"],
    "resources": [NOWHERE, "x:y"],
    "prompts": [NOWHERE],
    "chat": [NOWHERE, "--model", "m"],
    "explain": [NOWHERE],
    "check": ["shop.json"],
    "conform": [NOWHERE],
    "convert": ["shop.json", "--to", "openapi"],
    "size": [NOWHERE],
    "publish": [NOWHERE, "--server-json"],
    "approvals": ["verify", "receipts.json"],
    "login": [NOWHERE, "--client-id", "a"],
    "logout": [NOWHERE],
    "lock": [NOWHERE],
    "diff": [NOWHERE],
    "example": ["shop"],
}
TOGETHER = {
    "--tls-cert": ["--tls-key", "kit.py"],
    "--tls-key": ["--tls-cert", "kit.py"],
    "--receipt-keys": ["--receipts", "required"],
    "--file": ["--locked"],
    "--client-key": ["--as-program"],
}
"""The words without which the command would not look at the file of an option."""
KINDS = ("missing", "folder", "binary", "empty", "not UTF-8", "malformed", "wrong type", "loop", "long", "below a file")


def list_file_options() -> list[tuple[str, str]]:
    """Return each option of each command that names a file, with its command."""
    found = []
    for name, parser in list_commands("1").items():
        for action in parser._actions:
            metavar = action.metavar if isinstance(action.metavar, str) else ""
            if action.option_strings and "FILE" in metavar and name in POSITIONALS:
                found.append((name, action.option_strings[-1]))
    return found


def build_bad(kind: str, folder: Path) -> str:
    """Return the name of something bad, which is there now."""
    name = kind.replace(" ", "-")
    path = folder / name
    match kind:
        case "folder":
            path.mkdir()
        case "binary":
            path.write_bytes(bytes(range(256)) * 8)
        case "empty":
            path.touch()
        case "not UTF-8":
            path.write_bytes(b'\xff\xfe\xfa{"a": 1}')
        case "malformed":
            path.write_text('{"a": [1,', encoding="utf-8")
        case "wrong type":
            path.write_text("[1, 2]", encoding="utf-8")
        case "loop":
            path.symlink_to(path)
        case "long":
            return "x" * 300
        case "below a file":
            (folder / "plain").touch()
            return "plain/x"
        case _:  # a file that is missing
            pass
    return name


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The working folder, with what the commands need beside the bad file; standard input is empty."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / ".state"))
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "kit.py").write_text(KIT, encoding="utf-8")
    (tmp_path / "shop.json").write_text(SHOP, encoding="utf-8")
    (tmp_path / "receipts.json").write_text("{}", encoding="utf-8")
    (tmp_path / "toolwire.lock").write_text(write_lock(DefinitionLock()), encoding="utf-8")
    (tmp_path / "toolwire.toml").write_text(f'[upstreams.a]\ntarget = "{NOWHERE}"\n', encoding="utf-8")
    with Path(os.devnull).open(encoding="utf-8") as nothing:
        monkeypatch.setattr(sys, "stdin", nothing)
        yield tmp_path


def list_names(folder: Path) -> set[str]:
    return {name for name in os.listdir(folder) if name not in (".state", ".cursor", "__pycache__")}


@pytest.mark.requirement("CL-02")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("name", "option"), list_file_options(), ids=lambda one: one.removeprefix("--"))
def test_bad_file_of_any_option_ends_with_one_sentence(
    name: str, option: str, kind: str, folder: Path, toolwire: Callable[..., Any]
) -> None:
    bad = build_bad(kind, folder)
    words = POSITIONALS[name]
    if name == "gateway" and option != "--file":
        words = ["add", NOWHERE]
    if option == "--overlay" and name == "install":
        words = ["cursor", NOWHERE, "--project"]
    more = TOGETHER.get(option, []) if (name, option) not in (("gateway", "--file"), ("users", "--file")) else []
    if option == "--file" and name in ("lock", "diff", "install"):
        more = []
    before = list_names(folder)
    outcome = toolwire(name, *words, option, bad, *more)
    assert "Traceback" not in outcome.err + outcome.out
    replies = [line for line in outcome.err.splitlines() if line.startswith("toolwire: ")]
    if outcome.code in (1, 2, 3, 4):
        assert replies or name == "check"
        assert outcome.code != 1 or name == "check"
    else:
        assert outcome.code == 0  # such as a new file, a secret of any bytes, or a path that another program will read
    assert not [one for one in list_names(folder) - before if one.startswith(".") or one.endswith(".part")]


@pytest.mark.requirement("CL-02")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "words",
    [
        *("tools F", "show F x", "call F x", "size F", "check F", "convert F --to mcp", "overlay F", "serve F --stdio"),
        *("install cursor F --print", "approvals verify F", "approvals list --path F", f"call {NOWHERE} x --args @F"),
        *(f"call {NOWHERE} x --secret A=@F", f"call {NOWHERE} x --token a=@F", "serve kit.py --stdio --state F"),
        *("serve kit.py --stdio --ledger F", "serve kit.py --stdio --rates F", "work kit.py --state F"),
        *("tools F.json:x", "call kit.py weigh x=@F"),
    ],
)
def test_bad_target_ends_with_one_sentence(words: str, kind: str, folder: Path, toolwire: Callable[..., Any]) -> None:
    outcome = toolwire(*[word.replace("F", build_bad(kind, folder)) if "F" in word else word for word in words.split()])
    assert "Traceback" not in outcome.err + outcome.out
    assert outcome.code in (0, 1, 2, 4)
    assert (
        outcome.code == 0
        or [line for line in outcome.err.splitlines() if line.startswith("toolwire: ")]
        or (words.startswith("check"))
    )


@pytest.mark.requirement("CL-02", "MC-02")
@pytest.mark.parametrize("name", ["tools", "call", "show", "explain", "size", "resources"])
def test_program_that_its_user_did_not_allow_is_denied(name: str, folder: Path, toolwire: Callable[..., Any]) -> None:
    more = ["x"] if name in ("call", "show") else []
    assert toolwire(name, "stdio:false", *more).code == 3


def test_every_command_with_a_file_is_here() -> None:
    def names_file(action: argparse.Action) -> bool:
        return bool(action.option_strings) and isinstance(action.metavar, str) and "FILE" in action.metavar

    found = {name for name, parser in list_commands("1").items() if any(map(names_file, parser._actions))}
    assert found - POSITIONALS.keys() == {"console"}  # it serves, and shows on its page what is wrong with the lock
