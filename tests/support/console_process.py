"""Run ``toolwire console``, or another command with pages, as a process of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def start_console(
    *argv: object, home: Path, command: str = "console"
) -> Iterator[tuple[subprocess.Popen[str], str, str]]:
    """Start ``toolwire console`` or another command with pages; give the process, its address and the key."""
    away = ("DISPLAY", "WAYLAND_DISPLAY", "DBUS_SESSION_BUS_ADDRESS")
    process = subprocess.Popen(
        [sys.executable, "-m", "toolwire", command, *map(str, argv)],
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={**{name: value for name, value in os.environ.items() if name not in away}, "XDG_STATE_HOME": str(home)},
        cwd=home,
    )
    try:
        assert process.stderr is not None
        reply = ""
        for line in process.stderr:
            reply += line
            if "Ctrl-C" in line:
                break
        found = re.search(r"(http://127\.0\.0\.1:\d+)/(?:chat)?#key=(\S+)", reply)
        assert found is not None, reply
        yield process, found[1], found[2]
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate(timeout=30)
