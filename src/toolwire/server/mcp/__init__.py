"""MCP sessions and what they send: all that a server knows of MCP beside the codec. Imports server.http."""
