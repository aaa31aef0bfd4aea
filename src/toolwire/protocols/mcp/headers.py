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
MARK = "=?base64?"
"""What a value begins with that is written in base64."""
_ENCODED = re.compile(r"=\?base64\?(.*)\?=", re.DOTALL)
_LEGAL = re.compile(r"[\x20-\x7e\t]*")
_INTEGER = re.compile(r"(-?[0-9]{1,20})(?:\.0{1,20})?")

BLANK = " \t"
"""What may stand around the value of a header field and is no part of it (RFC 9110, 5.5)."""


def write(text: str) -> bytes:
    """Return ``text`` as a header value: as it is where that is safe, else marked and in base64."""
    if _PLAIN.fullmatch(text) and not _ENCODED.fullmatch(text):
        return text.encode("ascii")
    return b"=?base64?" + b64encode(text.encode("utf-8", "replace")) + b"?="


def read(value: str) -> str | None:
    """Return the text of a header value, or None where it is marked as base64 and is not."""
    match = _ENCODED.fullmatch(value) if value.startswith(MARK) else None  # few values are marked, each call has one
    if match is None:
        return value
    try:
        return b64decode(match[1], validate=True).decode("utf-8")
    except ValueError:
        return None


def write_mirrored(fields: Mirror, arguments: Mapping[str, Json]) -> Headers:
    """Return the headers that say ``arguments`` again; what is missing, null or no scalar gets none."""
    fields_written: list[tuple[bytes, bytes]] = []
    for path, name in fields:
        text = _write_scalar(_get_argument(arguments, path))
        if text is not None:
            fields_written.append((name, write(text)))
    return fields_written


def find_mismatch(fields: Mirror, arguments: Mapping[str, Json], headers: Headers) -> str:
    """Return the name of the first header that does not say what ``arguments`` say; empty where all do."""
    for path, name in fields:
        values = [value for key, value in headers if key == name]
        expected = _get_argument(arguments, path)
        if _write_scalar(expected) is None and not values:
            continue
        # Of several headers of one name, a proxy may have read any.
        if len(values) != 1 or not _says(values[0].decode("latin-1").strip(BLANK), expected):
            return name.decode("latin-1")
    return ""


def _get_argument(arguments: Mapping[str, Json], path: tuple[str, ...]) -> Json:
    value: Any = arguments
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def _write_scalar(value: Json) -> str | None:
    """Return what a header says of an argument; None where it is missing, null or no scalar."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, str | int | float) else None


def _says(header: str, value: Json) -> bool:
    text = read(header) if _LEGAL.fullmatch(header) else None
    if text is None or isinstance(value, str | bool) or not isinstance(value, int | float):
        return text is not None and text == _write_scalar(value)
    integer = _INTEGER.fullmatch(text)  # 42 and 42.0 are one integer, and other languages write either
    return text == str(value) if integer is None else int(integer[1]) == value
