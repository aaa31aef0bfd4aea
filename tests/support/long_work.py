"""Work that a long call does step by step."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from pydantic import BaseModel

from tests.support.waiting import wait_until_async
from toolwire import (
    App,
    Context,
    NoUserInput,
    ServerLimits,
    Toolkit,
    asgi,
)


class Work:
    """A server with long tools, which wait for ``gate``, and what they did."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.started = threading.Event()
        self.cancelled = threading.Event()
        self.did: list[str] = []
        self.kit = Toolkit("Reports")

        @self.kit.tool(approval="per-call", blanket_allowed=True, long=True, idempotent=True)
        async def build(rows: int, context: Context) -> dict[str, int]:
            """Build a report."""
            self.did.append("began")
            await context.progress({"progress": 1, "total": 4, "message": "reading"})
            self.started.set()
            try:
                await wait_until_async(self.gate.is_set)
            except asyncio.CancelledError:
                self.did.append("cancelled")
                self.cancelled.set()
                raise
            self.did.append("ended")
            return {"rows": rows}

        @self.kit.tool(approval="per-call", long=True)
        async def choose(context: Context) -> str:
            """Ask for a size."""
            answer = await context.ask(Size, "How large?")
            return "nothing" if isinstance(answer, NoUserInput) else f"size {answer.size}"

        @self.kit.tool(approval="auto", safe=True)
        def add(a: int, b: int) -> int:
            """Add two numbers."""
            return a + b

    def serve(self, **options: Any) -> App:
        return asgi(self.kit, limits=ServerLimits(repeat_s=0.3), **options)


class Size(BaseModel):
    """What a tool asks."""

    size: int
