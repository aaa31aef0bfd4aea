"""Hold a long call: read how it stands, wait for its result, and cancel it.

The asynchronous and the blocking form run the same flows. A handle is made of the id of the call alone, so that another
program of the same user, or the same program after a restart, can take the call up again.
"""
# LC-05

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from dataclasses import replace
from typing import Any, Protocol

from toolwire.client.calls.long_calls import MAX_WAIT_S, CallWatcher, LongCall, WaitLimits, show_id
from toolwire.client.transport.drivers import SyncNotify
from toolwire.core.call_status import CallStatus
from toolwire.core.codec import CallReading, Flow
from toolwire.core.model import Kind, Problem, Result, Tool
from toolwire.core.toolbox import Notify, ignore_progress

from .connection import Connection


class RunFlow(Protocol):
    """Runs a flow over the network of a connection."""

    def __call__(self, flow: Flow[Any], notify: Notify = ignore_progress, /) -> Coroutine[Any, Any, Any]:
        """Return the value of ``flow``; its progress goes to ``notify``."""
        ...


class SyncRunFlow(Protocol):
    """The blocking form of ``RunFlow``."""

    def __call__(self, flow: Flow[Any], notify: SyncNotify | None = None, /) -> Any:
        """Return the value of ``flow``; its progress goes to ``notify``."""
        ...


class _CallFlows:
    """The flows of one long call over one connection. Both forms of a handle share them."""

    def __init__(self, connection: Callable[[], Connection], call_id: str, tool: Tool | None, *, can_ask: bool) -> None:
        self._connection = connection
        # One object for all flows: it knows which questions of the server were answered.
        self._call: LongCall = connection().pipeline.find_long_call(call_id, tool, can_ask=can_ask)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({show_id(self._call.id)!r})"

    @property
    def id(self) -> str:
        """The id of the call. ``remote.handle(id)`` takes the call up again, also in another process."""
        return self._call.id

    @property
    def tool(self) -> Tool | None:
        """The tool of the call; None until it is known."""
        return self._call.tool

    def _read(self) -> Flow[CallStatus | Problem]:
        reading: CallReading | Problem = yield from self._follow(self._call.read())
        return reading if isinstance(reading, Problem) else reading.status

    def _find_change(self, watcher: CallWatcher) -> Flow[CallStatus | Problem]:
        status: CallStatus | Problem = yield from self._follow(watcher.find_change())
        return status

    def _wait(self, limits: WaitLimits) -> Flow[Result]:
        result: Result = yield from self._follow(self._call.wait(limits, 0.0))
        return self._connection().pipeline.record_end(result)

    def _cancel(self) -> Flow[CallStatus | Problem]:
        refusal: Problem | None = yield from self._follow(self._call.cancel())
        return (yield from self._read()) if refusal is None else refusal

    def _follow(self, flow: Flow[Any]) -> Flow[Any]:
        connection, call = self._connection(), self._call
        if call.needs_tool:
            reading = yield from connection.follow(call, call.read())
            if isinstance(reading, Problem) and reading.kind is Kind.NOT_FOUND:
                flow.close()
                return reading
        return (yield from connection.follow(call, flow))

    def _watch(self) -> CallWatcher:
        return CallWatcher(self._call, self._build_limits(None))

    def _build_limits(self, timeout_s: float | None) -> WaitLimits:
        total_s = MAX_WAIT_S if timeout_s is None else min(timeout_s, MAX_WAIT_S)
        return replace(self._connection().pipeline.waits, total_s=total_s, is_patient=timeout_s is None)


class Handle(_CallFlows):
    """A long call, which goes on at its server while nobody waits for it. ``remote.start`` returns one.

    Iterate over a handle to get a CallStatus for each change; the last one is that of the end. Iterating raises
    CallError if the server cannot say how the call stands.
    """

    def __init__(
        self,
        connection: Callable[[], Connection],
        run_flow: RunFlow,
        call_id: str,
        tool: Tool | None,
        *,
        can_ask: bool,
    ) -> None:
        super().__init__(connection, call_id, tool, can_ask=can_ask)
        self._run_flow = run_flow

    async def status(self) -> CallStatus | Problem:
        """Return how the call stands now, with its result if it is over."""
        status: CallStatus | Problem = await self._run_flow(self._read())
        return status

    async def result(self, *, timeout_s: float | None = None, notify: Notify = ignore_progress) -> Result:
        """Return the result of the call when it is over. ``notify`` gets a Progress for each change.

        After ``timeout_s`` seconds it is a Problem of the kind ACCEPTED: the call goes on. Without ``timeout_s``, this
        waits for up to 7 days, also while the server cannot be reached for some minutes.
        """
        result: Result = await self._run_flow(self._wait(self._build_limits(timeout_s)), notify)
        return result

    async def cancel(self) -> CallStatus | Problem:
        """Ask the server to cancel the call, and return how it stands then. A tool may take a while to stop."""
        status: CallStatus | Problem = await self._run_flow(self._cancel())
        return status

    async def __aiter__(self) -> AsyncIterator[CallStatus]:
        watcher = self._watch()
        while True:
            status: CallStatus | Problem = await self._run_flow(self._find_change(watcher))
            if isinstance(status, Problem):
                status.unwrap()
            yield status
            if status.is_over:
                return


class SyncHandle(_CallFlows):
    """The blocking form of ``Handle``."""

    def __init__(
        self,
        connection: Callable[[], Connection],
        run_flow: SyncRunFlow,
        call_id: str,
        tool: Tool | None,
        *,
        can_ask: bool,
    ) -> None:
        super().__init__(connection, call_id, tool, can_ask=can_ask)
        self._run_flow = run_flow

    def status(self) -> CallStatus | Problem:
        """Return how the call stands now, with its result if it is over."""
        status: CallStatus | Problem = self._run_flow(self._read())
        return status

    def result(self, *, timeout_s: float | None = None, notify: SyncNotify | None = None) -> Result:
        """Return the result of the call when it is over. ``notify`` gets a Progress for each change.

        After ``timeout_s`` seconds it is a Problem of the kind ACCEPTED: the call goes on. Without ``timeout_s``, this
        waits for up to 7 days, also while the server cannot be reached for some minutes.
        """
        result: Result = self._run_flow(self._wait(self._build_limits(timeout_s)), notify)
        return result

    def cancel(self) -> CallStatus | Problem:
        """Ask the server to cancel the call, and return how it stands then. A tool may take a while to stop."""
        status: CallStatus | Problem = self._run_flow(self._cancel())
        return status

    def __iter__(self) -> Iterator[CallStatus]:
        watcher = self._watch()
        while True:
            status: CallStatus | Problem = self._run_flow(self._find_change(watcher))
            if isinstance(status, Problem):
                status.unwrap()
            yield status
            if status.is_over:
                return
