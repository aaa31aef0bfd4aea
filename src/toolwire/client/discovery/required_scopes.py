"""Read the scopes that a tool declares, and put them on its requests, so that a sign-in asks for no more than these."""

# AC-08: the fewest scopes: those of the operation that is called, not all that the document names.

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

from toolwire.core.codec import Flow, change_requests
from toolwire.core.model import Json, Tool

T = TypeVar("T")

_SIGN_IN_KINDS = ("oauth2", "openIdConnect")


def find_required_scopes(tool: Tool) -> tuple[str, ...] | None:
    """Return the scopes of the first alternative of ``tool`` that needs a sign-in, or None if none does."""
    for schemes in _list_alternatives(tool):
        needed = [scheme for scheme in schemes if scheme.get("kind") in _SIGN_IN_KINDS]
        if needed:
            return tuple(dict.fromkeys(scope for scheme in needed for scope in scheme.get("scopes", ())))
    return None


def list_sign_in_schemes(tools: Iterable[Tool]) -> frozenset[str]:
    """Return the names of the security schemes with which a user signs in for ``tools``."""
    return frozenset(
        str(scheme.get("id"))
        for tool in tools
        for schemes in _list_alternatives(tool)
        for scheme in schemes
        if scheme.get("kind") in _SIGN_IN_KINDS
    )


def add_required_scopes(flow: Flow[T], tool: Tool) -> Flow[T]:
    """Run ``flow`` with the scopes of ``tool`` on each request, and return its value."""
    scopes = find_required_scopes(tool)
    return flow if scopes is None else change_requests(flow, lambda request: request._replace(scopes=scopes))


def _list_alternatives(tool: Tool) -> Iterable[Iterable[Mapping[str, Json]]]:
    facts = tool.hints.get("openapi")
    alternatives = facts.get("security", ()) if isinstance(facts, Mapping) else ()
    return alternatives if isinstance(alternatives, (list, tuple)) else ()
