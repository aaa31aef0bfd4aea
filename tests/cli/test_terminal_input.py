"""At a terminal the user answers what a server asks while a call runs; elsewhere nobody is asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.server_questions import Server, form, page
from toolwire.testing.loopback import background

SCHEMA = {
    "type": "object",
    "properties": {
        "size": {"type": "integer", "minimum": 1, "maximum": 9, "title": "Size\x1b[2J"},
        "color": {"type": "string", "enum": ["red", "green"], "default": "red"},
    },
    "required": ["size"],
}


@pytest.fixture
def asking_server() -> Iterator[tuple[str, Server]]:
    server = Server({"a": form(SCHEMA, "How large?\nSay it.\x1b]8;;x")})
    with background(server) as url:
        yield f"{url}/mcp", server


def begin(terminal: Callable[..., Any], url: str) -> Any:
    at = terminal("call", url, "go", NO_COLOR="1")
    at.wait_for(b"Call it? [y/N] ")
    at.type("y")
    return at


@pytest.mark.requirement("MC-09")
def test_input_form_is_filled_validated_and_shown_before_sending(
    asking_server: tuple[str, Server], terminal: Callable[..., Any]
) -> None:
    url, server = asking_server
    at = begin(terminal, url)
    at.wait_for(b"Answer it? [y/N] ")
    assert b"asks for input while go runs." in at.shown
    assert b"The site's words:\r\n  | How large?\r\n  | Say it." in at.shown
    assert b"Never enter a password" in at.shown
    assert b"\x1b[2J" not in at.shown
    assert b"\x1b]8" not in at.shown
    at.type("y")
    at.wait_for(b": ")
    at.type("12")
    at.wait_for(b"must be at most 9.")
    at.type("3")
    at.wait_for(b"color [red]: ")
    at.type("2")
    at.wait_for(b"[y/N, e to change it] ")
    assert b"color = green" in at.shown
    at.type("y")
    assert at.end() == 0
    answer = {"action": "accept", "content": {"size": 3, "color": "green"}}
    assert server.calls[-1]["inputResponses"] == {"a": answer}


@pytest.mark.requirement("MC-09")
@pytest.mark.parametrize(("typed", "action"), [("", "decline"), ("n", "decline"), ("\x04", "cancel")])
def test_user_can_decline_or_cancel_an_input_form(
    typed: str, action: str, asking_server: tuple[str, Server], terminal: Callable[..., Any]
) -> None:
    url, server = asking_server
    at = begin(terminal, url)
    at.wait_for(b"Answer it? [y/N] ")
    at.type(typed)
    assert at.end() == 0
    assert server.calls[-1]["inputResponses"] == {"a": {"action": action}}


@pytest.mark.requirement("MC-09")
def test_a_page_is_shown_in_full_and_opens_only_after_a_yes(terminal: Callable[..., Any], tmp_path: Path) -> None:
    # D-29: one argument of one program, and no shell
    opened = tmp_path / "opened"
    browser = tmp_path / "xdg-open"
    browser.write_text(f'#!/bin/sh\necho "$1" >> {opened}\n')
    browser.chmod(0o755)
    for typed, action in (("n", "decline"), ("y", "accept")):
        server = Server({"a": page("https://pay.example/7?sum=12")})
        with background(server) as url:
            at = terminal("call", f"{url}/mcp", "go", NO_COLOR="1", DISPLAY=":9", PATH=f"{tmp_path}:/usr/bin:/bin")
            at.wait_for(b"Call it? [y/N] ")
            at.type("y")
            at.wait_for(b"Open it in your browser? [y/N] ")
            assert b"Page: https://pay.example/7?sum=12\r\n  The page is at pay.example." in at.shown
            assert not opened.exists()
            at.type(typed)
            if typed == "y":
                at.wait_for(b"Press Enter when you are done there")
                at.type("")
            assert at.end() == 0
        assert server.calls[-1]["inputResponses"] == {"a": {"action": action}}
    assert opened.read_text() == "https://pay.example/7?sum=12\n"


@pytest.mark.requirement("MC-09")
def test_missing_terminal_declares_no_elicitation(
    asking_server: tuple[str, Server], toolwire: Callable[..., Any]
) -> None:
    url, server = asking_server
    outcome = toolwire("call", url, "other", "--agree")
    assert "no user can be asked" in outcome.err
    (call,) = server.calls
    assert call["_meta"]["io.modelcontextprotocol/clientCapabilities"] == {}


@pytest.mark.requirement("MC-09")
def test_local_tool_can_ask_at_the_terminal(tmp_path: Path, terminal: Callable[..., Any]) -> None:
    file = tmp_path / "tailor.py"
    file.write_text(
        "from dataclasses import dataclass\n"
        "from toolwire import Context, Toolkit\n"
        "kit = Toolkit('Tailor')\n"
        "@dataclass\n"
        "class Size:\n"
        "    size: int\n"
        "@kit.tool(approval='auto')\n"
        "def sew(context: Context) -> str:\n"
        "    size = context.ask_sync(Size, 'How large?')\n"
        "    return f'size {size.size}' if size else size.message\n"
    )
    at = terminal("call", file, "sew", NO_COLOR="1")
    at.wait_for(b"Answer it? [y/N] ")
    at.type("y")
    at.wait_for(b": ")
    at.type("7")
    at.wait_for(b"[y/N, e to change it] ")
    at.type("y")
    assert at.end() == 0
    assert at.shown.endswith(b"size 7\r\n")
    declined = terminal("call", file, "sew", NO_COLOR="1")
    declined.wait_for(b"Answer it? [y/N] ")
    declined.type("n")
    assert declined.end() == 0
    assert b"was not answered: the user declined." in declined.shown
