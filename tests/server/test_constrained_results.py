"""A result that breaks the output schema of its own tool is a problem, never a result."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncGenerator, Callable, Generator
from typing import Annotated, Any, NamedTuple, TypedDict

import jsonschema_rs
import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import toolwire
from toolwire import Kind, Problem, Toolkit, Value, connect_sync
from toolwire.core.model import Call, Result
from toolwire.protocols import BUILTIN
from toolwire.server.run.function_toolbox import FunctionToolbox
from toolwire.testing.loopback import background

Natural = Annotated[int, pydantic.Field(ge=0)]


class Model(pydantic.BaseModel):
    n: Natural


class Renamed(pydantic.BaseModel):
    n: Annotated[int, pydantic.Field(ge=0, serialization_alias="number")]


class Computed(pydantic.BaseModel):
    n: int

    @pydantic.computed_field  # type: ignore[prop-decorator]  # mypy knows no decorated property
    @property
    def negative(self) -> Natural:
        return -self.n


class Ticket(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")
    code: Annotated[bytes, pydantic.Field(max_length=3)]


@dataclasses.dataclass
class Data:
    n: Natural


class Row(TypedDict):
    n: Natural


class Pair(NamedTuple):
    n: Natural


CASES: dict[str, tuple[Any, Any, Any]] = {
    "number": (Natural, 0, -1),
    "number or nothing": (Natural | None, None, -1),
    "text": (Annotated[str, pydantic.Field(pattern="^a")], "ab", "b"),
    "list": (Annotated[list[int], pydantic.Field(max_length=1)], [1], [1, 2]),
    "items": (list[Natural], [0], [0, -1]),
    "set": (Annotated[set[int], pydantic.Field(max_length=1)], {1}, {1, 2}),
    "bytes": (Annotated[bytes, pydantic.Field(max_length=3)], b"\xff\xfe\xfd", b"\xff\xfe\xfd\xfc"),
    "model": (Model, Model(n=0), Model.model_construct(n=-1)),
    "models": (dict[str, list[Model]], {"a": [Model(n=0)]}, {"a": [Model.model_construct(n=-1)]}),
    "model with an alias": (Renamed, Renamed(n=0), Renamed.model_construct(n=-1)),
    "computed field": (Computed, Computed(n=-1), Computed(n=1)),
    "model with bytes": (Ticket, Ticket(code=b"\xff\xfe"), Ticket.model_construct(code=b"\xff" * 4)),
    "missing field": (Model, Model(n=0), Model.model_construct()),
    "dataclass": (Data, Data(0), Data(-1)),
    "typed dict": (Row, {"n": 0}, {"n": -1}),
    "named tuple": (Pair, Pair(0), Pair(-1)),
}


def build_returning_kit(annotation: Any, value: Any) -> Toolkit:
    async def give() -> Any:
        """Give it."""
        return value

    give.__annotations__["return"] = annotation
    toolkit = Toolkit("Types")
    toolkit.add(give, safe=True)
    return toolkit


def run(toolkit: Toolkit) -> Result:
    box = FunctionToolbox(toolkit)
    return asyncio.run(box.run(Call(box.catalog().tools[0], {})))


@pytest.mark.requirement("OTC-012", "S-16")
@pytest.mark.parametrize("name", CASES)
def test_result_that_violates_its_schema_is_a_problem(name: str) -> None:
    annotation, right, wrong = CASES[name]
    assert isinstance(run(build_returning_kit(annotation, right)), Value)
    result = run(build_returning_kit(annotation, wrong))
    assert isinstance(result, Problem)
    assert result.kind is Kind.INTERNAL
    assert result.message == "give returned a value that does not match its declared return type."


def test_schema_violation_names_rule_and_place_but_not_the_value() -> None:
    result = run(build_returning_kit(dict[str, Annotated[str, pydantic.Field(max_length=3)]], {"a": "secret"}))
    assert isinstance(result, Problem)
    assert result.developer_message == 'give returned dict: it breaks "maxLength" of its output schema at a'


async def items() -> AsyncGenerator[Natural, None]:
    """Send a natural number, and one that is none."""
    yield 1
    yield -1


def items_in_a_thread() -> Generator[Natural, None, None]:
    """Send a number that is not natural, from a thread."""
    yield -1


@pytest.mark.parametrize("function", [items, items_in_a_thread])
def test_stream_item_that_violates_its_schema_is_a_problem(function: Callable[..., Any]) -> None:
    toolkit = Toolkit("Types")
    toolkit.add(function)
    assert isinstance(run(toolkit), Problem)


@pytest.mark.parametrize("protocol", [codec.name for codec in BUILTIN])
def test_schema_violation_is_a_problem_in_every_protocol(protocol: str) -> None:
    with (
        background(toolwire.asgi(build_returning_kit(Natural, -1))) as url,
        connect_sync(url, protocol=protocol, approve=lambda _: True) as remote,
    ):
        result = remote.call("give", {})
    assert isinstance(result, Problem)
    assert "returned a value that does not match its declared return type" in result.message


@given(
    low=st.integers(-5, 5),
    high=st.integers(-5, 5),
    values=st.lists(st.integers(-9, 9), max_size=4),
    most=st.integers(0, 4),
)
@settings(max_examples=60)
def test_every_returned_value_matches_the_declared_schema(low: int, high: int, values: list[int], most: int) -> None:
    item = Annotated[int, pydantic.Field(ge=low, le=high)]
    toolkit = build_returning_kit(Annotated[list[item], pydantic.Field(max_length=most)], values)  # type: ignore[valid-type]
    result = run(toolkit)
    schema = toolkit.catalog().tools[0].output_schema
    assert schema is not None
    assert isinstance(result, Value) is jsonschema_rs.Draft202012Validator(schema).is_valid(values)
