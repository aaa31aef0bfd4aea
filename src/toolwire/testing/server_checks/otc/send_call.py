"""List the tools of a server of Open Tool Calling, and send calls to the path that it serves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from toolwire.core.model import Json
from toolwire.testing.server_checks.probe import ProbeAnswer, ServerProbe

UNKNOWN_TOOL: Final = "Toolwire.no_such_tool@1.0.0"
NOT_RUN: Final = (400, 422)


def list_tools(probe: ServerProbe) -> Sequence[Mapping[str, Json]]:
    """Return the tools that the server lists as ``tools``, as ``items`` or as a plain list."""
    data = probe.get("/tools").data
    listed = data if isinstance(data, list) else (data or {}).get("tools") or (data or {}).get("items") or []
    return [tool for tool in listed if isinstance(tool, dict)]


def send_call(
    probe: ServerProbe, request: Mapping[str, Json], path: str = "/call", beside: Mapping[str, Json] | None = None
) -> ProbeAnswer:
    """Send a call. ``beside`` holds the members of the body next to ``request``."""
    return probe.post(find_call_path(probe, path), {"request": dict(request), **(beside or {})})


def find_call_path(probe: ServerProbe, path: str) -> str:
    """Return ``path``, or the other path of calls if the server has no ``path``."""
    other = "/tools/call" if path == "/call" else "/call"

    def find() -> str:
        is_missing = probe.post(path, {"request": {"tool_id": UNKNOWN_TOOL}}).data in (None, {"detail": "Not Found"})
        return other if is_missing else path

    found: str = probe.compute_once(f"path {path}", find)
    return found
