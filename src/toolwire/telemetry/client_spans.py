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
from .calls import Telemetry, heard
from .current_call import SERVED
from .propagation import traced

if TYPE_CHECKING:
    from opentelemetry.trace import Span

    from .attributes import Attributes, Said
    from .metrics import SentMetrics
    from .spans import Spans

Begin: TypeAlias = Callable[[Call], Flow[Result]]
"""Makes the conversation of a call."""


class ClientObserver:
    """Makes the conversations of one connection's calls, observed where somebody would hear of it.

    ``url`` is where the server is.
    """

    def __init__(self, telemetry: Telemetry, protocol: str, url: str) -> None:
        self._telemetry = telemetry
        self._protocol = protocol
        self._url = url
        self._decided = False
        self._sent: ConnectionObserver | None = None

    def calling(self, call: Call, begin: Begin) -> Flow[Result]:
        """Return the conversation that ``begin`` makes of ``call`` as part of the trace that is active now."""
        if not self._decided:
            self._sent = _sent(self._telemetry, self._protocol, self._url)
            self._decided = True
        return begin(traced(call)) if self._sent is None else self._sent.calling(call, begin)


def _sent(telemetry: Telemetry, protocol: str, url: str) -> ConnectionObserver | None:
    if not heard(telemetry):
        return None
    from .attributes import Attributes, Content  # noqa: PLC0415 - most clients do without
    from .providers import sent_metrics_of, spans_of  # noqa: PLC0415 - loads OpenTelemetry

    spans, metrics = spans_of(telemetry.tracer_provider), sent_metrics_of(telemetry.meter_provider)
    said = Attributes(Content(telemetry.descriptions, telemetry.contents))
    return ConnectionObserver(spans, metrics, said, protocol, url) if spans or metrics else None


class ConnectionObserver:
    """Observes the calls over one connection."""

    def __init__(
        self, spans: Spans | None, metrics: SentMetrics | None, said: Attributes, protocol: str, url: str
    ) -> None:
        self._spans = spans
        self._metrics = metrics
        self._attributes = said
        self._protocol = protocol
        self._url = url

    def calling(self, call: Call, begin: Begin) -> Flow[Result]:
        """Return the result of ``call``, whose span is active whenever its conversation goes on."""
        started = perf_counter()
        span = self._started(call)
        seen = _CallTrace()
        result: Result | None = None
        try:
            if self._spans is None or span is None:
                result = yield from self._watched(begin(traced(call)), span, seen)
            else:
                with self._spans.active(span):
                    result = yield from self._watched(begin(traced(call)), span, seen)
            return result
        finally:
            error = names.error_type(result.kind) if isinstance(result, Problem) else None if result else "cancelled"
            if self._spans is not None and span is not None:
                self._spans.end(span, error, self._ending(call, result, seen))
            if self._metrics is not None and self._protocol == "mcp":
                self._metrics.end(call.tool.name, error, perf_counter() - started)

    def _watched(self, flow: Flow[Result], span: Span | None, seen: _CallTrace) -> Flow[Result]:
        """Return the value of ``flow``, and note what passes."""
        said: Any = None
        try:
            while True:
                asked = flow.send(said)
                request = asked.request if isinstance(asked, Listen) else asked
                if isinstance(request, Request) and span is not None and not seen.request:
                    seen.request = True
                    span.set_attributes(self._message(request))
                said = yield asked
                if isinstance(said, Response):
                    seen.response = said
                elif isinstance(asked, Question) and isinstance(said, Answer):
                    seen.decision = _decision(said)
                    if self._metrics is not None:
                        self._metrics.approval(seen.decision)
        except StopIteration as stop:
            result: Result = stop.value
            return result
        finally:
            flow.close()

    def _started(self, call: Call) -> Span | None:
        if self._spans is None:
            return None
        from . import attributes  # noqa: PLC0415 - loaded already where there are spans

        place = attributes.of_place(self._url)
        served = SERVED.get()
        if served is not None and served.span is not None and served.call_id == call.call_id:
            served.span.set_attribute(
                names.UPSTREAM, place.get(names.SERVER_ADDRESS, "")
            )  # the very call: this is a gateway
            served.span.set_attribute(names.TOOL_TYPE, "extension")
        return self._spans.start_sent(call, {**self._attributes.of_call(call, self._protocol), **place})

    def _message(self, request: Request) -> Said:
        from . import attributes  # noqa: PLC0415 - likewise

        return {**attributes.of_message(request, self._protocol), **attributes.of_place(request.url)}

    def _ending(self, call: Call, result: Result | None, seen: _CallTrace) -> Said:
        from . import attributes  # noqa: PLC0415 - likewise

        refused = isinstance(result, Problem) and result.kind is Kind.DENIED
        approval = "denied" if refused else "per_call" if seen.decision else "auto"
        said: Said = {names.APPROVAL: approval, names.IDEMPOTENCY: "none", names.ATTEMPT: 1}
        if result is None:
            return said
        facts = (result.notes or {}) if isinstance(result, Value) else result.details
        attempts = facts.get("attempts")
        if type(attempts) is int:  # what a server says of itself may be anything
            said[names.ATTEMPT] = attempts
        if is_replayed(result):
            said[names.IDEMPOTENCY] = "replay"
        said |= attributes.of_ending(call, "", result, self._attributes.content)
        code = attributes.answered_code(seen.response) if isinstance(result, Problem) and seen.response else None
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


def _decision(answer: Answer) -> str:
    if answer.allowed is True:
        return "allowed"
    return "timeout" if answer.reason == "timeout" else "denied"
