"""Start and end the span of a call with the API of OpenTelemetry."""

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
    """Starts the spans of calls. The span of an incoming call belongs to the trace that its caller names."""

    def __init__(self, provider: TracerProvider) -> None:
        self._tracer: Tracer = provider.get_tracer(names.SCOPE)
        self._sampler: Any = getattr(provider, "sampler", None)

    def start_served(self, call: Call, values: AttributeValues) -> Span:
        """Start the span of an incoming call with the attributes ``values``. The caller of this method ends it."""
        ambient = trace.get_current_span()
        parent_context = self._find_parent(call)
        here = ambient.get_span_context()
        parent: TraceContext | None = None
        links: list[Link] = []
        if parent_context is not None and parent_context.trace_id != here.trace_id:
            parent = trace.set_span_in_context(NonRecordingSpan(parent_context))
            links = [Link(here)] if here.is_valid else []
        return self._tracer.start_span(
            f"{names.SPAN} {call.tool.name}", context=parent, kind=SpanKind.INTERNAL, attributes=values, links=links
        )

    def start_sent(self, call: Call, values: AttributeValues) -> Span:
        """Start the span of an outgoing call in the current trace. The caller of this method ends it."""
        first = values.get(names.MCP_METHOD, names.SPAN)
        return self._tracer.start_span(f"{first} {call.tool.name}", kind=SpanKind.CLIENT, attributes=values)

    def activate(self, span: Span) -> AbstractContextManager[Span]:
        """Return a context manager that makes ``span`` the parent of the spans that start meanwhile."""
        return trace.use_span(span, record_exception=False, set_status_on_exception=False)

    def end_span(self, span: Span, error_type: str | None, values: AttributeValues) -> None:
        """End ``span`` with the attributes ``values``. An ``error_type`` marks it as an error, without a message."""
        if error_type is not None:
            span.set_status(Status(StatusCode.ERROR))
            values = {**values, names.ERROR_TYPE: error_type}
        span.set_attributes(values)
        span.end()

    def _find_parent(self, call: Call) -> SpanContext | None:
        """Return the parent that the caller names: by a traceparent, or by a trace id."""
        # A trace id alone has no span, so the span id is random.
        parent = traceparent.read(call.context.traceparent) if call.context.traceparent else None
        if parent is not None:
            return _build_remote_context(int(parent.trace_id, 16), int(parent.span_id, 16), sampled=parent.sampled)
        own = traceparent.parse_trace_id(call.context.trace_id) if call.context.trace_id else ""
        if not own:
            return None
        span_id = random.getrandbits(63) + 1
        return _build_remote_context(int(own, 16), span_id, sampled=self._is_sampled(int(own, 16), call))

    def _is_sampled(self, trace_id: int, call: Call) -> bool:
        """Return whether the sampler of this server keeps a trace whose caller did not say whether to keep it."""
        if self._sampler is None:
            return True
        return bool(self._sampler.should_sample(None, trace_id, f"{names.SPAN} {call.tool.name}").decision.is_sampled())


def _build_remote_context(trace_id: int, span_id: int, *, sampled: bool) -> SpanContext:
    flags = TraceFlags(TraceFlags.SAMPLED if sampled else TraceFlags.DEFAULT)
    return SpanContext(trace_id, span_id, is_remote=True, trace_flags=flags)
