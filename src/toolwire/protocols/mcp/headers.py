"""Repeat values of the body in headers, so that a proxy can route a stateless request."""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Any

from toolwire.core.http import Headers
from toolwire.core.model import Json

from .header_arguments import Mirror

_PLAIN = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?|")
_ENCODED = re.compile(r"=\?base64\?(.*)\?=", re.DOTALL)


def write(text: str) -> bytes:
    """Return ``text`` as a header value: as it is where that is safe, else marked and in base64."""
    if _PLAIN.fullmatch(text) and not _ENCODED.fullmatch(text):
        return text.encode("ascii")
    return b"=?base64?" + b64encode(text.encode("utf-8", "replace")) + b"?="


def read(value: str) -> str | None:
    """Return the text of a header value, or None where it is marked as base64 and is not."""
    match = _ENCODED.fullmatch(value)
    if match is None:
        return value
    try:
        return b64decode(match[1], validate=True).decode("utf-8")
    except ValueError:
        return None


def write_mirrored(fields: Mirror, arguments: Mapping[str, Json]) -> Headers:
    """Return the headers that say ``arguments`` again; what is missing, null or no scalar gets none."""
    said: list[tuple[bytes, bytes]] = []
    for path, name in fields:
        value: Any = arguments
        for key in path:
            value = value.get(key) if isinstance(value, Mapping) else None
        if isinstance(value, bool):
            said.append((name, b"true" if value else b"false"))
        elif isinstance(value, str | int | float):
            said.append((name, write(str(value))))
    return said
