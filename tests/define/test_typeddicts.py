import sys
import typing
from typing import Annotated, Literal, NotRequired, TypedDict

import pytest
from pydantic import Field

from toolwire.define import Toolkit
from toolwire.define.typeddicts import replace_typeddicts


class Point(TypedDict):
    """A place."""

    x: int
    y: NotRequired[int]


class Line(TypedDict, total=False):
    start: Point
    ends: list[Point]


class Loop(TypedDict):
    inner: "Loop | None"


def defined(annotation: object) -> dict[str, object]:
    def tool(place):  # type: ignore[no-untyped-def]
        """Take a place."""

    tool.__annotations__ = {"place": annotation, "return": None}
    return dict(Toolkit("T").add(tool).tool.input_schema)


def test_a_typing_typeddict_is_described_with_its_optional_members() -> None:
    schema = defined(Point)["properties"]["place"]  # type: ignore[index]  # a schema of parameters has them
    assert set(schema["properties"]) == {"x", "y"}
    assert schema["required"] == ["x"]


@pytest.mark.parametrize(
    "annotation", [Line, list[Point], Point | None, dict[str, Point], Annotated[Point, Field(description="where")]]
)
def test_a_typing_typeddict_is_described_wherever_it_stands(annotation: object) -> None:
    assert "'x': {'type': 'integer'}" in str(defined(annotation))


def test_what_holds_no_typeddict_is_left_as_it_is() -> None:
    for annotation in (int, list[int], int | None, Literal["a"], Annotated[int, "text"], typing.Any):
        assert replace_typeddicts(annotation) is annotation


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="pydantic takes typing.TypedDict from Python 3.12 on")
def test_a_typeddict_that_holds_itself_is_refused_in_one_sentence() -> None:
    from toolwire import DefinitionError

    with pytest.raises(DefinitionError, match="typing_extensions"):
        defined(Loop)
