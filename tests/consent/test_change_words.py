"""What has changed in a tool since it was approved, in words."""

from __future__ import annotations

from typing import Any

import pytest

from toolwire.consent.change_description import describe_change
from toolwire.consent.display import build_display_rows
from toolwire.consent.question_page import build_question_page
from toolwire.consent.tool_definition import Change
from toolwire.core.check import Question
from toolwire.core.model import Approval, Call, Tool

MORE = "It might do more than before."
HERE, THERE = "POST https://a.example/x", "POST https://b.example/x"
CHANGES = [
    (Change("description", "same", "Pay.", "Pay more."), "Its description was “Pay.”. Now it is “Pay more.”."),
    (Change("destructive", "wider", False, True), "It now declares that it destroys something."),
    (Change("blanket_allowed", "narrower", True, False), "One answer no longer applies to later calls."),
    (Change("target", "wider", HERE, THERE), f"Where a call goes was “{HERE}”. Now it is “{THERE}”. {MORE}"),
    (
        Change("input_schema", "wider", {"properties": {"cc": {}}}, {"properties": {"bcc": {}}}),
        "The argument bcc is new; the argument cc is gone.",
    ),
    (Change("parameters", "wider", {"cc": {}}, {"bcc": {}}), "The argument bcc is new; the argument cc is gone."),
    (Change("scopes", "wider", [], ["mail"]), f'The set of its scopes was empty. Now it is ["mail"]. {MORE}'),
    (Change("hint", "same", "", "\u202etxt"), "Its hint was empty. Now it is “<U+202E>txt”."),
    (
        Change("hint", "same", "a" * 298, "b" * 299),
        f"Its hint was “{'a' * 298}”. Now it is “{'b' * 299}… (301 characters).",
    ),
]


@pytest.mark.requirement("FU-58", "XL-047")
@pytest.mark.parametrize(("change", "words"), CHANGES)
def test_change_is_a_sentence_and_no_diff(change: Change, words: str) -> None:
    assert describe_change(change) == words


def build_question(**tool: Any) -> Question:
    program = tool.pop("program", "")
    call = Call(Tool(name="read_file", **tool), {"path": "notes.txt"})
    site = "https://npx-0123456789abcdef.stdio.invalid"
    return Question(call, site, f"POST {site}/mcp", Approval.PER_CALL, program=program, title="files")


@pytest.mark.requirement("FU-58")
def test_question_about_a_program_names_its_command() -> None:
    question = build_question(program="npx -y @scope/server-files /home/ann")
    [row] = [row for row in build_display_rows(build_question(program="npx \u202ea")) if row.label == "program"]
    assert row.text == "npx <U+202E>a"
    rows = build_display_rows(question)
    texts = " ".join(row.text for row in rows)
    assert "npx -y @scope/server-files /home/ann" in texts
    assert "a call of read_file to the program, on this machine" in texts
    assert ".invalid" not in texts
    page = build_question_page(question, "token")
    assert "be called at npx -y @scope/server-files /home/ann?" in page
    assert ".invalid" not in page


@pytest.mark.requirement("FU-58")
@pytest.mark.parametrize(
    ("tool", "text"),
    [
        ({}, "not declared"),
        ({"destructive": True}, "yes"),
        ({"safe": True}, "no"),
        ({"hints": {"mcp": {"annotations": {"destructiveHint": False}}}}, "no"),
        ({"hints": {"mcp": {"annotations": {}}}}, "not declared"),
    ],
)
def test_question_says_no_only_where_something_says_so(tool: dict[str, Any], text: str) -> None:
    [row] = [row for row in build_display_rows(build_question(**tool)) if row.label == "destroys something"]
    assert row.text == text
