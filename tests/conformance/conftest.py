"""Each behaviour is tried over every protocol, asynchronous and blocking."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.support.conformance import CodecConnection, open_session
from toolwire.core.codec import Codec
from toolwire.protocols import BUILTIN


@pytest.fixture(params=BUILTIN, ids=lambda codec: codec.name)
def codec(request: pytest.FixtureRequest) -> Codec:
    found: Codec = request.param
    return found


@pytest.fixture(params=[False, True], ids=["async", "sync"])
def is_blocking(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture
def codec_connection(codec: Codec, is_blocking: bool) -> Iterator[CodecConnection]:
    with open_session(codec, blocking=is_blocking) as found:
        yield found


@pytest.fixture
def join(codec: Codec, is_blocking: bool) -> Iterator[Callable[..., CodecConnection]]:
    """Join a client and a server with other tools, limits, or somebody to ask."""
    with ExitStack() as stack:

        def joining(target: Any = None, **options: Any) -> CodecConnection:
            return stack.enter_context(open_session(codec, target, blocking=is_blocking, **options))

        yield joining
