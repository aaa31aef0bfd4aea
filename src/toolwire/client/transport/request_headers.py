"""Check the method and the header fields of a request before a socket opens."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TypeAlias

from toolwire.core.http import Request
from toolwire.core.model import Problem, Secret

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


# A protocol sets these fields for each call; another value would change what the call is.
_SET_BY_PROTOCOLS = frozenset(
    {"accept", "content-type", "idempotency-key", "toolwire-confirmation", "toolwire-receipt", "traceparent"}
)
_MAX_HEADERS = 32


def read_site_headers(headers: Mapping[str, str | Secret]) -> tuple[tuple[str, str | Secret], ...]:
    """Return ``headers``, which the user adds to every request to a site, in lower case.

    Raises:
        ValueError: one of them cannot be sent, or is a field that a call sets itself.
    """
    # XL-089
    found: dict[str, str | Secret] = {}
    for name, value in headers.items():
        plain, text = name.lower(), value.reveal() if isinstance(value, Secret) else value
        is_ours = plain in _RESERVED or plain in _SET_BY_PROTOCOLS or plain.startswith(("proxy-", "mcp-"))
        if NAME.fullmatch(name) is None or is_ours:
            raise ValueError(f"{name!r} cannot be set as a header")
        if VALUE.fullmatch(text) is None or not text.strip():
            raise ValueError(f"the value of the header {name} is empty or contains an invalid character")
        if plain in found:
            raise ValueError(f"the header {name} is given twice")
        found[plain] = value
    if len(found) > _MAX_HEADERS:
        raise ValueError(f"{len(found)} headers are given; at most {_MAX_HEADERS} can be sent")
    return tuple(found.items())


def check_headers(request: Request) -> Fields | Problem:
    """Return the header fields of ``request`` as text, or the Problem that it cannot be sent."""
    # D-11: a line break in a value would start a header field, or another request.
    if _METHOD.fullmatch(request.method) is None or request.method in _FORBIDDEN_METHODS:
        return invalid_request("Invalid HTTP method. Write a method such as GET or POST.")
    fields: list[tuple[str, str]] = []
    for raw_name, raw_value in request.headers:
        name, value = _check_name(raw_name), raw_value.decode("latin-1")
        if isinstance(name, Problem):
            return name
        if VALUE.fullmatch(value) is None:
            return invalid_request(f"The header {name} contains a line break or another invalid character.")
        fields.append((name, value))
    return fields


@lru_cache(maxsize=1024)  # every request has the same few names
def _check_name(raw: bytes) -> str | Problem:
    name = raw.decode("latin-1")
    if NAME.fullmatch(name) is None:
        return invalid_request("A header name can contain only letters, digits and dashes.")
    if name.lower() in _RESERVED or name.lower().startswith("proxy-"):
        return invalid_request(f"A call cannot set the header {name}. Leave it out.")
    return name
