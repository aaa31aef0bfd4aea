"""Count and measure calls with the API of OpenTelemetry. Labels have few values, so that the series stay few."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.metadata import version

from opentelemetry.metrics import CallbackOptions, Histogram, Meter, MeterProvider, Observation

from toolwire.core.ledger import FULL, UNAVAILABLE
from toolwire.core.model import Kind, Problem, Result

from . import names

_APPROVALS = "Calls that needed a decision, by decision."
_STOPPING_MS = 5_000
_LEDGER = (FULL.message, UNAVAILABLE.message)


class ServerMetrics:
    """The instruments of one server. The name of a tool comes from its definition, never from a caller."""

    def __init__(self, provider: MeterProvider) -> None:
        meter = provider.get_meter(names.SCOPE)
        self._duration = _create_histogram(meter, names.DURATION, "Duration of calls, including refused ones.")
        self._mcp = _create_histogram(meter, names.MCP_SERVER_DURATION, "Duration of MCP calls.")
        self._ledger = _create_histogram(meter, names.LEDGER_OP, "Duration of operations on the call record.")
        self._in_flight = meter.create_up_down_counter(names.IN_FLIGHT, description="Running calls.")
        self._once = meter.create_counter(names.IDEMPOTENCY, description="Calls with an idempotency key, by outcome.")
        self._approvals = meter.create_counter(names.APPROVALS, description=_APPROVALS)
        self._counters = {
            Kind.OVERLOADED: meter.create_counter(
                names.SHED, description="Calls refused because the server was overloaded."
            ),
            Kind.RATE_LIMITED: meter.create_counter(names.RATE_LIMITED, description="Calls over a rate limit."),
        }
        meter.create_observable_gauge(
            names.BUILD_INFO, [_observe_build], description="1, with the version of toolwire."
        )

    def begin_call(self, tool: str) -> None:
        """Count a call of ``tool`` that begins."""
        self._in_flight.add(1, {"tool": tool})

    def end_call(self, tool: str, protocol: str, result: Result | None, error_type: str | None, seconds: float) -> None:
        """Count a call that ended. ``result`` is None if the call was cancelled."""
        self._in_flight.add(-1, {"tool": tool})
        failed = {} if error_type is None else {names.ERROR_TYPE: error_type}
        self._duration.record(seconds, {names.TOOL_NAME: tool, names.PROTOCOL: protocol, **failed})
        if protocol == "mcp":
            self._mcp.record(seconds, {names.MCP_METHOD: names.MCP_CALL, names.TOOL_NAME: tool, **failed})
        if not isinstance(result, Problem):
            return
        counter = self._counters.get(result.kind)
        if counter is not None:
            counter.add(1, _build_labels(result, tool))
        elif result.kind is Kind.UNCONFIRMED:  # PL-04: nobody has decided yet
            self.count_approval("asked")
        elif result.kind is Kind.DENIED:
            self.count_approval("timeout" if result.details.get("reason") == "timeout" else "denied")

    def count_keyed(self, outcome: str) -> None:
        """Count a call that has an idempotency key."""
        self._once.add(1, {"outcome": outcome})

    def count_approval(self, decision: str) -> None:
        """Count a decision about a call that needed consent."""
        self._approvals.add(1, {"decision": decision})

    def record_ledger(self, op: str, backend: str, seconds: float) -> None:
        """Record the duration of an operation of the ledger."""
        self._ledger.record(seconds, {"op": op, "backend": backend})


class ClientMetrics:
    """The instruments of a client."""

    def __init__(self, provider: MeterProvider) -> None:
        meter = provider.get_meter(names.SCOPE)
        self._mcp = _create_histogram(meter, names.MCP_CLIENT_DURATION, "Duration of calls sent over MCP.")
        self._approvals = meter.create_counter(names.APPROVALS, description=_APPROVALS)

    def end_call(self, tool: str, error_type: str | None, seconds: float) -> None:
        """Record the duration of an MCP call."""
        failed = {} if error_type is None else {names.ERROR_TYPE: error_type}
        self._mcp.record(seconds, {names.MCP_METHOD: names.MCP_CALL, names.TOOL_NAME: tool, **failed})

    def count_approval(self, decision: str) -> None:
        """Count the answer to a question."""
        self._approvals.add(1, {"decision": decision})


def _create_histogram(meter: Meter, name: str, description: str) -> Histogram:
    bounds = list(names.BUCKETS_S)
    return meter.create_histogram(name, unit="s", description=description, explicit_bucket_boundaries_advisory=bounds)


def _observe_build(_: CallbackOptions) -> Iterable[Observation]:
    return [Observation(1, {"version": version("toolwire")})]


def _build_labels(problem: Problem, tool: str) -> dict[str, str]:
    if problem.kind is Kind.RATE_LIMITED:
        return {"tool": tool}
    if problem.message in _LEDGER:
        return {"reason": "ledger"}
    if problem.details.get("uncounted") is True:
        return {"reason": "rates"}
    return {"reason": "stopping" if problem.retry_after_ms == _STOPPING_MS else "busy"}
