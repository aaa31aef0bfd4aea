"""Whether anybody listens: an SDK of OpenTelemetry that is set up, or a provider that was given."""

from __future__ import annotations

from opentelemetry import metrics, trace
from opentelemetry.metrics import MeterProvider
from opentelemetry.trace import TracerProvider

from .metrics import ClientMetrics, ServerMetrics, TokenMetrics
from .spans import Spans


def create_spans(provider: TracerProvider | None) -> Spans | None:
    """Return what makes spans, or None where they would go nowhere."""
    provider = trace.get_tracer_provider() if provider is None else provider
    return None if _is_default(provider) else Spans(provider)


def create_server_metrics(provider: MeterProvider | None) -> ServerMetrics | None:
    """Return what counts, or None where nobody would read it."""
    provider = metrics.get_meter_provider() if provider is None else provider
    return None if _is_default(provider) else ServerMetrics(provider)


def create_client_metrics(provider: MeterProvider | None) -> ClientMetrics | None:
    """Return what counts the calls of a client, or None where nobody would read it."""
    provider = metrics.get_meter_provider() if provider is None else provider
    return None if _is_default(provider) else ClientMetrics(provider)


def create_token_metrics(provider: MeterProvider | None) -> TokenMetrics | None:
    """Return what counts the tokens of an authorization server, or None where nobody would read it."""
    provider = metrics.get_meter_provider() if provider is None else provider
    return None if _is_default(provider) else TokenMetrics(provider)


def _is_default(provider: object) -> bool:
    """Return whether ``provider`` is one of the API's own, which all do nothing until an SDK takes their place."""
    return type(provider).__module__.partition(".sdk")[0].startswith(("opentelemetry.trace", "opentelemetry.metrics"))
