"""Report which servers are not asked for a while, as a metric."""

from __future__ import annotations

import sys

from . import names


def report_breaker(server: str, *, is_open: bool) -> None:
    """Set the gauge of the circuit breaker of ``server``, its name or its origin: 1 is open, 0 is closed."""
    metrics = sys.modules.get("opentelemetry.metrics")  # nothing is measured in a process that has not imported it
    if metrics is None:
        return
    meter = metrics.get_meter_provider().get_meter(names.SCOPE)
    meter.create_gauge(names.BREAKER_STATE, description="1 while a server is not asked because it failed.").set(
        int(is_open), {names.UPSTREAM: server}
    )
