"""Find the scopes that a request to an application needs, by the document of its routes.

Rules:
- Frameworks read paths in different ways. So a path that might be one of a protected route is protected too: one with
  another case, more slashes, or slashes where the route has its last parameter.
- So is each method that the document does not name for the path, except OPTIONS: browsers send it without credentials.
"""
# AO-01

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from .route_marks import iterate_operations
from .sign_in import list_required_scopes

_PARAMETER = re.compile(r"\\\{[^{}]*\\\}")


class RouteScopes:
    """The scopes of the operations of ``document`` by method and path."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        servers = document.get("servers")
        first = servers[0] if isinstance(servers, list) and servers else {}
        root = urlsplit(str(first.get("url", ""))).path.rstrip("/") if isinstance(first, Mapping) else ""
        found: dict[str, dict[str, list[str] | None]] = {}
        for one in iterate_operations(document):
            scopes = found.setdefault(one.path, {})
            scopes[one.method.upper()] = list_required_scopes(one.node, document)
        # Paths without parameters come first, as in every framework.
        paths = sorted(found, key=lambda path: path.count("{"))
        self._routes = [
            (_compile_path(root + path, most=most), found[path]) for most in ("[^/]+", ".+") for path in paths
        ]

    def find(self, method: str, path: str) -> list[str] | None:
        """Return the scopes that a request needs, or None if it needs no token."""
        plain = re.sub("/+", "/", path).rstrip("/") or "/"
        matching = [by_method for pattern, by_method in self._routes if pattern.fullmatch(plain)]
        names = (method, "GET") if method == "HEAD" else (method,)
        for name in names:
            for by_method in matching:
                if name in by_method:
                    return by_method[name]
        needed = [scope for by_method in matching for scopes in by_method.values() for scope in scopes or ()]
        return list(dict.fromkeys(needed)) if needed and method != "OPTIONS" else None


def _compile_path(template: str, *, most: str) -> re.Pattern[str]:
    """Return the pattern of a path; ``most`` is that of its last parameter, if nothing follows it."""
    text = re.escape(template.rstrip("/") or "/")
    parts = _PARAMETER.split(text)
    last = most if len(parts) > 1 and not parts[-1] else "[^/]+"
    middle = "[^/]+".join(parts[:-1])
    return re.compile(f"{middle}{last}{parts[-1]}" if len(parts) > 1 else text, re.IGNORECASE | re.DOTALL)
