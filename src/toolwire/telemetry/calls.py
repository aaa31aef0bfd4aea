"""Record each call of a server as a span, in metrics, and as a line in the log, as far as the operator asks for it."""

from __future__ import annotations

import logging
import sys
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeAlias

from toolwire.core.ledger import CallEnding, Claim, ClaimOutcome, Ledger, StoredResult, Ticket, is_replayed
from toolwire.core.model import ANONYMOUS, Call, Context, Kind, Problem, Result
from toolwire.core.toolbox import Notify

from . import names
from .current_call import CURRENT_CALL, Arrival, CurrentCall

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import Span, TracerProvider

    from .attributes import Attributes
    from .metrics import ServerMetrics
    from .spans import Spans

RunCall: TypeAlias = Callable[[Call, Notify], Awaitable[tuple[Result, float]]]
"""Runs a call and returns its result and its duration in milliseconds."""

LOG = logging.getLogger("toolwire.calls")
_NO_SPAN: AbstractContextManager[Any] = nullcontext()


@dataclass(frozen=True, slots=True, kw_only=True)
class Telemetry:
    """The OpenTelemetry providers to use. With None, the process's own providers are used, if there are any.

    With ``descriptions``, spans contain tool descriptions. With ``contents``, they contain arguments and results. The
    call's secrets, and values under names such as ``password``, are always masked.
    """

    tracer_provider: TracerProvider | None = None
    meter_provider: MeterProvider | None = None
    descriptions: bool = False
    contents: bool = False


def is_enabled(telemetry: Telemetry) -> bool:
    """Return whether spans and metrics may be exported. This does not import OpenTelemetry."""
    given = telemetry.tracer_provider is not None or telemetry.meter_provider is not None
    return given or "opentelemetry" in sys.modules


def create_observer(telemetry: Telemetry) -> Observer | None:
    """Return the observer of calls, or None if nothing would be recorded. Calls then cost nothing more."""
    logs = LOG.isEnabledFor(logging.INFO)
    if not is_enabled(telemetry):
        return Observer(None, None) if logs else None
    # Importing OpenTelemetry takes longer than the rest of a server that does not use it.
    from .providers import create_attributes, create_server_metrics, create_spans  # as above

    spans, metrics = create_spans(telemetry.tracer_provider), create_server_metrics(telemetry.meter_provider)
    attributes = create_attributes(descriptions=telemetry.descriptions, contents=telemetry.contents)
    return Observer(spans, metrics, logs=logs, attributes=attributes) if spans or metrics or logs else None


class Observer:
    """Observes the calls of one server."""

    def __init__(
        self,
        spans: Spans | None,
        metrics: ServerMetrics | None,
        *,
        logs: bool = True,
        attributes: Attributes | None = None,
    ) -> None:
        self._spans = spans
        self._metrics = metrics
        self._logs = logs
        self._attributes = attributes

    async def run_call(
        self, run: RunCall, call: Call, notify: Notify, protocol: str, arrival: Arrival | None = None
    ) -> tuple[Result, float]:
        """Return what ``run`` returns for ``call``. The call that ``run`` gets carries the id of its trace."""
        started = perf_counter()
        if call.context.takes_items and self._attributes is not None and self._attributes.has_contents:
            call = call._replace(context=replace(call.context, takes_items=False))  # the span contains the result
        span = self._start_span(call, protocol, arrival)
        traced = call if span is None else _add_trace_id(call, span)
        if self._metrics is not None:
            self._metrics.begin_call(call.tool.name)
        result: Result | None = None
        served = CurrentCall(call.call_id, span)
        token = CURRENT_CALL.set(served)
        try:
            with _NO_SPAN if self._spans is None or span is None else self._spans.activate(span):
                result, duration_ms = await run(traced, notify)
            if span is not None and isinstance(result, Problem):
                result = _add_trace_to_message(result, traced.context.trace_id)
            return result, duration_ms
        finally:
            CURRENT_CALL.reset(token)
            seconds = perf_counter() - started
            error = _find_error(result)
            self._end_span(traced, protocol, result, served, error)
            self._count(traced, protocol, result, served, error, seconds)
            if self._logs:
                _log_call(traced, protocol, error, span, seconds, arrival)

    def observe_ledger(self, ledger: Ledger) -> Ledger:
        """Return a ledger that records what ``ledger`` does, or ``ledger`` itself if nothing would be recorded."""
        if self._spans is None and self._metrics is None:
            return ledger
        return ObservedLedger(ledger, None if self._metrics is None else self._metrics.record_ledger)

    def _start_span(self, call: Call, protocol: str, arrival: Arrival | None) -> Span | None:
        if self._spans is None or self._attributes is None:
            return None
        span = self._spans.start_served(call, self._attributes.describe_call(call, protocol))
        if arrival is not None and span.is_recording():
            span.set_attributes(self._attributes.describe_arrival(arrival, protocol))
        return span

    def _end_span(
        self, call: Call, protocol: str, result: Result | None, served: CurrentCall, error: str | None
    ) -> None:
        span = served.span
        if self._spans is None or self._attributes is None or span is None:
            return
        if not span.is_recording():
            span.end()  # the sampler dropped it: computing its attributes would be wasted
            return
        values: dict[str, str | int] = {
            names.IDEMPOTENCY: _describe_idempotency(call, result, served),
            names.APPROVAL: self._attributes.describe_approval(call, result),
        }
        if served.attempt:
            values[names.ATTEMPT] = served.attempt
        if result is not None:
            values |= self._attributes.describe_ending(call, protocol, result)
        self._spans.end_span(span, error, values)

    def _count(
        self, call: Call, protocol: str, result: Result | None, served: CurrentCall, error: str | None, seconds: float
    ) -> None:
        if self._metrics is None:
            return
        self._metrics.end_call(call.tool.name, protocol, result, error, seconds)
        if call.key:
            self._metrics.count_keyed(_describe_idempotency(call, result, served))


def _find_error(result: Result | None) -> str | None:
    """Return the ``error.type`` of a call that ended with ``result``; a long call that goes on is none."""
    if isinstance(result, Problem):
        return None if result.kind is Kind.ACCEPTED else names.error_type(result.kind)
    return None if result else "cancelled"


def _describe_idempotency(call: Call, result: Result | None, served: CurrentCall) -> str:
    """Return in one word what happened to a call with an idempotency key."""
    if not call.key:
        return "none"
    if served.has_waited:
        return "attached"
    if result is not None and is_replayed(result):
        return "replay"
    if isinstance(result, Problem) and result.kind in (Kind.CONFLICT, Kind.INTERRUPTED):
        return result.kind.value
    return "new"


def _add_trace_id(call: Call, span: Span) -> Call:
    context = span.get_span_context()
    if not context.is_valid:
        return call
    trace_id = f"{context.trace_id:032x}"
    if call.context is ANONYMOUS:
        return call._replace(context=Context(trace_id=trace_id))
    return call._replace(context=replace(call.context, trace_id=trace_id))


def _add_trace_to_message(problem: Problem, trace_id: str) -> Problem:
    text = f"{problem.developer_message} (trace {trace_id})" if problem.developer_message else f"trace {trace_id}"
    return replace(problem, developer_message=text)


def _log_call(
    call: Call, protocol: str, error: str | None, span: Span | None, seconds: float, arrival: Arrival | None
) -> None:
    outcome, principal = "ok" if error is None else "error", call.context.principal
    fields: dict[str, Any] = {
        "call_id": call.call_id,
        "trace_id": call.context.trace_id or None,
        "span_id": None if span is None else f"{span.get_span_context().span_id:016x}",
        "tool": call.tool.id,
        "protocol": protocol,
        "user_hash": None if principal == ANONYMOUS.principal else names.user_hash(principal),
        "client_addr": None if arrival is None else arrival.client or None,
        "duration_ms": round(seconds * 1_000, 3),
        "outcome": outcome,
        "error_type": error,
    }
    LOG.info("call of %s: %s", call.tool.id, error or outcome, extra={"fields": fields})


RecordDuration: TypeAlias = Callable[[str, str, float], None]
"""Records an operation, the kind of ledger, and the duration in seconds."""


class ObservedLedger:
    """Works like ``ledger``. ``record`` is None if there are no metrics."""

    def __init__(self, ledger: Ledger, record: RecordDuration | None) -> None:
        self._ledger = ledger
        self._record = record
        self._backend = type(ledger).__name__.removesuffix("Ledger").lower()

    async def claim(self, claim: Claim) -> ClaimOutcome:
        """Return the ticket for a call that may run now, or why it does not."""
        started = perf_counter()
        standing = await self._ledger.claim(claim)
        if self._record is not None:
            self._record("claim", self._backend, perf_counter() - started)
        served = CURRENT_CALL.get()
        if served is not None:
            if isinstance(standing, Ticket):
                served.attempt = standing.attempt
            elif isinstance(standing, StoredResult) and claim.awaited_attempt:
                served.has_waited = True
        return standing

    async def finish(self, ticket: Ticket, ending: CallEnding | None) -> None:
        """Record how the call of ``ticket`` ended; None forgets this run of it."""
        started = perf_counter()
        await self._ledger.finish(ticket, ending)
        if self._record is not None:
            self._record("settle", self._backend, perf_counter() - started)
