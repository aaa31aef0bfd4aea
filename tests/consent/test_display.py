"""What a person is shown: everything, nothing that deceives, the same in a terminal and on a page."""

from __future__ import annotations

import re
from html import unescape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolwire.cli.terminal.terminal_approver import list_question
from toolwire.consent.display import build_display_rows, find_secrets, needs_typed_confirmation
from toolwire.consent.origin_display import display_origin, find_lookalike_warning
from toolwire.consent.question_page import (
    build_final_page,
    build_question_heading,
    build_question_page,
    build_waiting_parts,
)
from toolwire.core.check import Question
from toolwire.core.http import Request
from toolwire.core.model import Approval, Authorization, Call, Context, Cost, Json, Requirements, Secret, Tool
from toolwire.framing.visible_text import make_visible

LONG = "x" * 99_990 + "\u202eEND\x1b[31m!"
TOOL = Tool(
    name="send",
    description="Send mail\x1b]8;;https://evil.example\x07.\nMore.",
    destructive=True,
    cost=Cost.PAID,
    approval=Approval.PER_CALL,
    requirements=Requirements(authorization=(Authorization(id="mail", scopes=("mail:send",)),)),
    input_schema={"properties": {"pin": {"type": "string", "format": "password"}}},
)
ARGUMENTS = {"to": "moc.elpmaxe@\u202e", "page": 3, "X-Trace": "abc", "body": LONG, "pin": "12345", "tags": [None]}
QUESTION = Question(
    Call(TOOL, ARGUMENTS),
    "https://b\u0430nk.example:8443",
    "POST https://b\u0430nk.example:8443/users/moc/send?page=3",
    Approval.PER_CALL,
    reasons=("The server declares that this tool is destructive.",),
    request=Request(
        "POST",
        "https://xn--bnk-5cd.example:8443/send?page=3",
        ((b"x-trace", b"abc"),),
        b'{"to": "a", "body": "b", "pin": "12345"}',
    ),
    title="Your \u202eBank",
    credential="bearer key (mail:send)",
    changes=('hint (same): "a" -> "b"',),
    remaining=29,
    secrets=frozenset({"pin"}),
    places={
        "to": "in the body",
        "page": "in the query",
        "X-Trace": "in the header X-Trace",
        "body": "in the body",
        "pin": "in the form, as PIN",
        "tags": "not sent: it is empty",
    },
)
GOLDEN = [
    ("what happens", 'Send: to "moc.elpmaxe@\\u202e"', ""),
    ("site", "https://xn--bnk-6cd.example:8443", "calls itself 'Your <U+202E>Bank'"),
    ("address", "Careful: this address reads 'b\u0430nk.example', and mixes Cyrillic and Latin letters.", ""),
    ("tool", "send", "Send mail<U+001B>]8;;https://evil.example<U+0007>."),
    ("sends", "POST https://b\u0430nk.example:8443/users/moc/send?page=3", ""),
    ("body", "40 bytes", ""),
    ("to", '"moc.elpmaxe@\\u202e"', "in the body; 1 hidden"),
    ("page", "3", "in the query"),
    ("X-Trace", '"abc"', "in the header X-Trace"),
    ("body", f'"{"x" * 99_990}\\u202eEND\\u001b[31m!"', "in the body; 100,000 characters, 2 hidden"),
    ("pin", "********", "in the form, as PIN; secret, 5 characters"),
    ("tags", "[null]", "not sent: it is empty"),
    ("destroys something", "yes", ""),
    ("costs", "paid", ""),
    ("signed with", "bearer key (mail:send)", ""),
    ("scopes", "mail:send", ""),
    ("calls left", "29", ""),
    ("changed since it was approved", 'hint (same): "a" -> "b"', ""),
    ("why", "The server declares that this tool is destructive.", ""),
]


@pytest.mark.requirement("XL-049", "D-03", "D-21")
def test_question_displays_all_facts_and_escapes_deceptive_characters() -> None:
    rows = [(row.label, row.text, row.note) for row in build_display_rows(QUESTION)]
    assert rows == GOLDEN


@pytest.mark.requirement("XL-049", "D-03", "D-21")
def test_page_and_terminal_display_the_same_question() -> None:
    page = build_question_page(QUESTION, "t")
    terminal = "\n".join(list_question(build_display_rows(QUESTION)))
    texts, plain = (unescape(re.sub(r"<[^>]*>", gap, page)) for gap in ("\n", ""))
    for row in build_display_rows(QUESTION):
        assert row.text in terminal
        assert row.text in texts or row.text in plain
        assert row.note in texts
    for reply in (page, terminal):
        assert "\x1b" not in reply
        assert "\u202e" not in reply
        assert "12345" not in reply


def test_page_of_a_question_says_who_asks_and_names_what_an_earlier_version_kept() -> None:
    page = build_question_page(QUESTION, "t")
    assert "<title>May send be called?" in page
    assert "asks you before a call" in page
    assert '<h1 class="action">Send: ' in page
    assert "May <code>send</code> be called at https://xn--bnk-6cd.example:8443?" in page
    assert "may change something" not in build_waiting_parts(build_display_rows(QUESTION))
    assert "toolwire asks on this machine. Nothing is sent before you answer." in page
    assert build_question_heading("", "send", "https://a.example") == (
        "<h2>May <code>send</code> be called at https://a.example?</h2>"
    )
    row = next(row for row in build_display_rows(QUESTION) if row.label == "pin")
    assert row.text == "********"
    assert row.text in build_waiting_parts([row])  # no JSON, so nothing can be told from its text


@pytest.mark.requirement("D-21")
def test_a_long_argument_is_folded_flagged_and_whole() -> None:
    page = build_question_page(QUESTION, "t")
    folded = re.search(
        r"<dt>body <small>(.*?)</small></dt>"
        r'<dd data-hidden="yes"><details class="fold"><summary>(.*?)</summary>(.*?)</details>',
        page,
    )
    assert folded is not None
    assert "100,000 characters, 2 hidden" in folded[1]
    assert folded[2] == "100,000 characters: show all of it"
    assert "END" in folded[3]


@pytest.mark.requirement("D-19")
def test_question_page_puts_deny_first_and_requires_typing_for_destruction() -> None:
    page = build_question_page(QUESTION, "t")
    buttons = re.findall(r'<button[^>]* name="answer" value="(\w+)"', page)
    assert buttons == ["deny", "allow"]
    assert "autofocus" not in page
    assert "<script" not in page
    assert 'name="confirm"' in page
    assert 'name="always"' not in page


def puny(label: str) -> str:
    return "xn--" + label.encode("punycode").decode()


TOO_LONG = "b\u0430nk" * 20
HALF_PUNY = "xn--\u0430\u0431"


@pytest.mark.requirement("D-03")
@pytest.mark.parametrize(
    ("url", "shown_as", "warned"),
    [
        ("https://example.com/a?b", "https://example.com", ""),
        ("https://ex\u00e4mple.com", "https://xn--exmple-cua.com", "in its own script"),
        ("https://p\u0430ypal.com", "https://xn--pypal-4ve.com", "mixes Cyrillic and Latin"),
        ("https://xn--pypal-4ve.com", "https://xn--pypal-4ve.com", "mixes Cyrillic and Latin"),
        ("https://xn--99999999.example", "https://xn--99999999.example", ""),
        ("https://\u65e5\u672c\u3054.example", "https://xn--28j0843bktm.example", "in its own script"),
        ("https://user:pw@[::1]:8000/", "https://[::1]:8000", ""),
        ("https://a.example:99999/", "https://a.example:99999/", ""),
        (f"https://{TOO_LONG}.example", f"https://{puny(TOO_LONG)}.example", "mixes Cyrillic and Latin"),
        (f"https://{HALF_PUNY}.example", f"https://{puny(HALF_PUNY)}.example", "mixes Cyrillic and Latin"),
    ],
)
def test_origin_with_lookalike_letters_is_displayed_in_ascii(url: str, shown_as: str, warned: str) -> None:
    if "\u3054" not in url:
        assert display_origin(url) == shown_as
    assert display_origin(url).isascii()
    assert (warned in find_lookalike_warning(url)) if warned else find_lookalike_warning(url) == ""


@pytest.mark.requirement("D-03")
@pytest.mark.parametrize(
    ("arguments", "note"),
    [
        ({"to": "\u0430da@bank.example"}, "careful: one word mixes Cyrillic and Latin letters"),
        ({"more": [{"t\u043e": "Eve"}]}, "careful: one word mixes Cyrillic and Latin letters"),
        ({"t\u03bf": "Eve"}, "careful: one word mixes Greek and Latin letters"),
        ({"to": "\uff21da"}, "careful: one word mixes Fullwidth and Latin letters"),
        ({"iban": "DE1\u0660\u0660"}, "careful: one number mixes digits of two scripts"),
        ({"to": "e" + "\u0301" * 20}, "12 hidden"),
        ({"to": "x\U0001d159"}, "1 hidden"),
        ({"size": "5\u03bcm 10k\u03a9 \u0394x 2\u03c0r \u03bcm\u00b2 10k\u2126"}, ""),
        ({"to": "\u03bcs\u03bf"}, "careful: one word mixes Greek and Latin letters"),
        ({"to": "\u03bc\u0430x"}, "careful: one word mixes Cyrillic and Greek and Latin letters"),
        ({"to": "\u03c0\u0430"}, "careful: one word mixes Cyrillic and Greek letters"),
        ({"to": ["\n\u041f\u0440\u0438\u0432\u0435\u0442, Ada\t\u0430"]}, ""),
        (
            {"to": "T\u30b7\u30e3\u30c4 AI\u6280\u8853 \u0665\u0660 \u5e745\u6708 \u00b5m e\u0301\u0302\u0303"},
            "",
        ),
    ],
)
def test_argument_that_looks_like_another_is_marked(arguments: dict[str, Json], note: str) -> None:
    question = Question(Call(Tool(name="pay"), arguments), "https://a.example", "POST /pay", Approval.PER_CALL)
    (row,) = [one for one in build_display_rows(question) if one.kind == "argument"]
    assert row.note == note
    assert ('data-hidden="yes"' in build_question_page(question, "t")) is bool(note)
    assert note in "\n".join(list_question(build_display_rows(question)))


@pytest.mark.requirement("D-03")
def test_long_argument_says_how_far_its_letters_were_checked() -> None:
    words = "\u0434\u0430 " * 10_000
    unchecked = "letters compared in the first 20,000 characters only"
    for text, note in (
        (words, f"30,000 characters, {unchecked}"),
        ("\u0430da " + words, "30,004 characters, careful: one word mixes Cyrillic and Latin letters"),
        ("\u0434 " + "x " * 30_000, "60,002 characters"),
        ("x" * 19_990 + " d\u0430" + "a" * 90, "20,083 characters, careful: one word mixes Cyrillic and Latin letters"),
    ):
        call = Call(Tool(name="pay"), {"to": text})
        question = Question(call, "https://a.example", "POST /pay", Approval.PER_CALL)
        (row,) = [one for one in build_display_rows(question) if one.kind == "argument"]
        assert row.note == note


@pytest.mark.requirement("D-03")
@given(st.text(), st.text())
def test_site_text_is_escaped_on_every_screen(name: str, text: str) -> None:
    tool = Tool(name=name, description=text, input_schema={"properties": {}})
    question = Question(Call(tool, {text: [name]}), text, name, Approval.PER_CALL, title=text, reasons=(name,))
    for row in build_display_rows(question):
        for part in (row.label, row.text, row.note):
            assert all(character.isprintable() or character.isspace() for character in part)
            assert not re.search("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", part)
    assert "\x1b" not in build_question_page(question, "t")


def test_visible_text_is_displayed_unchanged() -> None:
    assert make_visible("Grüße, 日本") == "Grüße, 日本"


@pytest.mark.requirement("XL-049")
def test_displayed_argument_states_its_destination_if_known() -> None:
    call = Call(TOOL, {"to": "a", "cc": "b"})
    places = {"to": "in the header X-\u202eTo"}
    question = Question(call, "https://a.example", "POST /", Approval.PER_CALL, places=places)
    notes = {row.label: row.note for row in build_display_rows(question) if row.kind == "argument"}
    assert notes == {"to": "in the header X-<U+202E>To", "cc": ""}


@pytest.mark.requirement("XL-049")
def test_question_names_each_credential_of_a_call_without_its_value() -> None:
    needs = Requirements(authorization=(Authorization(id="mail"),), secrets=("PIN", "OTHER"), user_id=True)
    brought = Context(
        tokens={"mail": Secret("t0ken"), "x": Secret("t1")}, secrets={"PIN": Secret("1234")}, user_id="u1"
    )
    call = Call(Tool(name="x", requirements=needs), {}, "", brought)
    rows = build_display_rows(Question(call, "https://a.example", "POST /", Approval.PER_CALL, credential="bearer key"))
    reply = {row.label: row.text for row in rows}
    assert reply["sends along"] == "your token for mail, your secret PIN, your user id"
    assert reply["signed with"] == "bearer key"
    assert reply["calls left"] == "not limited"
    assert not [one for one in ("t0ken", "1234") if one in repr(rows)]


def test_question_without_arguments_displays_none() -> None:
    question = Question(Call(Tool(name="x"), {}), "https://a.example", "POST /", Approval.PER_CALL)
    assert ("arguments", "none") in [(row.label, row.text) for row in build_display_rows(question)]
    assert not needs_typed_confirmation(question)
    assert needs_typed_confirmation(QUESTION)
    assert find_secrets(QUESTION) == {"pin"}


def test_final_page_escapes_its_sentence() -> None:
    page = build_final_page("Not <b>allowed</b>.")
    assert "Not &lt;b&gt;allowed&lt;/b&gt;." in page
    assert "You can close this page." in page
