"""An application somebody has, protected by callers: each path asks for the scopes it needs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from inspect import isawaitable
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from toolwire.core.http import JSON_HEADERS, STATUS_BY_KIND, Response
from toolwire.core.model import Kind, Problem
from toolwire.framing import jsontext
from toolwire.server.access.callers import Caller, Callers
from toolwire.server.http.exchange import Receive, Scope, Send, get_exchange
from toolwire.server.http.messages import send_response

from .server_context import IdentifyUser

Asgi: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]
RequiredScopes: TypeAlias = Callable[[str, str], Iterable[str] | None]
"""Takes method and path; returns the scopes a request needs, or None where it needs no token."""


def protect_app(
    app: Asgi, callers: Callers, required_scopes: RequiredScopes, identify_user: IdentifyUser | None = None
) -> Asgi:
    """Return ``app`` behind ``callers``: who calls is in ``scope["state"]["caller"]``.

    Without a good token a request is answered 401, with too few scopes 403 naming all it needs. ``signed_in`` lets the
    people in, too, who are signed in at the application itself: their requests have no Authorization field, carry no
    scopes, and must come from a page of the application's own, since a browser sends its cookies along with any.
    """
    # AS-15, XL-115

    async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
        wanted = required_scopes(scope["method"], scope["path"]) if scope["type"] == "http" else None
        if wanted is None:
            await app(scope, receive, send)
            return
        said = await _find_user(scope, identify_user) if identify_user is not None else None
        if said is None:
            said = await identify_caller(callers, scope["headers"], wanted)
        if isinstance(said, Problem):
            await send_response(scope, get_exchange(receive, send), build_refusal(callers, said, scope["path"]))
            return
        state: dict[str, Any] = {**scope.get("state", {}), "caller": said}
        await app({**scope, "state": state}, receive, send)

    return guarded


async def _find_user(scope: Scope, signed_in: IdentifyUser) -> Caller | Problem | None:
    """Return who is signed in at the browser that sent a request, None where it is no request of a browser."""
    fields = dict(scope["headers"])
    if b"authorization" in fields:
        return None
    said = signed_in(scope)
    user_id = await said if isawaitable(said) else said
    if user_id is None:
        return None
    return _FOREIGN if _is_foreign(scope, fields) else Caller(user_id)


def _is_foreign(scope: Scope, fields: Mapping[bytes, bytes]) -> bool:
    """Return whether a page of another site may have sent a request that could change something."""
    # D-22
    if scope["method"] in ("GET", "HEAD", "OPTIONS"):
        return False
    site = fields.get(b"sec-fetch-site")
    if site is not None:
        return site not in (b"same-origin", b"none")
    origin = urlsplit(fields.get(b"origin", b"").decode("latin-1"))
    return origin.netloc.encode("latin-1") != fields.get(b"host", b"")


async def identify_caller(
    callers: Callers, headers: Iterable[tuple[bytes, bytes]], scopes: Iterable[str] = ()
) -> Caller | Problem:
    """Return whose request has these ``headers``, if they may do what ``scopes`` stand for; else why not."""
    fields = dict(headers)
    said = callers.find_caller(fields)
    if said is None:
        said = await callers.verify(fields)
    needed = tuple(scopes)
    if isinstance(said, Problem) or said.scopes is None or set(needed) <= said.scopes:
        return said
    text = f"This needs more than your token allows: {', '.join(sorted(set(needed) - said.scopes))}."
    return Problem(kind=Kind.FORBIDDEN, message=text, details={"scopes": list(needed)})


def build_refusal(callers: Callers, problem: Problem, path: str) -> Response:
    """Return the answer to a request that ``identified`` refused, with its challenge."""
    body = {"error": problem.kind.value, "message": problem.message}
    headers = (*JSON_HEADERS, (b"cache-control", b"no-store"), *callers.challenge(problem, path))
    return Response(STATUS_BY_KIND[problem.kind], headers, jsontext.write(body))


_FOREIGN = Problem(
    kind=Kind.FORBIDDEN, message="This request came from a page of another site; send it from one of this site's own."
)
