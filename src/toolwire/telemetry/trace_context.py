"""Which trace a call belongs to, of all who may have said so."""

from __future__ import annotations

from dataclasses import replace

from toolwire.core.model import ANONYMOUS, Context
from toolwire.framing import traceparent


def add_trace(context: Context, header: str) -> Context:
    """Return ``context`` with the trace it belongs to: what the protocol said, then ``header`` (HTTP's traceparent).

    A caller's own ``trace_id`` stands where neither says anything; it is their word, of any form.
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
