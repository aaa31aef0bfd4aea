"""The trace that a request to somebody else's server says it belongs to."""

from __future__ import annotations

import sys
from dataclasses import replace

from toolwire.core.model import Call


def current_traceparent() -> str:
    """Return the span that is active now as a ``traceparent``, empty where nothing is traced.

    ``baggage`` is not sent on: it was meant for this server, not for whoever it calls.
    """
    if "opentelemetry.trace" not in sys.modules:
        return ""
    from opentelemetry import trace  # noqa: PLC0415 - loaded already, or nothing is traced

    said = trace.get_current_span().get_span_context()
    return f"00-{said.trace_id:032x}-{said.span_id:016x}-{int(said.trace_flags):02x}" if said.is_valid else ""


def add_current_trace(call: Call) -> Call:
    """Return ``call`` as part of the trace that is active now, if one is; protocols say it in their own words."""
    traceparent = current_traceparent()
    if not traceparent:
        return call
    return call._replace(context=replace(call.context, trace_id=traceparent[3:35], traceparent=traceparent))
