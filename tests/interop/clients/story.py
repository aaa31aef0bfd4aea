"""What each Python client does on the server of ``served_kit.py``, whoever made the client.

A driver is started as ``python DRIVER TARGET``. TARGET is JSON: the ``url`` or the ``command`` of a server, the
``mode`` of clients that speak several revisions, and ``leaves`` for a client that cancels a call by going away. The
driver prints JSON. The user declines the first question for consent, and allows the second.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from typing import Any

TARGET = json.loads(sys.argv[1])
ANSWERS = iter([{"action": "decline"}, {"action": "accept", "content": {"allow": True}}])
"""What the user answers to the questions for consent."""

Take = Callable[[float, float | None, str | None], Awaitable[None]]
Call = Callable[[str, dict[str, Any], Take | None], Awaitable[Any]]
"""Call a tool, and return the result as a model of Pydantic; cancelled like any coroutine."""


async def tell_story(call: Call) -> dict[str, Any]:
    """Call, stream, ask for consent, get an image and cancel; return what came of it."""

    async def run(name: str, take: Take | None = None, /, **arguments: Any) -> dict[str, Any]:
        result: dict[str, Any] = (await call(name, arguments, take)).model_dump(by_alias=True, mode="json")
        return result

    progress: list[dict[str, Any]] = []
    steps: list[asyncio.Future[Any]] = []
    waiting = asyncio.Event()

    async def take_number(done: float, total: float | None, message: str | None) -> None:
        progress.append({"progress": done, "total": total, "message": message})
        steps.append(asyncio.ensure_future(run("step")))

    async def take_start(*_: Any) -> None:
        waiting.set()

    reply: dict[str, Any] = {"sum": (await run("add", a=1, b=2))["structuredContent"], "progress": progress}
    await run("count", take_number, to=3)
    await asyncio.gather(*steps)
    reply["quiet"] = (await run("count", to=0))["content"][0]["text"]
    reply["deleted"] = [(await run("delete", name="old.txt"))["content"][0]["text"] for _ in range(2)]
    image = (await run("chart"))["content"][0]
    reply["image"] = {name: image[name] for name in ("type", "mimeType", "data")}
    call_that_waits = asyncio.ensure_future(run("wait", take_start))
    await waiting.wait()
    call_that_waits.cancel()
    await asyncio.wait([call_that_waits])
    reply["waited"] = "cancelled" if call_that_waits.cancelled() else "answered"
    if not TARGET["leaves"]:
        reply["heard"] = (await run("hear"))["content"][0]["text"]
    return reply


def print_story(story: dict[str, Any], **more: Any) -> None:
    """Print what the driver says."""
    print(json.dumps({**story, **more}))
