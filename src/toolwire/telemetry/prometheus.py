"""Serve the metrics of this process, or of all workers, as Prometheus text at ``/metrics``, at an address of its own.

Everything that OpenTelemetry measures in this process is there, and how each upstream of a gateway is.
"""
# GW-06

from __future__ import annotations

import errno
import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any
from wsgiref.simple_server import WSGIServer

from opentelemetry import metrics
from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.metrics import CallbackOptions, Observation
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricReader
from prometheus_client import REGISTRY, CollectorRegistry, start_http_server

from toolwire.core.health import UpstreamHealth

from . import names
from .resource import build_resource
from .worker_metrics import WorkerMetrics

_RETRY_S = 0.5
_log = logging.getLogger("toolwire")


class PrometheusServer:
    """Serves the metrics at ``host`` and ``port``. ``list_health`` returns the upstreams of the gateway.

    With ``folder``, the figures are sums over all processes that share it; one of these has the address.
    """

    def __init__(
        self,
        host: str,
        port: int,
        list_health: Callable[[], Sequence[UpstreamHealth]],
        folder: Path | None = None,
    ) -> None:
        self._host, self._port, self._list_health = host, port, list_health
        self._workers = None if folder is None else WorkerMetrics(folder)
        self._server: WSGIServer | None = None
        self._thread: threading.Thread | None = None
        self._stopped = threading.Event()

    @property
    def address(self) -> tuple[str, int] | None:
        """The host and the port where the metrics are, or None before they are."""
        return None if self._server is None else (self._host, self._server.server_port)

    def start(self) -> None:
        """Measure from now on, and serve what is measured as soon as the address is free."""
        _measure_process()
        meter = metrics.get_meter_provider().get_meter(names.SCOPE)
        meter.create_observable_gauge(
            names.UPSTREAM_UP, [self._observe_states], description="1 while an upstream answers, 0 while it does not."
        )
        meter.create_observable_gauge(
            names.UPSTREAM_RUNNING, [self._observe_running], description="Running calls per upstream."
        )
        meter.create_observable_counter(
            names.UPSTREAM_CALLS, [self._observe_calls], description="Calls per upstream, by outcome."
        )
        if self._workers is not None:
            self._workers.start()
        self._thread = threading.Thread(target=self._listen, name="toolwire-metrics", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop serving."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join()
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
        if self._workers is not None:
            self._workers.stop()

    def _listen(self) -> None:
        # After a reload, the process before may still finish its calls, and has the address until then. Of several
        # workers, one has it.
        registry, has_waited = REGISTRY, False
        if self._workers is not None:
            registry = CollectorRegistry()
            registry.register(self._workers)
        while not self._stopped.is_set():
            try:
                self._server, _ = start_http_server(self._port, self._host, registry)
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    _log.error("metrics cannot be served at %s:%s: %s", self._host, self._port, error.strerror)
                    return
                if not has_waited:
                    level = logging.WARNING if self._workers is None else logging.DEBUG
                    _log.log(level, "metrics wait for %s:%s, which another process has", self._host, self._port)
                has_waited = True
                self._stopped.wait(_RETRY_S)
            else:
                _log.info("metrics are at http://%s:%s/metrics", self._host, self._server.server_port)
                return

    def _observe_states(self, _: CallbackOptions) -> Iterable[Observation]:
        return [Observation(int(one.state == "ok"), {names.UPSTREAM: one.name}) for one in self._list_health()]

    def _observe_running(self, _: CallbackOptions) -> Iterable[Observation]:
        return [Observation(one.running, {names.UPSTREAM: one.name}) for one in self._list_health()]

    def _observe_calls(self, _: CallbackOptions) -> Iterable[Observation]:
        for one in self._list_health():
            yield Observation(one.answered, {names.UPSTREAM: one.name, "outcome": "answered"})
            yield Observation(one.failures, {names.UPSTREAM: one.name, "outcome": "failed"})


def build_reader() -> MetricReader:
    """Return what collects metrics for Prometheus in this process."""
    return PrometheusMetricReader()


def _measure_process() -> None:
    """Set up the metrics of this process, once, unless the application has done so."""
    provider: Any = metrics.get_meter_provider()
    if not isinstance(provider, MeterProvider):
        metrics.set_meter_provider(MeterProvider(metric_readers=[build_reader()], resource=build_resource()))
