"""Find the operation of a request to an application, and the scopes that it needs, by the document of its routes.

Rules:
- Frameworks read paths in different ways. So a path that might be one of a route counts as one of it: one with another
  case, more slashes, or slashes where the route has its last parameter.
- A method that the document does not name for a path needs the scopes of all others.
"""
# AO-01, AO-04

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from .route_marks import MarkedRoute, iterate_operations
from .sign_in import list_required_scopes

_PARAMETER = re.compile(r"\\\{[^{}]*\\\}")


class Routes:
    """The operations of ``document`` by method and path."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        servers = document.get("servers")
        first = servers[0] if isinstance(servers, list) and servers else {}
        root = urlsplit(str(first.get("url", ""))).path.rstrip("/") if isinstance(first, Mapping) else ""
        found: dict[str, dict[str, MarkedRoute]] = {}
        for one in iterate_operations(document):
            found.setdefault(one.path, {})[one.method.upper()] = one
        # Paths without parameters come first, as in every framework.
        paths = sorted(found, key=lambda path: path.count("{"))
        self._document = document
        self._routes = [
            (_compile_path(root + path, most=most), found[path]) for most in ("[^/]+", ".+") for path in paths
        ]

    def find_operation(self, method: str, path: str) -> MarkedRoute | None:
        """Return the operation of a request, or None if it is about none."""
        return _choose_operation(self._list_matching(path), method)

    def find_scopes(self, method: str, path: str) -> list[str] | None:
        """Return the scopes that a request needs, or None if it needs no token."""
        matching = self._list_matching(path)
        one = _choose_operation(matching, method)
        if one is not None:
            return list_required_scopes(one.node, self._document)
        others = [each for by_method in matching for each in by_method.values()]
        needed = [list_required_scopes(each.node, self._document) for each in others]
        # A sign-in without scopes is required too.
        found = [scopes for scopes in needed if scopes is not None]
        return list(dict.fromkeys(name for scopes in found for name in scopes)) if found else None

    def _list_matching(self, path: str) -> Sequence[Mapping[str, MarkedRoute]]:
        plain = re.sub("/+", "/", path).rstrip("/") or "/"
        return [by_method for pattern, by_method in self._routes if pattern.fullmatch(plain)]


def _choose_operation(matching: Sequence[Mapping[str, MarkedRoute]], method: str) -> MarkedRoute | None:
    names = (method, "GET") if method == "HEAD" else (method,)
    return next((by_method[name] for name in names for by_method in matching if name in by_method), None)


def _compile_path(template: str, *, most: str) -> re.Pattern[str]:
    """Return the pattern of a path; ``most`` is that of its last parameter, if nothing follows it."""
    text = re.escape(template.rstrip("/") or "/")
    parts = _PARAMETER.split(text)
    last = most if len(parts) > 1 and not parts[-1] else "[^/]+"
    middle = "[^/]+".join(parts[:-1])
    return re.compile(f"{middle}{last}{parts[-1]}" if len(parts) > 1 else text, re.IGNORECASE | re.DOTALL)
