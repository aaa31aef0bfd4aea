"""Record the calls of a server or a client as spans, metrics and log lines, without arguments, results or secrets.

This room imports ``core``, ``framing``, ``auth`` and ``protocols``. It uses the API of OpenTelemetry only, and imports
that only if the application has set up an SDK of it.
"""
# D-26, R20: whoever reads a trace must not learn an argument or a secret from it.

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .calls import Telemetry

__all__ = ["Telemetry"]


def __getattr__(name: str) -> Any:
    """Return ``Telemetry``, which is imported when it is first used."""
    if name in __all__:
        return getattr(import_module("toolwire.telemetry.calls"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
