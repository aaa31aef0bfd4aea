"""Record the calls of a server or a client as spans, metrics and log lines, without arguments, results or secrets.

This room imports ``core``, ``framing``, ``auth`` and ``protocols``. It uses the API of OpenTelemetry only, and imports
that only where the application has set up an SDK of it.
"""
# D-26, R20: an argument or a secret in a trace would be readable by all who can read the trace.

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .calls import Telemetry

__all__ = ["Telemetry"]


def __getattr__(name: str) -> Any:
    """Return ``Telemetry``, loaded when it is first used."""
    if name == "Telemetry":
        from .calls import Telemetry  # noqa: PLC0415 - the rest of the room must not load it

        return Telemetry
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
