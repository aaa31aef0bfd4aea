"""Do what an assistant does with its settings file: start each server in it, list its tools, and call one."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from mcp import Client, StdioServerParameters, stdio_client


async def main(servers: dict[str, dict[str, Any]]) -> None:
    """Print the names of the tools, and how much tea there is."""
    for entry in servers.values():
        program = StdioServerParameters(command=entry["command"], args=entry["args"], env=entry.get("env"))
        async with Client(stdio_client(program)) as client:
            print([tool.name for tool in (await client.list_tools()).tools])
            print((await client.call_tool("in_stock", {"item": "tea"})).content)


asyncio.run(main(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))["mcpServers"]))
