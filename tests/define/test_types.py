"""Every type a tool may use: its schema, its JSON data read into Python, and its values written back."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, IntEnum
from typing import Annotated, Any, Literal, NamedTuple, NewType, NotRequired, Optional, Union
from uuid import UUID

import pytest
from jsonschema import Draft202012Validator
from pydantic import BaseModel, Field, StringConstraints
from typing_extensions import TypedDict

from toolwire.core.model import Json, Value
from toolwire.define import Function, Toolkit


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Level(IntEnum):
    LOW = 1
    HIGH = 2


@dataclass
class Point:
    x: int
    y: int = 0


@dataclass
class Blob:
    data: bytes


class Movie(TypedDict):
    title: str
    year: NotRequired[int]


class User(BaseModel):
    name: str
    born: date | None = None
    display_name: str = Field("", alias="displayName")


class Pair(NamedTuple):
    left: int
    right: str


UserId = NewType("UserId", int)

POINT = {
    "type": "object",
    "properties": {"x": {"type": "integer"}, "y": {"type": "integer", "default": 0}},
    "required": ["x"],
}
MOVIE = {
    "type": "object",
    "properties": {"title": {"type": "string"}, "year": {"type": "integer"}},
    "required": ["title"],
}
USER = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "born": {"anyOf": [{"type": "string", "format": "date"}, {"type": "null"}], "default": None},
        "displayName": {"type": "string", "default": ""},
    },
    "required": ["name"],
}
NULL = {"type": "null"}
INT = {"type": "integer"}
STR = {"type": "string"}

TYPES: list[tuple[Any, dict[str, Any], Json, Any]] = [
    (int, INT, 7, 7),
    (int, INT, 2**80, 2**80),
    (float, {"type": "number"}, 1.5, 1.5),
    (bool, {"type": "boolean"}, True, True),
    (str, STR, "żółw", "żółw"),
    (Any, {}, {"a": [1, None, "x", 1.5]}, {"a": [1, None, "x", 1.5]}),
    (object, {}, [1], [1]),
    (UserId, INT, 7, 7),
    (list[int], {"type": "array", "items": INT}, [1, 2], [1, 2]),
    (list, {"type": "array", "items": {}}, [1, "x"], [1, "x"]),
    (Sequence[str], {"type": "array", "items": STR}, ["a"], ["a"]),
    (dict[str, int], {"type": "object", "additionalProperties": INT}, {"a": 1}, {"a": 1}),
    (dict[int, str], {"type": "object", "additionalProperties": STR}, {"1": "a"}, {1: "a"}),
    (dict, {"type": "object", "additionalProperties": True}, {"a": None}, {"a": None}),
    (tuple[int, ...], {"type": "array", "items": INT}, [1, 2], (1, 2)),
    (
        tuple[int, str],
        {"type": "array", "prefixItems": [INT, STR], "minItems": 2, "maxItems": 2},
        [1, "a"],
        (1, "a"),
    ),
    (set[int], {"type": "array", "items": INT, "uniqueItems": True}, [1], {1}),
    (frozenset[str], {"type": "array", "items": STR, "uniqueItems": True}, ["a"], frozenset({"a"})),
    (Optional[int], {"anyOf": [INT, NULL]}, None, None),  # noqa: UP045 - the old spelling is a case
    (int | None, {"anyOf": [INT, NULL]}, 3, 3),
    (Union[int, str], {"anyOf": [INT, STR]}, "a", "a"),  # noqa: UP007 - the old spelling is a case
    (int | str, {"anyOf": [INT, STR]}, 1, 1),
    (int | datetime, {"anyOf": [INT, {"type": "string", "format": "date-time"}]}, 5, 5),
    (Literal["a", 1, None], {"enum": ["a", 1, None]}, 1, 1),
    (Literal[Level.LOW], {"type": "integer", "const": 1}, 1, Level.LOW),
    (Colour, {"type": "string", "enum": ["red", "blue"]}, "blue", Colour.BLUE),
    (Level, {"type": "integer", "enum": [1, 2]}, 2, Level.HIGH),
    (Point, POINT, {"x": 1, "y": 2}, Point(1, 2)),
    (Movie, MOVIE, {"title": "M"}, {"title": "M"}),
    (
        User,
        USER,
        {"name": "Ada", "born": "1815-12-10", "displayName": "A"},
        User(name="Ada", born=date(1815, 12, 10), displayName="A"),
    ),
    (
        Pair,
        {"type": "array", "prefixItems": [INT, STR], "minItems": 2, "maxItems": 2},
        [1, "a"],
        Pair(1, "a"),
    ),
    (
        datetime,
        {"type": "string", "format": "date-time"},
        "2024-02-29T12:00:00Z",
        datetime(2024, 2, 29, 12, tzinfo=UTC),
    ),
    (date, {"type": "string", "format": "date"}, "2024-02-29", date(2024, 2, 29)),
    (time, {"type": "string"}, "12:30:00", time(12, 30)),
    (timedelta, {"type": "string", "format": "duration"}, "PT1M30S", timedelta(seconds=90)),
    (
        UUID,
        {"type": "string", "format": "uuid"},
        "12345678-1234-5678-1234-567812345678",
        UUID("12345678-1234-5678-1234-567812345678"),
    ),
    (bytes, {"type": "string", "contentEncoding": "base64url"}, "__79", b"\xff\xfe\xfd"),
    (
        Blob,
        {
            "type": "object",
            "properties": {"data": {"type": "string", "contentEncoding": "base64url"}},
            "required": ["data"],
        },
        {"data": "__79"},
        Blob(b"\xff\xfe\xfd"),
    ),
    (Annotated[int, Field(ge=1, le=9)], {"type": "integer", "minimum": 1, "maximum": 9}, 3, 3),
    (
        Annotated[str, Field(min_length=1, pattern="^a")],
        {"type": "string", "minLength": 1, "pattern": "^a"},
        "abc",
        "abc",
    ),
    (Annotated[list[int], Field(max_length=2)], {"type": "array", "items": INT, "maxItems": 2}, [1], [1]),
]


def tool_of(annotation: Any) -> Function:
    def echo(value):  # type: ignore[no-untyped-def]  # the annotations come below
        return value

    echo.__annotations__ = {"value": annotation, "return": annotation}
    return Toolkit("Kit").add(echo)


@pytest.mark.requirement("OT-017", "OTC-011")
@pytest.mark.parametrize(("annotation", "schema", "_json", "_python"), TYPES)
def test_each_type_has_its_schema(annotation: Any, schema: dict[str, Any], _json: Json, _python: Any) -> None:
    tool = tool_of(annotation).tool
    assert tool.parameters["value"] == schema


@pytest.mark.parametrize(("annotation", "_schema", "json", "python"), TYPES)
def test_json_data_is_read_into_the_type(annotation: Any, _schema: dict[str, Any], json: Json, python: Any) -> None:
    keywords = tool_of(annotation).read({"value": json})
    assert keywords == {"value": python}
    assert isinstance(keywords, dict)
    assert type(keywords["value"]) is type(python)


@pytest.mark.parametrize(("annotation", "_schema", "json", "python"), TYPES)
def test_a_value_of_the_type_is_written_as_json_data(
    annotation: Any, _schema: dict[str, Any], json: Json, python: Any
) -> None:
    assert tool_of(annotation).write(python) == Value(json)


@pytest.mark.parametrize(("annotation", "_schema", "json", "_python"), TYPES)
def test_every_schema_is_valid_and_takes_the_data(
    annotation: Any, _schema: dict[str, Any], json: Json, _python: Any
) -> None:
    tool = tool_of(annotation).tool
    Draft202012Validator.check_schema(tool.input_schema)
    Draft202012Validator(tool.input_schema).validate({"value": json})
    assert tool.output_schema is not None
    Draft202012Validator.check_schema(tool.output_schema)
    Draft202012Validator(tool.output_schema).validate(json)


@pytest.mark.parametrize(("json", "python"), [(1, Decimal(1)), (0.1, Decimal("0.1")), ("1.10", Decimal("1.10"))])
def test_a_decimal_is_read_from_a_number_or_a_text_without_rounding(json: Json, python: Decimal) -> None:
    assert tool_of(Decimal).read({"value": json}) == {"value": python}


def test_decimal_is_written_as_text_to_keep_its_digits() -> None:
    function = tool_of(Decimal)
    assert function.write(Decimal("1.10")) == Value("1.10")
    assert function.tool.output_schema is not None
    assert function.tool.output_schema["type"] == "string"


def test_base64_is_accepted_in_both_alphabets() -> None:
    function = tool_of(bytes)
    assert function.read({"value": "//79"}) == function.read({"value": "__79"}) == {"value": b"\xff\xfe\xfd"}


def test_long_lists_are_read_and_written_like_short_ones() -> None:
    function = tool_of(Any)
    for values in ([1, None, True] * 20, ["a", "é"] * 20, [1.5] * 40, [1, "a", 1.5, {}] * 10):
        assert function.write(values) == Value(values)


@pytest.mark.requirement("OTC-012", "OT-014")
def test_a_function_that_returns_nothing_has_no_output_schema() -> None:
    assert tool_of(None).tool.output_schema is None


def test_text_that_a_constraint_changes_is_not_passed_through_unchanged() -> None:
    function = tool_of(Annotated[str, StringConstraints(strip_whitespace=True)])
    assert function.read({"value": " a "}) == {"value": "a"}
