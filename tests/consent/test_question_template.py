"""The site's own question is its words, beside all arguments, and cannot pass for anything else."""

from __future__ import annotations

import pytest

from toolwire.consent.display import build_display_rows
from toolwire.consent.question_page import build_question_page
from toolwire.core.check import Question
from toolwire.core.model import Approval, Call, Json, Tool
from toolwire.framing import xllm
from toolwire.framing.question_template import fill_template

TEMPLATE = "Pay {/amount} to {/to}?"


def ask(template: str, arguments: dict[str, Json], *, secrets: frozenset[str] = frozenset()) -> Question:
    tool = Tool(name="pay", question=template)
    return Question(Call(tool, arguments), "https://bank.example", "POST /pay", Approval.PER_CALL, secrets=secrets)


@pytest.mark.requirement("CC-02")
@pytest.mark.parametrize(
    ("template", "arguments", "text"),
    [
        (TEMPLATE, {"amount": 5, "to": "Ada"}, 'Pay 5 to "Ada"?'),
        (TEMPLATE, {"amount": 5}, "Pay 5 to (not given)?"),
        (TEMPLATE, {"amount": "{/to}", "to": "Ada"}, 'Pay "{/to}" to "Ada"?'),
        ("{/a~1b/0} {x} {} {/", {"a/b": [True]}, "true {x} {} {/"),
        ("a\nwhy: safe\u202e", {}, "a why: safe"),
        ("{/to}", {"to": "x\u202ey\nz"}, '"x\\u202ey\\nz"'),
        ("{/to}", {"to": "x" * 500}, '"' + "x" * 199 + "... (502 characters)"),
    ],
)
def test_a_template_is_filled_with_quoted_values_on_one_line(
    template: str, arguments: dict[str, Json], text: str
) -> None:
    assert fill_template(template, arguments) == text


@pytest.mark.requirement("CC-02")
def test_filled_question_template_is_bounded() -> None:
    assert len(fill_template("{/a}" * 125, {"a": "x" * 10_000})) < 2_100


@pytest.mark.requirement("CC-02")
def test_terminal_and_page_show_the_filled_template_beside_all_arguments() -> None:
    question = ask(TEMPLATE, {"amount": 5, "to": "Ada", "note": "<b>hidden</b>"})
    rows = [(row.kind, row.label, row.text, row.note) for row in build_display_rows(question)]
    assert ("part", "the site asks", 'Pay 5 to "Ada"?', "the words of the site") in rows
    assert [label for kind, label, *_ in rows if kind == "argument"] == ["amount", "to", "note"]
    page = build_question_page(question, "t")
    assert "Pay 5 to &quot;Ada&quot;?" in page
    assert "&lt;b&gt;hidden" in page


@pytest.mark.requirement("CC-02")
def test_filled_template_masks_secrets() -> None:
    question = ask("Use {/key}?", {"key": "k-123456"}, secrets=frozenset({"key"}))
    assert all("k-123456" not in row.text for row in build_display_rows(question))


@pytest.mark.requirement("CC-02")
@pytest.mark.parametrize("bad", [None, 5, ["x"], "x" * 501])
def test_invalid_question_template_is_ignored(bad: Json) -> None:
    policy = xllm.read({"question": bad, "approval": "auto"})
    assert (policy.question, policy.approval) == ("", Approval.AUTO)
