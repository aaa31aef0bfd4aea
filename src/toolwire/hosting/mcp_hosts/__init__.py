"""The files in which MCP hosts keep their servers."""
