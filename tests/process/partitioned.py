"""A gateway and the server behind it in a network namespace of their own, whose only link is taken down and up again.

Started by ``test_partition.py``; prints what it saw as JSON, for each protocol.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
from typing import Any

from tests.support.wire import HERE, AppTransport
from toolwire import Problem, Toolkit, Value, asgi, connect
from toolwire.core.http import Request, Response
from toolwire.gateway import merge_toolboxes
from toolwire.server.run.function_toolbox import FunctionToolbox
from toolwire.testing.loopback import background

HANG_S = 20.0
DEADLINE_S = 0.3


def link(state: str) -> None:
    subprocess.run(["ip", "link", "set", "lo", state], check=True)


def far() -> Toolkit:
    kit = Toolkit("Far")

    @kit.tool(approval="auto", safe=True)
    def greet(name: str) -> str:
        """Greet somebody."""
        return f"Hello, {name}."

    return kit


def near() -> Toolkit:
    kit = Toolkit("Near")

    @kit.tool(approval="auto", safe=True)
    def here() -> str:
        """Say where this is."""
        return "here"

    return kit


async def ask(gateway: AppTransport, tool: str, given: dict[str, Any]) -> list[Any]:
    """Return the status of a call through the gateway, and the code of its error if it has one."""
    body = json.dumps({"request": {"tool_id": tool, "input": given}}).encode()
    answer = await gateway.send(Request("POST", f"{HERE}/call", ((b"content-type", b"application/json"),), body))
    assert isinstance(answer, Response)
    return [answer.status, json.loads(answer.body).get("success")]


async def part(url: str, protocol: str) -> dict[str, Any]:
    seen: dict[str, Any] = {}
    async with asyncio.timeout(HANG_S):
        before = len(asyncio.all_tasks())
        options: dict[str, Any] = {"protocol": protocol, "timeout_s": DEADLINE_S, "retries": 0}
        async with connect(url, approve=lambda _: True, **options) as remote:
            gateway = AppTransport(asgi(merge_toolboxes([remote, FunctionToolbox(near())])))
            seen["before"] = await remote.call("greet", {"name": "Ada"}) == Value("Hello, Ada.")
            link("down")
            try:
                problems = [await remote.call("greet", {"name": "Ada"}) for _ in range(2)]
                seen["kinds"] = [found.kind.value if isinstance(found, Problem) else "" for found in problems]
                name = next(tool.id for tool in remote.tools)
                seen["through"] = await ask(gateway, name, {"name": "Ada"})
                seen["near"] = await ask(gateway, "Near.here", {})
            finally:
                link("up")
            seen["after"] = await until_answered(remote)
        seen["left"] = len(asyncio.all_tasks()) - before
    return seen


async def until_answered(remote: Any) -> bool:
    while isinstance(found := await remote.call("greet", {"name": "Bo"}), Problem):  # noqa: ASYNC110 - it asks the network
        await asyncio.sleep(0.05)
    return bool(found == Value("Hello, Bo."))


def main() -> None:
    link("up")
    with background(asgi(far())) as url:
        seen = {one: asyncio.run(part(url, one)) for one in ("openapi", "opentool", "otc", "mcp")}
    print(json.dumps(seen))


if __name__ == "__main__":
    main()
