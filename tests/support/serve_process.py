"""Run ``toolwire serve`` as a process of its own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tests.support.started_server import wait_until_answered


@contextmanager
def start_serve(
    *argv: object, environment: dict[str, str] | None = None
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Start ``toolwire serve``; give the process and what it said until it listened."""
    process = subprocess.Popen(
        [sys.executable, "-m", "toolwire", "serve", "--port", "0", *map(str, argv)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **(environment or {})},
    )
    try:
        assert process.stdout is not None
        reply = ""
        for line in process.stdout:
            reply += line
            if "Ctrl-C" in line:
                wait_until_answered(url_in(reply))
                break
        yield process, reply
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)


def url_in(said: str) -> str:
    """Return the first URL of what a server printed."""
    match = re.search(r"https?://\S+", said)
    assert match is not None, said
    return match[0]


@contextmanager
def serve_at(*argv: object, environment: dict[str, str] | None = None) -> Iterator[str]:
    """Run ``toolwire serve`` and give its URL."""
    with start_serve(*argv, environment=environment) as (_, reply):
        yield url_in(reply)
