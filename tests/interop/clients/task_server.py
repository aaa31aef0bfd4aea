"""A server of FastMCP whose tools run as tasks, for our client: ``python task_server.py`` prints its URL.

It runs with packages of its own.
"""

from __future__ import annotations

import asyncio
import socket
from datetime import timedelta
from typing import Any

import uvicorn
from fastmcp import Context, FastMCP
from fastmcp.utilities.tasks import TaskConfig
from fastmcp_tasks import TasksExtension
from mcp_types import ElicitRequest, InputRequiredResult
from pydantic import BaseModel

server = FastMCP("Foreign")
server.add_extension(TasksExtension())
TASK = TaskConfig(mode="required", poll_interval=timedelta(seconds=0.2))


class Size(BaseModel):
    """What the user is asked in the middle of a task."""

    size: int


@server.tool(task=TASK)
async def build(rows: int) -> dict[str, int]:
    """Build a report."""
    return {"rows": rows}


@server.tool(task=TASK)
async def choose(context: Context) -> Any:
    """Ask for a size."""
    given = (context.input_responses or {}).get("size")
    if given is None:
        form = {"mode": "form", "message": "How large?", "requestedSchema": Size.model_json_schema()}
        return InputRequiredResult(input_requests={"size": ElicitRequest.model_validate({"params": form})})
    return f"size {given.content['size']}" if given.action == "accept" else given.action


@server.tool(task=TASK)
async def fail() -> str:
    """Fail."""
    raise ValueError("No paper.")


@server.tool(task=TASK)
async def hang() -> str:
    """Wait until the task is cancelled."""
    await asyncio.Event().wait()
    return "never"


with socket.create_server(("127.0.0.1", 0)) as listener:
    print(f"http://127.0.0.1:{listener.getsockname()[1]}/mcp", flush=True)
    uvicorn.Server(uvicorn.Config(server.http_app(), log_config=None)).run(sockets=[listener])
