"""Count the tokens that an authorization server issues and refuses, by grant type."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolwire.auth.clients import GRANTS

from .calls import Telemetry, is_enabled

if TYPE_CHECKING:
    from .metrics import TokenMetrics

_PROCESS = Telemetry()


class TokenCount:
    """Counts responses of the token endpoint. Whether to count is decided at the first one."""

    def __init__(self, telemetry: Telemetry = _PROCESS) -> None:
        self._telemetry = telemetry
        self._is_decided = False
        self._metrics: TokenMetrics | None = None

    def count_response(self, grant: str, result: str) -> None:
        """Count a response. ``result`` is ``issued`` or the OAuth error code."""
        # Clients can send any grant type; each would be a new series of the metric.
        if not self._is_decided:
            self._metrics = _create_metrics(self._telemetry)
            self._is_decided = True
        if self._metrics is not None:
            self._metrics.count_response(grant if grant in GRANTS else "_other", result)


def _create_metrics(telemetry: Telemetry) -> TokenMetrics | None:
    if not is_enabled(telemetry):
        return None
    from .providers import create_token_metrics  # loads OpenTelemetry

    return create_token_metrics(telemetry.meter_provider)
