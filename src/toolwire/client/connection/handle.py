"""Hold a long call: read its status, wait for its result, and cancel it.

The asynchronous and the blocking form run the same flows. A handle needs only the call's ID, so that another program of
the same user, or the same program after a restart, can resume the call.
"""
# LC-05

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from typing import Generic, Protocol, TypeVar

from toolwire.client.calls.long_calls import MAX_WAIT_S, CallWatcher, LongCall, WaitLimits, show_id
from toolwire.client.transport.drivers import SyncNotify
from toolwire.core.call_status import CallStatus
from toolwire.core.codec import Flow
from toolwire.core.model import Kind, Problem, Result, Tool
from toolwire.core.toolbox import Notify, complete, ignore_progress

from .connection import Connection

T = TypeVar("T")
NotifyT = TypeVar("NotifyT")
NotifyT_contra = TypeVar("NotifyT_contra", contravariant=True)


class RunFlow(Protocol[NotifyT_contra]):
    """Runs a flow over the network of a connection."""

    async def __call__(self, flow: Flow[T], notify: NotifyT_contra | None = None, /) -> T | Problem:
        """Return the value of ``flow``, or a Problem if the connection is closed. ``notify`` gets the progress."""
        ...


class _LongCallFlows(Generic[NotifyT]):
    """The flows of one long call over one connection, shared by both forms of a handle."""

    def __init__(self, connection: Callable[[], Connection], run_flow: RunFlow[NotifyT], call: LongCall) -> None:
        self._connection = connection
        self._run_flow = run_flow
        # One object for all flows, because it remembers which of the server's questions were answered.
        self._call = call

    def __repr__(self) -> str:
        return f"{type(self).__name__}({show_id(self._call.id)!r})"

    @property
    def id(self) -> str:
        """The call's ID. ``remote.handle(id)`` resumes the call, even in another process."""
        return self._call.id

    @property
    def tool(self) -> Tool | None:
        """The call's tool, or None until it is known."""
        return self._call.tool

    def _read(self) -> Flow[CallStatus | Problem]:
        reading = yield from self._follow(self._call.read())
        return reading if isinstance(reading, Problem) else reading.status

    def _wait(self, limits: WaitLimits) -> Flow[Result]:
        result = yield from self._follow(self._call.wait(limits, 0.0))
        return self._connection().pipeline.record_end(result)

    def _cancel(self) -> Flow[CallStatus | Problem]:
        refusal = yield from self._follow(self._call.cancel())
        return (yield from self._read()) if refusal is None else refusal

    def _follow(self, flow: Flow[T]) -> Flow[T | Problem]:
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


class Handle(_LongCallFlows[Notify]):
    """A long call. It continues on its server even if no program waits for it. ``remote.start`` returns one.

    Iterate over a handle to get a CallStatus for each change. The last one describes the end of the call. Iterating
    raises CallError if the server cannot report the status.
    """

    async def status(self) -> CallStatus | Problem:
        """Return the call's current status, with its result if the call has ended."""
        return await self._run_flow(self._read())

    async def result(self, *, timeout_s: float | None = None, notify: Notify = ignore_progress) -> Result:
        """Wait for the call to end, and return its result. ``notify`` gets a Progress for each change.

        After ``timeout_s`` seconds, this returns a Problem of the kind ACCEPTED, and the call continues. Without
        ``timeout_s``, it waits for up to 7 days, and survives an outage of the server of some minutes.
        """
        listener = None if notify is ignore_progress else notify
        return await self._run_flow(self._wait(self._build_limits(timeout_s)), listener)

    async def cancel(self) -> CallStatus | Problem:
        """Ask the server to cancel the call, and return the current status. A tool can take a while to stop."""
        return await self._run_flow(self._cancel())

    async def __aiter__(self) -> AsyncIterator[CallStatus]:
        watcher = self._watch()
        while not watcher.is_over:
            yield _require_status(await self._run_flow(self._follow(watcher.find_change())))


class SyncHandle(_LongCallFlows[SyncNotify]):
    """The blocking form of ``Handle``."""

    def status(self) -> CallStatus | Problem:
        """Return the call's current status, with its result if the call has ended."""
        return complete(self._run_flow(self._read()))

    def result(self, *, timeout_s: float | None = None, notify: SyncNotify | None = None) -> Result:
        """Wait for the call to end, and return its result. ``notify`` gets a Progress for each change.

        After ``timeout_s`` seconds, this returns a Problem of the kind ACCEPTED, and the call continues. Without
        ``timeout_s``, it waits for up to 7 days, and survives an outage of the server of some minutes.
        """
        return complete(self._run_flow(self._wait(self._build_limits(timeout_s)), notify))

    def cancel(self) -> CallStatus | Problem:
        """Ask the server to cancel the call, and return the current status. A tool can take a while to stop."""
        return complete(self._run_flow(self._cancel()))

    def __iter__(self) -> Iterator[CallStatus]:
        watcher = self._watch()
        while not watcher.is_over:
            yield _require_status(complete(self._run_flow(self._follow(watcher.find_change()))))


def _require_status(status: CallStatus | Problem) -> CallStatus:
    if isinstance(status, Problem):
        status.unwrap()
    return status
