"""The servers of universal-tool and open-tool with the same three tools; ``python foreign_servers.py NAME`` serves one.

They run in a process of their own: they warn when they are imported, and their threads would outlive a test.
"""

from __future__ import annotations

import logging
import sys
import warnings


def serve(name: str) -> None:
    """Serve on a free port of 127.0.0.1, and print the URL once it listens."""
    import socket

    import uvicorn

    warnings.simplefilter("ignore")
    logging.disable()
    if name == "universal_tool_server":
        from universal_tool_server import Server
    else:
        from open_tool_server import Server

    app = Server()
    register = app.add_tool if hasattr(app, "add_tool") else app.tool

    async def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    async def divide(a: float, b: float) -> float:
        """Divide one number by another."""
        return a / b

    async def nothing() -> None:
        """Do nothing."""

    for function in (add, divide, nothing):
        register(function)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        print(f"http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
        uvicorn.Server(uvicorn.Config(app, log_config=None)).run(sockets=[listener])


if __name__ == "__main__":
    serve(sys.argv[1])
