"""Create spans and metrics if an SDK of OpenTelemetry is set up, or if a provider was given."""

from __future__ import annotations

from opentelemetry import metrics, trace
from opentelemetry.metrics import MeterProvider
from opentelemetry.trace import TracerProvider

from .attributes import Attributes, Content
from .counts import is_default
from .metrics import ClientMetrics, ServerMetrics
from .spans import Spans


def create_attributes(*, descriptions: bool, contents: bool) -> Attributes:
    """Return what describes calls, with the descriptions of tools and the contents of calls if asked for."""
    return Attributes(Content(descriptions, contents))


def create_spans(provider: TracerProvider | None) -> Spans | None:
    """Return the factory of spans, or None if no SDK would export them."""
    provider = trace.get_tracer_provider() if provider is None else provider
    return None if is_default(provider) else Spans(provider)


def create_server_metrics(provider: MeterProvider | None) -> ServerMetrics | None:
    """Return the metrics of a server, or None if no SDK would export them."""
    provider = metrics.get_meter_provider() if provider is None else provider
    return None if is_default(provider) else ServerMetrics(provider)


def create_client_metrics(provider: MeterProvider | None) -> ClientMetrics | None:
    """Return the metrics of a client, or None if no SDK would export them."""
    provider = metrics.get_meter_provider() if provider is None else provider
    return None if is_default(provider) else ClientMetrics(provider)
