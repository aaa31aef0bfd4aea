"""The tools of the crossings: one of each kind, each once without and once with a question for consent.

What ran is counted here, in a file for each row in the folder CROSSINGS, whichever process a call came to.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from pathlib import Path

from pydantic import BaseModel

from toolwire import Context, File, NoUserInput, Requirements, Toolkit

DATA = bytes(range(256)) * 4
ITEMS = ["one", "two", "three"]
SECRET = "SEAL"
PATIENCE_S = 30
kit = Toolkit("Crossings", version="1.0.0", description="One tool of each kind.")


class Size(BaseModel):
    """What the tool with a question asks."""

    size: int


def find_folder() -> Path:
    """Return where runs are counted, and where a client shows that an item of a stream has come."""
    return Path(os.environ["CROSSINGS"])


def count_run(row: str, context: Context) -> None:
    with (find_folder() / f"{row}.runs").open("a", encoding="utf-8") as runs:
        runs.write(json.dumps({"principal": context.principal}) + "\n")


async def wait_for_file(name: str) -> None:
    """Wait until the client has shown that it took an item: it makes this file."""
    for _ in range(PATIENCE_S * 50):
        if (find_folder() / name).exists():
            return
        await asyncio.sleep(0.02)
    raise TimeoutError(f"nobody took {name}")


def read(row: str, context: Context) -> str:
    """Read something."""
    count_run(row, context)
    return f"read {row}"


def write(row: str, context: Context) -> str:
    """Write something."""
    count_run(row, context)
    return f"wrote {row}"


def destroy(row: str, context: Context) -> str:
    """Delete something."""
    count_run(row, context)
    return f"deleted {row}"


async def build(row: str, context: Context) -> str:
    """Build something for long."""
    count_run(row, context)
    await context.progress({"progress": 1, "total": 2, "message": "half"})
    return f"built {row}"


async def stream(row: str, context: Context, watched: bool = False) -> AsyncIterator[str]:
    """Send items; if somebody watches, each one only after the one before has arrived."""
    count_run(row, context)
    for number, item in enumerate(ITEMS):
        if watched and number:
            await wait_for_file(f"{row}.{number}")
        yield item


def fetch(row: str, context: Context) -> File:
    """Return a file with every byte."""
    count_run(row, context)
    return File(DATA, "application/octet-stream", "every.bin")


def seal(row: str, context: Context) -> str:
    """Use the secret of the caller."""
    count_run(row, context)
    return f"sealed with {len(context.secret(SECRET).reveal())} characters"


async def sew(row: str, context: Context) -> str:
    """Ask how large, and sew it."""
    size = await context.ask(Size, "How large?")
    if isinstance(size, NoUserInput):
        return f"nothing: {size.reason}"
    count_run(row, context)
    return f"sewed {size.size}"


for suffix, approval in (("", "auto"), ("_asked", "per-call")):
    kit.add(read, name=f"read{suffix}", approval=approval, safe=True)
    kit.add(write, name=f"write{suffix}", approval=approval, safe=False)
    kit.add(destroy, name=f"destructive{suffix}", approval=approval, destructive=True)
    kit.add(build, name=f"long{suffix}", approval=approval, long=True, safe=False)
    kit.add(stream, name=f"streaming{suffix}", approval=approval, safe=False)
    kit.add(fetch, name=f"file{suffix}", approval=approval, safe=True)
    kit.add(seal, name=f"requirements{suffix}", approval=approval, requirements=Requirements(secrets=(SECRET,)))
    kit.add(sew, name=f"question{suffix}", approval=approval, safe=False)
