"""A real SDK of OpenTelemetry that keeps in memory what it is given."""

from __future__ import annotations

import asyncio
from typing import Any

from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import Sampler

from toolwire.core.model import ANONYMOUS, Call, Context, Result, Tool, Value
from toolwire.core.toolbox import Notify, ignore_progress
from toolwire.telemetry.calls import Telemetry, create_observer
from toolwire.telemetry.current_call import Arrival
from toolwire.telemetry.propagation import current_traceparent

TOOL = Tool(name="add", toolkit="Calc", version="2.1.0")


class Sdk:
    """A real SDK that keeps what it is given."""

    def __init__(self, sampler: Sampler | None = None) -> None:
        self.spans = InMemorySpanExporter()
        self.tracers = TracerProvider() if sampler is None else TracerProvider(sampler=sampler)
        self.tracers.add_span_processor(SimpleSpanProcessor(self.spans))
        self.reader = InMemoryMetricReader()
        self.meters = MeterProvider([self.reader])
        self.telemetry = Telemetry(tracer_provider=self.tracers, meter_provider=self.meters)
        found = create_observer(self.telemetry)
        assert found is not None
        self.observer = found

    def run(
        self,
        context: Context = ANONYMOUS,
        result: Result | None = None,
        protocol: str = "otc",
        key: str = "",
        arrival: Arrival | None = None,
    ) -> Result:
        async def running(call: Call, notify: Notify) -> tuple[Result, float]:
            self.call, self.inside = call, trace.get_current_span().get_span_context()
            self.sent = current_traceparent()
            return Value(1) if result is None else result, 1.0

        call = Call(TOOL, {"a": "an argument"}, "c1", context, key)
        ended, _ = asyncio.run(self.observer.run_call(running, call, ignore_progress, protocol, arrival))
        return ended

    @property
    def span(self) -> ReadableSpan:
        (span,) = self.spans.get_finished_spans()
        return span

    def points(self, name: str) -> list[Any]:
        data = self.reader.get_metrics_data()
        assert data is not None
        metrics = [
            each for resource in data.resource_metrics for scope in resource.scope_metrics for each in scope.metrics
        ]
        return [point for metric in metrics if metric.name == name for point in metric.data.data_points]


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})
