"""Write the answer of ``/health?full``: how the server is, and each server behind it that the caller may use."""
# GW-05

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from typing import TypeAlias

from toolwire.core.catalog import Catalog
from toolwire.core.health import list_health
from toolwire.core.http import JSON_HEADERS, Response
from toolwire.core.model import Json
from toolwire.core.toolbox import Toolbox
from toolwire.framing import jsontext

_HEADERS = (*JSON_HEADERS, (b"cache-control", b"no-store"))


CountTools: TypeAlias = Callable[[Catalog], Mapping[str, int]]
"""Returns how many tools of a catalog a caller may use, by the name of their upstream."""


def build_health_report(
    toolbox: Toolbox, scopes: frozenset[str] | None, count_tools: CountTools | None, active_calls: int
) -> Response:
    """Return the report for a caller with ``scopes`` (None: all): upstreams whose scopes it has.

    With ``count_tools``, these are only the upstreams that the rules for the caller leave, with its own tools counted.

    ``status`` is ``OK``, or ``DEGRADED`` while an upstream is not ``ok``. The HTTP status is 200 in both cases: an
    orchestrator that restarts the gateway would not mend an upstream.
    """
    shown = [
        one for one in list_health(toolbox) if scopes is None or one.scopes is None or scopes.issuperset(one.scopes)
    ]
    if count_tools is not None:  # PL-02
        counts = count_tools(toolbox.catalog())
        shown = [replace(one, tools=counts[one.name]) for one in shown if one.name in counts]
    is_well = all(one.state == "ok" for one in shown)
    is_all = scopes is None and count_tools is None
    report: dict[str, Json] = {
        "status": "OK" if is_well else "DEGRADED",
        "running": active_calls,
        "tools": len(toolbox.catalog().tools) if is_all else sum(one.tools for one in shown),
        "upstreams": [_describe(asdict(one)) for one in shown],
    }
    return Response(200, _HEADERS, jsontext.write(report))


def _describe(fields: dict[str, Json]) -> Json:
    del fields["scopes"]
    return {name: value for name, value in fields.items() if value not in (None, "")}
