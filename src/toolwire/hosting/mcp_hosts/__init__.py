"""Edit the files in which MCP hosts list their servers."""
