"""Test toolwire, and any client or server of its protocols.

``background`` serves an application on a loopback port. ``server_checks`` holds the conformance checks of servers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolwire.core.lazy_import import export_lazily

if TYPE_CHECKING:
    from .loopback import background

__all__ = ["background"]

# The server needs uvicorn, an optional dependency; the other modules of this package do not.
__getattr__, __dir__ = export_lazily(__name__, dict.fromkeys(__all__, "loopback"))
