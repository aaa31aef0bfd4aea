"""Check the method and the header fields of a request before a socket opens."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import TypeAlias

from toolwire.core.http import Request
from toolwire.core.model import Problem

from .failures import invalid_request

Fields: TypeAlias = Sequence[tuple[str, str]]
"""Header fields as text."""

_METHOD = re.compile(r"[A-Z]{1,20}")
NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
VALUE = re.compile(r"[\t -~]*")
# CONNECT opens a tunnel, and TRACE sends credentials back. Neither is a call.
_FORBIDDEN_METHODS = frozenset({"CONNECT", "TRACE"})
# These fields frame the message. Only the code that writes it knows their values.
_RESERVED = frozenset(
    {
        "accept-encoding",
        "connection",
        "content-length",
        "expect",
        "host",
        "keep-alive",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)


def check_headers(request: Request) -> Fields | Problem:
    """Return the header fields of ``request`` as text, or the Problem that it cannot be sent."""
    # D-11: a line break in a value would start a header field, or another request.
    if _METHOD.fullmatch(request.method) is None or request.method in _FORBIDDEN_METHODS:
        return invalid_request("The method of this request is not one that calls use: write it like GET or POST.")
    fields: list[tuple[str, str]] = []
    for raw_name, raw_value in request.headers:
        name, value = _check_name(raw_name), raw_value.decode("latin-1")
        if isinstance(name, Problem):
            return name
        if VALUE.fullmatch(value) is None:
            return invalid_request(
                f"The header {name} has a line break or another character that does not belong there."
            )
        fields.append((name, value))
    return fields


@lru_cache(maxsize=1024)  # every request has the same few names
def _check_name(raw: bytes) -> str | Problem:
    name = raw.decode("latin-1")
    if NAME.fullmatch(name) is None:
        return invalid_request("A header of this request has a name that is not made of letters, digits and dashes.")
    if name.lower() in _RESERVED or name.lower().startswith("proxy-"):
        return invalid_request(f"The header {name} is not for a call to set: leave it out.")
    return name
