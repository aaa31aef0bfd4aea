"""``toolwire show`` shows one tool, and its example call works as it is printed."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import pytest
from fastapi import FastAPI, Security
from fastapi.security import APIKeyHeader

from toolwire import asgi
from toolwire.cli.commands.show import list_schema_lines
from toolwire.hosting.targets.load_code import open_code
from toolwire.hosting.targets.target import FileTarget
from toolwire.testing import background
from toolwire.validation.arguments import compile_schema
from toolwire.validation.example_arguments import build_example

pytestmark = pytest.mark.requirement("FU-40")


def test_show_prints_signature_arguments_and_needs_of_one_tool(desk: Path, toolwire: Callable[..., Any]) -> None:
    shown = toolwire("show", desk, "shred")
    assert shown.code == 0
    lines = shown.out.splitlines()
    assert lines[:4] == ["shred(pages: array) -> string", "Desk.shred@1.2.0", "", "Shred [red]pages[/red]."]
    assert "  pages: array of integer, required" in lines
    needs = lines[lines.index("A call") + 1 :]
    assert needs[:3] == ["  asks you unless you allowed it for good", "  destroys something", "  costs: credits"]


def test_url_shows_the_same_tool_as_its_local_code(desk: Path, site: str, toolwire: Callable[..., Any]) -> None:
    of_code, of_url = (toolwire("show", target, "add").out.partition("\nExample")[0] for target in (desk, site))
    assert of_url.replace(f"  goes to {site}\n", "") == of_code


def test_printed_example_call_can_be_executed(site: str, toolwire: Callable[..., Any]) -> None:
    shown = json.loads(toolwire("show", site, "say", "--json").out)
    assert shown["signature"] == "say(text: string, tags?: array|null) -> string"
    program, *words = shlex.split(shown["example"]["command"])
    assert program == "toolwire"
    assert toolwire(*words, "--agree").out == "example\n"
    python = (
        shown["example"]["python"].replace("remote:", "remote:", 1).replace(f"({site!r})", f"({site!r}, agree=bool)")
    )
    ran = subprocess.run([sys.executable, "-c", python], capture_output=True, text=True, timeout=60, check=True)
    assert ran.stdout == "Value(value='example')\n" or "example" in ran.stdout


def test_printed_example_of_a_tool_that_takes_a_file_names_a_file(
    write: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, toolwire: Callable[..., Any]
) -> None:
    file = write("files.py", FILES)
    (tmp_path / "example.txt").write_text("hello!")
    monkeypatch.chdir(tmp_path)
    with background(asgi(open_code(FileTarget(file)))) as url:
        for protocol in ("openapi", "mcp", "otc"):
            shown = json.loads(toolwire("show", url, "measure", "--json", "--protocol", protocol).out)["example"]
            program, *words = shlex.split(shown["command"])
            assert (program, words[3:5]) == ("toolwire", ["title=example", "file=@example.txt"])
            assert words[5:] == ["--protocol", protocol]
            assert toolwire(*words, "--agree").out.strip() == "example: 6"
        ran = subprocess.run(
            [sys.executable, "-c", shown["python"].replace(f"({url!r}", f"({url!r}, approve=bool, agree=bool")],
            capture_output=True, text=True, timeout=60, check=True,
        )  # fmt: skip
        assert ran.stdout == "Value(value='example: 6')\n"


@pytest.mark.parametrize("written", ["command", "python"])
def test_printed_example_call_has_the_options_by_which_the_tool_was_reached(
    toolwire: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, written: str
) -> None:
    # An API that marks no operation for models, as most do, behind a key.
    api = FastAPI(title="Stock")

    @api.get("/stock/{item}")
    def count_stock(item: str, key: Annotated[str | None, Security(APIKeyHeader(name="x-api-key"))]) -> str:
        return f"{item}: {len(key or '')}"

    monkeypatch.setenv("STOCK_KEY", "key-of-stock")
    overlay = tmp_path / "overlay.json"
    overlay.write_text(
        '{"overlay": "1.0.0", "info": {"title": "t", "version": "1"}, "actions": '
        '[{"target": "$.paths.*.get", "update": {"x-llm": {"enabled": true, "approval": "auto"}}}]}'
    )
    reach = ["--include", "all", "--key-env", "STOCK_KEY", "--overlay", overlay]
    with background(api) as url:
        name = "count_stock_stock__item__get"
        example = json.loads(toolwire("show", url, name, "--json", *reach).out)["example"]
        if written == "command":
            assert toolwire(*shlex.split(example["command"])[1:], "--agree").out == "example: 12\n"
        else:
            python = example["python"].replace(f"({url!r}", f"({url!r}, agree=bool")
            ran = subprocess.run([sys.executable, "-c", python], capture_output=True, text=True, timeout=60, check=True)
            assert ran.stdout == "Value(value='example: 12')\n"


def test_unknown_tool_name_is_a_usage_error(desk: Path, toolwire: Callable[..., Any]) -> None:
    shown = toolwire("show", desk, "shrd", "--json")
    assert shown.code == 2
    failure = json.loads(shown.out)
    assert (failure["ok"], failure["kind"]) == (False, "unknown_tool")
    assert "Available tools: add, " in failure["message"]


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "integer", "minimum": 5, "multipleOf": 2},
        {"type": "number", "exclusiveMinimum": 3},
        {"type": "integer", "maximum": -4},
        {"type": "string", "minLength": 9, "maxLength": 12},
        {"type": "string", "maxLength": 3},
        {"type": "string", "format": "date"},
        {"enum": ["red", "green"]},
        {"type": ["null", "boolean"]},
        {"type": "array", "items": {"type": "integer"}, "minItems": 2},
        {"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}, "required": ["a"]},
        {"anyOf": [{"type": "integer"}, {"type": "null"}]},
    ],
)
def test_example_value_matches_its_schema(schema: dict[str, Any]) -> None:
    root = {"type": "object", "properties": {"x": schema}, "$defs": {"A": {"const": 7}}}
    assert compile_schema(root)({"x": build_example(schema, root)}) is None


def test_recursive_schema_is_listed_with_bounded_length() -> None:
    root: dict[str, Any] = {
        "type": "object",
        "properties": {"child": {"$ref": "#"}, **{f"p{number}": {"$ref": "#"} for number in range(300)}},
        "required": ["child"],
    }
    lines = list_schema_lines(root)
    assert len(lines) <= 201
    assert json.dumps(build_example(root, root)).count("child") < 10


FILES = """
    from toolwire import File, Toolkit

    kit = Toolkit("Files")

    @kit.tool(approval="auto", safe=True)
    def measure(title: str, file: File) -> str:
        '''Say how long a file is.'''
        return f"{title}: {len(file.data)}"
"""
LETTERS = """
    from toolwire import Authorization, Context, Requirements, Toolkit

    kit = Toolkit("Letters")
    needed = Requirements(authorization=(Authorization(id="google", scopes=("mail",)),), secrets=("PIN",), user_id=True)

    @kit.tool(approval="auto", safe=True, requirements=needed)
    def send(text: str, context: Context) -> str:
        '''Send a letter.'''
        return f"{text} of {context.user_id}: {len(context.token('google').reveal() + context.secret('PIN').reveal())}"
"""


@pytest.mark.requirement("OTC-015", "OTC-016", "OTC-017")
def test_example_of_a_tool_with_requirements_brings_what_it_requires(
    write: Callable[..., Path], tmp_path: Path, toolwire: Callable[..., Any]
) -> None:
    file = write("letters.py", LETTERS)
    (tmp_path / "typed.txt").write_text("t0k\n")
    with background(asgi(open_code(FileTarget(file)))) as url:
        for target in (url, str(file)):
            protocol = ["--protocol", "otc"] if target == url else []  # only this one says what a tool requires
            shown = json.loads(toolwire("show", target, "send", "--json", *protocol).out)["example"]
            program, *words = shlex.split(shown["command"])
            assert program == "toolwire"
            typed = [f"{word}=@{tmp_path}/typed.txt" if word in ("google", "PIN") else word for word in words]
            called = toolwire(*typed, *(["--agree"] if target == url else []))
            assert (called.out, called.err) == ("example of ada@example.com: 6\n", "")
        python = shown["python"].replace("http://127.0.0.1:9627", url).replace("protocol=", "agree=bool, protocol=")
        ran = subprocess.run([sys.executable, "-c", python], capture_output=True, text=True, timeout=60, check=True)
        assert ran.stdout == "Value(value='example of ada@example.com: 6')\n"


FULL = """
    from toolwire import Authorization, Requirements, Toolkit
    kit = Toolkit("Mail")

    @kit.tool(
        approval="per-call", rate_limit="5/1m", timeout_s=400, keep_s=60, hint="Use it to write to a person.",
        requirements=Requirements(authorization=(Authorization(id="mail", scopes=("send",)),), secrets=("KEY",)),
        result="card", next=["look"],
    )
    def send(to: str) -> dict[str, str]:
        return {"to": to}

    @kit.tool(approval="auto")
    def look() -> str:
        return "here"
"""


@pytest.mark.requirement("SE-09")
def test_show_prints_server_requirements_limits_and_hints(
    write: Callable[..., Path], toolwire: Callable[..., Any]
) -> None:
    file = write("mail.py", FULL)
    with background(asgi(open_code(FileTarget(file)))) as url:
        text = toolwire("show", url, "send", "--protocol", "otc").out
        data = json.loads(toolwire("show", url, "send", "--protocol", "otc", "--json").out)
        claimed = toolwire("show", url, "look", "--protocol", "otc").out
    for line in (
        f"goes to {url}",
        "may be made 5 times in 1m",
        "needs the scopes send",
        "needs a sign-in: mail",
        "needs the secrets KEY",
        "takes a destination: to",
        "shows its result as: card",
        "is usually followed by: look",
    ):
        assert f"  {line}\n" in text
    assert "Use it to write to a person." in text
    assert data["server"] == url
    assert data["limits"]["rate"] == {"max": 5, "window": "1m"}
    of_code = toolwire("show", file, "send").out
    for line in ("ends after 400 seconds", "goes on when its caller leaves", "keeps its result for 60 seconds"):
        assert f"  {line}\n" in of_code
    assert json.loads(toolwire("show", file, "send", "--json").out)["limits"]["timeout_s"] == 400
    assert data["requirements"]["secrets"] == ["KEY"]
    assert "shows its result as: card" in data["hints"]
    assert "says that it only reads: --agree trusts that" in claimed
