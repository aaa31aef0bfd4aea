"""A Toolbox of Python functions: what a Toolkit becomes when it runs."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, closing
from typing import Any, assert_never

import anyio
import anyio.from_thread
import anyio.to_thread

from toolwire.core.catalog import Catalog
from toolwire.core.errors import ToolError
from toolwire.core.model import Call, Kind, Problem, Progress, Result, Value
from toolwire.core.toolbox import Notify, unheard
from toolwire.define import Function, FunctionKind, Toolkit

_log = logging.getLogger("toolwire")
MAX_ITEMS = 10_000


class FunctionBox:
    """Runs the functions of a Toolkit: coroutines on the event loop, plain functions in worker threads.

    A generator's items are sent as progress while it runs, and its result is the list of them, at most 10,000.
    """

    def __init__(self, toolkit: Toolkit, *, threads: int = 40) -> None:
        self._toolkit = toolkit
        self._threads = threads
        self._limiter: anyio.CapacityLimiter | None = None
        self._functions: dict[str, Function] = {}
        self._by_identity: dict[int, Function] = {}
        self._catalog: Catalog | None = None

    def catalog(self) -> Catalog:
        """Return the toolkit's catalog; the same object until a tool is added."""
        return self._toolkit.catalog()

    async def run(self, call: Call, notify: Notify = unheard) -> Result:
        """Run the function of ``call``; what it raises becomes a Problem, and is logged with the call's id."""
        function = self._function(call)
        if function is None:
            return Problem(kind=Kind.UNKNOWN_TOOL, message=f"There is no tool {call.tool.id!r} here.")
        arguments = function.read(call.arguments)
        if isinstance(arguments, Problem):
            return arguments
        if function.context_parameter is not None:
            arguments[function.context_parameter] = call.context
        try:
            return await self._invoke(function, arguments, notify)
        except ToolError as error:
            return failure(error)
        except Exception as error:  # noqa: BLE001 - whatever a tool raises must not reach the caller
            _log.exception("tool %s failed in call %s", call.tool.id, call.call_id)
            return Problem(
                kind=Kind.TOOL_FAILED,
                message=f"{call.tool.name} failed; the server's log has the details.",
                developer_message=f"{type(error).__name__}: {error}",
            )

    def _function(self, call: Call) -> Function | None:
        if self._catalog is not self._toolkit.catalog():
            self._catalog = self._toolkit.catalog()
            self._functions = {function.tool.id: function for function in self._toolkit.functions}
            self._by_identity = {id(function.tool): function for function in self._toolkit.functions}
        function = self._by_identity.get(id(call.tool))
        return function if function is not None else self._functions.get(call.tool.id)

    async def _invoke(self, function: Function, arguments: dict[str, Any], notify: Notify) -> Result:
        match function.kind:
            case FunctionKind.ASYNC:
                return function.write(await function.call(**arguments))
            case FunctionKind.SYNC if function.inline:
                return function.write(function.call(**arguments))
            case FunctionKind.SYNC:
                return await self._in_thread(_call, function, arguments)
            case FunctionKind.ASYNC_GENERATOR:
                return await _drain(function, function.call(**arguments), notify)
            case FunctionKind.GENERATOR:
                return await self._in_thread(_drain_sync, function, arguments, notify)
            case _:
                assert_never(function.kind)

    async def _in_thread(self, work: Callable[..., Result], *arguments: Any) -> Result:
        if self._limiter is None:
            self._limiter = anyio.CapacityLimiter(self._threads)
        return await anyio.to_thread.run_sync(work, *arguments, abandon_on_cancel=True, limiter=self._limiter)


def failure(error: ToolError) -> Problem:
    """Return what a tool said by raising ``error``, as a Problem. [OTC-028..032]"""
    return Problem(
        kind=Kind.TOOL_FAILED,
        message=error.message,
        developer_message=error.developer_message,
        can_retry=error.can_retry,
        retry_after_ms=error.retry_after_ms,
        additional_prompt_content=error.additional_prompt_content,
    )


def _call(function: Function, arguments: dict[str, Any]) -> Result:
    return function.write(function.call(**arguments))


async def _drain(function: Function, items: AsyncGenerator[Any, None], notify: Notify) -> Result:
    written: list[Any] = []
    async with aclosing(items):
        async for item in items:
            result = function.write(item)
            if isinstance(result, Problem):
                return result
            if len(written) == MAX_ITEMS:
                return _too_many(function)
            written.append(result.value)
            await notify(Progress(result.value))
    return Value(written)


def _drain_sync(function: Function, arguments: dict[str, Any], notify: Notify) -> Result:
    written: list[Any] = []
    with closing(function.call(**arguments)) as items:
        for item in items:
            result = function.write(item)
            if isinstance(result, Problem):
                return result
            if len(written) == MAX_ITEMS:
                return _too_many(function)
            written.append(result.value)
            anyio.from_thread.run(notify, Progress(result.value))
    return Value(written)


def _too_many(function: Function) -> Problem:
    return Problem(kind=Kind.TOOL_FAILED, message=f"{function.tool.name} sent more than {MAX_ITEMS:,} items.")
