"""Export what is measured: as Prometheus text at ``--metrics-address``, and by OTLP to a collector.

``--otlp`` names the collector, or the variables of OpenTelemetry do, such as ``OTEL_EXPORTER_OTLP_ENDPOINT``.
"""
# GW-06, PL-04

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from toolwire.core.errors import UsageError
from toolwire.core.url_display import show_url
from toolwire.gateway.gateway_front import Service
from toolwire.server.app import App

from .serve_settings import ServeSettings

_LAST_PORT: Final = 65_535
_ENDPOINTS: Final = tuple(f"OTEL_EXPORTER_OTLP_{name}ENDPOINT" for name in ("", "TRACES_", "METRICS_"))
_PROTOCOLS: Final = tuple(f"OTEL_EXPORTER_OTLP_{name}PROTOCOL" for name in ("", "TRACES_", "METRICS_"))
_PROTOCOL: Final = "http/protobuf"
_log = logging.getLogger("toolwire")


def build_telemetry_services(settings: ServeSettings, app: App) -> Sequence[Service]:
    """Return what exports the metrics and spans of ``app`` as ``settings`` and the environment say.

    Raises:
        UsageError: an address is not valid, or the packages for an option are not installed.
    """
    services: list[Service] = []
    # Before the metrics, which then have one provider together with it.
    if settings.otlp or _is_named_in_environment():
        services += _build_otlp(settings)
    if settings.metrics_address:
        services.append(_build_metrics(settings, app))
    return services


def _build_otlp(settings: ServeSettings) -> list[Service]:
    try:
        parts = urlsplit(settings.otlp)
        is_bad = bool(settings.otlp) and (parts.scheme not in ("http", "https") or not parts.hostname)
    except ValueError:
        is_bad = True
    if is_bad:
        raise UsageError(f"--otlp must be a URL such as http://127.0.0.1:4318, not {settings.otlp[:80]!r}.")
    if show_url(settings.otlp) != settings.otlp:
        raise UsageError(
            "The URL of --otlp might contain a secret. Use the environment variable OTEL_EXPORTER_OTLP_HEADERS instead."
        )
    if other := next((name for name in _PROTOCOLS if os.environ.get(name, _PROTOCOL) != _PROTOCOL), None):
        text = f"toolwire sends OTLP over HTTP only: set {other} to {_PROTOCOL}, and the port to that of HTTP (4318)."
        raise UsageError(text)
    try:
        from toolwire.telemetry.otlp import OtlpExport  # an extra, and slow to load
    except ModuleNotFoundError as error:
        if not settings.otlp:  # such variables are often set for every program of a machine
            _log.warning("OTLP is off: %s is not installed (pip install 'toolwire[metrics]').", error.name)
            return []
        raise UsageError(f"--otlp needs {error.name}: pip install 'toolwire[metrics]'.") from error
    return [OtlpExport(settings.otlp, with_prometheus=bool(settings.metrics_address))]


def _is_named_in_environment() -> bool:
    is_off = os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
    return not is_off and any(os.environ.get(name) for name in _ENDPOINTS)


def _build_metrics(settings: ServeSettings, app: App) -> Service:
    address = settings.metrics_address
    host, _, port = address.rpartition(":")
    if not (
        host and port.isascii() and port.isdigit() and len(port) <= len(str(_LAST_PORT)) and int(port) <= _LAST_PORT
    ):
        raise UsageError(f"--metrics-address must be a host and a port, such as 127.0.0.1:9464, not {address[:80]!r}.")
    try:
        from toolwire.telemetry.prometheus import PrometheusServer  # an extra, and slow to load
    except ModuleNotFoundError as error:
        raise UsageError(f"--metrics-address needs {error.name}: pip install 'toolwire[metrics]'.") from error
    folder = Path(settings.metrics_folder) if settings.metrics_folder else None
    return PrometheusServer(host.strip("[]"), int(port), app.list_health, folder)
