"""``make short``: thousands of short programs that connect, call and end, half of them with a cancelled call.

A library that leaves a thread or a socket to the end of the interpreter can take it down there, now and then. So this
counts how programs end. ``--interpreters`` names other Pythons that have toolwire installed.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from spec.runs import record_run  # noqa: E402 - the path first

TIMEOUT_S = 120
PROGRAMS = {
    "call": """
import asyncio, sys
from toolwire import Value, connect

async def main():
    async with connect(sys.argv[1], agree=lambda _: True) as remote:
        result = await remote.call("add", {"a": 1, "b": 2})
        assert result == Value(3), result

asyncio.run(main())
""",
    "cancelled": """
import asyncio, sys
from toolwire import Value, connect

async def main():
    async with connect(sys.argv[1], agree=lambda _: True) as remote:
        result = await remote.call("add", {"a": 1, "b": 2})
        assert result == Value(3), result
        endless = asyncio.create_task(remote.call("wait", {"name": sys.argv[2]}))
        await remote.call("has_begun", {"name": sys.argv[2]})
        endless.cancel()

asyncio.run(main())
""",
    "left": """
import asyncio, sys
from toolwire import Value, connect

async def main():
    remote = await connect(sys.argv[1], agree=lambda _: True).__aenter__()
    endless = asyncio.create_task(remote.call("wait", {"name": sys.argv[2]}))
    await remote.call("has_begun", {"name": sys.argv[2]})

asyncio.run(main())
""",
}
"""Programs by what becomes of their calls: answered, cancelled, or never waited for and never closed."""


def make_app() -> object:
    """Return the application that the programs call."""
    from toolwire import Toolkit, asgi

    kit = Toolkit("Short", version="1.0.0", description="For programs that end soon.")
    begun: dict[str, asyncio.Event] = {}

    @kit.tool(approval="auto", safe=True)
    async def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    @kit.tool(approval="auto", safe=True)
    async def wait(name: str) -> int:
        """Take longer than any of the programs waits."""
        begun.setdefault(name, asyncio.Event()).set()
        await asyncio.sleep(5)
        return 0

    @kit.tool(approval="auto", safe=True)
    async def has_begun(name: str) -> bool:
        """Answer once a call of ``wait`` with this name has begun."""
        event = begun.setdefault(name, asyncio.Event())
        await event.wait()
        del begun[name]
        return True

    return asgi(kit)


def run_programs(url: str, interpreter: str, number: int, *, at_once: int = 4) -> Counter[str]:
    """Return how ``number`` programs ended: each way with its count. ``call: 0`` is the good one of the first kind."""
    names = ["call", "cancelled", "call", "left"]

    def run(index: int) -> str:
        name = names[index % len(names)]
        command = [interpreter, "-X", "faulthandler", "-c", PROGRAMS[name], url, f"{os.getpid()}-{index}"]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
        said = ended.stderr.strip().splitlines()
        return f"{name}: {ended.returncode}" + (f" {said[-1]}" if said else "")

    with ThreadPoolExecutor(at_once) as threads:
        return Counter(threads.map(run, range(number)))


def find_bad(ends: Counter[str]) -> dict[str, int]:
    """Return those of ``ends`` that are not the end of a program without a word."""
    good = {f"{name}: 0" for name in PROGRAMS}
    return {end: count for end, count in ends.items() if end not in good}


def read_version(interpreter: str) -> str:
    """Return the version of an interpreter."""
    words = [interpreter, "-c", "import platform; print(platform.python_version())"]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the programs with each interpreter, print how they ended, and return 1 where one ended badly."""
    from toolwire.testing.loopback import background

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--number", type=int, default=2_000)
    parser.add_argument("--interpreters", nargs="*", default=[sys.executable])
    options = parser.parse_args(arguments)
    bad = 0
    for interpreter in options.interpreters:
        with background(make_app()) as url:  # type: ignore[arg-type]  # toolwire is loaded in functions only
            ends = run_programs(url, interpreter, options.number)
        bad += sum(find_bad(ends).values())
        print(f"{interpreter}: {options.number} programs, {sum(find_bad(ends).values())} ended badly")
        for end, count in sorted(ends.items()):
            print(f"  {count:>6}  {end}")
        found = {"programs": options.number, "ended badly": sum(find_bad(ends).values())}
        record_run("short", "make short", {f"CPython {read_version(interpreter)}": found}, passed=not bad)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
