"""YAML as JSON: what JSON could say is read, and nothing else."""

import sys

import pytest

from toolwire.core.model import Problem
from toolwire.framing import yamltext


@pytest.mark.requirement("XL-013", "CV-29", "CV-33")
def test_names_are_texts_and_words_and_dates_stay_as_written() -> None:
    text = b"\xef\xbb\xbf200: a\ntrue: b\non: yes\nday: 2020-01-01\nversion: 3.0\nbig: 123456789012345678901234567890\n"
    assert yamltext.read(text) == {
        "200": "a", "true": "b", "on": "yes", "day": "2020-01-01", "version": 3.0,
        "big": 123456789012345678901234567890,
    }  # fmt: skip


@pytest.mark.requirement("XL-013", "D-16")
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"a: &x [1]\nb: *x", "alias"),
        (b"a: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b]\nd: [*c, *c]", "alias"),
        (b"a: 1\na: 2", "duplicate"),
        (b'200: 1\n"200": 2', "duplicate"),
        (b"a: .inf", "inf is no number"),
        (b"a: .nan", "nan is no number"),
        (b"!!set {a, b}", "a set is nothing"),
        (b"[1, 2]: 3", "name of a member"),
        (b"{{a: {b: 1}}: 2}", "name of a member"),
        (b"? [{a: 1}]\n: 2", "name of a member"),
        (b"a: " + b"9" * 5_000, "4,300 digits"),
        (b"\n".join(b" " * depth + b"a:" for depth in range(250)), "deeper"),
        (b"[" * 2_000, "recursion"),
        (b"a: \xff", "UTF-8"),
        (b"a:\n\t- b", "tabs"),
    ],
)
def test_what_json_could_not_say_is_refused_with_its_reason(text: bytes, reason: str) -> None:
    problem = yamltext.read(text)
    assert isinstance(problem, Problem)
    assert reason in problem.message


def test_a_list_is_read_with_all_that_is_in_it() -> None:
    assert yamltext.read(b"- 1\n- [a, {null: 2.5, 7: yes}]\n- ~\n") == [1, ["a", {"null": 2.5, "7": "yes"}], None]


def test_without_the_extra_the_sentence_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml_rs", None)
    problem = yamltext.read(b"a: 1")
    assert isinstance(problem, Problem)
    assert "pip install 'toolwire[yaml]'" in problem.message


WRITTEN = b"""\
# a document
a: one
b:
  - x: 1
    y: [2, {z: 3}]
  - |
    text
c/d~e: {f: 4}
200: {}
1.10: five
"""


@pytest.mark.requirement("XL-088")
@pytest.mark.parametrize(
    ("pointer", "place"),
    [
        ("", (2, 1)),
        ("/a", (2, 4)),
        ("/b", (3, 1)),
        ("/b/0", (4, 5)),
        ("/b/0/x", (4, 8)),
        ("/b/0/y/1/z", (5, 16)),
        ("/b/1", (6, 5)),
        ("/c~1d~0e/f", (8, 12)),
        ("/200", (9, 6)),
        ("/1.1", None),
        ("/b/2", None),
        ("/a/b", None),
    ],
)
def test_what_stands_in_a_yaml_text_has_a_line_and_a_column(pointer: str, place: tuple[int, int] | None) -> None:
    found = yamltext.locate(WRITTEN, [pointer, "/a"])
    assert found.keys() == {"/a", *([pointer] if place else [])}
    assert place is None or found[pointer].value == place


def test_nothing_is_located_in_what_pyyaml_does_not_read_or_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    assert yamltext.read(b"a: '\x01'") == {"a": "\x01"}
    assert yamltext.locate(b"a: '\x01'", ["/a"]) == {}
    monkeypatch.setitem(sys.modules, "yaml", None)
    assert yamltext.locate(WRITTEN, ["/a"]) == {}
