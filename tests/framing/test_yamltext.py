"""YAML as JSON: what JSON could say is read, and nothing else."""

import sys

import pytest

from toolwire.core.model import Problem
from toolwire.framing import jsontext, yamltext


@pytest.mark.requirement("XL-013", "CV-29", "CV-33")
def test_yaml_keys_are_strings_and_plain_words_and_dates_stay_text() -> None:
    text = b"\xef\xbb\xbf200: a\ntrue: b\non: yes\nday: 2020-01-01\nversion: 3.0\nbig: 123456789012345678901234567890\n"
    assert yamltext.read(text) == {
        "200": "a", "true": "b", "on": "yes", "day": "2020-01-01", "version": 3.0,
        "big": 123456789012345678901234567890,
    }  # fmt: skip


def build_doubling_yaml(level: str) -> bytes:
    """Return a text in which each anchor repeats the one before it nine times; ``level`` says how."""
    levels = (f"a{n}: &a{n} " + level.format(", ".join([f"*a{n - 1}"] * 9)) for n in range(1, 12))
    return "\n".join(["a0: &a0 {x: 1}", *levels]).encode()


BOMB = build_doubling_yaml("[{}]")
MERGED_BOMB = build_doubling_yaml("{{<<: [{}]}}")


@pytest.mark.requirement("XL-013", "CV-29")
@pytest.mark.parametrize(
    ("text", "data"),
    [
        (b"a: &x [1]\nb: *x\nc: [*x, *x]", {"a": [1], "b": [1], "c": [[1], [1]]}),
        (b"&k a: 1\nb: *k", {"a": 1, "b": "a"}),
        (b"a: &x 1\nb: *x\nc: &x 2\nd: *x", {"a": 1, "b": 1, "c": 2, "d": 2}),
        (b"a: &x {b: 1, c: 2}\nd: {<<: *x, c: 3}", {"a": {"b": 1, "c": 2}, "d": {"c": 3, "b": 1}}),
        (b"d:\n  <<: [{a: 1, b: 1}, {b: 2, c: 2}]\n  c: 3", {"d": {"c": 3, "a": 1, "b": 1}}),
        (b"a: &a {x: 1}\nb: &b {<<: *a, y: 2}\nc: {<<: *b}",
         {"a": {"x": 1}, "b": {"y": 2, "x": 1}, "c": {"y": 2, "x": 1}}),
        (b"'<<': {a: 1}", {"<<": {"a": 1}}),
        (b"<<: 1", {"<<": 1}),
    ],
)  # fmt: skip
def test_yaml_aliases_are_copied_and_merge_keys_fill_missing_members(text: bytes, data: object) -> None:
    assert yamltext.read(text) == data


def test_copies_of_one_yaml_anchor_share_no_objects() -> None:
    data = yamltext.read(b"a: &x {b: {}}\nc: *x")
    assert isinstance(data, dict)
    data["a"]["b"]["d"] = 1
    assert data["c"] == {"b": {}}


@pytest.mark.requirement("XL-013", "CV-29")
@pytest.mark.parametrize(
    ("written", "data"),
    [
        ("1_000", "1_000"), ("1_0.5", "1_0.5"), ("0b11", "0b11"), ("0x1_0", "0x1_0"), ("1e1_0", "1e1_0"),
        ("0x10", 16), ("0o17", 15), ("012", 12), ("+1", 1), ("-0", 0), (".5", 0.5), ("1.", 1.0), ("1e3", 1000.0),
        ("~", None), ("Null", None), ("TRUE", True), ("yes", "yes"), ("on", "on"), ("1:30", "1:30"),
        ("2020-01-01", "2020-01-01"), ("'1'", "1"), ("!!str 12", "12"), ("0o8", "0o8"), ("_", "_"), ("1__", "1__"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("beside", ["", "w: [&x 1, *x]\n"], ids=["plain", "beside an alias"])
def test_plain_yaml_scalar_follows_the_core_schema(written: str, data: object, beside: str) -> None:
    read = yamltext.read(f"{beside}a: {written}\nb: [{written}]\nc: [1,{written}]\n".encode())
    assert isinstance(read, dict)
    assert (read["a"], read["b"], read["c"]) == (data, [data], [1, data])
    assert type(read["a"]) is type(data)


@pytest.mark.requirement("XL-013")
@pytest.mark.parametrize("name", ["200", "1.10", "012", "0x10", "1_0", "~", "Null", "TRUE", "-0", "+1", "1e3", "on"])
def test_yaml_key_keeps_its_written_spelling(name: str) -> None:
    assert yamltext.read(f"a:\n  {name}: x\n".encode()) == {"a": {name: "x"}}
    assert yamltext.read(f"{{b: 1, {name}: x}}".encode()) == {"b": 1, name: "x"}


@pytest.mark.requirement("XL-013", "D-16")
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (BOMB, "its aliases stand for more than 1,000,000 values"),
        (
            b"a: &a {" + b", ".join(b"k%d: 1" % number for number in range(2_000)) + b"}\nb:\n" + b"- <<: *a\n" * 2_000,
            "its aliases stand for more than 1,000,000 values",
        ),
        (b"a: &a [*a]", "inside its own anchor"),
        (b"a: &a {b: {c: *a}}", "inside its own anchor"),
        (b"a: &a\n  <<: *a\n", "inside its own anchor"),
        (b"a: *nothing", "an alias refers to"),
        (b"a: &a [1]\nb: *a\n---\nc: *a", "an alias refers to"),
        (b"a: &a {b: 1}\nc: *a\nc: 2", "duplicate"),
        (b'1_0: a\n"1_0": b', "duplicate"),
        (b"a: 1\na: 2", "duplicate"),
        (b'200: 1\n"200": 2', "duplicate"),
        (b"a: .inf", "inf is not a valid JSON number"),
        (b"a: .nan", "nan is not a valid JSON number"),
        (b"!!set {a, b}", "JSON has no type for a set"),
        (b"[1, 2]: 3", "name of a member"),
        (b"{{a: {b: 1}}: 2}", "name of a member"),
        (b"? [{a: 1}]\n: 2", "name of a member"),
        (b"a: " + b"9" * 5_000, "4,300 digits"),
        (b"a: \xff", "UTF-8"),
        (b"a:\n\t- b", "a tab indents a line, where YAML takes spaces only, at line 2 column 1"),
        (b"a: 1\nb: [1, 2\nc: 3\n", "at line 3 column 2"),
        (b"a: 1\nb:\n  c: 1\n  c: 2\n", "duplicate mapping key: 'c', at line 4 column 3"),
        (b"%TAG !a! b\n" * 101 + b"---\na: 1", "directives"),
        (b"%TAG !a! " + b"b" * 1_001 + b"\n---\n- !a!x y", "directives"),
        (b'a: "\\ud800"', "escape code, at line 1 column 7"),
    ],
)
def test_yaml_without_json_equivalent_is_refused_with_the_reason(text: bytes, reason: str) -> None:
    problem = yamltext.read(text)
    assert isinstance(problem, Problem)
    assert reason in problem.message


@pytest.mark.requirement("XL-013", "D-16")
def test_merged_mappings_that_add_nothing_are_read_however_often_they_are_named() -> None:
    assert yamltext.read(MERGED_BOMB) == {f"a{number}": {"x": 1} for number in range(12)}


@pytest.mark.requirement("AT-31")
@pytest.mark.parametrize(
    ("begin", "end"),
    [
        ("- ", ""), ("[", "]"), ("{a: ", "}"), ('{"a":', "}"), ("[a: ", "]"), ("[&a ", "]"), ("[!a ", "]"),
        ("[!!seq &x ", "]"), ("- - ", ""), ("[{'a': ", "}]"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("levels", [201, 20_000, 200_000])
def test_yaml_nested_in_any_way_is_refused_as_json_is(begin: str, end: str, levels: int) -> None:
    found = yamltext.read((begin * levels + "1" + end * levels).encode())
    assert isinstance(found, Problem)
    assert found.message.startswith("The YAML is nested deeper than 200 levels at line 1 column ")


@pytest.mark.requirement("AT-31")
@pytest.mark.parametrize("name", ["a:", "-"])
def test_indented_yaml_is_read_to_the_depth_that_json_has(name: str) -> None:
    def nest(levels: int) -> bytes:
        return "\n".join(" " * depth + name for depth in range(levels)).encode()

    assert not isinstance(yamltext.read(nest(200)), Problem)
    found = yamltext.read(nest(201))
    assert isinstance(found, Problem)
    assert found.message == "The YAML is nested deeper than 200 levels at line 201 column 201."
    json_found = jsontext.read(b"[" * 201 + b"]" * 201)
    assert isinstance(json_found, Problem)
    assert (found.kind, "nested deeper than 200 levels") == (json_found.kind, "nested deeper than 200 levels")
    assert "nested deeper than 200 levels" in json_found.message


@pytest.mark.requirement("O-32")
@pytest.mark.parametrize(
    ("text", "data"),
    [
        ('a: "x"#c\nb: 1\n', {"a": "x", "b": 1}),
        ("a: 'x'#c\n", {"a": "x"}),
        ('a:\n  b: "x\ny"\n  c: 1\n', {"a": {"b": "x y", "c": 1}}),
        ("a:\n  b: 'x\ny'\n  c: 1\n", {"a": {"b": "x y", "c": 1}}),
        ("a:\tx\nb:\t{c:\t1}\n", {"a": "x", "b": {"c": 1}}),
        ("a: [\n1,\n2\n]\n", {"a": [1, 2]}),
        ("%YAML 1.3\n---\na: 1\n", {"a": 1}),
        ("a: b\u2028c\nd: 'x\u0085y\x01\x7f\ufeff'\n", {"a": "b\u2028c", "d": "x\u0085y\x01\x7f\ufeff"}),
        ('a: "\\ud83d\\ude00 \\\\ud83d"', {"a": "\U0001f600 \\ud83d"}),
        (r"a: '\ud83d\ude00'", {"a": r"\ud83d\ude00"}),
    ],
)
def test_yaml_that_other_tools_write_is_read(text: str, data: object) -> None:
    assert yamltext.read(text.encode()) == data


@pytest.mark.requirement("O-32")
@pytest.mark.parametrize(
    ("text", "data"),
    [
        ("{type: string, enum: [1.10, 2, null, true, a, 0x10]}",
         {"type": "string", "enum": ["1.10", "2", None, "true", "a", "0x10"]}),
        ("{enum: [1.10], const: 1.10, default: 1.10, example: 1.10, examples: [1.10], type: [string, 'null']}",
         {"type": ["string", "null"], "enum": ["1.10"], "const": "1.10", "default": "1.10", "example": "1.10",
          "examples": ["1.10"]}),
        ("{type: number, enum: [1.10], default: 1.10}", {"type": "number", "enum": [1.1], "default": 1.1}),
        ("{type: [string, number], enum: [1.10]}", {"type": ["string", "number"], "enum": [1.1]}),
        ("{schema: {type: string}, example: 1.10}", {"schema": {"type": "string"}, "example": "1.10"}),
        ("{a: &a [1.10], b: {type: string, enum: *a}, c: {type: number, enum: *a}}",
         {"a": [1.1], "b": {"type": "string", "enum": ["1.10"]}, "c": {"type": "number", "enum": [1.1]}}),
        ("{variables: {v: {default: 1.10, enum: [1.10, 8443]}}}",
         {"variables": {"v": {"default": "1.10", "enum": ["1.10", "8443"]}}}),
        ("{info: {version: 1.10}, required: [200, 1.10], tags: [1.10]}",
         {"info": {"version": "1.10"}, "required": ["200", "1.10"], "tags": ["1.10"]}),
        ("{version: 1.10, required: true}", {"version": 1.1, "required": True}),
    ],
)  # fmt: skip
def test_yaml_number_that_must_be_text_stays_as_written(text: str, data: object) -> None:
    assert yamltext.read(text.encode()) == data


def test_yaml_list_is_read_with_all_its_items() -> None:
    assert yamltext.read(b"- 1\n- [a, {null: 2.5, 7: yes}]\n- ~\n") == [1, ["a", {"null": 2.5, "7": "yes"}], None]


def test_yaml_without_the_extra_names_the_extra_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
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
        ("/1.10", (10, 7)),
        ("/b/2", None),
        ("/a/b", None),
    ],
)
def test_locate_returns_line_and_column_in_yaml(pointer: str, place: tuple[int, int] | None) -> None:
    found = yamltext.locate(WRITTEN, [pointer, "/a"])
    assert found.keys() == {"/a", *([pointer] if place else [])}
    assert place is None or found[pointer].value == place


def test_locate_returns_the_written_place_of_a_merged_yaml_value() -> None:
    assert yamltext.locate(b"a: &a\n  b: 1\nc:\n  <<: *a\n", ["/c/b"])["/c/b"].value == (2, 6)


def test_locate_returns_the_place_of_a_value_inside_an_alias_of_a_merged_mapping() -> None:
    text = b"a: &a\n  b: &b\n    c: 1\nd:\n  <<: *a\n  e: *b\nf: {<<: {y: [1]}}\n"
    found = yamltext.locate(text, ["/d/b/c", "/d/e/c", "/f/y/0", "/f/x"])
    assert {pointer: spot.value for pointer, spot in found.items()} == {
        "/d/b/c": (3, 8),
        "/d/e/c": (3, 8),
        "/f/y/0": (7, 14),
    }


def test_locate_finds_names_that_yaml_reads_as_numbers() -> None:
    found = yamltext.locate(b"type: string\nenum: [1.10, 2]\nrequired:\n- 1.1\n", ["/enum/1", "/required/0"])
    assert {pointer: spot.value for pointer, spot in found.items()} == {"/enum/1": (2, 14), "/required/0": (4, 3)}


def test_locate_finds_nothing_in_yaml_that_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    assert yamltext.locate(b"a: [", ["/a"]) == yamltext.locate(b"", ["/a"]) == yamltext.locate(b"]", ["/a"]) == {}
    assert yamltext.locate(b"[" * 201 + b"]" * 201, ["/0"]) == {}
    monkeypatch.setitem(sys.modules, "yaml", None)
    assert yamltext.locate(WRITTEN, ["/a"]) == {}
