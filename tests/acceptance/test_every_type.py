"""Every type a tool may use, called as a user would over every wire of a running server, async and blocking."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime as dt
import enum
import uuid
from collections.abc import Iterator
from decimal import Decimal
from typing import Annotated, Any, Literal, NotRequired, Optional, TypedDict, Union

import pydantic
import pytest

from toolwire import Kind, Toolkit, Value, asgi, connect, connect_sync
from toolwire.framing.text_cleaning import clean_data
from toolwire.testing.loopback import background

WIRES = ("opentool", "otc", "openapi", "mcp")


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Size(enum.IntEnum):
    SMALL = 1
    LARGE = 2


@dataclasses.dataclass
class Point:
    x: int
    y: float = 1.5
    colour: Colour = Colour.RED


class Row(TypedDict):
    a: int
    b: NotRequired[str]


class Person(pydantic.BaseModel):
    name: str
    born: dt.datetime | None = None
    children: list[Person] = []


TYPES: dict[str, tuple[Any, list[Any]]] = {
    "int": (int, [0, -5, 2**70]),
    "float": (float, [1.5, -0.25, 1e300]),
    "str": (str, ["", "null", "5", "hé\u2028😀 a&b=c#d%41+e", "\x00"]),
    "bool": (bool, [True, False]),
    "list": (list[int], [[], [1], [1, 2]]),
    "list_of_texts": (list[str], [[], [""], ["a,b", "c d", "é"]]),
    "dict": (dict[str, int], [{}, {"a": 1, "é": 2}]),
    "tuple": (tuple[int, str], [[1, "a"]]),
    "set": (set[int], [[], [1, 2]]),
    "optional": (Optional[int], [None, 5]),  # noqa: UP045 - both spellings are a user's
    "union": (Union[int, str], [1, "1", "x"]),  # noqa: UP007 - both spellings are a user's
    "literal": (Literal["a", "b", 3], ["a", 3]),
    "enum": (Colour, ["red", "blue"]),
    "int_enum": (Size, [1, 2]),
    "dataclass": (Point, [{"x": 1, "y": 2.5, "colour": "blue"}]),
    "typed_dict": (Row, [{"a": 1}, {"a": 1, "b": "q"}]),
    "model": (Person, [{"name": "n", "born": "2020-01-01T00:00:00Z", "children": []}]),
    "datetime": (dt.datetime, ["2020-01-01T00:00:00Z"]),
    "date": (dt.date, ["2020-01-01"]),
    "uuid": (uuid.UUID, ["12345678-1234-5678-1234-567812345678"]),
    "decimal": (Decimal, ["1.10"]),
    "bytes": (bytes, ["aGk="]),
    "annotated": (Annotated[int, pydantic.Field(ge=0, le=10, description="up to ten")], [0, 10]),
    "any": (Any, [None, 1, "x", {"k": [1, None]}]),
}


def build_echo_tool(name: str, annotation: Any) -> Any:
    async def echo(value: Any) -> Any:
        return value

    echo.__name__ = echo.__qualname__ = f"echo_{name}"
    echo.__annotations__ = {"value": annotation, "return": annotation}
    echo.__doc__ = f"Give back a value of the type {name}."
    return echo


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    toolkit = Toolkit("Every type")
    for name, (annotation, _) in TYPES.items():
        toolkit.add(build_echo_tool(name, annotation), approval="auto")

    @toolkit.tool(approval="auto")
    def defaults(
        a: int, b: int = 2, c: str | None = "x", *, day: dt.date = dt.date(2020, 1, 1), some: tuple[int, ...] = (1,)
    ) -> list[Any]:
        """Give back what came."""
        return [a, b, c, day.isoformat(), *some]

    with background(asgi(toolkit)) as base:
        yield base


def come(value: Any, wire: str) -> Value:
    """Return what comes of ``value``: on OpenAPI a text without what cannot be seen in it. [XL-104]"""
    return Value(clean_data(value) if wire == "openapi" else value)


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.requirement("XL-089", "OTC-027", "OTRPC-011", "S-6", "A-03")
def test_value_of_every_type_survives_a_round_trip(url: str, wire: str) -> None:
    async def calling() -> None:
        async with connect(url, protocol=wire, agree=lambda _: True) as remote:
            for name, (_, values) in TYPES.items():
                for value in values:
                    assert await remote.call(f"echo_{name}", {"value": value}) == come(value, wire), (name, value)

    asyncio.run(calling())


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.requirement("XL-089")
def test_a_blocking_connection_gives_the_same_values(url: str, wire: str) -> None:
    with connect_sync(url, protocol=wire, agree=lambda _: True) as remote:
        for name, (_, values) in TYPES.items():
            for value in values:
                assert remote.call(f"echo_{name}", {"value": value}) == come(value, wire), (name, value)


@pytest.mark.parametrize("wire", WIRES)
def test_omitted_argument_has_its_default_and_null_is_passed(url: str, wire: str) -> None:
    with connect_sync(url, protocol=wire, agree=lambda _: True) as remote:
        assert remote.call("defaults", {"a": 1}) == Value([1, 2, "x", "2020-01-01", 1])
        given = {"a": 1, "b": 0, "c": None, "day": "2021-02-03", "some": []}
        assert remote.call("defaults", given) == Value([1, 0, None, "2021-02-03"])


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize(
    ("tool", "value"),
    [
        ("int", "1"),
        ("int", True),
        ("int", 1.5),
        ("int", None),
        ("str", 5),
        ("bool", 1),
        ("enum", "green"),
        ("literal", "c"),
        ("annotated", 11),
        ("list", [1, "2"]),
        ("typed_dict", {}),
        ("datetime", "yesterday"),
        ("uuid", "x"),
    ],
)
@pytest.mark.requirement("S-15", "OXP-009", "XL-086")
def test_a_value_of_another_type_is_refused_and_named(url: str, wire: str, tool: str, value: Any) -> None:
    with connect_sync(url, protocol=wire, agree=lambda _: True) as remote:
        result = remote.call(f"echo_{tool}", {"value": value})
        assert not result.ok
        assert result.kind is Kind.INVALID_ARGUMENTS
        assert "value" in result.parameter_errors
