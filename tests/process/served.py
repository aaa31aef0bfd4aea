"""A server to be started as a process: ``python served.py '{"deadlines": {...}}'`` prints its URL and serves."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

from echo import Echo

from toolwire import ServerLimits, Toolkit, asgi
from toolwire.core.errors import ToolwireError
from toolwire.server.http.deadlines import Deadlines
from toolwire.server.http.process import ListenSettings, serve, serve_reloading, serve_workers

OPTIONS = "TOOLWIRE_TEST_OPTIONS"


def make() -> Any:
    """Return the app that the options ask for."""
    options = json.loads(os.environ[OPTIONS])
    if options.get("app") == "echo":
        return Echo()
    if options.get("app") == "broken":
        raise ToolwireError("The file tools.py has no toolkit.")
    if options.get("app") == "file":
        return Answering(Path(options["directory"]) / "answer.py")
    return tools(options.get("state", ""), **options.get("limits", {}))


class Answering(Echo):
    """Answers every request with what a file said when the app was made."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self._text = file.read_bytes()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"connection", b"close")]})
        await send({"type": "http.response.body", "body": self._text})


def tools(state: str = "", **limits: Any) -> Any:  # noqa: C901 - each of its functions is a small tool
    """Return a toolkit's app: quick, slow and stuck tools. ``state`` is where calls with a key are recorded."""
    kit = Toolkit("Work", version="1.0.0", description="Tools of every speed.")

    @kit.tool(approval="auto")
    async def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    @kit.tool(approval="auto", safe=False)
    async def book(a: int, b: int) -> int:
        """Add two numbers, which must not be done twice."""
        return a + b

    @kit.tool(approval="auto")
    async def echo(text: str) -> str:
        """Return a text."""
        return text

    @kit.tool(approval="auto")
    async def whose() -> int:
        """Say which process answers."""
        return os.getpid()

    begun = 0

    @kit.tool(approval="auto")
    async def count() -> int:
        """Say how often ``wait`` has begun."""
        return begun

    @kit.tool(approval="auto")
    async def wait(seconds: float) -> float:
        """Wait, then say how long."""
        nonlocal begun
        begun += 1
        await asyncio.sleep(seconds)
        return seconds

    @kit.tool(approval="auto")
    async def hold(folder: str, gate: str) -> str:
        """Note that it has begun, and return once there is a file of this name."""
        with (Path(folder) / "begun.txt").open("a") as file:
            file.write(f"{gate}\n")
        while not (Path(folder) / gate).exists():  # noqa: ASYNC110 - another process makes it
            await asyncio.sleep(0.002)
        return gate

    @kit.tool(approval="auto")
    def block(seconds: float) -> float:
        """Keep a thread busy, then say how long."""
        nonlocal begun
        begun += 1
        time.sleep(seconds)
        return seconds

    @kit.tool(approval="auto", inline=True)
    def seize(seconds: float) -> float:
        """Keep the whole server busy, then say how long."""
        print("seized", flush=True)
        time.sleep(seconds)
        return seconds

    return asgi(kit, limits=ServerLimits(**limits), state=state)


def announce(signal_first: int, url: str) -> None:
    """Print the URL; a signal comes as early as somebody who reads it could send one."""
    if signal_first:
        os.kill(os.getpid(), signal_first)
    print(url, flush=True)


def main() -> None:
    """Serve as the options in the first argument say."""
    os.environ[OPTIONS] = sys.argv[1]
    options = json.loads(sys.argv[1])
    listen = ListenSettings(
        port=options.get("port", 0),
        announce=partial(announce, options.get("signal_first", 0)),
        deadlines=Deadlines(**options.get("deadlines", {})),
        access_log=options.get("access_log", False),
    )
    if "workers" in options:
        serve_workers("served:make", listen, workers=options["workers"])
    elif "directory" in options:
        serve_reloading("served:make", listen, directories=[Path(options["directory"])])
    else:
        serve(make(), listen)


if __name__ == "__main__":
    try:
        main()
    except ToolwireError as error:
        sys.exit(f"error: {error}")
