"""Find the address of a gateway for its callers: its file names it, because a request can name any."""
# AT-34

from __future__ import annotations

import re
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from toolwire.core.errors import UsageError
from toolwire.core.url_origin import get_authority, read_origin

from .serve_settings import ServeSettings

NAME_IT: Final = 'set public-url = "https://tools.example", or one allow-host with its port'
"""What to do in a file that names no address."""
_HAS_A_PORT: Final = re.compile(r":\d{1,5}\Z")


def find_allowed_address(arguments: Namespace) -> str:
    """Return the URL of the one host that ``arguments`` allow, if it has a port, else ``""``."""
    hosts = arguments.hosts
    if len(hosts) != 1 or _HAS_A_PORT.search(hosts[0]) is None:
        return ""
    url = f"{'https' if arguments.tls_cert else 'http'}://{hosts[0].lower()}"
    return url + arguments.root_path.rstrip("/") if read_origin(url) is not None else ""


def require_address(settings: ServeSettings) -> ServeSettings:
    """Return ``settings``, with the address as the audience of receipts unless they name another.

    Raises:
        UsageError: something that is served names the address of the gateway, and the file names none.
    """
    user = next(_list_users(settings), None)
    if user is not None and not settings.server.public_url:
        text = "and nothing in a request may say where that is"
        raise UsageError(f"{user} the address of this gateway, {text}: {NAME_IT} above the upstreams.")
    if not settings.server.receipts or settings.server.receipt_audience:
        return settings
    server = replace(settings.server, receipt_audience=get_authority(settings.server.public_url))
    return replace(settings, server=server)


def _list_users(settings: ServeSettings) -> Iterator[str]:
    """Yield the beginning of a sentence for each part of ``settings`` that names the address."""
    signing_in = [one.name for one in settings.upstreams if one.account == "caller"]
    if signing_in:
        yield f"The callers of the upstream {signing_in[0]} sign in at"
    if settings.webhook is not None or any(one.webhook is not None for one in settings.callers.values()):
        yield "A webhook names"
    if settings.server.receipts and not settings.server.receipt_audience:
        yield "Receipts are signed for"
    if settings.has_inbox and (settings.api_keys or settings.tokens or settings.sign_in is not None):
        yield "Callers are sent to the inbox at"
