"""A server on loopback for whatever client a test brings."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import Any

import pytest
from uvicorn import Config

import toolwire
from toolwire.server.http.prompt_server import PromptServer
from toolwire.testing.loopback import background


@pytest.fixture
def serve() -> Iterator[Callable[..., str]]:
    """Serve a Toolkit or Toolbox: ``serve(target, **options)`` gives its base URL; all stop with the test."""
    with ExitStack() as running:

        def start(target: Any, **options: Any) -> str:
            return running.enter_context(background(toolwire.asgi(target, **options)))

        yield start


@contextmanager
def run_app(app: Any) -> Iterator[str]:
    """Give the base URL of an ASGI application of somebody else, whose lifespan matters, until the block ends."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        server = PromptServer(Config(app, log_config=None, timeout_graceful_shutdown=1))
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(10)
