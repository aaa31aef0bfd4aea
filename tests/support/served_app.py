"""Serve an application that must know its own URL before it is made, such as one that issues tokens."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
from uvicorn import Config

from toolwire.server.http.prompt_server import PromptServer


@contextmanager
def serve_app(make: Callable[[str], Any]) -> Iterator[str]:
    """Serve the application that ``make`` returns for its base URL, in a thread, and give that URL."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        base = f"http://127.0.0.1:{listener.getsockname()[1]}"
        server = PromptServer(Config(make(base), log_config=None, timeout_graceful_shutdown=1))
        thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
        thread.start()
        try:
            yield base
        finally:
            server.should_exit = True
            thread.join(10)


@pytest.fixture
def serve() -> Iterator[Callable[[Callable[[str], Any]], str]]:
    """Serve applications until the end of the test: ``serve(make)`` returns the base URL of one."""
    with ExitStack() as ending:
        yield lambda make: ending.enter_context(serve_app(make))
