"""Count what happens beside calls: issued tokens, webhooks, and servers that are not asked for a while.

Nothing is counted in a process that has not imported OpenTelemetry, or has not set up an SDK of it.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from toolwire.auth.clients import GRANTS

from . import names

if TYPE_CHECKING:
    from opentelemetry.metrics import Meter, MeterProvider


def count_token(grant: str, result: str, provider: MeterProvider | None = None) -> None:
    """Count a response of the token endpoint. ``result`` is ``issued`` or the OAuth error code."""
    if (meter := _find_meter(provider)) is not None:
        # Clients can send any grant type; each would be a new series of the metric.
        labels = {"grant": grant if grant in GRANTS else "_other", "result": result}
        meter.create_counter(names.OAUTH_TOKENS, description="Answers of the token endpoint.").add(1, labels)


def count_webhook(outcome: str) -> None:
    """Count a message of a webhook that was ``sent``, ``failed`` or ``dropped``."""
    if (meter := _find_meter()) is not None:
        counter = meter.create_counter(names.WEBHOOKS, description="Webhook messages, by outcome.")
        counter.add(1, {"outcome": outcome})


def report_breaker(server: str, *, is_open: bool) -> None:
    """Set the gauge of the circuit breaker of ``server``, its name or its origin: 1 is open, 0 is closed."""
    if (meter := _find_meter()) is not None:
        gauge = meter.create_gauge(names.BREAKER_STATE, description="1 while a server is not asked because it failed.")
        gauge.set(int(is_open), {names.UPSTREAM: server})


def is_default(provider: object) -> bool:
    """Return whether ``provider`` is one of the API itself."""
    # Those do nothing, and an SDK replaces them when the application sets it up.
    return type(provider).__module__.partition(".sdk")[0].startswith(("opentelemetry.trace", "opentelemetry.metrics"))


def _find_meter(provider: MeterProvider | None = None) -> Meter | None:
    metrics: Any = sys.modules.get("opentelemetry.metrics")
    if provider is None and metrics is not None:
        provider = metrics.get_meter_provider()
    # The provider of the API keeps each meter that it is asked for, in the hope of an SDK.
    return None if provider is None or is_default(provider) else provider.get_meter(names.SCOPE)
