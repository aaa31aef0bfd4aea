"""Decide by scopes what a caller may see and call."""

from __future__ import annotations

from dataclasses import replace

from toolwire.core.catalog import Catalog
from toolwire.core.check import ALLOW, Deny, Verdict
from toolwire.core.model import Call, Kind, Problem, Tool
from toolwire.core.server_features import is_reader

Scopes = frozenset[str] | None
"""The scopes of a caller; ``None`` if callers have no scopes and may call everything."""


def permits(scopes: Scopes, tool: Tool) -> bool:
    """Return whether a caller with ``scopes`` may see ``tool`` and call it: they must have all that it names."""
    return scopes is None or not tool.scopes or scopes.issuperset(tool.scopes)


def check_scopes(call: Call) -> Verdict:
    """Refuse a call if its caller lacks a scope of the tool."""
    # OTC-042
    return (
        ALLOW
        if not call.tool.scopes or permits(call.context.scopes, call.tool)
        else Deny(build_insufficient_scopes(call.tool))
    )


def build_insufficient_scopes(tool: Tool) -> Problem:
    """Return the Problem of lacking a scope; ``details["scopes"]`` is all that the tool needs."""
    # D-30: the caller of a resource gave its URI, and learns no name that they may not see.
    what = "This" if is_reader(tool) else tool.name
    return Problem(
        kind=Kind.FORBIDDEN,
        message=f"{what} needs credentials with the scopes {' '.join(tool.scopes)}.",
        details={"scopes": list(tool.scopes)},
    )


def has_scopes(catalog: Catalog) -> bool:
    """Return whether any tool, resource or prompt of ``catalog`` requires a scope."""
    return any(tool.scopes for tool in (*catalog.tools, *catalog.features.readers))


def filter_visible(catalog: Catalog, scopes: Scopes) -> Catalog:
    """Return what a caller with ``scopes`` sees of ``catalog``: the same object where that is all."""
    tools = tuple(tool for tool in catalog.tools if permits(scopes, tool))
    features = catalog.features.filter(lambda reader: permits(scopes, reader))
    is_all = len(tools) == len(catalog.tools) and features == catalog.features
    return catalog if is_all else replace(catalog, tools=tools, features=features)
