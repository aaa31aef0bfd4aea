"""A server on loopback for whatever client a test brings."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

import toolwire
from toolwire.testing.loopback import background


@pytest.fixture
def serve() -> Iterator[Callable[..., str]]:
    """Serve a Toolkit or Toolbox: ``serve(target, **options)`` gives its base URL; all stop with the test."""
    with ExitStack() as running:

        def start(target: Any, **options: Any) -> str:
            return running.enter_context(background(toolwire.asgi(target, **options)))

        yield start
