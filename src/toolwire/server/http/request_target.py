"""What the first line of a request asks for."""

from __future__ import annotations

from functools import lru_cache
from urllib.parse import unquote

import httptools

_REMEMBERED = 512
_REMEMBERED_BYTES = 256


def read_target(url: bytes) -> tuple[str, bytes, bytes]:
    """Return the path, as text and as it came, and the query of a request's target; those of late are remembered.

    Raises:
        httptools.HttpParserInvalidURLError: it is none.
    """
    return _remembered(url) if len(url) <= _REMEMBERED_BYTES else _read(url)


def _read(url: bytes) -> tuple[str, bytes, bytes]:
    parsed = httptools.parse_url(url)
    path = parsed.path.decode("ascii")
    return unquote(path) if "%" in path else path, parsed.path, parsed.query or b""


_remembered = lru_cache(_REMEMBERED)(_read)
