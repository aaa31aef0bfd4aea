"""``main(MyTool)``: options, help, version, keys, and a process that ends when it is told to."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Sequence
from enum import Enum
from pathlib import Path
from typing import Any, Literal

import pytest

from toolwire.core.errors import DefinitionError
from toolwire.opentool import FunctionCall, OpenToolServerUnauthorizedException, SyncOpenToolClient, main
from toolwire.opentool.keys import read_keys
from toolwire.opentool.options import read_options

from .conftest import DOCUMENT, Notes
from .foreign_clients import ask

WAIT_S = 60

SCRIPT = '''
    import sys
    from toolwire.opentool import main

    class Greeter:
        """Greets whoever calls.

        Args:
            name: Who greets.
            mark: What a greeting ends with.
        """

        def __init__(self, name: str{default}, *, mark: str = "!", loud: bool = False) -> None:
            self.text = name + mark
            self.loud = loud

        def call(self, name, arguments):
            return {{"text": self.text.upper() if self.loud else self.text}}

        def dispose(self):
            print("disposed", flush=True)

        def load(self):
            return None

    if __name__ == "__main__":
        sys.exit(main(Greeter, version="3.2.1"))
'''


class Colour(Enum):
    RED = "red"


class Many(Notes):
    """Has a parameter of every sort."""

    def __init__(
        self,
        path: Path,
        size: int = 3,
        ratio: float = 0.5,
        tags: Sequence[str] = (),
        mode: Literal["a", "b"] = "a",
        colour: Colour = Colour.RED,
        api_token: str = "s3cret",
        note: str | None = None,
        *,
        dry_run: bool = False,
        **rest: Any,
    ) -> None:
        super().__init__()


@pytest.fixture
def script(tmp_path: Path) -> Any:
    """Run the script, with a default for its parameter or without, and give the process."""
    started: list[subprocess.Popen[str]] = []

    def begin(*arguments: str, default: str = ' = "Hello"', **environment: str) -> subprocess.Popen[str]:
        file = tmp_path / "greeter.py"
        file.write_text(textwrap.dedent(SCRIPT.format(default=default)))
        process = subprocess.Popen(
            [sys.executable, str(file), *arguments],
            env={"PATH": "", "NO_COLOR": "1", "COLUMNS": "120", **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield begin
    for process in started:
        process.kill()
        process.communicate(timeout=WAIT_S)


def url_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    line = process.stdout.readline().strip()
    assert line.startswith("http://"), process.communicate()
    return line


def test_class_without_required_parameters_runs_with_defaults(script: Any) -> None:
    process = script("-t", "0")
    with SyncOpenToolClient(url_of(process)) as client:
        assert client.call(FunctionCall("1", "greet")).result == {"text": "Hello!"}
        assert str(client.version()) == "3.2.1"
    process.terminate()
    out, err = process.communicate(timeout=WAIT_S)
    assert out.endswith("disposed\n")
    assert (process.returncode, err) == (0, "")


def test_command_options_are_the_class_parameters(script: Any) -> None:
    process = script("--toolPort", "0", "--name", "Hi", "--mark", "?", "--loud", default="")
    with SyncOpenToolClient(url_of(process)) as client:
        assert client.call(FunctionCall("1", "greet")).result == {"text": "HI?"}


def test_missing_required_parameter_prints_the_help(script: Any) -> None:
    process = script(default="")
    out, _ = process.communicate(timeout=WAIT_S)
    assert process.returncode == 2
    for part in ("Greets whoever calls.", "--name NAME", "Who greets.", "--toolPort", "--apiKeys", "(default: !)"):
        assert part in out


@pytest.mark.requirement("OTRPC-029", "S-7")
def test_keys_are_read_from_options_environment_and_file_and_never_printed(script: Any, tmp_path: Path) -> None:
    file = tmp_path / "keys.txt"
    file.write_text("# ours\nkey-in-file\n")
    process = script(
        "-t", "0", "-k", "key-1", "-k", "key-2", "--apiKeysFile", str(file), TOOLWIRE_API_KEYS="key-3, key-4"
    )  # fmt: skip
    url = url_of(process)
    for key in ("key-1", "key-2", "key-3", "key-4", "key-in-file"):
        with SyncOpenToolClient(url, api_key=key) as client:
            client.version()
    with SyncOpenToolClient(url, api_key="key-5") as client, pytest.raises(OpenToolServerUnauthorizedException):
        client.version()
    process.terminate()
    assert "key-" not in "".join(process.communicate(timeout=WAIT_S))


@pytest.mark.requirement("FD-10")
def test_opentool_daemon_starts_and_stops_a_command(script: Any) -> None:
    """It adds these four options, makes a key for itself and ends the tool with it."""
    process = script(
        "start", "--opentoolServerTag", "latest", "--opentoolServerHost", "127.0.0.1", "--opentoolServerPort", "0",
        "--opentoolServerApiKeys", "K1",
    )  # fmt: skip
    url = url_of(process).removesuffix("/opentool")
    assert ask(url, "GET", "/opentool/version", b"").status == 401
    with SyncOpenToolClient(url, api_key="K1") as client:
        assert client.call(FunctionCall("1", "greet")).result == {"text": "Hello!"}
    assert ask(url, "POST", "/opentool/stop", b"", authorization="Bearer K1").json == {"status": "stopped"}
    out, err = process.communicate(timeout=WAIT_S)
    assert out.endswith("disposed\n")
    assert (process.returncode, err) == (0, "")


@pytest.mark.requirement("S-17", "A-28")
def test_admin_key_stops_the_process_cleanly(script: Any) -> None:
    process = script("-t", "0", TOOLWIRE_ADMIN_KEY="A1")
    url = url_of(process).removesuffix("/opentool")
    assert ask(url, "POST", "/opentool/stop", b"").status == 401
    assert ask(url, "POST", "/opentool/stop", b"", authorization="Bearer A1").json == {"status": "stopped"}
    out, err = process.communicate(timeout=WAIT_S)
    assert out.endswith("disposed\n")
    assert (process.returncode, err) == (0, "")


@pytest.mark.parametrize("flag", ["-v", "--version"])
def test_version_option_prints_the_given_or_documented_version(flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    for options, version in [({"version": "9.9.9"}, "9.9.9"), ({"document": DOCUMENT}, "2.3.4"), ({}, "1.0.0")]:
        with pytest.raises(SystemExit) as ended:
            main(Notes, [flag], **options)
        assert ended.value.code == 0
        assert capsys.readouterr().out.split()[-1] == version


@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_help_prints_no_secret_default(flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(Many, [flag])
    assert ended.value.code == 0
    shown = capsys.readouterr().out
    assert "--api-token" in shown
    assert "s3cret" not in shown


@pytest.mark.parametrize("argv", [["--toolPort", "x"], ["-t", "65536"], ["--what"], ["--toolPor", "1"]])
def test_a_command_line_that_cannot_be_read_is_a_usage_error(
    argv: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(Notes, argv)
    assert ended.value.code == 2
    assert "usage" in capsys.readouterr().err


def test_file_of_keys_without_an_end_is_refused(tmp_path: Path) -> None:
    endless = tmp_path / "keys"
    with endless.open("wb") as file:
        file.truncate(1 << 30)
    with pytest.raises(DefinitionError, match="is larger than"):
        read_keys((), endless, {})


def test_unusable_tool_is_reported_in_one_line_with_exit_code_1(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(Notes, ["-t", "0", "--apiKeysFile", str(tmp_path / "none")]) == 1
    assert main(Notes, ["-t", "0"], document=tmp_path / "none.json") == 1
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("error: Cannot read the keys")
    assert second.startswith("error: Cannot read the document")


def test_each_parameter_type_becomes_an_option() -> None:
    options = {option.name: option for option in read_options(Many)}
    assert list(options) == [
        "path", "size", "ratio", "tags", "mode", "colour", "api_token", "note", "dry_run",
    ]  # fmt: skip
    assert [option.name for option in options.values() if option.is_required] == ["path"]
    assert options["dry_run"].flags == ("--dry-run", "--dry_run")


def test_parameter_that_cannot_be_an_option_is_refused_by_name() -> None:
    class Odd:
        def __init__(self, hook: dict[str, int]) -> None: ...

    class Placed:
        def __init__(self, first: int, /) -> None: ...

    class Taken:
        def __init__(self, version: str) -> None: ...

    for tool, name in ((Odd, "hook"), (Placed, "first"), (Taken, "version")):
        with pytest.raises(DefinitionError, match=name):
            main(tool, [])


@pytest.mark.parametrize("key", ["", "a\nb", "café"])
def test_invalid_key_is_refused_without_showing_it(key: str) -> None:
    with pytest.raises(DefinitionError) as raised:
        read_keys([key], None, {})
    assert not key or key not in str(raised.value)


def test_a_file_without_keys_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text("# none\n")
    with pytest.raises(DefinitionError, match="contains no key"):
        read_keys((), file, {})
