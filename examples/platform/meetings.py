"""An upstream that is reached by MCP over HTTP."""

from __future__ import annotations

from toolwire import Toolkit

meetings = Toolkit("Meetings")


@meetings.tool(safe=True, approval="auto")
def list_meetings(day: str) -> list[str]:
    """List the meetings of a day."""
    return [f"{day} 10:00 Planning"]
