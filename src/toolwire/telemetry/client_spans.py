"""What is written down of the calls that a client sends: a span round each, and how long those by MCP took.

Rules:
- It is decided once, when the first call of a connection is made; without an SDK of OpenTelemetry a call then costs
  one comparison more, and OpenTelemetry is not even loaded.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeAlias

from toolwire.core.check import Answer, Question
from toolwire.core.codec import Flow, Listen
from toolwire.core.http import Request, Response
from toolwire.core.ledger import is_replayed
from toolwire.core.model import Call, Kind, Problem, Result, Value

from . import names
from .calls import Telemetry, is_enabled
from .current_call import CURRENT_CALL
from .propagation import add_current_trace

if TYPE_CHECKING:
    from opentelemetry.trace import Span

    from .attributes import Attributes, AttributeValues
    from .metrics import ClientMetrics
    from .spans import Spans

BeginCall: TypeAlias = Callable[[Call], Flow[Result]]
"""Makes the conversation of a call."""


class ClientObserver:
    """Makes the conversations of one connection's calls, observed where somebody would hear of it.

    ``url`` is where the server is.
    """

    def __init__(self, telemetry: Telemetry, protocol: str, url: str) -> None:
        self._telemetry = telemetry
        self._protocol = protocol
        self._url = url
        self._is_decided = False
        self._observer: ConnectionObserver | None = None

    def observe_call(self, call: Call, begin: BeginCall) -> Flow[Result]:
        """Return the conversation that ``begin`` makes of ``call`` as part of the trace that is active now."""
        if not self._is_decided:
            self._observer = _create_observer(self._telemetry, self._protocol, self._url)
            self._is_decided = True
        return begin(add_current_trace(call)) if self._observer is None else self._observer.observe_call(call, begin)


def _create_observer(telemetry: Telemetry, protocol: str, url: str) -> ConnectionObserver | None:
    if not is_enabled(telemetry):
        return None
    from .attributes import Attributes, Content  # noqa: PLC0415 - most clients do without
    from .providers import create_client_metrics, create_spans  # noqa: PLC0415 - loads OpenTelemetry

    spans, metrics = create_spans(telemetry.tracer_provider), create_client_metrics(telemetry.meter_provider)
    said = Attributes(Content(telemetry.descriptions, telemetry.contents))
    return ConnectionObserver(spans, metrics, said, protocol, url) if spans or metrics else None


class ConnectionObserver:
    """Observes the calls over one connection."""

    def __init__(
        self, spans: Spans | None, metrics: ClientMetrics | None, attributes: Attributes, protocol: str, url: str
    ) -> None:
        self._spans = spans
        self._metrics = metrics
        self._attributes = attributes
        self._protocol = protocol
        self._url = url

    def observe_call(self, call: Call, begin: BeginCall) -> Flow[Result]:
        """Return the result of ``call``, whose span is active whenever its conversation goes on."""
        started = perf_counter()
        span = self._start_span(call)
        seen = _CallTrace()
        result: Result | None = None
        try:
            if self._spans is None or span is None:
                result = yield from self._observe_flow(begin(add_current_trace(call)), span, seen)
            else:
                with self._spans.activate(span):
                    result = yield from self._observe_flow(begin(add_current_trace(call)), span, seen)
            return result
        finally:
            error = names.error_type(result.kind) if isinstance(result, Problem) else None if result else "cancelled"
            if self._spans is not None and span is not None:
                self._spans.end_span(span, error, self._describe_ending(call, result, seen))
            if self._metrics is not None and self._protocol == "mcp":
                self._metrics.end_call(call.tool.name, error, perf_counter() - started)

    def _observe_flow(self, flow: Flow[Result], span: Span | None, seen: _CallTrace) -> Flow[Result]:
        """Return the value of ``flow``, and note what passes."""
        said: Any = None
        try:
            while True:
                asked = flow.send(said)
                request = asked.request if isinstance(asked, Listen) else asked
                if isinstance(request, Request) and span is not None and not seen.request:
                    seen.request = True
                    span.set_attributes(self._describe_request(request))
                said = yield asked
                if isinstance(said, Response):
                    seen.response = said
                elif isinstance(asked, Question) and isinstance(said, Answer):
                    seen.decision = _describe_decision(said)
                    if self._metrics is not None:
                        self._metrics.count_approval(seen.decision)
        except StopIteration as stop:
            result: Result = stop.value
            return result
        finally:
            flow.close()

    def _start_span(self, call: Call) -> Span | None:
        if self._spans is None:
            return None
        from . import attributes  # noqa: PLC0415 - loaded already where there are spans

        place = attributes.describe_address(self._url)
        served = CURRENT_CALL.get()
        if served is not None and served.span is not None and served.call_id == call.call_id:
            served.span.set_attribute(
                names.UPSTREAM, place.get(names.SERVER_ADDRESS, "")
            )  # the very call: this is a gateway
            served.span.set_attribute(names.TOOL_TYPE, "extension")
        return self._spans.start_sent(call, {**self._attributes.describe_call(call, self._protocol), **place})

    def _describe_request(self, request: Request) -> AttributeValues:
        from . import attributes  # noqa: PLC0415 - likewise

        return {**attributes.describe_message(request, self._protocol), **attributes.describe_address(request.url)}

    def _describe_ending(self, call: Call, result: Result | None, seen: _CallTrace) -> AttributeValues:
        from . import attributes  # noqa: PLC0415 - likewise

        refused = isinstance(result, Problem) and result.kind is Kind.DENIED
        approval = "denied" if refused else "per_call" if seen.decision else "auto"
        said: AttributeValues = {names.APPROVAL: approval, names.IDEMPOTENCY: "none", names.ATTEMPT: 1}
        if result is None:
            return said
        facts = (result.notes or {}) if isinstance(result, Value) else result.details
        attempts = facts.get("attempts")
        if type(attempts) is int:  # what a server says of itself may be anything
            said[names.ATTEMPT] = attempts
        if is_replayed(result):
            said[names.IDEMPOTENCY] = "replay"
        said |= attributes.describe_ending(call, "", result, self._attributes.content)
        code = attributes.read_error_code(seen.response) if isinstance(result, Problem) and seen.response else None
        if code is not None and self._protocol in ("mcp", "opentool"):
            said[names.RPC_STATUS] = str(code)
        return said


class _CallTrace:
    """What passed in one conversation: whether a request did, the last response, and what a person decided."""

    __slots__ = ("decision", "request", "response")

    def __init__(self) -> None:
        self.request = False
        self.response: Response | None = None
        self.decision = ""


def _describe_decision(answer: Answer) -> str:
    if answer.allowed is True:
        return "allowed"
    return "timeout" if answer.reason == "timeout" else "denied"
