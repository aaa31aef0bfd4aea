"""A module of tools that write to the log of their caller."""

from __future__ import annotations

KIT = '''
from toolwire import Context, Toolkit

kit = Toolkit("Talking")


@kit.tool(approval="auto")
async def talk(context: Context) -> str:
    """Say something at each of three levels."""
    await context.log("looking", level="debug")
    await context.log({"found": 3}, logger="search")
    await context.log("gone", level="error")
    return "done"


@kit.tool(approval="auto")
def talk_from_a_thread(context: Context) -> str:
    """Say something from a thread."""
    context.log("here")
    return "done"
'''
