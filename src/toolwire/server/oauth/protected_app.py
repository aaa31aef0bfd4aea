"""Protect an ASGI application with access tokens: each path requires its scopes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from inspect import isawaitable
from secrets import token_urlsafe
from typing import Any, TypeAlias
from urllib.parse import quote

from toolwire.core.http import JSON_HEADERS, STATUS_BY_KIND, Response
from toolwire.core.model import Kind, Problem
from toolwire.framing import jsontext
from toolwire.framing.csrf import find_form_origin
from toolwire.server.access.callers import Caller, Callers
from toolwire.server.http.exchange import Receive, Scope, Send, get_exchange
from toolwire.server.http.messages import send_response, split_mount_path

from .server_context import IdentifyUser

Asgi: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]
RequiredScopes: TypeAlias = Callable[[str, str], Iterable[str] | None]
"""Takes the method and path of a request. Returns the scopes that it requires, or None if it needs no token."""


def protect_app(
    app: Asgi, callers: Callers, required_scopes: RequiredScopes, identify_user: IdentifyUser | None = None
) -> Asgi:
    """Return an application that passes a request to ``app`` only if its caller is authorized.

    ``scope["state"]["caller"]`` is the caller. A request without a valid token gets 401. A request that lacks scopes
    gets 403, which names the required scopes. ``identify_user`` also admits users who are signed in at the application
    itself. Their requests have no Authorization field and no scopes. If such a request changes something, it must come
    from a page of the application. A browser's CORS preflight is answered as ``app`` answers it for an unknown path
    nearby that needs no token.
    """
    # AS-15, XL-115

    async def check_and_call(scope: Scope, receive: Receive, send: Send) -> None:
        scopes = _list_needed(scope, required_scopes) if scope["type"] == "http" else None
        if scopes is None:
            await app(scope, receive, send)
            return
        caller = await identify_request(scope, callers, scopes, identify_user)
        if isinstance(caller, Problem):
            refusal = build_refusal(callers, caller, scope["path"])
            if scope["method"] == "OPTIONS" and b"access-control-request-method" in dict(scope["headers"]):
                refusal = await _ask_preflight(app, scope, receive, required_scopes) or refusal
            await send_response(scope, get_exchange(receive, send), refusal)
            return
        state: dict[str, Any] = {**scope.get("state", {}), "caller": caller}
        await app({**scope, "state": state}, receive, send)

    return check_and_call


async def _ask_preflight(app: Asgi, scope: Scope, receive: Receive, required_scopes: RequiredScopes) -> Response | None:
    """Return what ``app`` allows browsers on other sites, as its preflight says; None if that is nothing."""
    # D-09: an unknown path that needs no token, because a view may ignore the method, and anybody can send what a
    # browser sends. It is close to the path itself, because an application can allow this for a part of its paths.
    parts, unknown = scope["path"].split("/", _LEVELS)[:-1], f".toolwire-{token_urlsafe(16)}"
    headers = [field for field in scope["headers"] if field[0] in _ASKED_WITH]
    paths = ["/".join((*parts[:count], unknown)) for count in range(len(parts), 0, -1)]
    asked = [
        {**scope, "path": path, "raw_path": quote(path).encode(), "query_string": b"", "headers": headers}
        for path in paths
    ]
    free = [one for one in asked if _list_needed(one, required_scopes) is None]
    for one in (*free[:1], *free[1:][-1:]):  # the closest, and the one at the root
        allowed = await _list_allowed(app, one, receive)
        if any(name == _ALLOW_ORIGIN for name, _ in allowed):
            return Response(204, allowed)
    return None


async def _list_allowed(app: Asgi, scope: Scope, receive: Receive) -> list[tuple[bytes, bytes]]:
    """Return the header fields about CORS with which ``app`` answers a request without a body."""
    allowed: list[tuple[bytes, bytes]] = []
    is_read = False

    async def receive_end() -> Any:
        nonlocal is_read
        if not is_read:
            is_read = True
            return {"type": "http.request", "body": b"", "more_body": False}
        while (message := await receive())["type"] == "http.request":
            pass  # the body is not for this path
        return message

    async def note(message: Any) -> None:
        found = message.get("headers", ())
        allowed.extend((name, text) for name, text in found if name.startswith(b"access-control-") or name == b"vary")

    await app(scope, receive_end, note)
    return allowed


_LEVELS = 16  # of a path; each is compared with every route
_ASKED_WITH = (b"host", b"origin", *(b"access-control-request-" + name for name in (b"method", b"headers")))
_ALLOW_ORIGIN = b"access-control-allow-origin"


def _list_needed(scope: Scope, required_scopes: RequiredScopes) -> tuple[str, ...] | None:
    """Return the scopes that a request needs, or None if it needs no token."""
    # AO-01: below a mount or a root path, the path begins with it, but routes are mostly declared without it.
    paths = dict.fromkeys((scope["path"], split_mount_path(scope.get("root_path") or "", scope["path"])[1]))
    found = [scopes for path in paths if (scopes := required_scopes(scope["method"], path)) is not None]
    return tuple(dict.fromkeys(name for scopes in found for name in scopes)) if found else None


async def identify_request(
    scope: Scope, callers: Callers, scopes: Iterable[str], identify_user: IdentifyUser | None = None
) -> Caller | Problem:
    """Return who makes the request: the user of its session, or the caller of its token with ``scopes``.

    If the caller may not make the request, return the Problem to refuse it with; see ``build_refusal``.
    """
    caller = await _find_user(scope, identify_user) if identify_user is not None else None
    if caller is None:
        caller = await identify_caller(callers, scope["headers"], scopes)
    if isinstance(caller, Problem) and caller.kind is Kind.UNAUTHORIZED and (needed := list(scopes)):
        # I-22: a client asks for what the first refusal names
        return replace(caller, details={**caller.details, "scopes": needed})
    return caller


async def _find_user(scope: Scope, identify_user: IdentifyUser) -> Caller | Problem | None:
    """Return the user who is signed in at the application, or None if the request has a token or no session."""
    fields = dict(scope["headers"])
    # With a token, only the token decides: the session of a user must not add rights to it.
    if b"authorization" in fields:
        return None
    caller = identify_user(scope)
    user_id = await caller if isawaitable(caller) else caller
    if user_id is None:
        return None
    user = Caller(str(user_id))
    if scope["method"] in ("GET", "HEAD", "OPTIONS"):
        return user
    # D-22: a browser adds the cookies of the application to requests of other sites too.
    return user if find_form_origin(fields) == "same_site" else _FOREIGN


async def identify_caller(
    callers: Callers, headers: Iterable[tuple[bytes, bytes]], scopes: Iterable[str] = ()
) -> Caller | Problem:
    """Return the caller whose request has these ``headers``, if they have ``scopes``, or else a Problem."""
    fields = dict(headers)
    caller = callers.find_caller(fields)
    if caller is None:
        caller = await callers.verify(fields)
    needed = tuple(scopes)
    if isinstance(caller, Problem) or caller.scopes is None or set(needed) <= caller.scopes:
        return caller
    text = f"This request requires scopes that your token lacks: {', '.join(sorted(set(needed) - caller.scopes))}."
    # AO-01: a client asks for exactly what the challenge names, and the new token must not do less than the old one.
    scopes = dict.fromkeys((*sorted(caller.scopes), *needed))
    return Problem(kind=Kind.FORBIDDEN, message=text, details={"scopes": list(scopes)})


def build_refusal(callers: Callers, problem: Problem, path: str) -> Response:
    """Return the response for a Problem from ``identify_caller``, with its challenge."""
    body = {"error": problem.kind.value, "message": problem.message}
    headers = (*JSON_HEADERS, (b"cache-control", b"no-store"), *callers.challenge(problem, path))
    return Response(STATUS_BY_KIND[problem.kind], headers, jsontext.write(body))


_FOREIGN = Problem(
    kind=Kind.FORBIDDEN, message="This request came from another site's page. Send it from a page of this site."
)
