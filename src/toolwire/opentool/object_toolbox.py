"""Make a Toolbox of one object: its ``call`` runs functions, its document is the catalog.

Rules:
- What a tool raises reaches the caller only where it says so by one of the three exceptions for tools.
- A tool without a document is called by any name: that is the one tool ANY (or ANY_STREAMED), whose arguments are a
  name and its arguments, so that no caller can make the server remember names.
"""
# OTRPC-014, OTRPC-021

from __future__ import annotations

import inspect
import logging
from collections.abc import AsyncGenerator, Callable, Generator, Hashable, Mapping
from contextlib import aclosing, suppress
from dataclasses import replace
from typing import Any, Final, NamedTuple, TypeAlias

import anyio

from toolwire.core.catalog import Catalog
from toolwire.core.errors import ToolError
from toolwire.core.model import Call, Json, Kind, Problem, Progress, Result, Tool, Value
from toolwire.core.toolbox import Notify, ignore_progress
from toolwire.protocols.opentool import result
from toolwire.server.run.function_toolbox import convert_tool_error, get_thread_owner
from toolwire.server.run.stored_items import StoredItems
from toolwire.server.run.worker_threads import ThreadPool
from toolwire.validation import find_declared_names, refuse_undeclared

from .description import Description
from .exceptions import (
    FunctionNotSupportedException,
    InvalidArgumentsException,
    OpenToolException,
    ToolBreakException,
)

_log = logging.getLogger("toolwire")

_Pieces: TypeAlias = AsyncGenerator[Any, None] | Generator[Any, None, None]

ANY: Final = Tool(name="call", output_schema={"type": "object"})
"""What is called where there is no document. It is in no catalog."""

ANY_STREAMED: Final = replace(ANY, streams=True)
"""ANY of an object that has a ``stream_call``."""

_KINDS: Final[Mapping[type[OpenToolException], Kind]] = {
    FunctionNotSupportedException: Kind.UNKNOWN_TOOL,
    InvalidArgumentsException: Kind.INVALID_ARGUMENTS,
    ToolBreakException: Kind.TOOL_FAILED,
}


_MAX_KNOWN = 10_000


class _ListedFunction(NamedTuple):
    """What is known of a tool before it is called; ``declared`` is None where it takes any argument."""

    tool: Tool
    name: str
    declared: frozenset[str] | None
    shape: result.Shape


class ObjectToolbox:
    """Runs the functions of one object with ``call(name, arguments)``, sync (in threads) or async.

    ``begin`` and ``end`` are its ``init`` and ``dispose``; the first call begins it if ``begin`` was not called.
    """

    # OTRPC-020

    def __init__(self, tool: Any, description: Description, *, threads: int = 40) -> None:
        self._tool = tool
        self._description = description
        self._stream: Callable[..., Any] | None = getattr(tool, "stream_call", None)
        self._functions: dict[int, _ListedFunction] = {}
        self._pool = ThreadPool(threads)
        self._beginning: anyio.Lock | None = None
        self._begun = False

    @property
    def any(self) -> Tool:
        """The tool that a call of any name is, where there is no document."""
        return ANY if self._stream is None else ANY_STREAMED

    @property
    def document(self) -> Mapping[str, Json] | None:
        """The object's own document as it was given; None where it has none."""
        return self._description.data

    def catalog(self) -> Catalog:
        """Return what the document offers; nothing where there is none."""
        return self._description.catalog

    async def begin(self) -> None:
        """Run the object's ``init`` once."""
        if self._begun:
            return
        if self._beginning is None:
            self._beginning = anyio.Lock()
        async with self._beginning:
            if not self._begun:
                await self._hook("init")
                self._begun = True

    async def end(self) -> None:
        """Run the object's ``dispose`` if it was begun."""
        if self._begun:
            self._begun = False
            await self._hook("dispose")

    async def run(self, call: Call, notify: Notify = ignore_progress) -> Result:
        """Run ``call`` on the object; what it raises becomes a Problem. Without a listener nothing is streamed."""
        function = self._functions.get(id(call.tool))
        if function is None or function.tool is not call.tool:
            function = self._describe_function(call.tool)
        asked = _read_call(function, call)
        if isinstance(asked, Problem):
            return asked
        name, arguments = asked
        try:
            if not self._begun:
                await self.begin()
            if self._stream is not None and call.tool.streams and notify is not ignore_progress:
                pieces = await self._call_method(get_thread_owner(call), self._stream, name, arguments)
                stored = StoredItems(name, takes_items=call.context.takes_items)
                return await _collect_stream(self._iterate_pieces(get_thread_owner(call), pieces), notify, stored)
            returned = await self._call_method(get_thread_owner(call), self._tool.call, name, arguments)
        except ToolError as error:
            return convert_tool_error(error)
        except Exception as error:  # noqa: BLE001 - whatever a tool raises must not reach the caller
            return _build_problem(error, name, call)
        if not isinstance(returned, dict) and isinstance(returned, Mapping):
            returned = dict(returned)
        return Value(result.read(returned, function.shape, function.tool.output_name))

    def _describe_function(self, tool: Tool) -> _ListedFunction:
        """Return what is known of ``tool``, worked out once for each that the codecs made of the catalog."""
        if len(self._functions) >= _MAX_KNOWN:
            self._functions.clear()
        name = self._description.methods.get(tool.name, tool.name)
        function = _ListedFunction(
            tool, name, find_declared_names(tool.input_schema), result.get_shape(tool.output_schema)
        )
        self._functions[id(tool)] = function
        return function

    async def _call_method(self, caller: Hashable, method: Callable[..., Any], *arguments: Any) -> Any:
        if inspect.iscoroutinefunction(method):
            return await method(*arguments)
        returned = await self._pool.run(caller, lambda: method(*arguments))
        return await returned if inspect.isawaitable(returned) else returned

    async def _iterate_pieces(self, caller: Hashable, pieces: _Pieces) -> AsyncGenerator[Any, None]:
        """Yield what ``pieces`` yields, and close it; a plain generator runs in a thread, one step at a time."""
        if isinstance(pieces, AsyncGenerator):
            async with aclosing(pieces):
                async for piece in pieces:
                    yield piece
            return
        done = object()
        try:
            while (piece := await self._pool.run(caller, lambda: next(pieces, done))) is not done:
                yield piece
        finally:
            with suppress(ValueError):  # a step that was cancelled still runs, and cannot be stopped
                pieces.close()

    async def _hook(self, name: str) -> None:
        hook = getattr(self._tool, name, None)
        if hook is not None:
            await self._call_method("", hook)


def _read_call(function: _ListedFunction, call: Call) -> tuple[str, dict[str, Json]] | Problem:
    """Return the function's own name and its arguments, or why it does not take them."""
    arguments = call.arguments
    if function.tool is ANY or function.tool is ANY_STREAMED:
        return arguments["name"], arguments["arguments"]
    return refuse_undeclared(function.name, arguments, function.declared) or (function.name, dict(arguments))


async def _collect_stream(pieces: AsyncGenerator[Any, None], notify: Notify, stored: StoredItems) -> Result:
    async with aclosing(pieces) as items:
        async for item in items:
            progress = item if isinstance(item, Progress) else Progress(item)
            if (refusal := stored.add(progress.value)) is not None:
                return refusal
            await notify(progress)
    return stored.build_result()


def explain_error(error: BaseException) -> Problem | None:
    """Return what one of the exceptions that a Tool raises by purpose means; None of any other."""
    #
    if isinstance(error, OpenToolException):
        for raised, kind in _KINDS.items():
            if isinstance(error, raised):
                return Problem(kind=kind, message=error.message)
    return None


def _build_problem(error: Exception, name: str, call: Call) -> Problem:
    known = explain_error(error)
    if known is not None:
        return known
    _log.error("function %s failed in call %s", name, call.call_id, exc_info=error)
    return Problem(
        kind=Kind.TOOL_FAILED,
        message=f"{name} failed. See the server's log.",
        developer_message=f"{type(error).__name__}: {error}",
    )
