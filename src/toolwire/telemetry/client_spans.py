"""Observe the calls that a client sends: a span for each, and the duration of those over MCP.

Rules:
- Whether anything is recorded is decided once, at the first call of a connection. Without an SDK of OpenTelemetry, a
  call costs one more comparison, and OpenTelemetry is not loaded.
"""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from time import perf_counter
from typing import TYPE_CHECKING, Any

from toolwire.core.check import Answer, Question
from toolwire.core.codec import Flow, FlowStep, Listen, intercept
from toolwire.core.http import Request, Response
from toolwire.core.ledger import is_replayed
from toolwire.core.model import Call, Kind, Problem, Result, Value

from . import names
from .calls import Telemetry, is_enabled
from .current_call import CURRENT_CALL
from .propagation import TRACE_MODULE, add_current_trace

if TYPE_CHECKING:
    from opentelemetry.trace import Span

    from .attributes import Attributes, AttributeValues
    from .metrics import ClientMetrics
    from .spans import Spans


class ClientObserver:
    """Observes the calls of the connection ``name`` to ``url``, if spans or metrics are recorded at all."""

    _attributes: Attributes

    def __init__(self, telemetry: Telemetry, protocol: str, url: str, name: str) -> None:
        self._telemetry = telemetry
        self.protocol: str = protocol
        self._url, self._name = url, name
        self._is_decided = False
        self.spans: Spans | None = None
        self.metrics: ClientMetrics | None = None

    def begin(self, call: Call) -> tuple[Call, CallObservation | None]:
        """Return ``call`` as part of its trace, and its observation, or None if nothing is recorded."""
        if not self._is_decided:
            self._decide()
        if self.spans is None and self.metrics is None:
            return (add_current_trace(call) if TRACE_MODULE in sys.modules else call), None
        observation = CallObservation(self, call)
        return observation.call, observation

    def _decide(self) -> None:
        self._is_decided = True
        telemetry = self._telemetry
        if is_enabled(telemetry):
            from .providers import create_attributes, create_client_metrics, create_spans  # loads OpenTelemetry

            self.spans = create_spans(telemetry.tracer_provider)
            self.metrics = create_client_metrics(telemetry.meter_provider)
            self._attributes = create_attributes(descriptions=telemetry.descriptions, contents=telemetry.contents)

    def start_span(self, call: Call) -> Span | None:
        """Start and return the span of ``call``, or return None without a tracer."""
        if self.spans is None:
            return None
        address = self._attributes.describe_address(self._url)
        served = CURRENT_CALL.get()
        if served is not None and served.span is not None and served.call_id == call.call_id:
            # The same call id: a gateway sends the call that it serves on to another server.
            served.span.set_attribute(names.UPSTREAM, self._name)  # PL-04: the address is the operator's alone
            served.span.set_attribute(names.TOOL_TYPE, "extension")
        return self.spans.start_sent(call, {**self._attributes.describe_call(call, self.protocol), **address})

    def describe_request(self, request: Request) -> AttributeValues:
        """Return the attributes of the first request of a call."""
        address = self._attributes.describe_address(request.url)
        return {**self._attributes.describe_message(request, self.protocol), **address}

    def describe_ending(
        self, call: Call, result: Result | None, decision: str, last: Response | None
    ) -> AttributeValues:
        """Return the attributes of how a call ended; ``result`` is None if it was cancelled.

        ``decision`` is that of the user, or empty, and ``last`` the last response.
        """
        refused = isinstance(result, Problem) and result.kind is Kind.DENIED
        approval = "denied" if refused else "per_call" if decision else "auto"
        values: AttributeValues = {names.APPROVAL: approval, names.IDEMPOTENCY: "none", names.ATTEMPT: 1}
        if result is None:
            return values
        facts = (result.notes or {}) if isinstance(result, Value) else result.details
        attempts = facts.get("attempts")
        if type(attempts) is int:  # what a server says of itself may be anything
            values[names.ATTEMPT] = attempts
        if is_replayed(result):
            values[names.IDEMPOTENCY] = "replay"
        values |= self._attributes.describe_ending(call, "", result)
        response = last if isinstance(result, Problem) else None
        code = None if response is None else self._attributes.read_error_code(response)
        if code is not None and self.protocol in ("mcp", "opentool"):
            values[names.RPC_STATUS] = str(code)
        return values


class CallObservation:
    """The observation of one call. ``call`` is the call as part of its trace: run this one, under ``watch``."""

    def __init__(self, observer: ClientObserver, call: Call) -> None:
        self._observer = observer
        self._started = perf_counter()
        self._span = observer.start_span(call)
        self._is_sent = False
        self._response: Response | None = None
        self._decision = ""
        with self._activate():
            self.call: Call = add_current_trace(call)

    def _activate(self) -> AbstractContextManager[Any]:
        spans = self._observer.spans
        return nullcontext() if spans is None or self._span is None else spans.activate(self._span)

    def watch(self, flow: Flow[Result]) -> Flow[Result]:
        """Run ``flow`` with the span of the call active, and return its value."""
        result: Result | None = None
        observer = self._observer
        try:
            with self._activate():
                result = yield from intercept(flow, self._record_request, self._record_reply)
            return result
        finally:
            error = "cancelled" if result is None else None
            if isinstance(result, Problem) and result.kind is not Kind.ACCEPTED:  # a call that goes on has not failed
                error = names.error_type(result.kind)
            if observer.spans is not None and self._span is not None:
                values = observer.describe_ending(self.call, result, self._decision, self._response)
                observer.spans.end_span(self._span, error, values)
            if observer.metrics is not None and observer.protocol == "mcp":
                observer.metrics.end_call(self.call.tool.name, error, perf_counter() - self._started)

    def _record_request(self, step: Request | Listen) -> Request | Listen:
        if self._span is not None and not self._is_sent:
            self._is_sent = True
            request = step.request if isinstance(step, Listen) else step
            self._span.set_attributes(self._observer.describe_request(request))
        return step

    def _record_reply(self, step: FlowStep, reply: Any) -> Any:
        if isinstance(reply, Response):
            self._response = reply
        elif isinstance(step, Question) and isinstance(reply, Answer):
            self._decision = _describe_decision(reply)
            if self._observer.metrics is not None:
                self._observer.metrics.count_approval(self._decision)
        return reply


def _describe_decision(answer: Answer) -> str:
    if answer.allowed is True:
        return "allowed"
    return "timeout" if answer.reason == "timeout" else "denied"
