"""What a user sees of a result at a terminal where its site suggests a form; a pipe and ``--json`` get JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from examples.scripted_model import lines, provider
from toolwire.hosting.targets.load_code import open_code
from toolwire.hosting.targets.target import FileTarget
from toolwire.server import asgi
from toolwire.testing.loopback import background

BOOKS = """
    from toolwire import Toolkit

    books = Toolkit("Books", version="1.0.0")
    SHELF = [
        {"name": "Ulysses", "by": {"name": "Joyce"}, "at": "https://books.example/1", "pages": 730},
        {"name": "Emma\\x1b[31m\\u202e", "by": {"name": "Austen"}, "at": "javascript:alert(1)", "pages": 474},
        {"name": "Dune", "by": {"name": "Herbert"}, "at": "https://books.example/3", "pages": 412},
    ]

    def show(**result):
        return {"x-llm": {"result": result}}

    def tool(**result):
        return books.tool(approval="auto", safe=True, hints=show(**result))

    @tool(render="table", fields=["/name", "/by/name"], maxItems=2)
    def table() -> list[dict]:
        return SHELF

    @tool(render="list", title="/found/0/name", url="/found/0/at", fields=["/found/0/pages"])
    def titles() -> dict:
        return {"total": 3, "found": SHELF}

    @tool(render="card", title="/name", subtitle="/by/name", url="/at", fields=["/pages", "/none"])
    def card() -> dict:
        return SHELF[0]

    @tool(render="link", title="/name", url="/at")
    def link(number: int) -> dict:
        return SHELF[number]

    @tool(render="none")
    def nothing() -> dict:
        return SHELF[0]

    @tool(render="text", body="/words")
    def text() -> dict:
        return {"words": "long " * 30 + "end"}

    @tool(render="carousel", title=7, fields="/x", maxItems=-1)
    def bad() -> dict:
        return {"a": 1}

    @tool(render="table")
    def scalar() -> int:
        return 7
"""


@pytest.fixture
def books(write: Callable[..., Path]) -> Path:
    return write("books.py", BOOKS)


@pytest.fixture
def url(books: Path) -> Iterator[str]:
    with background(asgi(open_code(FileTarget(books)))) as site:
        yield site


def show(terminal: Any, *argv: str) -> str:
    shown = terminal(*argv, NO_COLOR="1", COLUMNS="60")
    assert shown.end() == 0
    text: str = shown.shown.decode().replace("\r\n", "\n")
    # On a slow machine the command says first what it waits for.
    return re.sub(r"\AReading the tools of \S+ \.\.\.\n", "", text)


@pytest.mark.requirement("XL-074")
@pytest.mark.parametrize("protocol", ["openapi", "opentool", "otc", "mcp"])
def test_table_uses_the_columns_and_row_count_suggested_by_the_site(terminal: Any, url: str, protocol: str) -> None:
    lines = show(terminal, "call", url, "table", "--protocol", protocol, "--agree").splitlines()
    assert lines[0].split() == ["NAME", "BY/NAME"]
    assert [line.split()[0].partition("<")[0] for line in lines[1:3]] == ["Ulysses", "Emma"]
    assert lines[-1] == "... and 1 more."


@pytest.mark.requirement("XL-074")
def test_each_display_form_is_printed_with_hostile_text_escaped(terminal: Any, books: Path) -> None:
    titles = show(terminal, "call", str(books), "titles")
    assert titles.splitlines()[0] == "- Ulysses - https://books.example/1 - pages: 730"
    assert "javascript:" not in titles  # only web addresses are links
    assert "Emma<U+001B>[31m<U+202E>" in titles
    assert show(terminal, "call", str(books), "card").splitlines() == [
        "Ulysses",
        "Joyce",
        "pages: 730",
        "https://books.example/1",
    ]
    assert show(terminal, "call", str(books), "link", "number=0").splitlines() == ["Ulysses", "https://books.example/1"]
    assert show(terminal, "call", str(books), "nothing") == ""
    lines = show(terminal, "call", str(books), "text").splitlines()
    assert len(lines) > 2
    assert max(map(len, lines)) <= 60


@pytest.mark.requirement("XL-074")
@pytest.mark.parametrize(
    ("argv", "value"),
    [(("bad",), {"a": 1}), (("scalar",), 7), (("link", "number=1"), None)],
    ids=["unknown form", "no items", "no web address"],
)
def test_invalid_display_hints_print_json(terminal: Any, books: Path, argv: tuple[str, ...], value: Any) -> None:
    printed = json.loads(show(terminal, "call", str(books), *argv))
    assert printed == value or (value is None and printed["at"] == "javascript:alert(1)")


@pytest.mark.requirement("XL-074")
def test_pipe_and_json_option_print_the_whole_value(toolwire: Any, terminal: Any, books: Path) -> None:
    assert len(json.loads(toolwire("call", books, "table").out)) == 3
    assert len(json.loads(show(terminal, "call", str(books), "table", "--json"))["value"]) == 3


@pytest.mark.requirement("XL-074")
def test_a_chat_shows_the_card_and_the_model_gets_the_whole_result(terminal: Any, url: str) -> None:
    with provider(lines([("card", {})], "Read it.")) as model:
        at = terminal("chat", url, "--base-url", f"{model.url}/v1", "--model", "scripted", NO_COLOR="1")
        at.wait_for(b"you> ")
        at.type("What shall I read?")
        at.wait_for(b"Read it.")
        at.type("/quit")
        assert at.end() == 0
    assert b"Ulysses\r\nJoyce\r\npages: 730\r\nhttps://books.example/1\r\n" in at.shown
    assert json.loads(model.heard[-1]["messages"][-1]["content"])["result"]["by"] == {"name": "Joyce"}
