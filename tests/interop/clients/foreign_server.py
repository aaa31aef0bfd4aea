"""Servers of FastMCP and of the Python SDK 1.x, for our client: ``python foreign_server.py MAKER TRANSPORT PNG``.

MAKER is ``fastmcp`` or ``sdk-1``, TRANSPORT is ``http``, ``stdio`` or, for ``sdk-1``, ``stateless``, and PNG is an
image in base64. Each runs with packages of its own.
"""

from __future__ import annotations

import asyncio
import base64
import socket
import sys
from typing import Any

import uvicorn
from pydantic import BaseModel

MAKER, TRANSPORT, PNG = sys.argv[1:4]
if MAKER == "fastmcp":
    from fastmcp import Context, FastMCP
    from fastmcp.utilities.types import Image
    from mcp_types import ElicitRequest, InputRequiredResult
else:
    from mcp.server.fastmcp import Context, FastMCP, Image

server = FastMCP("Foreign")
heard, steps = asyncio.Event(), asyncio.Semaphore(0)
QUESTION = "Delete old.txt?"


class Consent(BaseModel):
    """What the user is asked in the middle of a call."""

    sure: bool


@server.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
async def count(to: int, context: Context) -> str:
    """Count up with progress, and wait for a call of step after each number."""
    for number in range(1, to + 1):
        await context.report_progress(number, to, f"{number} of {to}")
        await steps.acquire()
    return "done"


@server.tool()
async def step() -> None:
    """Let count go on."""
    steps.release()


@server.tool()
async def wait(context: Context) -> str:
    """Wait until the call is cancelled; the progress says that it runs."""
    await context.report_progress(1)
    try:
        await asyncio.Event().wait()
    finally:
        heard.set()
    return "never"


@server.tool()
async def hear() -> str:
    """Wait until another call was cancelled."""
    await heard.wait()
    return "cancelled"


@server.tool()
def chart() -> Image:
    """Draw a chart."""
    return Image(data=base64.b64decode(PNG), format="png")


if MAKER == "fastmcp":  # by revision 2026-07-28 the answer itself asks

    @server.tool()
    async def delete(context: Context) -> Any:
        """Delete a file, if the user says so."""
        given = (context.input_responses or {}).get("sure")
        if given is None:
            form = {"mode": "form", "message": QUESTION, "requestedSchema": Consent.model_json_schema()}
            return InputRequiredResult(input_requests={"sure": ElicitRequest.model_validate({"params": form})})
        return "deleted" if given.action == "accept" and given.content["sure"] else given.action

else:  # by revision 2025-11-25 the server asks while the call waits

    @server.tool()
    async def delete(context: Context) -> str:
        """Delete a file, if the user says so."""
        given = await context.elicit(QUESTION, Consent)
        return "deleted" if given.action == "accept" and given.data.sure else given.action


def serve_http() -> None:
    """Serve on a free port of 127.0.0.1, and print the URL once it listens."""
    app = server.http_app() if MAKER == "fastmcp" else server.streamable_http_app()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        print(f"http://127.0.0.1:{listener.getsockname()[1]}/mcp", flush=True)
        uvicorn.Server(uvicorn.Config(app, log_config=None)).run(sockets=[listener])


if TRANSPORT == "stateless":
    server.settings.stateless_http = True
if TRANSPORT != "stdio":
    serve_http()
elif MAKER == "fastmcp":
    server.run("stdio", show_banner=False)
else:
    server.run("stdio")
