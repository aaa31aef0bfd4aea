"""Test toolwire, and any client or server of its protocols.

``background`` serves an application on a loopback port. ``server_checks`` holds the conformance checks of servers.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .loopback import background

__all__ = ["background"]


def __getattr__(name: str) -> Any:
    """Return ``background``, which is imported when it is first used."""
    # It needs uvicorn, an optional dependency; the other modules of this package do not.
    if name in __all__:
        return getattr(import_module("toolwire.testing.loopback"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
