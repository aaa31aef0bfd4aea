"""Fill the parameters of a function that depend on other functions, and clean up after its call.

Rules:
- A function that several parameters depend on runs once in each call.
- What follows the ``yield`` of a generator runs after the call, the last generator first, also after an error.
- A plain function with plain dependencies runs with them in one thread, so that a database connection stays in it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

import anyio

from toolwire.core.model import Context
from toolwire.define import Dependency, Function, FunctionKind

RunInThread: TypeAlias = Callable[[Callable[[], Any]], Awaitable[Any]]
"""Runs a function in a worker thread and returns what it returns."""

_CLEANUP_S = 10.0
"""How long the cleanup of a cancelled call may take, in seconds."""


def needs_loop(dependencies: Mapping[str, Dependency]) -> bool:
    """Return whether one of ``dependencies`` has to run on the event loop."""
    return any(one.is_async for one in dependencies.values())


def fill_function(function: Function, context: Context) -> Function:
    """Return a plain function or generator that fills its plain dependencies when it is called in its thread."""

    def call(**arguments: Any) -> Any:
        with ExitStack() as stack:
            return function.call(**arguments, **_fill(function.dependencies, context, stack, {}))

    def iterate(**arguments: Any) -> Generator[Any, None, None]:
        with ExitStack() as stack:
            # Inside the stack, so that the dependencies stay open until the last item was taken.
            yield from function.call(**arguments, **_fill(function.dependencies, context, stack, {}))

    return replace(function, call=call if function.kind is FunctionKind.SYNC else iterate, dependencies={})


def _fill(
    dependencies: Mapping[str, Dependency], context: Context, stack: ExitStack, known: dict[Callable[..., Any], Any]
) -> dict[str, Any]:
    filled: dict[str, Any] = {}
    for name, one in dependencies.items():
        if one.function not in known:
            keywords = _fill(one.dependencies, context, stack, known)
            if one.context_parameter is not None:
                keywords[one.context_parameter] = context
            if one.kind is FunctionKind.GENERATOR:
                known[one.function] = stack.enter_context(contextmanager(one.function)(**keywords))
            else:
                known[one.function] = one.function(**keywords)
        filled[name] = known[one.function]
    return filled


@asynccontextmanager
async def open_filled(
    dependencies: Mapping[str, Dependency], context: Context, run_in_thread: RunInThread
) -> AsyncGenerator[dict[str, Any], None]:
    """Fill ``dependencies`` of any kind, and clean up at the end; plain functions run in worker threads."""
    async with AsyncExitStack() as stack:
        yield await _Filler(context, stack, run_in_thread).fill(dependencies)


class _Filler:
    """Fills the dependencies of one call on the event loop."""

    def __init__(self, context: Context, stack: AsyncExitStack, run_in_thread: RunInThread) -> None:
        self._context = context
        self._stack = stack
        self._run_in_thread = run_in_thread
        self._known: dict[Callable[..., Any], Any] = {}

    async def fill(self, dependencies: Mapping[str, Dependency]) -> dict[str, Any]:
        filled: dict[str, Any] = {}
        for name, one in dependencies.items():
            if one.function not in self._known:
                self._known[one.function] = await self._call(one)
            filled[name] = self._known[one.function]
        return filled

    async def _call(self, one: Dependency) -> Any:
        keywords = await self.fill(one.dependencies)
        if one.context_parameter is not None:
            keywords[one.context_parameter] = self._context
        match one.kind:
            case FunctionKind.ASYNC:
                return await one.function(**keywords)
            case FunctionKind.ASYNC_GENERATOR:
                return await self._stack.enter_async_context(asynccontextmanager(one.function)(**keywords))
            case FunctionKind.GENERATOR:
                return await self._stack.enter_async_context(self._enter_in_thread(one.function, keywords))
            case _:
                return await self._run_in_thread(lambda: one.function(**keywords))

    @asynccontextmanager
    async def _enter_in_thread(
        self, function: Callable[..., Any], keywords: Mapping[str, Any]
    ) -> AsyncGenerator[Any, None]:
        opened = contextmanager(function)(**keywords)
        value = await self._run_in_thread(opened.__enter__)
        try:
            yield value
        except BaseException as error:
            leave = partial(opened.__exit__, type(error), error, error.__traceback__)
            # The call may have been cancelled, and what it opened has to be closed all the same.
            with anyio.move_on_after(_CLEANUP_S, shield=True):
                # True means that the generator has handled the error.
                if await self._run_in_thread(leave):
                    return
            raise
        await self._run_in_thread(partial(opened.__exit__, None, None, None))
