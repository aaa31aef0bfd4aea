"""Read and name the cookies of our pages: a cookie that a browser takes by https belongs to this very host."""
# D-22

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_HOST_PREFIX: Final = "__Host-"


def name_cookie(name: str, *, is_secure: bool) -> str:
    """Return what the cookie ``name`` is called; with ``is_secure``, no other host of the same domain can set it."""
    # RFC 6265bis, 4.1.3.2: such a cookie comes by https alone, has the path / and no domain.
    return f"{_HOST_PREFIX}{name}" if is_secure else name


def build_cookie(name: str, value: str, *, is_secure: bool, path: str, more: str) -> tuple[bytes, bytes]:
    """Return the header field that sets a cookie which no script reads, with the attributes ``more``."""
    text = f"{name_cookie(name, is_secure=is_secure)}={value}; Path={'/' if is_secure else path}; HttpOnly; {more}"
    return b"set-cookie", f"{text}{'; Secure' if is_secure else ''}".encode()


def find_cookie(fields: Mapping[bytes, bytes], name: str, *, is_secure: bool = False) -> str:
    """Return the value of a cookie, as ``name_cookie`` calls it, or an empty text."""
    # By hand: http.cookies stops at the first cookie of another program that it does not like.
    wanted = name_cookie(name, is_secure=is_secure)
    for part in fields.get(b"cookie", b"").decode("latin-1").split(";"):
        found, _, value = part.strip().partition("=")
        if found == wanted:
            return value
    return ""
