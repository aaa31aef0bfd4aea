"""The parameters of a class as options of a command."""

from __future__ import annotations

import argparse
import inspect
import re
import types
import typing
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, Final, Literal, Union, get_args, get_origin

from toolwire.core.errors import DefinitionError
from toolwire.define.docstring import read_docstring

_PLAIN: Final = (str, int, float, Path)
_SECRET: Final = re.compile(r"key|token|secret|password", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One option: the parameter it is for, how it is written, and what argparse must know of it."""

    name: str
    flags: tuple[str, ...]
    is_required: bool
    settings: dict[str, Any] = field(default_factory=dict)


def read_options(tool: Callable[..., Any]) -> tuple[Option, ...]:
    """Return an option for each parameter with which ``tool`` is made.

    Raises:
        DefinitionError: a parameter has no name to give it by, or a type that no text can be read as.
    """
    maker = tool.__init__ if isinstance(tool, type) else tool  # type: ignore[misc]  # a class that is made, not subclassed
    try:
        types_ = typing.get_type_hints(maker)
    except (NameError, TypeError) as error:
        raise DefinitionError(f"The types of {tool.__name__} cannot be read: {error}.") from error
    texts = {**_texts(tool), **_texts(maker)}
    options: list[Option] = []
    for parameter in inspect.signature(tool).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        if parameter.kind is parameter.POSITIONAL_ONLY:
            raise DefinitionError(f"The parameter {parameter.name!r} can only be given by its place: take out the '/'.")
        options.append(_option(parameter, types_.get(parameter.name, str), texts.get(parameter.name, "")))
    return tuple(options)


def _texts(described: object) -> dict[str, str]:
    return dict(read_docstring(inspect.getdoc(described) or "").parameters)


def _option(parameter: inspect.Parameter, annotation: Any, text: str) -> Option:
    name, default = parameter.name, parameter.default
    is_required = default is parameter.empty
    settings = _settings(annotation, name)
    if is_required:
        settings["required"] = True
    else:
        settings["default"] = argparse.SUPPRESS
        if default is not None and default not in ((), []) and not _SECRET.search(name):
            text = f"{text} (default: {default})".strip()
    dashed = f"--{name.replace('_', '-')}"
    flags = (dashed,) if dashed == f"--{name}" else (dashed, f"--{name}")
    return Option(
        name=name, flags=flags, is_required=is_required, settings={**settings, "help": text.replace("%", "%%")}
    )


def _settings(annotation: Any, name: str) -> dict[str, Any]:
    """Return how argparse reads a text as ``annotation``."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in (Union, types.UnionType):
        some = [argument for argument in arguments if argument is not type(None)]
        return _settings(some[0], name) if len(some) == 1 else _unreadable(annotation, name)
    if origin in (list, tuple, Sequence) and arguments and arguments[0] in _PLAIN:
        return {"action": "append", "type": arguments[0], "metavar": name.upper()}
    if origin is Literal and all(isinstance(value, str) for value in arguments):
        return {"choices": arguments}
    return _of_class(annotation, name)


def _of_class(annotation: Any, name: str) -> dict[str, Any]:
    if annotation is bool:
        return {"action": argparse.BooleanOptionalAction}
    if annotation in _PLAIN:
        return {"type": annotation, "metavar": name.upper()}
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return {"type": annotation, "choices": tuple(annotation)}
    return _unreadable(annotation, name)


def _unreadable(annotation: Any, name: str) -> typing.NoReturn:
    shown = getattr(annotation, "__name__", str(annotation))
    text = "use str, int, float, bool, Path, a Literal of texts, an Enum or a list of these"
    raise DefinitionError(f"The parameter {name!r} of the type {shown} cannot be given on a command line: {text}.")
