"""Name everything that a connection uses of uvicorn's objects: the whole dependency on how uvicorn is built.

``tests/server/test_uvicorn_interface.py`` compares these classes with the installed uvicorn.
"""

from __future__ import annotations

import asyncio
from typing import Any, Protocol


class UvicornConfig(Protocol):
    """The attributes of ``uvicorn.Config`` that a connection reads."""

    loaded_app: Any
    """The application, which the server has made before it accepts connections."""
    access_log: bool
    """Whether requests are logged."""
    root_path: str
    """Where a proxy mounted the application; empty at the root."""


class UvicornState(Protocol):
    """The attributes of ``uvicorn.Server.server_state``, which all connections of a server share."""

    connections: set[Any]
    """The open connections. A stopping server calls ``shutdown()`` of each and waits until the set is empty."""
    tasks: set[asyncio.Task[None]]
    """The tasks that answer requests. A stopping server waits for them, then cancels them."""
    total_requests: int
    """How many responses were completed."""
    default_headers: list[tuple[bytes, bytes]]
    """The header fields that every response starts with, such as ``date``; a new list each second."""


class UvicornServer(Protocol):
    """The attributes of ``uvicorn.Server`` that a graceful stop uses."""

    servers: list[Any]
    """What listens: objects with ``close()`` and ``sockets``."""
    server_state: UvicornState
    """What all connections share."""
