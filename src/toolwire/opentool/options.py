"""Turn the parameters of a class into options of a command."""

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
    """Return an option for each parameter with which ``tool`` is made and that a text can be read as.

    Raises:
        DefinitionError: a parameter that must be given has no name to give it by, or a type that no text is.
    """
    maker = tool.__init__ if isinstance(tool, type) else tool  # type: ignore[misc]  # a class that is made, not subclassed
    try:
        types_ = typing.get_type_hints(maker)
    except (NameError, TypeError) as error:
        raise DefinitionError(f"Cannot read the types of {tool.__name__}: {error}.") from error
    texts = {**_read_texts(tool), **_read_texts(maker)}
    options: list[Option] = []
    for parameter in inspect.signature(tool).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        settings = _choose_settings(types_.get(parameter.name, str), parameter.name)
        if settings is not None and parameter.kind is not parameter.POSITIONAL_ONLY:
            options.append(_build_option(parameter, settings, texts.get(parameter.name, "")))
        elif parameter.default is parameter.empty:
            raise DefinitionError(_explain_unreadable(parameter))
    return tuple(options)


def _read_texts(described: object) -> dict[str, str]:
    return dict(read_docstring(inspect.getdoc(described) or "").parameters)


def _build_option(parameter: inspect.Parameter, settings: dict[str, Any], text: str) -> Option:
    name, default = parameter.name, parameter.default
    is_required = default is parameter.empty
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


def _choose_settings(annotation: Any, name: str) -> dict[str, Any] | None:
    """Return how argparse reads a text as ``annotation``, None where no text is one."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in (Union, types.UnionType):
        some = [argument for argument in arguments if argument is not type(None)]
        return _choose_settings(some[0], name) if len(some) == 1 else None
    if origin in (list, tuple, Sequence) and arguments and arguments[0] in _PLAIN:
        return {"action": "append", "type": arguments[0], "metavar": name.upper()}
    if origin is Literal and all(isinstance(value, str) for value in arguments):
        return {"choices": arguments}
    return _choose_class_settings(annotation, name)


def _choose_class_settings(annotation: Any, name: str) -> dict[str, Any] | None:
    if annotation is bool:
        return {"action": argparse.BooleanOptionalAction}
    if annotation in _PLAIN:
        return {"type": annotation, "metavar": name.upper()}
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return {"type": annotation, "choices": tuple(annotation)}
    return None


def _explain_unreadable(parameter: inspect.Parameter) -> str:
    if parameter.kind is parameter.POSITIONAL_ONLY:
        return f"The parameter {parameter.name!r} is positional-only. Remove the '/'."
    text = "use str, int, float, bool, Path, a Literal of texts, an Enum or a list of these, or give it a default"
    return f"The type of the parameter {parameter.name!r} cannot be given on a command line: {text}."
