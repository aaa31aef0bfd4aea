"""The shells complete commands, options and the values of options, by the script that the program prints."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from toolwire.cli.parser import list_commands

pytestmark = pytest.mark.requirement("FU-40")
NEEDED = {
    shell: pytest.mark.skipif(shutil.which(shell) is None, reason=f"there is no {shell}") for shell in ("zsh", "fish")
}


def complete_in_bash(script: str, words: Sequence[str], folder: Path) -> list[str]:
    quoted = " ".join(f"'{word}'" for word in words)
    asked = (
        f"{script}\nCOMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; _toolwire; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    )
    ran = subprocess.run(["bash", "-c", asked], capture_output=True, text=True, timeout=60, cwd=folder, check=True)
    return ran.stdout.split()


def complete_in_fish(script: str, words: Sequence[str], folder: Path) -> list[str]:
    asked = f"{script}\ncomplete -C '{' '.join(words)}'"
    ran = subprocess.run(
        ["fish", "--no-config", "-c", asked], capture_output=True, text=True, timeout=60, cwd=folder, check=True
    )
    return [line.partition("\t")[0] for line in ran.stdout.splitlines()]


@pytest.mark.parametrize("complete", [complete_in_bash, pytest.param(complete_in_fish, marks=NEEDED["fish"])])
def test_commands_options_and_their_values_are_completed(
    complete: Callable[..., list[str]], tmp_path: Path, toolwire: Callable[..., Any]
) -> None:
    shell = complete.__name__.removeprefix("complete_in_")
    script = toolwire("completion", shell).out
    (tmp_path / "shop.py").touch()
    assert set(complete(script, ["toolwire", "con"], tmp_path)) == {"conform", "connections", "console", "convert"}
    assert complete(script, ["toolwire", "call", "--as"], tmp_path) == ["--ask"]
    assert complete(script, ["toolwire", "call", "--ask", "p"], tmp_path) == ["page"]
    assert complete(script, ["toolwire", "approvals", "re"], tmp_path) == ["revoke"]
    assert complete(script, ["toolwire", "serve", "sh"], tmp_path) == ["shop.py"]


@pytest.mark.parametrize(
    "shell", ["bash", pytest.param("zsh", marks=NEEDED["zsh"]), pytest.param("fish", marks=NEEDED["fish"])]
)
def test_shell_accepts_the_completion_script(shell: str, tmp_path: Path, toolwire: Callable[..., Any]) -> None:
    file = tmp_path / "script"
    file.write_text(toolwire("completion", shell).out, encoding="utf-8")
    assert subprocess.run([shell, "-n", str(file)], capture_output=True, timeout=60, check=True).stderr == b""
    if shell == "zsh":
        loaded = f"autoload -Uz compinit; compinit -u -d {tmp_path}/dump; source {file}; echo $_comps[toolwire]"
        ran = subprocess.run(["zsh", "-f", "-c", loaded], capture_output=True, text=True, timeout=60, check=True)
        assert ran.stdout == "_toolwire\n"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_option_of_every_command_is_in_the_script(shell: str, toolwire: Callable[..., Any]) -> None:
    script = toolwire("completion", shell).out
    for name, command in list_commands("1").items():
        lines = [line for line in script.splitlines() if name in line]
        assert lines, name
        for action in command._actions:
            for option in action.option_strings:
                assert (f"-l {option[2:]}" if shell == "fish" and option.startswith("--") else option[-2:]) in script
