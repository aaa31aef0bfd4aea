"""Describe how a call arrived: in which message, and from which address."""

from __future__ import annotations

from typing import NamedTuple

from toolwire.core.http import Request


class Arrival(NamedTuple):
    """The request of a call, the address of its client, and the version of HTTP; an empty text if unknown."""

    request: Request
    client: str = ""
    http_version: str = ""
