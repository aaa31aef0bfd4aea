"""The tools of ``served_kit.py`` for several processes: what one of them does is in files that all of them see."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from toolwire import Context, Image, Toolkit

FOLDER = Path(os.environ["TOOLWIRE_TEST_FOLDER"])
PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256))
kit = Toolkit("Desk", version="1.0.0", description="A desk.")


async def wait_for_file(name: str) -> None:
    while not (FOLDER / name).exists():  # noqa: ASYNC110 - another process makes the file
        await asyncio.sleep(0.02)


@kit.tool(approval="auto")
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@kit.tool(approval="auto")
async def count(to: int, context: Context) -> str:
    """Count up with progress, and wait for a call of step after each number."""
    for number in range(1, to + 1):
        await context.progress({"progress": number, "total": to, "message": f"{number} of {to}"})
        await wait_for_file(f"step-{number}")
    return "done"


@kit.tool(approval="auto")
def step() -> None:
    """Let count go on."""
    (FOLDER / f"step-{1 + len(list(FOLDER.glob('step-*')))}").touch()


@kit.tool(approval="auto")
async def wait(context: Context) -> str:
    """Wait until the call is cancelled; the progress says that it runs."""
    await context.progress({"progress": 1})
    try:
        await asyncio.Event().wait()
    finally:
        (FOLDER / "cancelled").touch()
    return "never"


@kit.tool(approval="auto")
async def hear() -> str:
    """Wait until another call was cancelled."""
    await wait_for_file("cancelled")
    return "cancelled"


@kit.tool(destructive=True)
def delete(name: str) -> str:
    """Delete a file."""
    with (FOLDER / "deleted").open("a") as deleted:
        deleted.write(f"{name}\n")
    return f"deleted {', '.join((FOLDER / 'deleted').read_text().split())}"


@kit.tool(approval="auto")
def chart() -> Image:
    """Draw a chart."""
    return Image(PNG, "image/png")


@kit.tool(approval="auto")
async def whose() -> int:
    """Return which process this is."""
    return os.getpid()


@kit.tool(approval="auto")
async def talk(context: Context) -> str:
    """Say something at two levels."""
    await context.log("looking", level="debug")
    await context.log("gone", level="error")
    return "done"


@kit.tool(approval="auto")
async def much(context: Context) -> str:
    """Say 512 KiB, and wait for the file ``go`` after the first message."""
    await context.log("first", level="error")
    await wait_for_file("go")
    for number in range(32):
        await context.log(f"{number} " + "x" * 16_384, level="error")
    return "done"


@kit.tool(approval="auto")
async def grow() -> str:
    """Add a tool in this process."""
    kit.add(lambda: "new", name="new", description="New.", approval="auto")
    return "grown"


@kit.resource("notes://{name}")
def read_note(name: str) -> str:
    return name


@kit.tool(approval="auto")
def write_note(name: str) -> str:
    """Write a note."""
    kit.notify_resource_changed(f"notes://{name}")
    return name
