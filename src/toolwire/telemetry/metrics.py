"""Counts and durations of calls, by the API of OpenTelemetry. The only labels are words that are few by themselves."""

from __future__ import annotations

from opentelemetry.metrics import MeterProvider

from toolwire.core.model import Kind, Problem, Result

from . import names


class Metrics:
    """The instruments of one server. A tool is named as its definition has it, never as a caller wrote it."""

    def __init__(self, provider: MeterProvider) -> None:
        meter = provider.get_meter(names.SCOPE)
        self._duration = meter.create_histogram(
            names.DURATION,
            unit="s",
            description="How long a call took, refused ones too.",
            explicit_bucket_boundaries_advisory=list(names.BUCKETS_S),
        )
        self._in_flight = meter.create_up_down_counter(names.IN_FLIGHT, description="Calls that run now.")
        self._once = meter.create_counter(names.IDEMPOTENCY, description="Calls that should run once, by outcome.")
        self._counters = {
            Kind.OVERLOADED: meter.create_counter(names.SHED, description="Calls sent away for being too many."),
            Kind.RATE_LIMITED: meter.create_counter(names.RATE_LIMITED, description="Calls over a rate limit."),
            Kind.DENIED: meter.create_counter(names.APPROVALS, description="Calls that nobody consented to."),
        }

    def begin(self, tool: str) -> None:
        """Count a call of ``tool`` that begins."""
        self._in_flight.add(1, {"tool": tool})

    def end(self, tool: str, protocol: str, result: Result | None, error_type: str | None, seconds: float) -> None:
        """Count a call that ended, with None where nobody waited for its result."""
        self._in_flight.add(-1, {"tool": tool})
        labels = {names.TOOL_NAME: tool, names.PROTOCOL: protocol}
        self._duration.record(seconds, labels if error_type is None else {**labels, names.ERROR_TYPE: error_type})
        counter = self._counters.get(result.kind) if isinstance(result, Problem) else None
        if isinstance(result, Problem) and counter is not None:
            counter.add(1, _labels(result, tool))

    def once(self, outcome: str) -> None:
        """Count a call that has a key of its caller's."""
        self._once.add(1, {"outcome": outcome})


def _labels(problem: Problem, tool: str) -> dict[str, str]:
    if problem.kind is Kind.RATE_LIMITED:
        return {"tool": tool}
    if problem.kind is Kind.DENIED:
        return {"decision": "denied"}
    return {"reason": "stopping" if problem.retry_after_ms == 5_000 else "busy"}
