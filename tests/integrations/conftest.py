"""A web app of somebody else's framework, served by a real uvicorn on loopback."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest
from django.conf import settings
from uvicorn import Config

from toolwire.server.http.prompt_server import PromptServer

if not settings.configured:  # before django-ninja is imported, which reads them
    settings.configure()


@pytest.fixture
def loopback() -> Callable[[Any], AbstractContextManager[str]]:
    """Give the URL of an app until the block ends."""

    @contextmanager
    def serve(app: Any) -> Generator[str, None, None]:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            server = PromptServer(Config(app, log_config=None))
            thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
            thread.start()
            try:
                yield f"http://127.0.0.1:{listener.getsockname()[1]}"
            finally:
                server.should_exit = True
                thread.join(10)
        assert not thread.is_alive()

    return serve
