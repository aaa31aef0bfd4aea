"""Define a Python function as a tool: its definition, and how to call it with JSON data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from toolwire.core.model import Json, Problem, Result, Tool

from .dependency import Dependency
from .function_kind import FunctionKind


class LargeArguments(Exception):
    """Arguments are too large to be read on an event loop."""


LETS_OTHERS_RUN: ContextVar[bool] = ContextVar("toolwire_lets_others_run", default=False)
"""Whether large arguments are read so that other threads run meanwhile, which takes somewhat longer."""


ReadArguments: TypeAlias = Callable[[Mapping[str, Json]], dict[str, Any] | Problem]
"""Convert JSON arguments to keyword arguments. Missing ones are left to Python's defaults."""

WriteResult: TypeAlias = Callable[[Any], Result]
"""Convert a returned or yielded value to a ``Value`` of JSON data."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """A tool of this process.

    ``call`` takes what ``read`` returns, plus the Context under ``context_parameter`` where that is not None. What
    it gives depends on ``kind``: the result, an awaitable of it, or a sync or async iterator whose items each go
    through ``write``. ``inline`` says that a sync function needs no thread of its own. ``dependencies`` fill parameters
    that no caller sees. ``declares_safe``: its author wrote ``safe=True``.
    """

    tool: Tool
    call: Callable[..., Any]
    read: ReadArguments
    write: WriteResult
    kind: FunctionKind
    inline: bool = False
    context_parameter: str | None = None
    dependencies: Mapping[str, Dependency] = field(default_factory=dict)
    declares_safe: bool = False
