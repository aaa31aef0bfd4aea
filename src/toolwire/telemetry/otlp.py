"""Send the spans and metrics of this process by OTLP over HTTP, as the variables of OpenTelemetry say.

Each process is an instance of the service: what several workers count is added up where it is collected.
"""
# PL-04, docs/decisions/0956

from __future__ import annotations

import logging
import os
import threading
from time import monotonic
from typing import Any, Final

from opentelemetry import metrics, trace
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricReader, PeriodicExportingMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from .resource import build_resource

_STOP_S: Final = 3.0
_log = logging.getLogger("toolwire")


class OtlpExport:
    """Sends spans and metrics to ``collector``, or to where the environment says if that is empty.

    Providers that the application has set up stay. ``with_prometheus`` adds the metrics of Prometheus to the provider,
    because a process can have one only.
    """

    def __init__(self, collector: str, *, with_prometheus: bool = False) -> None:
        self._collector, self._with_prometheus = collector.rstrip("/"), with_prometheus
        self._providers: list[Any] = []

    def start(self) -> None:
        """Send from now on."""
        resource = build_resource()
        if not isinstance(trace.get_tracer_provider(), TracerProvider) and _is_on("OTEL_TRACES_EXPORTER"):
            spans = TracerProvider(resource=resource, shutdown_on_exit=False)
            spans.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=self._find_endpoint("traces"))))
            trace.set_tracer_provider(spans)
            self._providers.append(spans)
        if not isinstance(metrics.get_meter_provider(), MeterProvider) and _is_on("OTEL_METRICS_EXPORTER"):
            readers: list[MetricReader] = [
                PeriodicExportingMetricReader(OTLPMetricExporter(endpoint=self._find_endpoint("metrics")))
            ]
            if self._with_prometheus:
                from .prometheus import build_reader  # an extra

                readers.append(build_reader())
            measured = MeterProvider(metric_readers=readers, resource=resource, shutdown_on_exit=False)
            metrics.set_meter_provider(measured)
            self._providers.append(measured)

    def stop(self) -> None:
        """Send what is left, for a few seconds at most."""
        # Daemons: a collector that is down is asked again for long, and must not keep the process from ending.
        threads = [threading.Thread(target=one.shutdown, daemon=True) for one in self._providers]
        self._providers.clear()
        until = monotonic() + _STOP_S
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(max(0.0, until - monotonic()))
        if any(thread.is_alive() for thread in threads):
            _log.warning("The collector did not accept the last spans and metrics within %g seconds.", _STOP_S)

    def _find_endpoint(self, signal: str) -> str | None:
        return f"{self._collector}/v1/{signal}" if self._collector else None


def _is_on(variable: str) -> bool:
    return os.environ.get(variable, "otlp").strip() in ("", "otlp")
