"""One span for each call, by the API of OpenTelemetry."""

from __future__ import annotations

import random
from collections.abc import Mapping
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

from toolwire.core.model import ANONYMOUS, Call
from toolwire.framing import traceparent

from . import names

_MAX_CLIENT_ID = 128


class Spans:
    """Starts the span of each call in the trace that its caller named, else in the one that is there already."""

    def __init__(self, provider: TracerProvider) -> None:
        self._tracer: Tracer = provider.get_tracer(names.SCOPE)
        self._sampler: Any = getattr(provider, "sampler", None)

    def start(self, call: Call, protocol: str) -> Span:
        """Return the span of ``call``, begun; whoever asked ends it."""
        ambient = trace.get_current_span()
        chosen = self._chosen(call)
        here = ambient.get_span_context()
        parent: TraceContext | None = None
        links: list[Link] = []
        if chosen is not None and chosen.trace_id != here.trace_id:
            parent = trace.set_span_in_context(NonRecordingSpan(chosen))
            links = [Link(here)] if here.is_valid else []
        return self._tracer.start_span(
            f"{names.SPAN} {call.tool.name}",
            context=parent,
            kind=SpanKind.INTERNAL,
            attributes=attributes(call, protocol),
            links=links,
        )

    def active(self, span: Span) -> AbstractContextManager[Span]:
        """Return what makes ``span`` the parent of all that is traced meanwhile."""
        return trace.use_span(span, record_exception=False, set_status_on_exception=False)

    def end(self, span: Span, error_type: str | None) -> None:
        """End ``span``; with an ``error_type`` as an error, of which it says no more than that."""
        if error_type is not None:
            span.set_attribute(names.ERROR_TYPE, error_type)
            span.set_status(Status(StatusCode.ERROR))
        span.end()

    def _chosen(self, call: Call) -> SpanContext | None:
        """Return the parent that the caller named: a traceparent, else their trace id with a span nobody made."""
        said = traceparent.read(call.context.traceparent) if call.context.traceparent else None
        if said is not None:
            return _remote(int(said.trace_id, 16), int(said.span_id, 16), sampled=said.sampled)
        own = traceparent.trace_id(call.context.trace_id) if call.context.trace_id else ""
        if not own:
            return None
        span_id = random.getrandbits(63) + 1
        return _remote(int(own, 16), span_id, sampled=self._samples(int(own, 16), call))

    def _samples(self, trace_id: int, call: Call) -> bool:
        """Return whether this server keeps a trace that a caller named without saying whether they keep it."""
        if self._sampler is None:
            return True
        return bool(self._sampler.should_sample(None, trace_id, f"{names.SPAN} {call.tool.name}").decision.is_sampled())


def _remote(trace_id: int, span_id: int, *, sampled: bool) -> SpanContext:
    flags = TraceFlags(TraceFlags.SAMPLED if sampled else TraceFlags.DEFAULT)
    return SpanContext(trace_id, span_id, is_remote=True, trace_flags=flags)


def attributes(call: Call, protocol: str) -> Mapping[str, str]:
    """Return what a span says of ``call``: no arguments, no result, and the caller only by a digest."""
    tool, context = call.tool, call.context
    said = {
        names.OPERATION: names.SPAN,
        names.TOOL_NAME: tool.name,
        names.TOOL_TYPE: "function",
        names.CALL_ID: call.call_id,
        names.PROTOCOL: protocol,
        names.TOOL_ID: tool.id,
        names.TOOL_VERSION: tool.version,
        names.TOOLKIT: tool.toolkit,
    }
    if protocol == "mcp":
        said[names.MCP_METHOD] = "tools/call"
    if context.principal != ANONYMOUS.principal:
        said[names.USER_ID] = names.user_hash(context.principal)
    if context.trace_id and not traceparent.trace_id(context.trace_id):
        said[names.CLIENT_TRACE_ID] = context.trace_id[:_MAX_CLIENT_ID]
    return said
