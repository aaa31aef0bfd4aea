"""Write the answer of ``/health?full``: how the server is, and each server behind it that the caller may use."""
# GW-05

from __future__ import annotations

from dataclasses import asdict

from toolwire.core.health import list_health
from toolwire.core.http import JSON_HEADERS, Response
from toolwire.core.model import Json
from toolwire.core.toolbox import Toolbox
from toolwire.framing import jsontext

_HEADERS = (*JSON_HEADERS, (b"cache-control", b"no-store"))


def build_health_report(toolbox: Toolbox, scopes: frozenset[str] | None, active_calls: int) -> Response:
    """Return the report for a caller with ``scopes`` (None: all): upstreams whose scopes it has.

    ``status`` is ``OK``, or ``DEGRADED`` while an upstream is not ``ok``. The HTTP status is 200 in both cases: an
    orchestrator that restarts the gateway would not mend an upstream.
    """
    shown = [
        one for one in list_health(toolbox) if scopes is None or one.scopes is None or scopes.issuperset(one.scopes)
    ]
    is_well = all(one.state == "ok" for one in shown)
    report: dict[str, Json] = {
        "status": "OK" if is_well else "DEGRADED",
        "running": active_calls,
        "tools": len(toolbox.catalog().tools) if scopes is None else sum(one.tools for one in shown),
        "upstreams": [_describe(asdict(one)) for one in shown],
    }
    return Response(200, _HEADERS, jsontext.write(report))


def _describe(fields: dict[str, Json]) -> Json:
    del fields["scopes"]
    return {name: value for name, value in fields.items() if value not in (None, "")}
