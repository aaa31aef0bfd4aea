"""Text from elsewhere cannot do anything to a screen, and nothing of it is lost."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolwire.cli.terminal.screen import escape_lines, escaped, json_text
from toolwire.cli.terminal.table import print_table

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda each: st.lists(each) | st.dictionaries(st.text(), each),
)
TAGS = "".join(chr(0xE0000 + ord(letter)) for letter in "obey")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred", "<U+001B>[31mred"),
        ("a\u202eb", "a<U+202E>b"),
        ("\u2066x\u2069", "<U+2066>x<U+2069>"),
        ("\u200e\u200f\u061c", "<U+200E><U+200F><U+061C>"),
        ("zero\u200bwidth\ufeff", "zero<U+200B>width<U+FEFF>"),
        ("\x00\x07\x08\x7f\x9b", "<U+0000><U+0007><U+0008><U+007F><U+009B>"),
        ("\u3164\u115f\u2800", "<U+3164><U+115F><U+2800>"),
        ("v\U000e0100", "v<U+E0100>"),
        ("half \ud800", "half <U+D800>"),
        ("back\rfront", "back<U+000D>front"),
        ("one\r\ntwo\nthree\tfour", "one two three four"),
        ("\u2028\u2029\x85\x0b\x1c", "<U+2028><U+2029><U+0085><U+000B><U+001C>"),
        ("Crème brûlée 日本 🍰 10\u00a0000\u3000", "Crème brûlée 日本 🍰 10\u00a0000\u3000"),
        ("[red]not markup[/red] :smile:", "[red]not markup[/red] :smile:"),
    ],
)
def test_control_and_invisible_characters_are_escaped_by_name(text: str, shown: str) -> None:
    assert escaped(text) == shown


def test_text_in_tag_characters_is_made_visible() -> None:
    assert escaped(f"Hello{TAGS}") == "Hello<U+E006F><U+E0062><U+E0065><U+E0079>"


def test_line_breaks_and_tabs_are_kept_in_multiline_text() -> None:
    assert escape_lines("a\tb\r\nc\x1b\n") == "a\tb\nc<U+001B>\n"


@given(st.text())
def test_escaped_text_contains_only_printable_characters_and_spaces(text: str) -> None:
    assert all(character.isprintable() or character.isspace() for character in escaped(text))
    assert not set(escaped(text)) & set("\n\r\x1b\u202e\u200b")


@given(JSON)
def test_json_for_the_screen_parses_to_the_same_data(data: object) -> None:
    text = json_text(data, indent=2)
    assert json.loads(text) == data
    assert escape_lines(text) == text


def test_invisible_characters_in_json_are_written_as_json_escapes() -> None:
    assert json_text("é\u202e\U000e0041\x7f") == '"é\\u202e\\udb40\\udc41\\u007f"'


def test_a_table_in_a_pipe_is_aligned_text() -> None:
    stream = io.StringIO()
    print_table(("name", "what"), [("a", "[bold]b"), ("longer", "")], stream)
    assert stream.getvalue() == "NAME    WHAT\na       [bold]b\nlonger\n"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


WORD = st.text("abcdefgh-日本", min_size=1, max_size=14)


@pytest.mark.requirement("FD-03")
@given(
    st.integers(1, 5).flatmap(
        lambda count: st.lists(
            st.lists(st.lists(WORD, max_size=8).map(" ".join), min_size=count, max_size=count), min_size=1, max_size=4
        )
    ),
    st.sampled_from([40, 50, 80, 120]),
)
def test_no_table_breaks_a_word_or_leaves_one_out(rows: list[list[str]], width: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", str(width))
        patch.setenv("TERM", "dumb")
        stream = Terminal()
        print_table([f"c{number}" for number in range(len(rows[0]))], rows, stream)
    printed = stream.getvalue().split()
    assert [word for row in rows for cell in row for word in cell.split() if word not in printed] == []


def test_a_terminal_without_rich_has_the_plain_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rich.console", None)
    stream = Terminal()
    print_table(("name",), [("a",)], stream)
    assert stream.getvalue() == "NAME\na\n"


def test_tool_texts_cannot_send_escape_sequences_to_the_terminal(
    write: Callable[..., object], terminal: Callable[..., object]
) -> None:
    file = write(
        "hostile.py",
        """
        from toolwire import Toolkit
        kit = Toolkit("\\x1b[2JKit")

        @kit.tool(approval="auto", safe=True, description="\\x1b]8;;http://evil\\x07link [red]x[/red] \\u202eflip")
        def spoof() -> str:
            return "\\x1b[31mred\\u202e\\nsecond line"
        """,
    )
    at = terminal("tools", file, NO_COLOR="1")
    assert at.end() == 0
    assert b"\x1b" not in at.shown
    assert b"\x07" not in at.shown
    assert b"[red]x[/red]" in at.shown
    at = terminal("call", file, "spoof")
    assert at.end() == 0
    assert at.shown.split() == b"<U+001B>[31mred<U+202E> second line".split()


def test_terminal_output_is_colored_unless_disabled(desk: Path, terminal: Callable[..., Any]) -> None:
    coloured, plain = terminal("tools", desk), terminal("tools", desk, NO_COLOR="1")
    dumb = terminal("tools", desk, TERM="dumb")
    assert (coloured.end(), plain.end(), dumb.end()) == (0, 0, 0)
    assert b"\x1b[1m" in coloured.shown
    assert b"\x1b" not in plain.shown
    assert b"\x1b" not in dumb.shown
    assert b"Add two numbers." in plain.shown
