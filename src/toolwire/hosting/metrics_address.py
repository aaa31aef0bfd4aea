"""Read ``--metrics-address``, and serve the metrics of this process there."""
# GW-06

from __future__ import annotations

from collections.abc import Sequence

from toolwire.core.errors import UsageError
from toolwire.gateway.gateway_app import Service
from toolwire.server.app import App

_LAST_PORT = 65_535


def build_metrics_services(address: str, app: App) -> Sequence[Service]:
    """Return what serves the metrics of ``app`` at ``address``, such as ``127.0.0.1:9464``; nothing without one.

    Raises:
        UsageError: it is no host with a port, or the packages for it are not installed.
    """
    if not address:
        return ()
    host, _, port = address.rpartition(":")
    if not (
        host and port.isascii() and port.isdigit() and len(port) <= len(str(_LAST_PORT)) and int(port) <= _LAST_PORT
    ):
        raise UsageError(f"--metrics-address is a host with a port, such as 127.0.0.1:9464, not {address[:80]!r}.")
    try:
        from toolwire.telemetry.prometheus import PrometheusServer  # an extra, and slow to load
    except ModuleNotFoundError as error:
        raise UsageError(f"--metrics-address needs {error.name}: pip install 'toolwire[metrics]'.") from error
    return [PrometheusServer(host.strip("[]"), int(port), app.list_health)]
