"""Record the calls of a server or a client as spans, metrics and log lines, without arguments, results or secrets.

This room imports ``core``, ``framing``, ``auth`` and ``protocols``. It uses the API of OpenTelemetry only, and imports
that only if the application has set up an SDK of it.
"""
# D-26, R20: a trace must not show an argument or a secret to its readers.

from __future__ import annotations

from typing import TYPE_CHECKING

from toolwire.core.lazy_import import export_lazily

if TYPE_CHECKING:
    from .calls import Telemetry

__all__ = ["Telemetry"]

__getattr__, __dir__ = export_lazily(__name__, dict.fromkeys(__all__, "calls"))
