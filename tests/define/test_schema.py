"""The schema of a whole signature: where definitions go, what pydantic adds that nobody asked for, and defaults."""

import math
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field, make_dataclass
from datetime import date
from typing import Annotated, Any, Literal, TypedDict

import pytest
from annotated_types import Ge
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from pydantic import AfterValidator, BaseModel, Field, PlainSerializer

from toolwire.core.errors import DefinitionError
from toolwire.core.model import Tool
from toolwire.define import Toolkit


def tool(function: Any) -> Tool:
    made = Toolkit("Kit").add(function).tool
    Draft202012Validator.check_schema(made.input_schema)
    Draft202012Validator.check_schema(made.output_schema or {})
    return made


def refusal(function: Any) -> str:
    with pytest.raises(DefinitionError) as caught:
        Toolkit("Kit").add(function)
    return str(caught.value)


@dataclass
class Tag:
    """A label."""

    title: str
    children: "list[Tag]" = field(default_factory=list)


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int = Field(9, title="Lives left")


class Dog(BaseModel):
    kind: Literal["dog"]


TAG = {
    "type": "object",
    "description": "A label.",
    "properties": {
        "title": {"type": "string"},
        "children": {"type": "array", "items": {"$ref": "#/$defs/Tag"}},
    },
    "required": ["title"],
}


def test_schema_keeps_definitions_at_the_root_and_drops_generated_titles() -> None:
    def label(tags: list[Tag], first: Tag) -> None: ...

    schema = tool(label).input_schema
    assert schema["$defs"] == {"Tag": TAG}
    assert schema["properties"] == {
        "tags": {"type": "array", "items": {"$ref": "#/$defs/Tag"}},
        "first": {"$ref": "#/$defs/Tag"},
    }


def test_a_default_that_looks_like_a_schema_keeps_its_title() -> None:
    def save(meta: dict[str, Any] = {"title": "Untitled"}) -> None: ...  # noqa: B006 - what is tested

    assert tool(save).parameters["meta"]["default"] == {"title": "Untitled"}


def test_two_classes_of_one_name_keep_their_own_definitions() -> None:
    other = make_dataclass("Tag", [("colour", str)])

    def label(a: list[Tag], b: list[other]) -> None: ...  # type: ignore[valid-type]  # a class made at run time

    schema = tool(label).input_schema
    assert schema["properties"]["b"]["items"] == {"$ref": "#/$defs/b.Tag"}
    assert schema["$defs"] == {
        "Tag": TAG,
        "b.Tag": {"type": "object", "properties": {"colour": {"type": "string"}}, "required": ["colour"]},
    }
    good = {"a": [{"title": "x"}], "b": [{"colour": "red"}]}
    assert Draft202012Validator(schema).is_valid(good)
    assert not Draft202012Validator(schema).is_valid({**good, "b": [{"title": "x"}]})


def test_tagged_union_is_described_without_openapi_keywords() -> None:
    def adopt(pet: Annotated[Cat | Dog, Field(discriminator="kind")]) -> None: ...

    schema = tool(adopt).input_schema
    assert schema["properties"]["pet"] == {
        "oneOf": [{"$ref": "#/$defs/Cat"}, {"$ref": "#/$defs/Dog"}],
    }
    assert "title" not in schema["$defs"]["Cat"]["properties"]["lives"]


def test_output_schema_keeps_its_definitions_at_the_root() -> None:
    def tags() -> list[Tag]: ...

    async def flow() -> AsyncIterator[Tag]:
        yield Tag("x")

    items = {"type": "array", "items": {"$ref": "#/$defs/Tag"}}
    written = {**TAG, "properties": TAG["properties"]}
    assert tool(tags).output_schema == {**items, "$defs": {"Tag": written}}
    assert tool(flow).output_schema == {**items, "$defs": {"Tag": written}}


def test_type_may_have_different_input_and_output_schemas() -> None:
    day = Annotated[date, PlainSerializer(lambda day: day.toordinal(), return_type=int)]

    def move(a: day) -> day: ...  # type: ignore[valid-type, empty-body]  # an alias made here

    made = tool(move)
    assert (made.parameters["a"]["type"], (made.output_schema or {})["type"]) == ("string", "integer")


@pytest.mark.parametrize(
    ("annotation", "default", "shown"),
    [
        (int, 3, 3),
        (int | None, None, None),
        (tuple[int, ...], (1, 2), [1, 2]),
        (date, date(2024, 1, 2), "2024-01-02"),
        (float, 1, 1.0),
    ],
)
def test_default_is_written_as_json_in_the_schema(annotation: Any, default: Any, shown: Any) -> None:
    def choose(a=default) -> None: ...  # type: ignore[no-untyped-def]  # the annotation comes below

    choose.__annotations__["a"] = annotation
    made = tool(choose)
    assert made.parameters["a"]["default"] == shown
    assert made.required_parameters == ()


@pytest.mark.parametrize(("annotation", "default"), [(float, math.inf), (Any, object()), (Any, math.nan)])
def test_default_without_json_equivalent_is_omitted_from_the_schema(annotation: Any, default: Any) -> None:
    def choose(a=default) -> Any:  # type: ignore[no-untyped-def]  # the annotation comes below
        return a

    choose.__annotations__["a"] = annotation
    made = Toolkit("Kit").add(choose)
    assert made.tool.parameters["a"].keys().isdisjoint({"default"})
    assert made.read({}) == {}


def test_default_that_does_not_match_its_type_is_refused() -> None:
    def wait(seconds: int = None) -> None: ...  # type: ignore[assignment]  # noqa: RUF013 - what is tested

    def grow(by: Annotated[int, Ge(1)] = 0) -> None: ...

    assert refusal(wait) == (
        "wait(): the parameter 'seconds': the default None does not match the type: Input should be a valid integer."
    )
    assert "the default 0 does not match the type" in refusal(grow)


def test_a_default_refused_by_the_authors_own_validator_is_refused() -> None:
    def fails(_: int) -> int:
        raise KeyError("secret")

    def pick(a: Annotated[int, AfterValidator(fails)] = 1) -> None: ...

    assert refusal(pick) == "pick(): the parameter 'a': the default 1 does not match the type: KeyError was raised."


def test_field_in_annotated_has_no_default_and_no_alias() -> None:
    def hidden(a: Annotated[int, Field(default=1)]) -> None: ...

    def renamed(a: Annotated[int, "of something", Field(alias="b")]) -> None: ...

    assert refusal(hidden).endswith(": write the default after the type, as in x: int = 1, not in a Field.")
    assert refusal(renamed).endswith(": an alias is not allowed. Rename the parameter instead.")


class Opaque:
    pass


class Untold(TypedDict):
    x: int


@dataclass
class Holder:
    held: Untold


class Loose(BaseModel):
    other: "Nowhere"  # type: ignore[name-defined]  # noqa: F821 - what is tested


@dataclass
class Lost:
    other: "Nowhere"  # type: ignore[name-defined]  # noqa: F821 - what is tested


@pytest.mark.parametrize(
    ("annotation", "sentence"),
    [
        (Opaque, "has the type Opaque, which has no JSON form: use one that has, such as str,"),
        (Callable[[int], int], "which has no JSON form"),
        (Literal[b"x"], "which has no JSON form"),
        (list[type[int]], "which has no JSON form"),
        (list[Opaque], "which has no JSON form"),
        (Annotated[str, Field(pattern="(")], "which cannot be described: "),
        (Annotated[Opaque, "x" * 100], "..., which has no JSON form"),
        (Loose, "has the type Loose, which is not complete: define every type it names first."),
        (Lost, "has the type Lost, which is not complete: define every type it names first."),
        (list["Nowhere"], "is annotated with 'Nowhere'"),  # type: ignore[name-defined]  # noqa: F821 - what is tested
    ],
)
def test_type_without_a_json_schema_is_refused(annotation: Any, sentence: str) -> None:
    def use(a) -> None: ...  # type: ignore[no-untyped-def]  # the annotation comes below

    use.__annotations__["a"] = annotation
    text = refusal(use)
    assert text.startswith("use()")
    assert "'a'" in text or "Nowhere" in text
    assert sentence in text
    assert "\n" not in text


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="pydantic takes it there")
def test_stdlib_typed_dict_in_a_dataclass_is_refused_with_its_replacement() -> None:
    def use(a: Holder) -> None: ...

    assert refusal(use).endswith(
        "has the type Holder, which holds a TypedDict that must come from typing_extensions before Python 3.12: "
        "import TypedDict from there."
    )


def test_result_type_without_a_json_schema_is_refused() -> None:
    def give() -> Iterator[Opaque]:
        yield Opaque()

    assert refusal(give).startswith("give(): its result has the type Opaque, which has no JSON form")


json_types = st.recursive(
    st.sampled_from([int, str, bool, float, bytes, date, Tag, Cat, None, Any]),
    lambda inner: st.one_of(
        inner.map(lambda t: list[t]),  # type: ignore[valid-type]  # a type made at run time
        inner.map(lambda t: dict[str, t]),  # type: ignore[valid-type]  # a type made at run time
        st.tuples(inner, inner).map(lambda two: tuple[two[0], two[1]]),  # type: ignore[misc]  # as above
        inner.map(lambda t: Annotated[t, Field(description="Said.", title="Dropped")]),
    ),
    max_leaves=4,
)


@settings(max_examples=40)
@given(json_types, json_types)
def test_schema_of_any_types_is_valid(first: Any, second: Any) -> None:
    def use(a, b=None):  # type: ignore[no-untyped-def]  # the annotations come below
        return a

    use.__annotations__ = {"a": first, "b": second | None if second is not None else None, "return": second}
    made = tool(use)
    assert made.required_parameters == ("a",)
