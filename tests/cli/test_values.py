"""Arguments as a person types them become what the tool's schema declares."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolwire.cli.call_arguments import read_object, read_values
from toolwire.core.model import Problem, Tool

PROPERTIES: dict[str, Any] = {
    "text": {"type": "string"},
    "maybe": {"type": ["string", "null"]},
    "either": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
    "whole": {"type": "integer"},
    "number": {"anyOf": [{"type": "number"}, {"type": "null"}]},
    "flag": {"type": "boolean"},
    "any": {},
    "thing": {"type": "object"},
    "words": {"type": "array", "items": {"type": "string"}},
    "counts": {"anyOf": [{"type": "array", "items": {"type": "integer"}}, {"type": "null"}]},
    "loose": {"type": "array"},
    "level": {"$ref": "#/$defs/Level"},
    "levels": {"$ref": "#/$defs/Levels"},
    "size": {"enum": [1, 2, 3]},
    "one": {"const": "1"},
}
DEFINITIONS = {
    "Level": {"enum": ["1", "2"]},
    "Levels": {"type": "array", "items": {"$ref": "#/$defs/Level"}},
}
TOOL = Tool(name="t", input_schema={"type": "object", "properties": PROPERTIES, "$defs": DEFINITIONS})


def schemas() -> st.SearchStrategy[Any]:
    words = st.sampled_from(["type", "enum", "const", "anyOf", "oneOf", "allOf", "$ref", "items", "properties"])
    leaves = st.sampled_from(["string", "array", "#/properties/x", "#/properties/x/items", "#/", "#", 7, None, True])
    return st.recursive(leaves, lambda each: st.lists(each, max_size=4) | st.dictionaries(words, each, max_size=4))


@pytest.mark.parametrize(
    ("pairs", "arguments"),
    [
        (["text=5"], {"text": "5"}),
        (["text="], {"text": ""}),
        (["text=a=b:=c"], {"text": "a=b:=c"}),
        (["text:=5"], {"text": 5}),
        (["maybe=null"], {"maybe": "null"}),
        (["maybe:=null"], {"maybe": None}),
        (["either=5"], {"either": "5"}),
        (["whole=5"], {"whole": 5}),
        (["whole=x"], {"whole": "x"}),
        (["number=1e3"], {"number": 1000.0}),
        (["number=null"], {"number": None}),
        (["flag=true"], {"flag": True}),
        (["flag=yes"], {"flag": "yes"}),
        (["any=5"], {"any": 5}),
        (["any=word"], {"any": "word"}),
        (['thing={"a": [1]}'], {"thing": {"a": [1]}}),
        (["words=1"], {"words": ["1"]}),
        (["words=1", "words=two"], {"words": ["1", "two"]}),
        (['words=["a", "b"]'], {"words": ["a", "b"]}),
        (["words:=1", "words:=2"], {"words": [1, 2]}),
        (["counts=1"], {"counts": [1]}),
        (["counts=null"], {"counts": None}),
        (["counts=1", "counts=2"], {"counts": [1, 2]}),
        (["loose=1", "loose=a"], {"loose": [1, "a"]}),
        (["level=1"], {"level": "1"}),
        (["levels=1", "levels=2"], {"levels": ["1", "2"]}),
        (["size=2"], {"size": 2}),
        (["one=1"], {"one": "1"}),
        (['{"one": "1", "whole": 1}', "whole=2"], {"one": "1", "whole": 2}),
        (["whole=99999999999999999999"], {"whole": 99999999999999999999}),
        (["text=é\u202e", "whole=1"], {"text": "é\u202e", "whole": 1}),
    ],
)
def test_value_is_read_by_its_declared_schema(pairs: list[str], arguments: dict[str, Any]) -> None:
    assert read_values(pairs, {}, TOOL) == arguments


@pytest.mark.parametrize(
    ("pairs", "sentence"),
    [
        (["text"], "'text' is not a valid argument: write key=value, or key:=JSON."),
        (["=x"], "'=x' is not a valid argument: write key=value, or key:=JSON."),
        ([":=1"], "':=1' is not a valid argument: write key=value, or key:=JSON."),
        (['{"one": 1'], "--args: is not valid JSON"),
        (["text:=word"], "'text' is not valid JSON. For text, write text=."),
        (["text=a", "text=b"], "'text' is given 2 times, but accepts one value."),
        (["nope=1"], "t has no argument 'nope'. Its arguments are text, maybe"),
        (["text=\udcff"], "not UTF-8"),
    ],
)
def test_invalid_argument_text_is_refused_in_one_sentence(pairs: list[str], sentence: str) -> None:
    problem = read_values(pairs, {}, TOOL)
    assert isinstance(problem, Problem)
    assert problem.kind == "invalid_arguments"
    assert sentence in problem.message


def test_undeclared_argument_is_refused() -> None:
    takes_none = Tool(name="t", input_schema={"type": "object", "properties": {}})
    undeclared = Tool(name="t", input_schema={})
    open_ended = Tool(name="t", input_schema={**TOOL.input_schema, "additionalProperties": {"type": "integer"}})
    assert isinstance(read_values(["x=1"], {}, takes_none), Problem)
    assert isinstance(read_values([], {"x": 1}, TOOL), Problem)
    assert read_values(["x=1"], {}, undeclared) == {"x": 1}
    assert read_values(["x=1"], {}, open_ended) == {"x": 1}


def test_typed_argument_overrides_args() -> None:
    assert read_values(["whole=2"], {"whole": 1, "text": "t"}, TOOL) == {"whole": 2, "text": "t"}


def test_recursive_schema_is_read_with_bounded_work() -> None:
    circle = {"anyOf": [{"$ref": "#/properties/x"}] * 1_000}
    tool = Tool(name="t", input_schema={"properties": {"x": circle, "y": {"$ref": "#/properties/y"}}})
    assert read_values(["x=1", "y=2"], {}, tool) == {"x": 1, "y": 2}


@given(schemas(), st.lists(st.text(max_size=8), max_size=3))
def test_any_schema_and_text_are_read_without_an_exception(schema: Any, texts: list[str]) -> None:
    tool = Tool(name="t", input_schema={"properties": {"x": schema, "y": True}})
    read = read_values([f"x={text}" for text in texts], {}, tool)
    assert isinstance(read, dict | Problem)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{", "not valid JSON"),
        ("[1]", "one JSON object, not an array"),
        ("\udcff", "not UTF-8"),
        ('{"a": NaN}', "JSON"),
    ],
)
def test_args_that_are_no_object_are_refused_in_one_sentence(text: str, sentence: str) -> None:
    problem = read_object(text)
    assert isinstance(problem, Problem)
    assert sentence in problem.message


def test_args_are_read_from_the_option_a_file_or_standard_input(
    desk: Path, tmp_path: Path, toolwire: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "arguments.json"
    file.write_text('{"a": 1, "b": 2}', encoding="utf-8")
    assert toolwire("call", desk, "add", "--args", '{"a": 1, "b": 2}').out == "3\n"
    assert toolwire("call", desk, "add", "--args", f"@{file}", "b=5").out == "6\n"
    with file.open(encoding="utf-8") as stream:
        monkeypatch.setattr("sys.stdin", stream)
        assert toolwire("call", desk, "add", "--args", "-").out == "3\n"


def test_unreadable_args_file_is_a_usage_error(desk: Path, tmp_path: Path, toolwire: Callable[..., Any]) -> None:
    (tmp_path / "latin").write_bytes(b"\xff")
    absent = toolwire("call", desk, "add", "--args", f"@{tmp_path}/absent")
    broken = toolwire("call", desk, "add", "--args", f"@{tmp_path}/latin")
    assert (absent.code, broken.code) == (2, 2)
    assert "No such file" in absent.err
    assert "not UTF-8" in broken.err
