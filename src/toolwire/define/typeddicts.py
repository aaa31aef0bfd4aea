"""Replace ``typing.TypedDict``: before Python 3.12 pydantic reads only the one of typing_extensions."""

from __future__ import annotations

import functools
import operator
import sys
import types
import typing
from typing import Any

_NEEDED = sys.version_info < (3, 12)


def replace_typeddicts(annotation: Any) -> Any:
    """Return ``annotation`` with every ``typing.TypedDict`` in it replaced by its twin of typing_extensions.

    A TypedDict that holds itself is left as it is, and so is one inside a dataclass or model.
    """
    return _replace_inside(annotation, ()) if _NEEDED else annotation


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
    return origin[inner_types]


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
