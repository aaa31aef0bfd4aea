import sys
import typing
from typing import Annotated, Literal, NotRequired, TypedDict

import pytest
from pydantic import Field

from toolwire import DefinitionError
from toolwire.define import Toolkit
from toolwire.define.signature import replace_typeddicts


class Point(TypedDict):
    """A place."""

    x: int
    y: NotRequired[int]


class Line(TypedDict, total=False):
    start: Point
    ends: list[Point]


class Loop(TypedDict):
    inner: "Loop | None"


def build_input_schema(annotation: object) -> dict[str, object]:
    def tool(place):  # type: ignore[no-untyped-def]
        """Take a place."""

    tool.__annotations__ = {"place": annotation, "return": None}
    return dict(Toolkit("T").add(tool).tool.input_schema)


def test_typeddict_of_typing_is_described_with_its_optional_members() -> None:
    schema = build_input_schema(Point)["properties"]["place"]  # type: ignore[index]  # a schema of parameters has them
    assert set(schema["properties"]) == {"x", "y"}
    assert schema["required"] == ["x"]


@pytest.mark.parametrize(
    "annotation", [Line, list[Point], Point | None, dict[str, Point], Annotated[Point, Field(description="where")]]
)
def test_typeddict_of_typing_is_described_inside_any_annotation(annotation: object) -> None:
    assert "'x': {'type': 'integer'}" in str(build_input_schema(annotation))


def test_annotation_without_typeddict_is_not_replaced() -> None:
    for annotation in (int, list[int], int | None, Literal["a"], Annotated[int, "text"], typing.Any):
        assert replace_typeddicts(annotation) is annotation


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="pydantic takes typing.TypedDict from Python 3.12 on")
def test_a_typeddict_that_holds_itself_is_refused_in_one_sentence() -> None:
    from toolwire import DefinitionError

    with pytest.raises(DefinitionError, match="typing_extensions"):
        build_input_schema(Loop)


def test_keywords_of_a_typeddict_are_refused_in_a_sentence() -> None:
    def tool(**options: typing.Unpack[Point]) -> None:
        """Take a place."""

    with pytest.raises(DefinitionError, match=r"^tool\(\) accepts \*\*options, which a schema cannot describe"):
        Toolkit("T").add(tool)
