"""An application somebody has, protected by callers: each path asks for the scopes it needs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeAlias

from toolwire.core.http import JSON, STATUS, Response
from toolwire.core.model import Kind, Problem
from toolwire.framing import jsontext
from toolwire.server.callers import Caller, Callers
from toolwire.server.exchange import Receive, Scope, Send, exchange_of
from toolwire.server.wire import respond

Asgi: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]
Needs: TypeAlias = Callable[[str, str], Iterable[str] | None]
"""Takes method and path; returns the scopes a request needs, or None where it needs no token."""


def protected(app: Asgi, callers: Callers, needs: Needs) -> Asgi:
    """Return ``app`` behind ``callers``: who calls is in ``scope["state"]["caller"]``. [AS-15, XL-115]

    Without a good token a request is answered 401, with too few scopes 403 naming all it needs.
    """

    async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
        wanted = needs(scope["method"], scope["path"]) if scope["type"] == "http" else None
        if wanted is None:
            await app(scope, receive, send)
            return
        said = await identified(callers, scope["headers"], wanted)
        if isinstance(said, Problem):
            await respond(scope, exchange_of(receive, send), refusal(callers, said, scope["path"]))
            return
        state: dict[str, Any] = {**scope.get("state", {}), "caller": said}
        await app({**scope, "state": state}, receive, send)

    return guarded


async def identified(
    callers: Callers, headers: Iterable[tuple[bytes, bytes]], scopes: Iterable[str] = ()
) -> Caller | Problem:
    """Return whose request has these ``headers``, if they may do what ``scopes`` stand for; else why not."""
    fields = dict(headers)
    said = callers.known(fields)
    if said is None:
        said = await callers.verify(fields)
    needed = tuple(scopes)
    if isinstance(said, Problem) or said.scopes is None or set(needed) <= said.scopes:
        return said
    text = f"This needs more than your token allows: {', '.join(sorted(set(needed) - said.scopes))}."
    return Problem(kind=Kind.FORBIDDEN, message=text, details={"scopes": list(needed)})


def refusal(callers: Callers, problem: Problem, path: str) -> Response:
    """Return the answer to a request that ``identified`` refused, with its challenge."""
    body = {"error": problem.kind.value, "message": problem.message}
    headers = (*JSON, (b"cache-control", b"no-store"), *callers.challenge(problem, path))
    return Response(STATUS[problem.kind], headers, jsontext.write(body))
