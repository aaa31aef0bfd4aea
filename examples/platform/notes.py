"""An upstream that is a program: an MCP server of the official SDK, over standard input and output."""

from __future__ import annotations

from mcp.server.mcpserver import MCPServer
from mcp.types import ToolAnnotations

notes = MCPServer("Notes")


@notes.tool(annotations=ToolAnnotations(readOnlyHint=True))
def read_note(name: str) -> str:
    """Read a note."""
    return f"{name}: buy tea"


if __name__ == "__main__":
    notes.run()
