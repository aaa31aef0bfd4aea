"""Define the exception of a connection that could not be made, with every probe."""

from __future__ import annotations

from .codec import Probe
from .errors import ToolwireError
from .model import Kind


class ConnectError(ToolwireError):
    """No protocol was found at a URL. ``probes`` holds every request that was tried, in order.

    ``kind`` is the reason in one word: ``unauthorized`` if a key is missing or wrong, ``unreachable`` if no server
    answered, ``not_found`` if a server answered and offers no protocol that toolwire speaks; otherwise ``None``.
    """

    # XL-005
    def __init__(self, message: str, probes: tuple[Probe, ...] = (), kind: Kind | None = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.probes = probes
