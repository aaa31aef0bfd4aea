"""Classes as OpenTool's SDKs have them, served, listed and called by the command line as they are."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.serve_process import serve_at
from toolwire import Problem, Value, connect_sync
from toolwire.core.errors import UsageError
from toolwire.hosting.open_upstreams import open_toolboxes
from toolwire.hosting.serve_app import build_app, build_app_from_environment
from toolwire.hosting.serve_settings import SETTINGS, ServeSettings
from toolwire.opentool import FunctionCall, SyncOpenToolClient
from toolwire.testing.loopback import background

DOCUMENT = {
    "opentool": "1.1.0",
    "info": {"title": "Sums", "version": "2.0.0"},
    "functions": [
        {
            "name": "add",
            "description": "Add two numbers.",
            "parameters": [
                {"name": "a", "schema": {"type": "integer"}, "required": True},
                {"name": "b", "schema": {"type": "integer"}, "required": True},
            ],
            "return": {"name": "sum", "schema": {"type": "integer"}},
            "x-llm": {"enabled": True, "approval": "auto", "readOnly": True},
        }
    ],
}

CODE = '''
import pathlib
from toolwire import Toolkit

DIARY = pathlib.Path(__file__).with_name("diary.txt")

def write(word):
    with DIARY.open("a") as diary:
        diary.write(word + " ")

class Sums:
    """One method for every call, and no document."""

    def init(self):
        write("init")

    def call(self, name, arguments):
        write(name)
        return {"sum": arguments["a"] + arguments["b"]}

    def dispose(self):
        write("dispose")

class Methods:
    """A method for each function."""

    def init(self):
        write("init")

    def dispose(self):
        write("dispose")

    def add(self, a: int, b: int) -> int:
        return a + b

class Different:
    def add(self, a: str, c: int) -> int:
        return 0

class Needy:
    def __init__(self, path):
        self.path = path

    def call(self, name, arguments):
        return {}

class Broken:
    def __init__(self):
        raise LookupError("no database")

    def call(self, name, arguments):
        return {}

class NeverReady(Sums):
    def init(self):
        raise LookupError("no database")

sums = Sums()
kit = Toolkit("Kit")

@kit.tool(approval="auto", safe=True)
def double(a: int) -> int:
    "Double it."
    return 2 * a
'''


@pytest.fixture
def code(tmp_path: Path) -> Path:
    file = tmp_path / "mytool.py"
    file.write_text(CODE)
    (tmp_path / "tool.json").write_text(json.dumps(DOCUMENT))
    return file


def diary(code: Path) -> str:
    file = code.with_name("diary.txt")
    return file.read_text().strip() if file.exists() else ""


@pytest.mark.requirement("OTRPC-020", "OTRPC-021")
@pytest.mark.parametrize("workers", [1, 2])
def test_a_class_without_a_document_is_served_and_called_by_name(code: Path, workers: int) -> None:
    with serve_at(f"{code}:Sums", "--workers", workers) as url, SyncOpenToolClient(url) as client:
        assert client.load() is None
        assert client.call(FunctionCall("1", "whatever", {"a": 1, "b": 2})).result == {"sum": 3}
    words = diary(code).split()
    assert words.count("init") == workers
    assert words.count("dispose") == workers
    assert words.count("whatever") == 1


@pytest.mark.requirement("OTRPC-020")
def test_init_runs_before_the_first_call_and_dispose_after_the_last(code: Path) -> None:
    with serve_at(f"{code}:sums") as url, SyncOpenToolClient(url) as client:
        client.call(FunctionCall("1", "add", {"a": 1, "b": 2}))
    assert diary(code) == "init add dispose"


@pytest.mark.parametrize("name", ["Sums", "sums", "Methods"])
def test_document_beside_a_class_describes_it_in_every_protocol(name: str, code: Path) -> None:
    with serve_at(f"{code}:{name}", "--document", code.with_name("tool.json")) as url:
        with connect_sync(url) as remote:
            assert remote.call("add", {"a": 1, "b": 2}) == Value(3)
            assert isinstance(remote.call("add", {"a": "one", "b": 2}), Problem)
        with SyncOpenToolClient(url) as client:
            document = client.load()
            assert document is not None
            assert document.info.title == "Sums"


def test_class_in_another_process_keeps_its_document(code: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = ServeSettings(
        targets=[f"{code}:Methods"], document=str(code.with_name("tool.json")), api_keys=["canary"]
    )
    monkeypatch.setenv(SETTINGS, settings.to_json())
    app = build_app_from_environment()
    assert "canary" not in str(os.environ)
    with background(app) as url, SyncOpenToolClient(url, api_key="canary") as client:
        assert client.call(FunctionCall("1", "add", {"a": 1, "b": 2})).result == {"sum": 3}
    assert diary(code) == "init dispose"


def test_class_and_toolkit_are_served_together_with_init_and_dispose(code: Path) -> None:
    code.write_text(code.read_text() + f"\nclass Loading(Sums):\n    def load(self):\n        return {DOCUMENT!r}\n")
    settings = ServeSettings(targets=[f"{code}:Loading", f"{code}:kit"])
    with background(build_app(settings, open_toolboxes(settings))) as url, connect_sync(url) as remote:
        assert diary(code) == "init"
        assert remote.call("add", {"a": 1, "b": 2}) == Value(3)
        assert remote.call("double", {"a": 4}) == Value(8)
    assert diary(code) == "init add dispose"


def test_a_class_can_be_listed_and_called_without_a_server(code: Path, toolwire: Callable[..., Any]) -> None:
    code.write_text(code.read_text() + f"\nclass Loading(Sums):\n    def load(self):\n        return {DOCUMENT!r}\n")
    listed = toolwire("tools", f"{code}:Loading", "--json")
    assert [tool["name"] for tool in json.loads(listed.out)] == ["add"]
    called = toolwire("call", f"{code}:Loading", "add", "a=1", "b=2", "--json")
    assert called.code == 0
    assert json.loads(called.out)["value"] == 3
    assert diary(code) == "init add dispose"


@pytest.mark.parametrize(
    ("name", "sentences"),
    [
        (
            "Different",
            ["parameter 'a' is of the type integer in the document, and string in the code", "no parameter 'b'"],
        ),
        ("Needy", ["Needy cannot be created without arguments"]),
        ("Broken", ["'Broken' in ", "cannot be made: LookupError: no database."]),
        ("kit", ["--document is for a class"]),
    ],
)
def test_unusable_target_is_reported_with_exit_code_2(
    name: str, sentences: list[str], code: Path, toolwire: Callable[..., Any]
) -> None:
    outcome = toolwire("serve", f"{code}:{name}", "--document", str(code.with_name("tool.json")))
    assert outcome.code == 2
    assert all(sentence in outcome.err for sentence in sentences)
    assert "Traceback" not in outcome.err


def test_a_class_with_methods_alone_needs_a_document(code: Path, toolwire: Callable[..., Any]) -> None:
    outcome = toolwire("serve", f"{code}:Methods")
    assert outcome.code == 2
    assert "'Methods' in " in outcome.err


@pytest.mark.parametrize("more", [["https://example.com"], ["{code}:Sums", "{code}:kit"]])
def test_document_option_applies_to_one_local_class(more: list[str], code: Path) -> None:
    targets = [text.format(code=code) for text in more]
    with pytest.raises(UsageError, match=r"^--document .*\.$"):
        open_toolboxes(ServeSettings(targets=targets, document=str(code.with_name("tool.json"))))


def test_failing_init_fails_a_call_without_a_traceback(code: Path, toolwire: Callable[..., Any]) -> None:
    code.write_text(
        code.read_text() + f"\nclass Loading(NeverReady):\n    def load(self):\n        return {DOCUMENT!r}\n"
    )
    called = toolwire("call", f"{code}:Loading", "add", "a=1", "b=2")
    assert called.code == 1
    assert "The tool could not be started." in called.err + called.out
    assert "Traceback" not in called.err


@pytest.mark.parametrize("workers", ["1", "2"])
def test_failing_init_ends_the_server_at_once(code: Path, workers: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "toolwire", "serve", "--port", "0", "--workers", workers, f"{code}:NeverReady"],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert ended.returncode == 1
    assert "LookupError: no database" in ended.stderr
    assert "Traceback" not in ended.stderr
