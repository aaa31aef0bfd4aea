"""Count the messages of webhooks, by outcome."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .calls import Telemetry, is_enabled

if TYPE_CHECKING:
    from .metrics import WebhookMetrics

_PROCESS = Telemetry()


class WebhookCount:
    """Counts messages. Whether to count is decided at the first one."""

    def __init__(self, telemetry: Telemetry = _PROCESS) -> None:
        self._telemetry = telemetry
        self._is_decided = False
        self._metrics: WebhookMetrics | None = None

    def count_message(self, outcome: str) -> None:
        """Count a message that was ``sent``, ``failed`` or ``dropped``."""
        if not self._is_decided:
            self._metrics = _create_metrics(self._telemetry)
            self._is_decided = True
        if self._metrics is not None:
            self._metrics.count_message(outcome)


def _create_metrics(telemetry: Telemetry) -> WebhookMetrics | None:
    if not is_enabled(telemetry):
        return None
    from .providers import create_webhook_metrics  # loads OpenTelemetry

    return create_webhook_metrics(telemetry.meter_provider)
