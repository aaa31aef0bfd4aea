"""Instructions of one request in process, counted by valgrind: the same on a busy machine as on a quiet one.

Run as a script it is what valgrind runs: ``python -m bench.instructions NAME``. Counting is switched on only around
the requests, so that starting Python does not count.
"""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from pathlib import Path

COUNT = 1_000


def per_call(name: str) -> int:
    """Return the instructions of one request of ``bench.requests.CALLS[name]``, or of ``raw``."""
    command = [
        *("valgrind", "--tool=callgrind", "--instr-atstart=no", "--callgrind-out-file=/dev/null"),
        *(sys.executable, "-m", "bench.instructions", name),
    ]
    env = {**os.environ, "PYTHONHASHSEED": "0"}
    root = Path(__file__).parent.parent
    said = subprocess.run(command, cwd=root, env=env, capture_output=True, text=True, check=True, timeout=300).stderr
    found = re.search(r"Collected : (\d+)", said)
    if found is None:
        raise RuntimeError(said[-500:])
    return int(found[1]) // COUNT


def _count(switch: str) -> None:
    subprocess.run(["callgrind_control", "-i", switch, str(os.getpid())], check=True, capture_output=True, timeout=60)


async def _drive(name: str) -> None:
    from . import apps, inprocess
    from .requests import CALLS

    call = CALLS.get(name, CALLS["opentool"])
    app = {"raw": lambda: apps.raw, "starlette": apps.starlette}.get(name, apps.ours)()
    scope = inprocess.scope_of(call)
    message = {"type": "http.request", "body": call.body, "more_body": False}

    async def receive() -> dict[str, object]:
        return message

    async def send(_: object) -> None:
        return None

    for _ in range(100):
        await app(scope, receive, send)
    _count("on")
    for _ in range(COUNT):
        await app(scope, receive, send)
    _count("off")


if __name__ == "__main__":
    asyncio.run(_drive(sys.argv[1]))
