"""Fetch a JWK Set that a server or a client publishes at a URL, over the guarded network.

Rules:
- Only https, or http on this machine: an attacker on the network must not put other keys there.
- Nothing is fetched from another origin than that of the URL, whatever it redirects to.
"""
# CC-06

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from toolwire.core.errors import DefinitionError
from toolwire.core.http import Request
from toolwire.core.model import Kind, Problem
from toolwire.core.url_display import show_url
from toolwire.core.url_origin import get_host, read_origin

from .limits import TransportLimits
from .network import SyncNetwork

_LIMITS: Final = TransportLimits(total_s=10.0, response_bytes=1_048_576)
_HERE: Final = ("localhost", "127.0.0.1", "::1")


def build_key_fetcher(url: str, *, ca_file: str | Path | None = None) -> Callable[[], bytes | Problem]:
    """Return a blocking function that fetches the JWK Set at ``url``: at most 1 MiB, within 10 seconds.

    Pass it to ``asgi(receipt_keys=...)`` to use published keys. ``ca_file`` adds certificate authorities.

    Raises:
        DefinitionError: ``url`` is neither HTTPS nor HTTP on this machine.
    """
    origin = read_origin(url)
    if origin is None or (origin.scheme != "https" and get_host(url) not in _HERE):
        raise DefinitionError(
            f"{show_url(url)} does not use https, so an attacker on the network could replace the keys."
        )
    pinned = str(origin)
    network = SyncNetwork(allow_private=(pinned,), origins=(pinned,), ca_file=ca_file, limits=_LIMITS)

    def fetch() -> bytes | Problem:
        answer = network.send(Request("GET", url, ((b"accept", b"application/json"),)))
        if isinstance(answer, Problem) or answer.status == 200:
            return answer if isinstance(answer, Problem) else answer.body
        return Problem(
            kind=Kind.BAD_ANSWER, message=f"{show_url(url)} answered with status {answer.status} instead of keys."
        )

    return fetch
