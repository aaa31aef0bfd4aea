"""Read what Python knows of a callable: its parameters with their types, its result, and how it runs.

**Rules**

- A parameter that no schema can describe is refused here, when the tool is defined.
- No pydantic here: types are read, not interpreted.
"""

from __future__ import annotations

import ast
import functools
import inspect
import operator
import sys
import textwrap
import types
import typing
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Callable,
    Generator,
    Iterable,
    Iterator,
    Mapping,
)
from copy import copy
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from toolwire.core.errors import DefinitionError
from toolwire.core.model import Context

from .dependency import Dependency, Depends, check_levels, find_mark
from .function_kind import FunctionKind

MISSING: Any = inspect.Parameter.empty
"""The absence of a default; ``None`` is a default."""

_INHERITED = inspect.getdoc(type.__call__)
"""The text of a method ``__call__`` that has none of its own."""

_VARIADIC = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
_SYNC_STREAMS = (Iterator, Generator)
_ASYNC_STREAMS = (AsyncIterator, AsyncGenerator, AsyncIterable)
_REPLACES_TYPEDDICTS = sys.version_info < (3, 12)
"""Whether pydantic reads only the ``TypedDict`` of typing_extensions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One argument a caller may give. ``annotation`` is ``Any`` where there is none."""

    name: str
    annotation: Any
    default: Any = MISSING

    @property
    def is_required(self) -> bool:
        """Whether a call must have this argument."""
        return self.default is MISSING


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """``returns`` is the type of the result, or of each yielded item; ``context`` the parameter that is injected.

    ``dependencies`` are the parameters that functions fill.
    """

    kind: FunctionKind
    parameters: tuple[Parameter, ...]
    returns: Any
    context: str | None = None
    dependencies: Mapping[str, Dependency] = field(default_factory=dict)


LocalNames: TypeAlias = Mapping[str, Any]
"""Names that annotations may use besides the function's globals: the locals where the function was defined."""


def get_function_name(function: Callable[..., Any]) -> str:
    """Return the name of ``function``; a callable object has the name of its class."""
    inner = _unwrap_partial(function)
    return str(getattr(inner, "__name__", type(inner).__name__))


def get_function_docstring(function: Callable[..., Any]) -> str:
    """Return the docstring of ``function``; that of a callable object is on ``__call__`` or on its class.

    Python without docstrings (``-OO``) reads it from the source of the function.
    """
    inner = _unwrap_partial(function)
    text = inspect.getdoc(_find_described(function)) or ""
    if not text or text == _INHERITED:
        text = inspect.getdoc(inner) or ""
    if text or sys.flags.optimize < 2:
        return text
    return _read_source_docstring(_find_described(function)) or _read_source_docstring(type(inner))


def _read_source_docstring(described: Any) -> str:
    # RE-06: a model chooses a tool by its description, so -OO does not remove it.
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(described)))
    except (OSError, TypeError, SyntaxError):
        return ""
    definition = tree.body[0] if tree.body else None
    if not isinstance(definition, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return ""
    return ast.get_docstring(definition) or ""


def read_signature(function: Callable[..., Any], names: LocalNames, where: str, *, level: int = 0) -> Signature:
    """Return the signature of ``function``; ``level`` counts the dependencies around it.

    Raises:
        DefinitionError: a parameter or an annotation cannot be described.
    """
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        raise DefinitionError(f"{where} does not declare its parameters. Wrap it in a def.") from None
    _refuse_unbound_method(function, parameters)
    hints = _read_hints(_find_described(function), names, where)
    taken: list[Parameter] = []
    dependencies: dict[str, Dependency] = {}
    context = None
    for parameter in parameters.values():
        annotation = hints.get(parameter.name, Any)
        if parameter.kind in _VARIADIC:
            spelled = _VARIADIC[parameter.kind] + parameter.name
            raise DefinitionError(f"{where} accepts {spelled}, which a schema cannot describe. Name each parameter.")
        mark = find_mark(annotation, parameter.default)
        default = parameter.default
        if (field := _read_field(default)) is not None:
            annotation, default = field.annotate(annotation), field.default()
        if mark is not None:
            dependencies[parameter.name] = _read_dependency(mark, names, level + 1, where)
        elif not _is_context(annotation):
            taken.append(Parameter(name=parameter.name, annotation=annotation, default=default))
        elif context is None:
            context = parameter.name
        else:
            raise DefinitionError(
                f"{where} accepts the Context twice, as {context!r} and {parameter.name!r}. Keep one."
            )
    kind, returns = _read_result(function, hints.get("return", Any), where)
    return Signature(kind=kind, parameters=tuple(taken), returns=returns, context=context, dependencies=dependencies)


def _read_dependency(mark: Depends, names: LocalNames, level: int, where: str) -> Dependency:
    check_levels(level, where)
    function = mark.function
    if not callable(function):
        raise DefinitionError(f"{where} contains Depends({function!r}), which is not a function.")
    own = f"{get_function_name(function)}()"
    signature = read_signature(function, names, own, level=level)
    unfilled = next((one.name for one in signature.parameters if one.is_required), None)
    if unfilled is not None:
        raise DefinitionError(
            f"{own} is a dependency, but {unfilled!r} gets no value. A dependency can accept the Context, "
            "other dependencies, and parameters with a default."
        )
    return Dependency(
        function=accept_keywords(function),
        kind=signature.kind,
        context_parameter=signature.context,
        dependencies=signature.dependencies,
    )


def _refuse_unbound_method(function: Callable[..., Any], parameters: Mapping[str, inspect.Parameter]) -> None:
    """Refuse a function in the body of a class that takes its object or class first: a call has none."""
    owner, _, name = getattr(function, "__qualname__", "").rpartition("<locals>.")[2].rpartition(".")
    first = next(iter(parameters), "")
    if owner and first in ("self", "cls"):
        made = f"{owner}()" if first == "self" else owner
        raise DefinitionError(
            f"{owner}.{name}() accepts {first}, but a call has no object. Remove the decorator, and add "
            f"the bound method after the class: kit.add({made}.{name})."
        )


class _Field(typing.NamedTuple):
    """What pydantic's ``Field`` as a default says: of the type, and which value a call without the argument has."""

    shown: Any
    default: Callable[[], Any]

    def annotate(self, annotation: Any) -> Any:
        """Return ``annotation`` with the Field, as if it had been written there."""
        return typing.Annotated[annotation, self.shown]


def _read_field(default: Any) -> _Field | None:
    if type(default).__module__ != "pydantic.fields":
        return None
    from pydantic_core import PydanticUndefined  # is there, because a Field is

    shown = copy(default)
    shown.default, shown.default_factory = PydanticUndefined, None
    if default.is_required():
        return _Field(shown, lambda: MISSING)
    return _Field(shown, lambda: default.get_default(call_default_factory=True, validated_data={}))


def accept_keywords(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``function`` as a callable that takes all arguments by keyword, also positional-only ones.

    It gets the default that a ``Field`` has, not the ``Field``.
    """
    parameters = inspect.signature(function).parameters.values()
    positional = [each.name for each in parameters if each.kind is each.POSITIONAL_ONLY]
    fields = {each.name: field.default for each in parameters if (field := _read_field(each.default)) is not None}
    if not positional and not fields:
        return function
    plain = {each.name: each.default for each in parameters if each.name in positional}

    def call(**keywords: Any) -> Any:
        for name in fields.keys() - keywords.keys():
            keywords[name] = fields[name]()
        arguments = [keywords.pop(name, plain[name]) for name in positional]
        return function(*arguments, **keywords)

    return call


def _unwrap_partial(function: Any) -> Any:
    while isinstance(function, functools.partial):
        function = function.func
    return function


def _find_described(function: Callable[..., Any]) -> Any:
    """Return the function, method or class whose text and annotations describe ``function``."""
    inner = _unwrap_partial(function)
    return inner if inspect.isroutine(inner) or inspect.isclass(inner) else type(inner).__call__


def _read_hints(function: Any, names: LocalNames, where: str) -> dict[str, Any]:
    target = function.__init__ if inspect.isclass(function) else function
    try:
        try:
            hints = typing.get_type_hints(target, include_extras=True)
        except NameError:
            known = {**names, **getattr(inspect.unwrap(target), "__globals__", {})}
            hints = typing.get_type_hints(target, known, include_extras=True)
    except NameError as error:
        raise DefinitionError(
            f"{where} is annotated with {error.name!r}, which is not defined there. Import it, or define it first."
        ) from None
    except Exception as error:  # noqa: BLE001 - an annotation in quotes may run any expression
        raise DefinitionError(f"{where} has an annotation that cannot be evaluated: {error}.") from None
    hints = {name: replace_typeddicts(hint) for name, hint in hints.items()}
    return {**hints, "return": function} if inspect.isclass(function) else hints


def _is_context(annotation: Any) -> bool:
    if typing.get_origin(annotation) is typing.Annotated:
        annotation = typing.get_args(annotation)[0]
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        return set(typing.get_args(annotation)) == {Context, type(None)}
    return annotation is Context


def _read_result(function: Callable[..., Any], annotation: Any, where: str) -> tuple[FunctionKind, Any]:
    kind = _detect_kind(function)
    origin = typing.get_origin(annotation) or annotation
    if kind is FunctionKind.SYNC and origin in _SYNC_STREAMS:
        kind = FunctionKind.GENERATOR
    elif kind is FunctionKind.SYNC and origin in _ASYNC_STREAMS:
        kind = FunctionKind.ASYNC_GENERATOR
    elif kind is FunctionKind.ASYNC and origin in (*_SYNC_STREAMS, *_ASYNC_STREAMS):
        raise DefinitionError(f"{where} is a coroutine that returns an iterator. Use yield in it, or return a list.")
    if not kind.streams or annotation is Any:
        return kind, annotation
    if origin not in (*_SYNC_STREAMS, *_ASYNC_STREAMS, Iterable):
        raise DefinitionError(f"{where} uses yield. Annotate what it yields: Iterator[...] or AsyncIterator[...].")
    return kind, (*typing.get_args(annotation), Any)[0]


def _detect_kind(function: Callable[..., Any]) -> FunctionKind:
    target = _find_described(function)
    if inspect.isasyncgenfunction(target):
        return FunctionKind.ASYNC_GENERATOR
    if inspect.iscoroutinefunction(target):
        return FunctionKind.ASYNC
    return FunctionKind.GENERATOR if inspect.isgeneratorfunction(target) else FunctionKind.SYNC


def replace_typeddicts(annotation: Any) -> Any:
    """Return ``annotation`` with every ``typing.TypedDict`` in it replaced by its twin of typing_extensions.

    A TypedDict that holds itself is left as it is, and so is one inside a dataclass or model.
    """
    return _replace_inside(annotation, ()) if _REPLACES_TYPEDDICTS else annotation


def _replace_inside(annotation: Any, around: tuple[Any, ...]) -> Any:
    if type(annotation).__module__ == "typing" and typing.is_typeddict(annotation) and annotation not in around:
        return _build_twin(annotation, (*around, annotation))
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        inner = _replace_inside(arguments[0], around)
        return annotation if inner is arguments[0] else typing.Annotated[(inner, *annotation.__metadata__)]
    if origin is None or origin is typing.Literal:
        return annotation
    inner_types = tuple(_replace_inside(argument, around) for argument in arguments)
    if all(new is old for new, old in zip(inner_types, arguments, strict=True)):
        return annotation
    if origin in (typing.Union, types.UnionType):
        return functools.reduce(operator.or_, inner_types)
    first, *others = inner_types
    return origin[inner_types if others else first]  # Unpack and others take no tuple


def _build_twin(declared: Any, around: tuple[Any, ...]) -> Any:
    import typing_extensions  # comes with pydantic, which a TypedDict needs anyway

    hints = typing.get_type_hints(declared, include_extras=True)
    optional = declared.__optional_keys__
    members = {
        name: typing_extensions.NotRequired[new] if name in optional else new
        for name, hint in hints.items()
        for new in [_replace_inside(hint, around)]
    }
    twin = typing_extensions.TypedDict(declared.__name__, members)  # type: ignore[misc]  # a class that is made at run time
    twin.__module__, twin.__qualname__, twin.__doc__ = declared.__module__, declared.__qualname__, declared.__doc__
    return twin
