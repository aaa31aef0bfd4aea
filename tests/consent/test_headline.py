"""The first line of a question: what a call does, in the words of the task."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from toolwire.consent.headline import build_headline
from toolwire.core.model import Json, Tool

MAIL = {"properties": {"addressee": {"type": "string", "format": "email"}}}


@pytest.mark.requirement("QF-04")
@pytest.mark.parametrize(
    ("name", "arguments", "more", "line"),
    [
        ("send_money", {"to": "Ada", "amount": 40, "currency": "EUR"}, {}, 'Send money: 40 EUR to "Ada"'),
        ("sendMoney", {"amount": "40.00", "recipient": "Ada"}, {}, 'Send money: "40.00" to "Ada"'),
        ("delete_file", {"path": "/home/ann/a.txt", "force": True}, {}, 'Delete file: path "/home/ann/a.txt"'),
        ("move", {"source_path": "a", "destination": "b"}, {}, 'Move: source_path "a", destination "b"'),
        ("notify", {"addressee": "a@b.example", "text": "x" * 99}, {"input_schema": MAIL}, 'Notify: to "a@b.example"'),
        ("book", {"room": 7, "notes": "x" * 99}, {"question": "Book {/room}?"}, "Book: room 7"),
        ("order", {"item": "tea", "count": 3}, {}, 'Order: item "tea", count 3'),
        ("order", {"lines": [{"item": "tea"}]}, {}, "Order"),
        ("look", {}, {}, "Look"),
        ("send", {"recipients": "a@b.example", "text": "x" * 99}, {}, 'Send: to "a@b.example"'),
        ("read", {"uri": "file:///a.txt", "text": "x" * 99}, {}, 'Read: uri "file:///a.txt"'),
        ("HTTPGet2", {"url": "https://a.example"}, {}, 'HTTP get 2: url "https://a.example"'),
    ],
)
def test_line_says_what_happens_with_the_values_that_matter(
    name: str, arguments: Mapping[str, Json], more: dict[str, Any], line: str
) -> None:
    assert build_headline(Tool(name=name, **more), arguments).text == line


@pytest.mark.requirement("QF-04", "D-21")
@pytest.mark.parametrize(
    ("name", "arguments", "line"),
    [
        # A value cannot pass for our words, and none is hidden by its length.
        ("pay", {"amount": 1, "to": 'Ada", 0.01 EUR only'}, 'Pay: 1 to "Ada\\", 0.01 EUR only"'),
        ("pay", {"amount": 1, "to": "A" * 500}, "Pay: 1 to (long, see below)"),
        ("pay", {"amount": 9_000, "currency": "EUR (for nothing)", "to": "Ada"}, 'Pay: 9000 to "Ada"'),
        ("pay\u202e", {"amount": 1}, "pay<U+202E>: 1"),
        ("pay", {"t\u043e": "Eve", "to": "Ada", "amount": 1}, 'Pay: 1 to "Ada"'),
        ("p\u0430y", {"amount": 1}, "p\u0430y: 1"),
    ],
)
def test_line_does_not_deceive(name: str, arguments: Mapping[str, Json], line: str) -> None:
    assert build_headline(Tool(name=name), arguments).text == line


@pytest.mark.requirement("QF-04")
def test_secrets_do_not_stand_in_the_line() -> None:
    assert build_headline(Tool(name="sign_in"), {"account": "ann", "pin": "12345"}, {"pin"}).text == 'Sign in: to "ann"'
