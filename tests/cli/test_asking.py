"""At a terminal a person is asked, is shown everything, and only a yes is a yes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from toolwire.cli.terminal.terminal_approver import build_terminal_approver, list_question
from toolwire.consent.display import build_display_rows
from toolwire.core.check import Question
from toolwire.core.model import Approval, Call, Cost, Tool
from toolwire.opentool import OpenToolServer

ASKED = b"Call it? [y/N] "
TYPED = b"Type shred yes to call it: "


@pytest.mark.parametrize(
    ("answer", "code"), [("y", 0), ("YES", 0), ("", 3), ("n", 3), ("yep", 3), ("y y", 3), ("\x04", 3)]
)
@pytest.mark.requirement("XL-053")
def test_only_yes_approves_a_call(answer: str, code: int, desk: Path, terminal: Callable[..., Any]) -> None:
    at = terminal("call", desk, "note", "text=tea")
    at.wait_for(ASKED)
    at.type(answer)
    assert at.end() == code
    assert (b"note was not called: it was not allowed." in at.shown) == (code == 3)


@pytest.mark.parametrize(("answer", "code"), [("shred yes", 0), ("shred", 3), ("y", 3), ("", 3)])
@pytest.mark.requirement("D-19")
def test_destructive_call_is_approved_only_by_typing_its_name(
    answer: str, code: int, desk: Path, terminal: Callable[..., Any]
) -> None:
    at = terminal("call", desk, "shred", "pages=1")
    at.wait_for(TYPED)
    at.type(answer)
    assert at.end() == code
    assert (b"shredded" in at.shown) == (code == 0)


def test_remote_call_is_asked_about_before_sending(
    site: str, terminal: Callable[..., Any], toolwire: Callable[..., Any]
) -> None:
    at = terminal("call", site, "note", "text=hello", "--protocol", "otc", NO_COLOR="1")
    at.wait_for(ASKED)
    assert f"Allow this call? {site}\r\n".encode() in at.shown
    assert f"POST {site}/".encode() in at.shown
    assert b'text = "hello"' in at.shown
    assert toolwire("call", site, "noted").out == "[]\n"
    at.type("y")
    assert at.end() == 0
    assert "hello" in toolwire("call", site, "noted").out


@pytest.mark.requirement("D-03")
def test_call_texts_cannot_control_the_terminal(desk: Path, terminal: Callable[..., Any]) -> None:
    at = terminal("call", desk, "note", "text=\x1b[2J\x1b]8;;https://evil.example\x07\u202etea")
    at.wait_for(ASKED)
    assert b"\\u001b[2J\\u001b]8;;https://evil.example\\u0007\\u202etea" in at.shown
    assert b"\x1b[2J" not in at.shown
    assert b"\x1b]8" not in at.shown
    assert "\u202e".encode() not in at.shown
    at.type("n")
    assert at.end() == 3


def test_yes_option_explains_why_it_does_not_approve_and_asks(desk: Path, terminal: Callable[..., Any]) -> None:
    at = terminal("call", desk, "shred", "pages=1", "--yes", NO_COLOR="1")
    at.wait_for(TYPED)
    assert b"--yes does not cover this call: it destroys something." in at.shown
    at.type("n")
    assert at.end() == 3


def test_text_typed_before_the_question_is_no_answer(desk: Path, terminal: Callable[..., Any]) -> None:
    at = terminal("call", desk, "shred", "pages=1")
    at.type("shred yes")
    at.wait_for(TYPED)
    at.type("")
    assert at.end() == 3
    assert b"shredded" not in at.shown


def test_call_that_needs_no_consent_is_not_asked_about(desk: Path, terminal: Callable[..., Any]) -> None:
    at = terminal("call", desk, "add", "a=1")
    assert at.end() == 0
    assert at.shown == b"2\r\n"


@pytest.mark.requirement("XL-049", "D-21")
def test_question_shows_every_effect_of_a_call_in_full() -> None:
    tool = Tool(
        name="send",
        description="Send [bold]mail[/bold]\x1b[2J.\nAnd hide \u202ethis.",
        destructive=True,
        cost=Cost.PAID,
    )
    call = Call(tool, {"to\u202e": "moc.elpmaxe@", "body": "x" * 100_000 + "\x1bEND", "tags": ["a", None]})
    question = Question(
        call, "https://example.com", "POST https://example.com/send", Approval.PER_CALL, reasons=("Why.",)
    )
    assert list(list_question(build_display_rows(question))) == [
        "Send",
        "Allow this call? https://example.com",
        "  tool: send  (Send [bold]mail[/bold]<U+001B>[2J.)",
        "  sends: POST https://example.com/send",
        '    to<U+202E> = "moc.elpmaxe@"',
        f'    body = "{"x" * 100_000}\\u001bEND"  (100,004 characters, 1 hidden)',
        '    tags = ["a", null]',
        "  destroys something: yes",
        "  costs: paid",
        "  calls left: not limited",
        "  why: Why.",
    ]


def test_yes_option_does_not_approve_if_the_user_requires_each_approval(capfd: pytest.CaptureFixture[str]) -> None:
    tool = Tool(name="go", approval=Approval.AUTO, blanket_allowed=True)
    question = Question(Call(tool, {}), "here", "go()", Approval.PER_CALL, always_allowed=False)
    assert build_terminal_approver("yes")(question).allowed is False
    assert "you asked for consent to each call" in capfd.readouterr().err


def test_question_states_that_a_call_has_no_arguments() -> None:
    question = Question(Call(Tool(name="go"), {}), "here", "go() in this process", Approval.PER_CALL)
    lines = list(list_question(build_display_rows(question)))
    assert "  arguments: none" in lines
    assert "  destroys something: not declared" in lines  # FU-58
    assert "  costs: not declared" in lines


@pytest.mark.requirement("C-5", "OTRPC-021")
def test_function_of_a_server_without_a_document_can_be_called_by_name(terminal: Callable[..., Any]) -> None:
    class Adder:
        def call(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
            return {"called": name, **arguments}

    with OpenToolServer(Adder(), port=0) as server:
        at = terminal("call", server.url, "add.all", "a=1", "b:=[2]", "--json")
        at.wait_for(ASKED.replace(b"note", b"add.all") if b"note" in ASKED else ASKED)
        at.type("y")
        assert at.end() == 0
    assert b'"called": "add.all"' in at.shown
