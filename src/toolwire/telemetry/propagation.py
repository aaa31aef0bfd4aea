"""Read the trace that a call belongs to, and pass it on with requests to other servers."""

from __future__ import annotations

import sys
from dataclasses import replace

from toolwire.core.model import ANONYMOUS, Call, Context
from toolwire.framing import traceparent

TRACE_MODULE = "opentelemetry.trace"
"""Nothing is traced in a process that has not imported this module."""


def current_traceparent() -> str:
    """Return the active span as a ``traceparent``, or an empty text if nothing is traced."""
    # Baggage is not passed on: the caller sent it to this server, not to the servers that this server calls.
    trace = sys.modules.get(TRACE_MODULE)
    if trace is None:
        return ""
    span = trace.get_current_span().get_span_context()
    return f"00-{span.trace_id:032x}-{span.span_id:016x}-{int(span.trace_flags):02x}" if span.is_valid else ""


def add_current_trace(call: Call) -> Call:
    """Return ``call`` as a part of the active trace, if there is one. Each protocol sends it in its own way."""
    active = current_traceparent()
    if not active:
        return call
    return call._replace(context=replace(call.context, trace_id=active[3:35], traceparent=active))


def add_trace(context: Context, header: str) -> Context:
    """Return ``context`` with the trace of the call: as its protocol says, else as ``header`` (traceparent).

    A ``trace_id`` that the caller chose is kept; it may have any form.
    """
    # OTC-020
    if context.traceparent or not header:
        return context
    parent = traceparent.read(header)
    if parent is None:
        return context
    if context is ANONYMOUS:
        return Context(trace_id=parent.trace_id, traceparent=header)
    return replace(context, trace_id=context.trace_id or parent.trace_id, traceparent=header)
