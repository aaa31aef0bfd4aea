"""Servers on loopback for the stories: real sockets, real functions."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

import toolwire
from toolwire.testing.loopback import background


@pytest.fixture
def serve() -> Iterator[Callable[..., str]]:
    """Serve a Toolkit, Toolbox or App: ``serve(target, **options)`` gives its base URL; all stop with the test."""
    with ExitStack() as running:

        def start(target: Any, **options: Any) -> str:
            app = target if callable(target) else toolwire.asgi(target, **options)
            return running.enter_context(background(app))

        yield start
