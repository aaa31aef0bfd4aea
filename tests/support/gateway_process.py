"""Run the gateway of the file in the working folder: as ``toolwire gateway run`` in a process of its own, or here."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from tests.support.started_server import wait_until_answered
from toolwire.hosting.gateway import open_gateway
from toolwire.server.http.process import HOST, ServerConfig, open_listener
from toolwire.server.http.prompt_server import PromptServer

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
        url = re.findall(r"https?://\S+", printed)[0]
        wait_until_answered(url)
        yield process, url
    finally:
        overdue.cancel()
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=WAIT_S)


@contextmanager
def serve_gateway(url: str) -> Iterator[None]:
    """Run the same gateway in this process, at the port of ``url``, for tests that need nothing of another process."""
    port = urlsplit(url).port
    assert port is not None
    server = PromptServer(ServerConfig(open_gateway(Path("toolwire.toml"))))
    with open_listener(HOST, port) as listener:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        try:
            yield
        finally:
            server.should_exit = True
            thread.join(WAIT_S)
            assert not thread.is_alive()


def wait_for_line(process: subprocess.Popen[str], words: str) -> str:
    """Return the next line of the log with ``words``."""
    assert process.stderr is not None
    return next(line for line in process.stderr if words in line)
