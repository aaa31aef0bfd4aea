"""An author who publishes a write as a read that needs no question is warned."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from toolwire import Tool, Toolkit, asgi
from toolwire.core.model import Approval
from toolwire.core.write_names import suspects_write
from toolwire.testing.loopback import background

KIT = """
    from toolwire import Toolkit
    kit = Toolkit("Notes")

    @kit.tool(approval="auto")
    def add_note(text: str) -> int:
        return 1

    @kit.tool(approval="auto")
    def ring() -> None: ...

    @kit.tool(approval="auto")
    def add(a: int, b: int) -> int:
        return a + b

    @kit.tool(approval="auto", safe=True)
    def post_office(city: str) -> None: ...

    @kit.tool(approval="auto", safe=False)
    def send(text: str) -> str:
        return text
"""


@pytest.mark.requirement("FU-52")
def test_serve_warns_of_reads_that_are_named_or_typed_like_writes(write: Callable[..., Path]) -> None:
    line = [sys.executable, "-m", "toolwire", "serve", str(write("notes.py", KIT)), "--stdio"]
    reply = subprocess.run(line, input="", capture_output=True, text=True, timeout=60, check=True).stderr
    assert "add_note is declared as read-only without a question, but its name looks like a write." in reply
    assert "ring is declared as read-only without a question, but it returns nothing" in reply
    assert reply.count("is declared as read-only") == 2


@pytest.mark.requirement("FU-52")
def test_check_warns_of_a_get_that_is_named_like_a_write(
    write: Callable[..., Path], toolwire: Callable[..., Any]
) -> None:
    def build_operation(name: str, approval: str) -> dict[str, Any]:
        return {"operationId": name, "x-llm": {"approval": approval}, "responses": {"200": {"description": "ok"}}}

    paths = {
        "/a": {"get": build_operation("addNote", "auto")},
        "/b": {"get": build_operation("listNotes", "auto")},
        "/c": {"get": build_operation("deleteNote", "per-call")},
        "/d": {"post": build_operation("sendNote", "auto")},
    }
    document = {"openapi": "3.1.0", "info": {"title": "N", "version": "1"}, "x-llm": {}, "paths": paths}
    outcome = toolwire("check", str(write("openapi.json", json.dumps(document)))).out
    assert "'addNote' is a GET without a question, but its name looks like a write." in outcome
    assert outcome.count("its name looks like a write") == 1


@pytest.mark.requirement("FU-52")
@pytest.mark.parametrize("protocol", ["opentool", "otc"])
def test_check_warns_of_reads_named_like_writes_in_what_we_publish(
    protocol: str, write: Callable[..., Path], toolwire: Callable[..., Any]
) -> None:
    kit = Toolkit("Notes")

    @kit.tool(approval="auto", safe=True)
    def add_note(text: str) -> int:
        return len(text)

    @kit.tool(approval="auto", safe=True)
    def list_notes() -> int:
        return 1

    @kit.tool
    def delete_note(text: str) -> int:
        return len(text)

    with (
        background(asgi(kit)) as url,
        urlopen(f"{url}{'/opentool/load' if protocol == 'opentool' else '/tools'}") as page,
    ):
        document = page.read().decode()
    outcome = toolwire("check", str(write("document.json", document))).out
    assert "'add_note' is declared read-only without a question, but its name looks like a write." in outcome
    assert "list_notes" not in outcome
    assert "delete_note" not in outcome


@pytest.mark.requirement("FU-52")
@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("addNote", True),
        ("SendMail", True),
        ("delete", True),
        ("settings", False),
        ("address", False),
        ("list_posts", False),
    ],
)
def test_the_first_word_of_a_name_decides(name: str, found: bool) -> None:
    tool = Tool(name=name, approval=Approval.AUTO, safe=True)
    assert bool(suspects_write(tool)) is found
