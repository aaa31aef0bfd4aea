"""Which parameters a caller sees, how a function runs, and what Python can write that no schema describes."""

from __future__ import annotations

import functools
import math
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any

import pytest

from toolwire.core.errors import DefinitionError
from toolwire.core.model import Context, Problem, Value
from toolwire.define import Function, FunctionKind, Toolkit


def define(function: Any, **options: Any) -> Function:
    return Toolkit("Kit").add(function, **options)


def refusal(function: Any, **options: Any) -> str:
    with pytest.raises(DefinitionError) as caught:
        define(function, **options)
    return str(caught.value)


def run(function: Function, **arguments: Any) -> Any:
    keywords = function.read(arguments)
    assert isinstance(keywords, dict), keywords
    return function.call(**keywords)


@pytest.mark.requirement("OT-013", "OT-015", "OT-018")
def test_parameters_keep_their_order_and_are_required_without_a_default() -> None:
    def book(room: int, *, guest: str = "", nights: int) -> None: ...

    tool = define(book).tool
    assert ([*tool.parameters], tool.required_parameters) == (["room", "guest", "nights"], ("room", "nights"))


@pytest.mark.requirement("OT-013")
def test_a_function_without_parameters_takes_an_empty_object() -> None:
    def ping() -> None: ...

    assert define(ping).tool.input_schema == {"type": "object", "properties": {}, "additionalProperties": False}


def test_positional_only_parameters_are_passed_by_name_and_may_be_omitted() -> None:
    def power(base: int, exponent: int = 2, /, modulus: int = 1000) -> int:
        return pow(base, exponent, modulus)

    function = define(power)
    assert function.tool.required_parameters == ("base",)
    assert run(function, base=3) == 9
    assert run(function, base=3, exponent=3) == 27
    assert run(function, base=3, modulus=5) == 4


def test_a_builtin_with_a_signature_can_be_a_tool() -> None:
    function = define(math.sqrt)
    assert run(function, x=9) == 3


def test_partial_omits_its_bound_parameters() -> None:
    def add(a: int, b: int) -> int:
        return a + b

    function = define(functools.partial(add, 1))
    assert [*function.tool.parameters] == ["b"]
    assert run(function, b=2) == 3


def test_class_is_a_tool_that_returns_an_instance() -> None:
    @dataclass
    class Point:
        x: int
        y: int = 0

    function = define(Point)
    assert function.tool.required_parameters == ("x",)
    assert function.write(run(function, x=3)) == Value({"x": 3, "y": 0})


def test_decorated_function_is_described_by_the_wrapped_function() -> None:
    def logged(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs)

        return wrapper

    @logged
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    function = define(add)
    assert (function.tool.name, function.tool.description) == ("add", "Add two numbers.")
    assert run(function, a=1, b=2) == 3


@pytest.mark.requirement("OTC-023")
@pytest.mark.parametrize("annotation", [Context, Context | None, Annotated[Context, "of the call"]])
def test_the_context_is_injected_and_never_in_the_schema(annotation: Any) -> None:
    def whoami(context, greeting: str) -> str:  # type: ignore[no-untyped-def]  # the annotation comes below
        return f"{greeting} {context.principal}"

    whoami.__annotations__["context"] = annotation
    function = define(whoami)
    assert function.context_parameter == "context"
    assert [*function.tool.parameters] == ["greeting"]
    refused = function.read({"greeting": "hi", "context": {"principal": "root"}})
    assert isinstance(refused, Problem)
    assert refused.parameter_errors == {"context": "This tool has no such argument."}
    keywords = function.read({"greeting": "hi"})
    assert keywords == {"greeting": "hi"}
    assert function.call(**keywords, context=Context(principal="ada")) == "hi ada"


def test_two_contexts_are_refused() -> None:
    def both(a: Context, b: Context) -> None: ...

    assert refusal(both) == "both() accepts the Context twice, as 'a' and 'b'. Keep one."


def test_union_without_context_is_an_ordinary_parameter() -> None:
    def either(a: int | None) -> None: ...

    assert define(either).context_parameter is None


async def a_coroutine() -> int:
    return 1


def a_generator() -> Generator[int, None, str]:
    yield 1
    return "done"


def an_iterator() -> Iterator[int]:
    yield 1


def an_iterable() -> Iterable[int]:
    yield 1


async def an_async_generator() -> AsyncGenerator[int]:
    yield 1


async def an_async_iterator() -> AsyncIterator[int]:
    yield 1


def gives_an_iterator() -> Iterator[int]:
    return iter([1])


def gives_an_async_iterable() -> AsyncIterable[int]:
    return an_async_generator()


class Later:
    async def __call__(self) -> int:
        return 1


@pytest.mark.parametrize(
    ("function", "kind"),
    [
        (a_coroutine, FunctionKind.ASYNC),
        (Later(), FunctionKind.ASYNC),
        (functools.partial(a_coroutine), FunctionKind.ASYNC),
        (a_generator, FunctionKind.GENERATOR),
        (an_iterator, FunctionKind.GENERATOR),
        (an_iterable, FunctionKind.GENERATOR),
        (gives_an_iterator, FunctionKind.GENERATOR),
        (an_async_generator, FunctionKind.ASYNC_GENERATOR),
        (an_async_iterator, FunctionKind.ASYNC_GENERATOR),
        (gives_an_async_iterable, FunctionKind.ASYNC_GENERATOR),
        (math.sqrt, FunctionKind.SYNC),
    ],
)
def test_execution_kind_of_a_function_is_known_at_definition(function: Any, kind: FunctionKind) -> None:
    defined = define(function)
    assert defined.kind is kind
    assert defined.tool.streams is kind.streams
    if kind.streams:
        assert defined.tool.output_schema == {"type": "array", "items": {"type": "integer"}}


def test_each_yielded_item_is_written_separately() -> None:
    function = define(a_generator)
    assert [function.write(item) for item in function.call()] == [Value(1)]
    assert isinstance(function.write("one"), Problem)


def test_generator_without_item_type_may_yield_anything() -> None:
    def bare() -> Iterator:  # type: ignore[type-arg]  # what is tested
        yield 1

    def silent():  # type: ignore[no-untyped-def]  # what is tested
        yield 1

    for function in (bare, silent):
        assert define(function).tool.output_schema == {"type": "array", "items": {}}


def test_a_generator_annotated_with_its_item_is_refused() -> None:
    def count() -> int:  # type: ignore[misc]  # what is tested
        yield 1

    assert refusal(count) == "count() uses yield. Annotate what it yields: Iterator[...] or AsyncIterator[...]."


def test_a_coroutine_that_returns_an_iterator_is_refused() -> None:
    async def late() -> Iterator[int]:
        return iter([1])

    assert refusal(late) == "late() is a coroutine that returns an iterator. Use yield in it, or return a list."


def test_variadic_parameters_are_refused() -> None:
    def many(*numbers: int) -> None: ...

    def keyed(**options: int) -> None: ...

    assert refusal(many) == "many() accepts *numbers, which a schema cannot describe. Name each parameter."
    assert refusal(keyed) == "keyed() accepts **options, which a schema cannot describe. Name each parameter."


def test_a_callable_without_a_signature_is_refused() -> None:
    assert refusal(dict) == "dict() does not declare its parameters. Wrap it in a def."


def test_an_annotation_may_name_a_type_of_the_function_around() -> None:
    @dataclass
    class Local:
        x: int

    kit = Toolkit("Kit")

    @kit.tool
    def bare(a: Local) -> None: ...

    @kit.tool(approval="auto")
    def with_options(a: Local) -> None: ...

    kit.add(bare, name="added")
    for function in kit.functions:
        assert function.read({"a": {"x": 1}}) == {"a": Local(x=1)}


def test_annotation_with_an_unknown_name_is_refused() -> None:
    def lost(a: Nowhere) -> None: ...  # type: ignore[name-defined]  # noqa: F821 - what is tested

    assert (
        refusal(lost)
        == "lost() is annotated with 'Nowhere', which is not defined there. Import it, or define it first."
    )


def test_an_annotation_that_raises_is_refused() -> None:
    def odd(a: math.nothing) -> None: ...  # type: ignore[name-defined]  # what is tested

    assert refusal(odd).startswith("odd() has an annotation that cannot be evaluated: module 'math' has no attribute")
