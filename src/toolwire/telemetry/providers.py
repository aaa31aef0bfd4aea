"""Whether anybody listens: an SDK of OpenTelemetry that is set up, or a provider that was given."""

from __future__ import annotations

from opentelemetry import metrics, trace
from opentelemetry.metrics import MeterProvider
from opentelemetry.trace import TracerProvider

from .metrics import Metrics, SentMetrics, TokenMetrics
from .spans import Spans


def spans_of(provider: TracerProvider | None) -> Spans | None:
    """Return what makes spans, or None where they would go nowhere."""
    provider = trace.get_tracer_provider() if provider is None else provider
    return None if _deaf(provider) else Spans(provider)


def metrics_of(provider: MeterProvider | None) -> Metrics | None:
    """Return what counts, or None where nobody would read it."""
    provider = metrics.get_meter_provider() if provider is None else provider
    return None if _deaf(provider) else Metrics(provider)


def sent_metrics_of(provider: MeterProvider | None) -> SentMetrics | None:
    """Return what counts the calls of a client, or None where nobody would read it."""
    provider = metrics.get_meter_provider() if provider is None else provider
    return None if _deaf(provider) else SentMetrics(provider)


def token_metrics_of(provider: MeterProvider | None) -> TokenMetrics | None:
    """Return what counts the tokens of an authorization server, or None where nobody would read it."""
    provider = metrics.get_meter_provider() if provider is None else provider
    return None if _deaf(provider) else TokenMetrics(provider)


def _deaf(provider: object) -> bool:
    """Return whether ``provider`` is one of the API's own, which all do nothing until an SDK takes their place."""
    return type(provider).__module__.partition(".sdk")[0].startswith(("opentelemetry.trace", "opentelemetry.metrics"))
