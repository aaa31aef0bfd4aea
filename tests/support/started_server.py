"""Wait until a server that listens answers too: its socket takes connections before its application has started.

Without this, the first request of a test has only its own time limit for the start, too little on a loaded machine.
"""

from __future__ import annotations

import contextlib

import httpx2

from tests.support.waiting import PATIENCE_S


def wait_until_answered(url: str) -> None:
    """Wait until a server answers any request, or has ended; what the test does next shows which."""
    with contextlib.suppress(httpx2.HTTPError):
        httpx2.get(url, timeout=PATIENCE_S, verify=False, trust_env=False)
