"""Mark parameters that are filled by a function instead of by the caller, such as a session of a database."""

from __future__ import annotations

import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from toolwire.core.errors import DefinitionError

from .function_kind import FunctionKind

_MAX_LEVELS = 20


@dataclass(frozen=True, slots=True)
class Depends:
    """Marks a parameter that ``function`` fills in each call: ``db: Annotated[Database, Depends(open_database)]``.

    Callers neither see nor set the parameter. ``function`` can be a plain function, a coroutine function, or a
    generator that yields once. The code after ``yield`` runs after the call, even if the call failed. ``function`` can
    itself take the Context and other dependencies. A function that several dependencies share runs once per call.
    """

    function: Callable[..., Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Dependency:
    """A function that fills a parameter: how it runs, and what fills its own parameters."""

    function: Callable[..., Any]
    kind: FunctionKind
    context_parameter: str | None = None
    dependencies: Mapping[str, Dependency] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def is_async(self) -> bool:
        """Whether it, or what it depends on, has to run on the event loop."""
        return self.kind in (FunctionKind.ASYNC, FunctionKind.ASYNC_GENERATOR) or any(
            one.is_async for one in self.dependencies.values()
        )


def find_mark(annotation: Any, default: Any) -> Depends | None:
    """Return the mark of a parameter: in ``Annotated``, or as its default; None without one."""
    if isinstance(default, Depends):
        return default
    if typing.get_origin(annotation) is typing.Annotated:
        return next((one for one in typing.get_args(annotation)[1:] if isinstance(one, Depends)), None)
    return None


def check_levels(level: int, where: str) -> None:
    """Refuse dependencies that are nested too deep, which is how a circle looks.

    Raises:
        DefinitionError: there are more than 20 levels.
    """
    if level > _MAX_LEVELS:
        raise DefinitionError(f"{where}: dependencies are nested {_MAX_LEVELS} levels deep. Is there a cycle?")
