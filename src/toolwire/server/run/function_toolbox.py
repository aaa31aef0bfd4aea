"""Run the functions of a Toolkit as a Toolbox."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Hashable, Mapping
from contextlib import aclosing, closing
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter
from typing import Any, TypeAlias, assert_never

from toolwire.core.catalog import Catalog
from toolwire.core.errors import ToolError
from toolwire.core.interpreter import switch_threads_often
from toolwire.core.model import ANONYMOUS, Call, Kind, Problem, Progress, Result, Tool, Value
from toolwire.core.no_user_input import REQUIRED_CAPABILITIES, InputNeeded
from toolwire.core.toolbox import Notify, OutputPromise, ignore_progress
from toolwire.define import Function, FunctionKind, Toolkit
from toolwire.define.function import LETS_OTHERS_RUN, LargeArguments
from toolwire.server.asking.user_asker import build_input_problem, find_needed
from toolwire.validation.results import build_result_check

from .dependencies import fill_function, needs_loop, open_filled
from .large_results import COLLECTIONS, is_large
from .lifespan_task import LifespanTask
from .stored_items import StoredItems
from .tool_context import ProgressReporter, build_context
from .worker_threads import ThreadPool

_log = logging.getLogger("toolwire")
YIELD_S = 0.005
"""How long the items of a generator may keep the event loop, in seconds."""

PEER_ADDRESS: ContextVar[str] = ContextVar("toolwire_peer_address", default="")
"""The address of a caller without credentials; empty if it is unknown."""

_UNNAMED = ANONYMOUS.principal
_NEEDS_FORMS: Mapping[str, Any] = {REQUIRED_CAPABILITIES: {"elicitation": {"form": {}}}}
_THREADED = (FunctionKind.SYNC, FunctionKind.GENERATOR)

Explain: TypeAlias = Callable[[BaseException], Problem | None]

_Run: TypeAlias = Callable[[dict[str, Any], Notify, Call], Awaitable[Result]]


@dataclass(frozen=True, slots=True)
class _Runner:
    """A function with what each of its calls needs. ``run`` is None if the function is only awaited."""

    function: Function
    run: _Run | None
    context_parameter: str | None


class FunctionToolbox:
    """Runs the functions of a Toolkit: coroutines on the event loop, plain functions in worker threads.

    Items of a generator are sent as progress while it runs; its result is the list of them, at most 10,000 and 64 MiB.
    The list is empty for a call whose context says that its caller takes the items.
    ``explain`` converts exceptions other than ToolError to Problems; it returns None for those it does not know.
    """

    def __init__(self, toolkit: Toolkit, *, threads: int = 40, explain: Explain | None = None) -> None:
        self._toolkit = toolkit
        self._explain = explain
        self._pool = ThreadPool(threads)
        self._catalog: Catalog | None = None
        self._runners: dict[str, _Runner] = {}
        self._by_identity: dict[int, _Runner] = {}
        self._lifespan = None if toolkit.lifespan is None else LifespanTask(toolkit.lifespan)
        self._must_begin = self._lifespan is not None
        self._state: Any = None

    @property
    def functions(self) -> tuple[Function, ...]:
        """The functions that are tools."""
        return self._toolkit.functions

    async def begin(self) -> None:
        """Enter the lifespan of the toolkit, if it has one."""
        if self._lifespan is not None:
            self._state = await self._lifespan.begin()
            self._must_begin = False

    async def end(self) -> None:
        """Leave the lifespan of the toolkit."""
        if self._lifespan is not None:
            self._must_begin = True
            await self._lifespan.end()

    def catalog(self) -> Catalog:
        """Return the toolkit's catalog; the same object until a tool is added."""
        return self._toolkit.catalog()

    async def run(self, call: Call, notify: Notify = ignore_progress) -> Result:
        """Run the function of ``call``; an exception becomes a Problem and is logged with the id of the call."""
        tool = call.tool
        # The tool of a call is nearly always the very object of the catalog; its id spares building the text of its
        # name.
        runner = self._by_identity.get(id(tool)) or self._find_runner(tool)
        if runner is None:
            return Problem(kind=Kind.UNKNOWN_TOOL, message=f"Unknown tool {tool.id!r}.")
        function, run, context_parameter = runner.function, runner.run, runner.context_parameter
        try:
            arguments = function.read(call.arguments)
        except LargeArguments:
            arguments = await self._read_in_thread(function, call)
        if isinstance(arguments, Problem):
            return arguments
        if self._must_begin and (problem := await self._begin_late(call)) is not None:
            return problem
        reporting: ProgressReporter | None = None
        if context_parameter is not None:
            reporting = ProgressReporter(function, notify)
            arguments[context_parameter] = build_context(call, function.tool, reporting, self._state)
        try:
            if run is None:
                value = await function.call(**arguments)
                # Checking and converting a large result takes long enough to delay every other call.
                large = type(value) in COLLECTIONS and is_large(value)
                return await self._write_in_thread(function, value, call) if large else function.write(value)
            return await run(arguments, notify, call)
        # A tool that calls sys.exit() must not end the server, and one that raises CancelledError has failed.
        except (Exception, SystemExit, asyncio.CancelledError, InputNeeded, BaseExceptionGroup) as error:
            if isinstance(error, asyncio.CancelledError) and _is_cancelled():
                raise
            needed = find_needed(error)
            failure = build_input_problem(call, needed) if needed else self._build_failure(error, call)
            is_lacking = reporting is not None and reporting.lacks_user and isinstance(error, ToolError)
            return replace(failure, details=_NEEDS_FORMS) if is_lacking else failure
        finally:
            if reporting is not None:
                reporting.over = True

    async def _begin_late(self, call: Call) -> Problem | None:
        """Enter the lifespan where no server did, as in an application that another one mounts."""
        try:
            await self.begin()
        except Exception as error:  # noqa: BLE001 - the author's own code
            return self._build_failure(error, call)
        return None

    def _fill_first(self, function: Function) -> _Run:
        """Return how to run a function with dependencies: they are filled for each call, and cleaned up after it."""
        needed, name = function.dependencies, function.context_parameter
        in_one_thread = function.kind in _THREADED and not needs_loop(needed)
        run = self._choose_run(function)

        async def run_filled(arguments: dict[str, Any], notify: Notify, call: Call) -> Result:
            reporting = ProgressReporter(function, notify)
            context = build_context(call, function.tool, reporting, self._state)
            given = arguments if name is None else {**arguments, name: context}
            try:
                if in_one_thread and (run_plain := self._choose_run(fill_function(function, context))) is not None:
                    return await run_plain(given, notify, call)
                async with open_filled(needed, context, partial(self._pool.run, get_thread_owner(call))) as filled:
                    if run is not None:
                        return await run({**given, **filled}, notify, call)
                    return function.write(await function.call(**given, **filled))
            finally:
                reporting.over = True

        return run_filled

    async def _read_in_thread(self, function: Function, call: Call) -> dict[str, Any] | Problem:
        """Return ``function.read(call.arguments)`` from a thread, while the event loop serves other calls."""

        def read() -> dict[str, Any] | Problem:
            patience = LETS_OTHERS_RUN.set(True)
            try:
                with switch_threads_often():
                    return function.read(call.arguments)
            finally:
                LETS_OTHERS_RUN.reset(patience)

        return await self._pool.run(get_thread_owner(call), read)

    async def _write_in_thread(self, function: Function, value: Any, call: Call) -> Result:
        """Return ``function.write(value)`` from a thread, while the event loop serves other calls."""

        def write() -> Result:
            with switch_threads_often():
                return function.write(value)

        try:
            return await self._pool.run(get_thread_owner(call), write)
        except RuntimeError:  # another call changed the value meanwhile, which cannot happen on the event loop
            return function.write(value)

    def _build_failure(self, error: BaseException, call: Call) -> Problem:
        if isinstance(error, ToolError):
            return convert_tool_error(error)
        known = None if self._explain is None else self._explain(error)
        if known is not None:
            return known
        _log.error("tool %s failed in call %s", call.tool.id, call.call_id, exc_info=error)
        return Problem(
            kind=Kind.TOOL_FAILED,
            message=f"{call.tool.name} failed. See the server's log.",
            developer_message=f"{type(error).__name__}: {error}",
        )

    def judge_output(self, _tool: Tool) -> OutputPromise:
        """Return that each result was checked when its function returned it."""
        return OutputPromise.KEPT

    def _find_runner(self, tool: Tool) -> _Runner | None:
        if self._catalog is not self._toolkit.catalog():
            self._refresh()
        return self._by_identity.get(id(tool)) or self._runners.get(tool.id)

    def _refresh(self) -> None:
        self._catalog = self._toolkit.catalog()
        runners = [
            _Runner(function, self._fill_first(function), None)
            if function.dependencies
            else _Runner(function, self._choose_run(function), function.context_parameter)
            for function in map(_add_result_check, (*self._toolkit.functions, *self._toolkit.readers))
        ]
        # By id for a tool from an earlier catalog, by identity for nearly all other calls.
        self._runners = {runner.function.tool.id: runner for runner in runners}
        # The runners hold their tools, so that no other object gets the id of one.
        self._by_identity = {id(runner.function.tool): runner for runner in runners}

    def _choose_run(self, function: Function) -> _Run | None:
        """Return how to run ``function`` by its kind; None if it is only awaited."""
        call, write = function.call, function.write

        def build_stored(of: Call) -> StoredItems:
            return StoredItems(function.tool.name, takes_items=of.context.takes_items)

        async def run_inline(arguments: dict[str, Any], _: Notify, __: Call) -> Result:
            # On the event loop: the author has declared that the function does not block.
            return write(call(**arguments))

        async def run_in_thread(arguments: dict[str, Any], _: Notify, of: Call) -> Result:
            return await self._pool.run(get_thread_owner(of), lambda: write(call(**arguments)))

        async def run_async_generator(arguments: dict[str, Any], notify: Notify, of: Call) -> Result:
            return await _collect_items(function, call(**arguments), notify, build_stored(of))

        async def run_generator(arguments: dict[str, Any], notify: Notify, of: Call) -> Result:
            reporting = ProgressReporter(function, notify)
            try:
                return await self._pool.run(
                    get_thread_owner(of),
                    lambda: _collect_items_in_thread(function, call(**arguments), reporting, build_stored(of)),
                )
            finally:
                reporting.over = True

        match function.kind:
            case FunctionKind.ASYNC:
                return None
            case FunctionKind.SYNC:
                return run_inline if function.inline else run_in_thread
            case FunctionKind.ASYNC_GENERATOR:
                return run_async_generator
            case FunctionKind.GENERATOR:
                return run_generator
            case _:
                assert_never(function.kind)


def _add_result_check(function: Function) -> Function:
    """Return ``function`` with a check of its results, if its output schema constrains anything."""
    find_fault = build_result_check(function.tool)
    if find_fault is None:
        return function
    write = function.write

    def write_checked(value: Any) -> Result:
        result = write(value)
        if not isinstance(result, Value) or not (fault := find_fault(result.value)):
            return result
        name = function.tool.name
        return Problem(
            kind=Kind.INTERNAL,
            message=f"{name} returned a value that does not match its declared return type.",
            developer_message=f"{name} returned {type(value).__name__}: {fault}",
        )

    return replace(function, write=write_checked)


def get_thread_owner(call: Call) -> Hashable:
    """Return who owns the threads of ``call``: its named caller, or the address that it came from."""
    principal = call.context.principal
    return principal if principal != _UNNAMED else (PEER_ADDRESS.get(),)


def _is_cancelled() -> bool:
    """Return whether the call was cancelled from outside; a tool can also raise CancelledError itself."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


def convert_tool_error(error: ToolError) -> Problem:
    """Return the Problem that a tool described by raising ``error``."""
    # OTC-028..032
    return Problem(
        kind=Kind.TOOL_FAILED,
        message=error.message,
        developer_message=error.developer_message,
        can_retry=error.can_retry,
        retry_after_ms=error.retry_after_ms,
        additional_prompt_content=error.additional_prompt_content,
    )


async def _collect_items(
    function: Function, items: AsyncGenerator[Any, None], notify: Notify, stored: StoredItems
) -> Result:
    yielded_at = perf_counter()
    # Closed here, also after a cancellation: otherwise the cleanup of the generator would run at some later time.
    async with aclosing(items):
        async for item in items:
            result = function.write(item)
            if isinstance(result, Problem):
                return result
            if (refusal := stored.add(result.value)) is not None:
                return refusal
            await notify(Progress(result.value))
            if perf_counter() - yielded_at > YIELD_S:
                # GR-01: a generator that awaits nothing would keep the loop, and a cancellation would never reach it.
                await asyncio.sleep(0)
                yielded_at = perf_counter()
    return stored.build_result()


def _collect_items_in_thread(
    function: Function, items: Generator[Any, None, None], reporting: ProgressReporter, stored: StoredItems
) -> Result:
    # Closed in its own thread, which the cleanup of the generator may rely on.
    with closing(items):
        for item in items:
            result = function.write(item)
            if isinstance(result, Problem):
                return result
            if (refusal := stored.add(result.value)) is not None:
                return refusal
            reporting.send(Progress(result.value))
            if reporting.over:  # the call was cancelled; closing the generator frees its thread
                break
    return stored.build_result()
