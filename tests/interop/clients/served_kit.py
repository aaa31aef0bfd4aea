"""The tools that clients of other makers call in the tests beside this folder: ``kit`` is served to each of them."""

from __future__ import annotations

import asyncio
import threading
from typing import Annotated

from pydantic import Field

from toolwire import Context, Image, Toolkit

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256))


class Notes:
    """What the tools did: the names that were deleted, and whether a call that waits was cancelled."""

    def __init__(self) -> None:
        self.deleted: list[str] = []
        self.cancelled = threading.Event()


def build_kit(notes: Notes) -> Toolkit:
    """Return the tools: one to list, call, stream, cancel and be asked about, and one with an image."""
    kit = Toolkit("Desk", version="1.0.0", description="A desk.")
    received, steps = asyncio.Event(), asyncio.Semaphore(0)

    @kit.tool(approval="auto")
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    @kit.tool(approval="auto")
    async def count(to: int, context: Context) -> str:
        """Count up with progress, and wait for a call of step after each number."""
        for number in range(to):  # from 0, as most tools report
            await context.progress({"progress": number, "total": to, "message": f"{number} of {to}"})
            await steps.acquire()
        return "done"

    @kit.tool(approval="auto")
    async def step() -> None:
        """Let count go on."""
        steps.release()

    @kit.tool(approval="auto")
    async def wait(context: Context) -> str:
        """Wait until the call is cancelled; the progress says that it runs."""
        await context.progress({"progress": 1})
        try:
            await asyncio.Event().wait()
        finally:
            notes.cancelled.set()
            received.set()
        return "never"

    @kit.tool(approval="auto")
    async def hear() -> str:
        """Wait until another call was cancelled."""
        await received.wait()
        return "cancelled"

    @kit.tool(destructive=True)
    def delete(name: Annotated[str, Field(json_schema_extra={"x-mcp-header": "File"})]) -> str:
        """Delete a file, whose name goes into a header too where the revision has such headers."""
        notes.deleted.append(name)
        return f"deleted {', '.join(notes.deleted)}"

    @kit.tool(approval="auto")
    def chart() -> Image:
        """Draw a chart."""
        return Image(PNG, "image/png")

    return kit


kit = build_kit(Notes())
