"""Run ``toolwire gateway run`` as a process of its own, with the file in the working folder."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tests.support.started_server import wait_until_answered

WAIT_S = 150  # a gateway that was refused five times tries again after half a minute, and then after a whole one


@contextmanager
def run_gateway() -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run the gateway of the file in the working folder, and give the process and its URL."""
    process = subprocess.Popen(
        [sys.executable, "-m", "toolwire", "gateway", "run"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    overdue = threading.Timer(WAIT_S, os.killpg, [process.pid, signal.SIGKILL])  # a test that waits for a line ends
    overdue.start()
    assert process.stdout is not None
    printed = ""
    for line in process.stdout:
        printed += line
        if "Ctrl-C" in line:
            break
    try:
        url = re.findall(r"http://\S+", printed)[0]
        wait_until_answered(url)
        yield process, url
    finally:
        overdue.cancel()
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=WAIT_S)


def wait_for_line(process: subprocess.Popen[str], words: str) -> str:
    """Return the next line of the log with ``words``."""
    assert process.stderr is not None
    return next(line for line in process.stderr if words in line)
