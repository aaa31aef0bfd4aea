"""Instructions of one request in process, counted by valgrind: the same on a busy machine as on a quiet one.

Run as a script it is what valgrind runs: ``python -m bench.instructions NAME COUNT``.
"""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from pathlib import Path

_FEW, _MANY = 100, 1_100


def per_call(name: str) -> int:
    """Return the instructions of one request of ``bench.requests.CALLS[name]``, or of ``raw``."""
    return (_total(name, _MANY) - _total(name, _FEW)) // (_MANY - _FEW)


def _total(name: str, count: int) -> int:
    command = [
        *("valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"),
        *(sys.executable, "-m", "bench.instructions", name, str(count)),
    ]
    env = {**os.environ, "PYTHONHASHSEED": "0", "PYTHONMALLOC": "malloc"}
    root = Path(__file__).parent.parent
    said = subprocess.run(command, cwd=root, env=env, capture_output=True, text=True, check=True, timeout=300).stderr
    found = re.search(r"Collected : (\d+)", said)
    if found is None:
        raise RuntimeError(said[-500:])
    return int(found[1])


async def _drive(name: str, count: int) -> None:
    from . import apps, inprocess
    from .requests import CALLS

    call = CALLS["opentool" if name == "raw" else name]
    app = apps.raw if name == "raw" else apps.ours()
    scope = inprocess.scope_of(call)
    message = {"type": "http.request", "body": call.body, "more_body": False}

    async def receive() -> dict[str, object]:
        return message

    async def send(_: object) -> None:
        return None

    for _ in range(count):
        await app(scope, receive, send)


if __name__ == "__main__":
    asyncio.run(_drive(sys.argv[1], int(sys.argv[2])))
