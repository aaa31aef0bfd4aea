"""What is written down of each call: a span, metrics, and one line in the log; each only where somebody wants it."""

from __future__ import annotations

import logging
import sys
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeAlias

from toolwire.core.ledger import replayed
from toolwire.core.model import ANONYMOUS, Call, Context, Kind, Problem, Result
from toolwire.core.toolbox import Notify

from . import names

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import Span, TracerProvider

    from .metrics import Metrics
    from .spans import Spans

Run: TypeAlias = Callable[[Call, Notify], Awaitable[tuple[Result, float]]]
"""Runs a call; returns how it ended and the milliseconds it took."""

LOG = logging.getLogger("toolwire.calls")
_NOTHING: AbstractContextManager[Any] = nullcontext()


@dataclass(frozen=True, slots=True, kw_only=True)
class Telemetry:
    """Where spans and metrics go; None takes what is set up for the whole process, if anything is."""

    tracer_provider: TracerProvider | None = None
    meter_provider: MeterProvider | None = None


def observer(telemetry: Telemetry) -> Observer | None:
    """Return what observes calls, or None where nobody would hear of it: nothing then happens in a call."""
    logs = LOG.isEnabledFor(logging.INFO)
    given = telemetry.tracer_provider is not None or telemetry.meter_provider is not None
    if not given and "opentelemetry" not in sys.modules:
        return Observer(None, None) if logs else None
    from .providers import metrics_of, spans_of  # noqa: PLC0415 - loads OpenTelemetry, which most servers do without

    spans, metrics = spans_of(telemetry.tracer_provider), metrics_of(telemetry.meter_provider)
    return Observer(spans, metrics, logs=logs) if spans or metrics or logs else None


class Observer:
    """Observes the calls of one server."""

    def __init__(self, spans: Spans | None, metrics: Metrics | None, *, logs: bool = True) -> None:
        self._spans = spans
        self._metrics = metrics
        self._logs = logs

    async def run(self, run: Run, call: Call, notify: Notify, protocol: str) -> tuple[Result, float]:
        """Return what ``run`` returns for ``call``, which it is given with the trace that it is now part of."""
        started = perf_counter()
        span = None if self._spans is None else self._spans.start(call, protocol)
        traced = call if span is None else _traced(call, span)
        if self._metrics is not None:
            self._metrics.begin(call.tool.name)
        result: Result | None = None
        try:
            with _NOTHING if self._spans is None or span is None else self._spans.active(span):
                result, duration_ms = await run(traced, notify)
            if span is not None and isinstance(result, Problem):
                result = _with_trace(result, traced.context.trace_id)
            return result, duration_ms
        finally:
            self._end(traced, protocol, result, span, perf_counter() - started)

    def _end(self, call: Call, protocol: str, result: Result | None, span: Span | None, seconds: float) -> None:
        error = names.error_type(result.kind) if isinstance(result, Problem) else None if result else "cancelled"
        if self._spans is not None and span is not None:
            span.set_attribute(names.IDEMPOTENCY, _idempotency(call, result))
            self._spans.end(span, error)
        if self._metrics is not None:
            self._metrics.end(call.tool.name, protocol, result, error, seconds)
            if call.key:
                self._metrics.once(_idempotency(call, result))
        if self._logs:
            _log(call, protocol, error, span, seconds)


def _idempotency(call: Call, result: Result | None) -> str:
    """Return what became of a call that should run once, in one word."""
    if not call.key:
        return "none"
    if result is not None and replayed(result):
        return "replay"
    if isinstance(result, Problem) and result.kind in (Kind.CONFLICT, Kind.INTERRUPTED):
        return result.kind.value
    return "new"


def _traced(call: Call, span: Span) -> Call:
    said = span.get_span_context()
    if not said.is_valid:
        return call
    trace_id = f"{said.trace_id:032x}"
    if call.context is ANONYMOUS:
        return call._replace(context=Context(trace_id=trace_id))
    return call._replace(context=replace(call.context, trace_id=trace_id))


def _with_trace(problem: Problem, trace_id: str) -> Problem:
    said = f"{problem.developer_message} (trace {trace_id})" if problem.developer_message else f"trace {trace_id}"
    return replace(problem, developer_message=said)


def _log(call: Call, protocol: str, error: str | None, span: Span | None, seconds: float) -> None:
    outcome, principal = "ok" if error is None else "error", call.context.principal
    fields: dict[str, Any] = {
        "call_id": call.call_id,
        "trace_id": call.context.trace_id or None,
        "span_id": None if span is None else f"{span.get_span_context().span_id:016x}",
        "tool": call.tool.id,
        "protocol": protocol,
        "user_hash": None if principal == ANONYMOUS.principal else names.user_hash(principal),
        "duration_ms": round(seconds * 1_000, 3),
        "outcome": outcome,
        "error_type": error,
    }
    LOG.info("call of %s: %s", call.tool.id, error or outcome, extra={"fields": fields})
