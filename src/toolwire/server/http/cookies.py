"""Read and name the cookies of our pages: a cookie that a browser takes by https belongs to this very host."""
# D-22

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from .exchange import Scope

_HOST_PREFIX: Final = "__Host-"
_NO_TOKEN: Final = re.compile(r"[^A-Za-z0-9.-]")
_PORT: Final = re.compile(r":([0-9]{1,5})\Z")


def is_by_https(scope: Scope, fields: Mapping[bytes, bytes]) -> bool:
    """Return whether the browser says that it came by https, perhaps to a proxy in front; a GET there does not say."""
    return scope.get("scheme") == "https" or fields.get(b"origin", b"").startswith(b"https:")


def name_server_cookie(name: str, scope: Scope, fields: Mapping[bytes, bytes]) -> str:
    """Return ``name`` with the port and the path at which the browser knows this server."""
    # All ports and paths of a host share its cookies, and two servers there must not sign each other's users out.
    # Behind proxies, they may listen at the same port.
    port = _PORT.search(fields.get(b"host", b"").decode("latin-1"))
    known = port[1] if port is not None else (scope.get("server") or ("", 0))[1]
    return f"{name}_{known}{_NO_TOKEN.sub('_', (scope.get('root_path') or '').rstrip('/'))}"


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
