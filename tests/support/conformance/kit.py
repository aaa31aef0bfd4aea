"""Define the tools with which every protocol is tested."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

from toolwire.core.errors import ToolError
from toolwire.define import Toolkit

SECRET = "only for the log"
RETRY_AFTER_MS = 1_500


def build_kit() -> Toolkit:
    """Return the toolkit: arithmetic, an echo, and one tool for each way in which a call can end."""
    tools = Toolkit("Bench", version="2.1.0", description="What every protocol is tried with.")

    @tools.tool(approval="auto")
    async def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    @tools.tool(approval="auto")
    def halve(number: float) -> float:
        """Halve a number, in a worker thread."""
        return number / 2

    @tools.tool(approval="auto")
    async def echo(value: Any = None) -> Any:
        """Give back what was given."""
        return value

    @tools.tool(approval="auto")
    async def greet(name: str, *, loud: bool = False) -> dict[str, str]:
        """Greet somebody."""
        return {"greeting": f"Hello {name}{'!' if loud else '.'}"}

    @tools.tool(approval="auto")
    async def forget() -> None:
        """Return nothing."""

    @tools.tool(approval="auto")
    async def refuse() -> str:
        """Say why it cannot be done."""
        raise ToolError(
            "The oven is cold.",
            developer_message=SECRET,
            can_retry=True,
            retry_after_ms=RETRY_AFTER_MS,
            additional_prompt_content="Heat the oven first.",
        )

    @tools.tool(approval="auto")
    async def crash() -> str:
        """Have a bug."""
        raise LookupError(SECRET)

    @tools.tool(approval="auto", timeout_s=0.02)
    async def dawdle() -> None:
        """Take longer than it may."""
        await asyncio.Event().wait()

    @tools.tool(approval="auto")
    async def count(to: int) -> AsyncGenerator[int, None]:
        """Count from one, piece by piece."""
        for number in range(1, to + 1):
            yield number

    @tools.tool(approval="per-call", destructive=True)
    async def erase(what: str) -> str:
        """Destroy something."""
        return f"erased {what}"

    return tools
