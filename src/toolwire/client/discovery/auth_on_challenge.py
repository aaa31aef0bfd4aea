"""Discover a server without credentials, and repeat a request with them only if the server asks for them."""

# XL-014, C-8: a look at a URL must not tell a server who looks.

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from toolwire.core.codec import Flow, FlowStep, Listen, StreamItem, intercept
from toolwire.core.http import Request, Response

T = TypeVar("T")

_CHALLENGES = (401, 403)


def authenticate_on_challenge(flow: Flow[T], note: Callable[[str], object] = str) -> Flow[T]:
    """Run ``flow``: each request goes out without credentials, and again with them if the response is 401 or 403.

    ``note`` is called with the URL of each request that is repeated.
    """

    def repeat_if_challenged(step: FlowStep, reply: Any) -> Any:
        is_challenge = isinstance(reply, Response) and reply.status in _CHALLENGES
        if not is_challenge or not isinstance(step, (Request, Listen)):
            return reply
        note(step.request.url if isinstance(step, Listen) else step.url)
        return step

    return intercept(flow, _omit_credentials, repeat_if_challenged)


def _omit_credentials(step: Request | Listen) -> Request | Listen:
    # The network adds credentials to a request only if it is not marked as signed.
    if isinstance(step, Request):
        return step._replace(signed=True)

    def read_chunk(piece: bytes) -> Iterator[StreamItem]:
        for item in step.read_chunk(piece):
            yield item._replace(signed=True) if isinstance(item, Request) else item

    return step._replace(request=step.request._replace(signed=True), read_chunk=read_chunk)
