"""Large arguments are read in a thread that lets others run, with the values and the errors of any other way."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from toolwire import Toolkit
from toolwire.core.model import ANONYMOUS, Json, Problem, Result, Value, make_call
from toolwire.define.adapter import build_type_adapter
from toolwire.define.large_arguments import build_patient_validator
from toolwire.define.user_input_form import build_user_form
from toolwire.server.run.function_toolbox import FunctionToolbox

pytestmark = pytest.mark.requirement("AT-38")
MODELS = 100_000


def refuse_nine(value: int) -> int:
    if value == 9:
        raise ValueError("no nines")
    return value


class Part(BaseModel):
    a: Annotated[int, AfterValidator(refuse_nine)] = 0


class Whole(BaseModel):
    parts: list[Part] = Field(default_factory=list)
    named: dict[str, Part] = Field(default_factory=dict)
    inner: Whole | None = None


class Other(BaseModel):
    a: int = 0
    z: int = 1


class Left(BaseModel):
    kind: Literal["left"]
    parts: list[Part] | dict[str, Other] | None = None


class Right(BaseModel):
    model_config = ConfigDict(str_min_length=3)
    kind: Literal["right"]
    more: list[Right | Part | str] | Annotated[str, Field(min_length=2)] | dict[str, Right] = ""


Tagged = Annotated[Left | Right, Field(discriminator="kind")]


def build_box(seen: list[Any]) -> FunctionToolbox:
    kit = Toolkit("Desk")

    @kit.tool(approval="auto")
    async def take_list(parts: list[Part]) -> int:
        seen.append(parts)
        return len(parts)

    @kit.tool(approval="auto")
    async def take_model(whole: Whole) -> int:
        seen.append(whole)
        return len(whole.parts)

    @kit.tool(approval="auto")
    async def take_choices(parts: list[Part | Right] | str) -> int:
        seen.append(parts)
        return len(parts)

    return FunctionToolbox(kit)


def call(box: FunctionToolbox, tool: str, arguments: dict[str, Json]) -> tuple[Result, int]:
    """Return the result of a call, and how often another task had its turn before it began to run."""

    async def run() -> tuple[Result, int]:
        running = asyncio.create_task(box.run(make_call((box.catalog().names[tool], arguments, "1", ANONYMOUS, ""))))
        turns = 0
        while not running.done():
            await asyncio.sleep(0)
            turns += 1
        return await running, turns

    return asyncio.run(run())


@pytest.mark.parametrize(
    ("tool", "build"),
    [
        ("take_list", lambda parts: {"parts": parts}),
        ("take_model", lambda parts: {"whole": {"parts": parts}}),
        ("take_model", lambda parts: {"whole": {"inner": {"parts": parts}}}),
        ("take_choices", lambda parts: {"parts": parts}),
    ],
)
def test_loop_has_many_turns_while_a_hundred_thousand_models_are_read(
    tool: str, build: Callable[[list[Json]], dict[str, Json]]
) -> None:
    seen: list[Any] = []
    result, turns = call(build_box(seen), tool, build([{} for _ in range(MODELS)]))
    assert isinstance(result, Value)
    assert turns > 20
    found = (seen[0].inner or seen[0]).parts if tool == "take_model" else seen[0]
    assert found == [Part()] * MODELS


def test_error_in_large_arguments_has_the_path_of_its_item() -> None:
    parts: list[Json] = [{} for _ in range(MODELS)]
    parts[70_000] = {"a": 9}
    for tool, arguments in {"take_list": {"parts": parts}, "take_model": {"whole": {"parts": parts}}}.items():
        result, _ = call(build_box([]), tool, arguments)
        assert isinstance(result, Problem)
        (text,) = result.parameter_errors.values()
        assert "no nines" in text
        assert "70000.a" in text


def read_both_ways(annotation: Any, data: bytes) -> list[Any]:
    """Return the value or the errors of usual and of patient reading."""
    adapter = build_type_adapter(annotation, "it", "validation")
    config = {"ser_json_bytes": "base64", "val_json_bytes": "base64", "allow_inf_nan": False}
    read = build_patient_validator(adapter.core_schema, config)  # type: ignore[arg-type]  # a typed dict of words
    assert read is not None
    outcomes: list[Any] = []
    for validate in (adapter.validate_json, read):
        try:
            outcomes.append(validate(data))
        except ValidationError as error:
            outcomes.append([(one["loc"], one["msg"]) for one in error.errors(include_context=False)])
    return outcomes


@pytest.mark.parametrize(
    "data",
    [
        b'{"parts": [{"a": 1}, {"a": "x"}, {"a": 9}], "named": {"p": {"a": []}}, "inner": {"parts": 3}}',
        b'{"parts": {}, "named": []}',
        b'{"parts": [{"a": 1}], "named": {"q": {"a": 2}}, "inner": {"inner": {"inner": {"parts": [{}]}}}}',
        b"[]",
        b"{",
    ],
)
def test_patient_reading_has_the_values_and_errors_of_usual_reading(data: bytes) -> None:
    usual, patient = read_both_ways(Whole, data)
    assert usual == patient


NAMES = st.sampled_from(["a", "z", "kind", "parts", "more"])
TREES = st.recursive(
    st.none() | st.integers(0, 9) | st.floats(0, 2) | st.sampled_from(["left", "right", "ab", "1"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
)


@pytest.mark.parametrize(
    "annotation",
    [
        list[Part] | Right | dict[str, Left],
        list[Part] | list[Other] | list[int] | list[float],
        list[Tagged] | dict[str, Tagged],
        Annotated[list[Part] | list[Other | str], Field(union_mode="left_to_right")],
    ],
)
@given(tree=TREES)
def test_patient_reading_chooses_and_names_the_member_of_a_union_that_usual_reading_does(
    annotation: Any, tree: Any
) -> None:
    usual, patient = read_both_ways(annotation, json.dumps(tree).encode())
    assert type(usual) is type(patient)
    assert repr(usual) == repr(patient)  # 1 and 1.0 are equal


class Note(BaseModel):
    text: str


def test_large_answer_to_a_form_is_read_in_place() -> None:
    async def read() -> Any:
        return build_user_form(Note).load({"text": "a" * 100_000})

    assert asyncio.run(read()) == Note(text="a" * 100_000)
