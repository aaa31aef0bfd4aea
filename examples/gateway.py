"""A gateway over two servers of other makers: an API on FastAPI and an MCP server of the official SDK.

Ann and Bob have keys of the gateway. Each sees the tools of their own scopes, and is asked about their own calls.
"""

from __future__ import annotations

import contextlib
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI
from mcp.server.mcpserver import MCPServer

FILE = """\
port = 0
api-key-file = "keys.txt"
log = "json"

[upstreams.shop]
target = "{shop}/openapi.json"
include = "all"
scopes = ["shop"]

[upstreams.weather]
target = "{weather}/mcp"
protocol = "mcp"

[callers.bob]
rate = "60/1m"
"""
KEYS = "key-of-ann ann shop\nkey-of-bob bob none\n"


def build_shop(orders: list[str]) -> FastAPI:
    """Return a web API that knows nothing of toolwire; what was ordered is in ``orders``."""
    app = FastAPI(title="Shop")

    @app.post("/orders", operation_id="order", summary="Order an article")
    def order(article: str) -> str:
        orders.append(article)
        return f"ordered: {article}"

    return app


def build_weather(asked: list[str]) -> MCPServer:
    """Return an MCP server of the official SDK; the cities that were asked for are in ``asked``."""
    server = MCPServer("Weather", log_level="ERROR")

    @server.tool()
    def forecast(city: str) -> str:
        """Tell the weather of a city."""
        asked.append(city)
        return f"It is sunny in {city}."

    return server


@contextmanager
def serve(app: Any) -> Generator[str, None, None]:
    """Serve an application with uvicorn, as its makers do, and yield its URL."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = uvicorn.Server(uvicorn.Config(app, log_config=None, timeout_graceful_shutdown=1))
        thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(10)


@contextmanager
def run_gateway(folder: Path, shop: str, weather: str) -> Generator[str, None, None]:
    """Run ``toolwire gateway run`` with the file that names both servers, and yield its URL."""
    (folder / "keys.txt").write_text(KEYS, encoding="utf-8")
    (folder / "toolwire.toml").write_text(FILE.format(shop=shop, weather=weather), encoding="utf-8")
    command = [sys.executable, "-m", "toolwire", "gateway", "run", "--file", str(folder / "toolwire.toml")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:  # noqa: S603 - our own command
        assert process.stdout is not None
        try:
            found = next(filter(None, (re.match(r"URL\s+(http\S+)", line) for line in process.stdout)), None)
            if found is None:
                raise RuntimeError("The gateway did not start.")
            reader = threading.Thread(target=process.stdout.read, daemon=True)  # so that it never waits to print
            reader.start()
            yield found[1]
        finally:
            process.terminate()
            process.wait(20)
            with contextlib.suppress(RuntimeError):
                reader.join(5)
