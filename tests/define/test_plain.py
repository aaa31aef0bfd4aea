"""Plain types are understood without pydantic, and nobody can tell: all they give is what pydantic gives."""

import inspect
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from types import GenericAlias
from typing import Annotated, Any, Literal, Optional, Union

import pytest
from docstring_parser import parse
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import NaiveDatetime

from toolwire.core.errors import DefinitionError
from toolwire.core.model import Value
from toolwire.define import Function, Toolkit
from toolwire.define.docstring import read_docstring
from toolwire.define.plain_types import build_core_schema

MISSING = object()

numbers = st.integers() | st.sampled_from([2**53, 2**53 + 1, -(2**63), 2**64, 10**400])
floats = st.floats() | st.sampled_from([0.0, -0.0, 1.0, 2.0**53, 2.0**54, 2.0**63, 1e300])
texts = st.text(max_size=4) | st.sampled_from(["a", "1", "é", "\ud800"])
literals = st.lists(
    st.sampled_from(["a", "b", "", "é", "1", 0, 1, 2, -(2**53), True, False, None]), min_size=1, max_size=4
).map(lambda values: Literal[tuple(values)])
leaves = st.sampled_from([int, str, float, bool, None, Any, object, list, dict]) | literals


def around(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        inner.map(lambda t: list[t]),  # type: ignore[valid-type]  # a type made at run time
        inner.map(lambda t: dict[str, t]),  # type: ignore[valid-type]  # as above
        inner.map(lambda t: Optional[t]),  # noqa: UP045 - the new spelling takes no None on both sides
        st.lists(inner, min_size=2, max_size=3).map(lambda several: Union[tuple(several)]),  # noqa: UP007 - as above
    )


plain_types = st.recursive(leaves, around, max_leaves=6)
any_data = st.recursive(
    st.none() | st.booleans() | numbers | floats | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
python_data = st.recursive(
    any_data | st.binary(max_size=2) | st.dates() | st.just(object),
    lambda inner: st.tuples(inner, inner) | st.lists(inner, max_size=3) | st.dictionaries(st.integers(), inner),
    max_leaves=4,
)


def data_of(annotation: Any) -> st.SearchStrategy[Any]:
    """Return a strategy for what fits a type, or nearly, by its core schema."""
    core = build_core_schema(annotation)
    assert core is not None
    return _data(core)


def _data(core: Any) -> st.SearchStrategy[Any]:
    kind = core["type"]
    if kind == "list":
        return st.lists(_data(core["items_schema"]), max_size=4)
    if kind == "dict":
        return st.dictionaries(texts, _data(core["values_schema"]), max_size=3)
    if kind == "nullable":
        return st.none() | _data(core["schema"])
    if kind == "union":
        return st.one_of([_data(choice) for choice in core["choices"]])
    if kind == "literal":
        return st.sampled_from(core["expected"])
    simple = {
        "int": numbers | floats,
        "float": floats | numbers,
        "str": texts,
        "bool": st.booleans(),
        "none": st.none(),
    }
    return simple.get(kind, any_data)


def define_function(annotation: Any, default: Any = MISSING, *, streams: bool = False) -> Function:
    def use(a): ...  # type: ignore[no-untyped-def]  # the annotations come below

    def use_default(a=default): ...  # type: ignore[no-untyped-def]  # as above

    function = use if default is MISSING else use_default
    returned = Iterator[annotation] if streams else annotation
    function.__annotations__ = {"a": annotation, "return": returned}
    return Toolkit("Kit").add(function, name="use")


def copy_annotation(annotation: Any) -> Any:
    """Return the same type as pydantic must be asked for; the object keeps typing from returning an equal one."""
    return Annotated[annotation, object()]


def pair(annotation: Any, default: Any = MISSING, *, streams: bool = False) -> tuple[Function, Function]:
    """Return a tool of a plain type, and the one that pydantic makes of the same type."""
    return define_function(annotation, default, streams=streams), define_function(
        copy_annotation(annotation), default, streams=streams
    )


def describe_value(value: Any) -> str:
    """Return a text that differs for 1, 1.0 and True, and is one for every NaN."""
    return repr(value)


@given(plain_types, st.booleans())
@example(Literal[1, "a"] | Literal[True, "a"], False)
@example(Literal[None] | None, False)
@example(list | list[Any] | None, False)
def test_a_plain_type_has_the_schema_of_pydantic(annotation: Any, streams: bool) -> None:
    plain, other = pair(annotation, streams=streams)
    assert build_core_schema(annotation) is not None
    assert describe_value(plain) != describe_value(other)
    assert plain.tool == other.tool
    assert json.dumps(plain.tool.input_schema) == json.dumps(other.tool.input_schema)
    assert json.dumps(plain.tool.output_schema) == json.dumps(other.tool.output_schema)


@given(st.data())
def test_plain_type_reads_the_same_data_as_pydantic(data: st.DataObject) -> None:
    annotation = data.draw(plain_types)
    plain, other = pair(annotation)
    for value in data.draw(st.lists(data_of(annotation), max_size=4)), data.draw(st.lists(any_data, max_size=4)):
        for each in value:
            assert describe_value(plain.read({"a": each})) == describe_value(other.read({"a": each}))
    assert plain.read({}) == other.read({})


@given(st.data())
def test_plain_type_writes_the_same_data_as_pydantic(data: st.DataObject) -> None:
    annotation = data.draw(plain_types)
    plain, other = pair(annotation)
    for value in data.draw(st.lists(data_of(annotation), max_size=4)), data.draw(st.lists(python_data, max_size=4)):
        for each in value:
            assert describe_value(plain.write(each)) == describe_value(other.write(each))


def outcome(annotation: Any, default: Any) -> str:
    try:
        function = define_function(annotation, default)
    except DefinitionError as error:
        return str(error)
    return describe_value((function.tool, function.read({})))


@given(st.data())
def test_a_default_of_a_plain_type_is_shown_or_refused_as_pydantic_does(data: st.DataObject) -> None:
    annotation = data.draw(plain_types)
    default = data.draw(data_of(annotation) | python_data)
    assert outcome(annotation, default) == outcome(copy_annotation(annotation), default)


@pytest.mark.parametrize("depth", [199, 200, 201, 300])
def test_depth_limit_of_a_plain_type_equals_that_of_pydantic(depth: int) -> None:
    nest: Any = 1
    for _ in range(depth):
        nest = [nest]
    plain, other = pair(Any)
    assert describe_value(plain.write(nest)) == describe_value(other.write(nest))
    assert describe_value(plain.read({"a": nest})) == describe_value(other.read({"a": nest}))


def test_default_in_the_schema_is_a_copy() -> None:
    stored = [1]
    shown = define_function(list[int], stored).tool.parameters["a"]["default"]
    stored.append(2)
    assert shown == [1]


@pytest.mark.parametrize(
    "annotation",
    [
        Annotated[int, "x"],
        NaiveDatetime,
        Literal[b"a"],
        Literal["\ud800"],
        Literal[9007199254740993],
        bytes,
        tuple[int, int],
        set[int],
        dict[int, str],
        dict[Literal["a"], int],
        list[bytes],
        int | bytes,
        bytes | None,
        Callable[[int], int],
        [int],
        "int",
        3,
    ],
)
def test_type_that_may_not_be_plain_is_handled_by_pydantic(annotation: Any) -> None:
    assert build_core_schema(annotation) is None


@pytest.mark.parametrize(("container", "arguments"), [(list, (int, str)), (dict, (str,)), (dict, (str, int, int))])
def test_container_with_a_wrong_number_of_types_is_handled_by_pydantic(container: type, arguments: Any) -> None:
    assert build_core_schema(GenericAlias(container, arguments)) is None


def parse_docstring(text: str) -> str:
    return (parse(inspect.cleandoc(text)).description or "").strip()


lines = st.sampled_from(
    [
        *("", " ", "    ", "\t", "Add.", "  Add two.", "    more", "- a point", "* b"),
        *("See: this", "a\fb", "\f", "\r", "\v x"),
    ]
)


@given(st.lists(lines | st.text(max_size=12), max_size=8).map("\n".join))
@example("Add two numbers.")
@example("Add.\n\n\n  One.\n\n\n  Two.  \n\n")
@example("\n    a\n      b")
@example("\n    a\n      :param b: c")
def test_docstring_without_sections_reads_the_same_as_with_the_parser(text: str) -> None:
    try:
        expected = parse_docstring(text)
    except Exception:  # noqa: BLE001 - some texts break the parser; what happens then is said elsewhere
        return
    assert read_docstring(text).description == expected


sections = st.sampled_from(
    [
        *("Args:", "Arguments:", "Parameters:", "Returns:", "Yields: ", "Raises:\t", "Example:", "Examples:\f"),
        *("Parameters", "----------", "Returns", "-------", "Yields  ", "------", "Examples", "--------", "---"),
        *(":param a: It.", ":returns: It.", ":", "@param a: It.", "@return: It.", "@"),
        *(".. deprecated:: 1.0", "..deprecated ::", "Attributes:"),
        *("    a: It.", "    a (int): It.", "a : int", "    It.", "int", "    Nothing.", "a: It."),
    ]
)


@given(st.lists(lines | sections, max_size=8).map("\n".join))
def test_docstring_sections_are_read_the_same_as_with_the_parser(text: str) -> None:
    try:
        whole = parse(inspect.cleandoc(text))
    except Exception:  # noqa: BLE001 - as above
        return
    read = read_docstring(text)
    assert read.description == (whole.description or "").strip()
    names = [name for each in whole.params for name in each.arg_name.split(",")]
    assert read.parameters.keys() == {name.strip().lstrip("*") for name in names}
    assert bool(read.returns) == bool(whole.returns and (whole.returns.description or "").strip())


FRESH = """
import asyncio, json, sys
from collections.abc import AsyncIterator, Iterator
from typing import Any, Literal, Optional
from toolwire.define import Toolkit

kit = Toolkit("Kit")

@kit.tool(approval="auto")
def add(a: int, b: int = 1) -> int:
    '''Add two numbers.

    Twice: no. Once: yes.
    '''
    return a + b

@kit.tool
async def find(words: list[str], how: Literal["all", "any"] = "all", most: Optional[int] = None) -> dict[str, Any]:
    return {}

@kit.tool
def scale(by: float, rows: list[list[float]] | None = None, extra=None) -> list[float | None]:
    return []

@kit.tool
def count(to: int) -> Iterator[int]:
    yield to

@kit.tool
async def tell(name: str, loud: bool = False) -> AsyncIterator[str]:
    yield name

@kit.tool
def nothing() -> None: ...

kit.catalog()
by_name = {function.tool.name: function for function in kit.functions}
assert by_name["add"].read({"a": 1.0}) == {"a": 1}
assert by_name["scale"].read({"by": 1, "rows": [[1, 2.5]]}) == {"by": 1.0, "rows": [[1.0, 2.5]]}
assert by_name["scale"].write([1, None]).value == [1.0, None]
assert by_name["nothing"].write(None).value is None
print(json.dumps(sorted({"pydantic", "pydantic_core", "docstring_parser", "typing_extensions"} & sys.modules.keys())))
"""


def test_tools_of_plain_types_work_without_importing_pydantic() -> None:
    run = subprocess.run([sys.executable, "-c", FRESH], capture_output=True, text=True, timeout=30, check=True)
    assert json.loads(run.stdout) == []


def test_a_streaming_tool_of_a_plain_type_writes_each_item() -> None:
    async def tell() -> AsyncIterator[float]:
        yield 1

    function = Toolkit("Kit").add(tell)
    assert describe_value(function.write(1)) == describe_value(Value(1.0))
