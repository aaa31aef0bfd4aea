"""One span for each call, by the API of OpenTelemetry."""

from __future__ import annotations

import random
from contextlib import AbstractContextManager
from typing import Any

from opentelemetry import trace
from opentelemetry.context import Context as TraceContext
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    Span,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    Tracer,
    TracerProvider,
)

from toolwire.core.model import Call
from toolwire.framing import traceparent

from . import names
from .attributes import AttributeValues


class Spans:
    """Starts the span of each call: of one that is served, in the trace that its caller named if they did."""

    def __init__(self, provider: TracerProvider) -> None:
        self._tracer: Tracer = provider.get_tracer(names.SCOPE)
        self._sampler: Any = getattr(provider, "sampler", None)

    def start_served(self, call: Call, said: AttributeValues) -> Span:
        """Return the span of a call that is served, begun with the attributes ``said``; whoever asked ends it."""
        ambient = trace.get_current_span()
        chosen = self._find_parent(call)
        here = ambient.get_span_context()
        parent: TraceContext | None = None
        links: list[Link] = []
        if chosen is not None and chosen.trace_id != here.trace_id:
            parent = trace.set_span_in_context(NonRecordingSpan(chosen))
            links = [Link(here)] if here.is_valid else []
        return self._tracer.start_span(
            f"{names.SPAN} {call.tool.name}", context=parent, kind=SpanKind.INTERNAL, attributes=said, links=links
        )

    def start_sent(self, call: Call, said: AttributeValues) -> Span:
        """Return the span of a call that is sent, begun in whatever is traced here; whoever asked ends it."""
        first = said.get(names.MCP_METHOD, names.SPAN)
        return self._tracer.start_span(f"{first} {call.tool.name}", kind=SpanKind.CLIENT, attributes=said)

    def activate(self, span: Span) -> AbstractContextManager[Span]:
        """Return what makes ``span`` the parent of all that is traced meanwhile."""
        return trace.use_span(span, record_exception=False, set_status_on_exception=False)

    def end_span(self, span: Span, error_type: str | None, said: AttributeValues) -> None:
        """End ``span`` with the attributes ``said``; with an ``error_type`` as an error, of which it says no more."""
        if error_type is not None:
            span.set_status(Status(StatusCode.ERROR))
            said = {**said, names.ERROR_TYPE: error_type}
        span.set_attributes(said)
        span.end()

    def _find_parent(self, call: Call) -> SpanContext | None:
        """Return the parent that the caller named: a traceparent, else their trace id with a span nobody made."""
        said = traceparent.read(call.context.traceparent) if call.context.traceparent else None
        if said is not None:
            return _build_remote_context(int(said.trace_id, 16), int(said.span_id, 16), sampled=said.sampled)
        own = traceparent.parse_trace_id(call.context.trace_id) if call.context.trace_id else ""
        if not own:
            return None
        span_id = random.getrandbits(63) + 1
        return _build_remote_context(int(own, 16), span_id, sampled=self._is_sampled(int(own, 16), call))

    def _is_sampled(self, trace_id: int, call: Call) -> bool:
        """Return whether this server keeps a trace that a caller named without saying whether they keep it."""
        if self._sampler is None:
            return True
        return bool(self._sampler.should_sample(None, trace_id, f"{names.SPAN} {call.tool.name}").decision.is_sampled())


def _build_remote_context(trace_id: int, span_id: int, *, sampled: bool) -> SpanContext:
    flags = TraceFlags(TraceFlags.SAMPLED if sampled else TraceFlags.DEFAULT)
    return SpanContext(trace_id, span_id, is_remote=True, trace_flags=flags)
