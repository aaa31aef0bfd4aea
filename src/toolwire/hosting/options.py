"""Define the options of what is served, and of the servers behind it, each once. Importing this loads no server."""

from __future__ import annotations

from typing import Final

HOST: Final = "127.0.0.1"
PORT: Final = 9627
TOTAL_S: Final = 100
"""The time limit of a call, in seconds."""
READING_S: Final = 15
"""The time limit of finding a server and reading its documents, in seconds."""
UPSTREAM_S: Final = 30
"""The time limit of a call of a server behind this one, in seconds."""
