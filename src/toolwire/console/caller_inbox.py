"""Put the inbox of its callers before the application of a server, at ``/inbox``."""
# GW-04

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from hashlib import sha256
from types import MappingProxyType
from typing import Final

from toolwire.core.errors import DefinitionError
from toolwire.limits import CallerRules, RulesByCaller
from toolwire.server.access.api_keys import ApiKey, ApiKeyCallers
from toolwire.server.access.browser_session import FindUser
from toolwire.server.access.callers import Caller, Callers, Fields
from toolwire.server.access.host_guard import HostGuard
from toolwire.server.access.key_sessions import find_remaining_s
from toolwire.server.app import App
from toolwire.server.asking.inbox import PAGE_URL
from toolwire.server.build import combine_callers
from toolwire.server.http.exchange import Scope
from toolwire.server.http.messages import split_mount_path
from toolwire.stores.consent.open import Place, open_used_nonces

from .app import Console
from .caller_pages import build_caller_tables
from .sessions import SESSION_S, SessionUser
from .source import ConsoleSource

INBOX_PATH: Final = "/inbox"
TOKEN_SESSION_S: Final = 3_600.0
"""How long a session lasts at most that began with a token, whose end may not be known."""
_MAX_NAME: Final = 200
_MAX_KEY: Final = 16_384


def add_caller_inbox(
    app: App,
    place: Place,
    *,
    callers: Callers | None = None,
    api_keys: Iterable[str | ApiKey] = (),
    hosts: Iterable[str] = (),
    public_url: str = "",
    find_user: FindUser | None = None,
    login_path: str = "",
    caller_rules: Mapping[str, CallerRules] = MappingProxyType({}),
) -> App:
    """Add to ``app`` the page where the questions about its callers' calls are answered, and return ``app``.

    Callers are identified by ``api_keys`` and ``callers``, as on the server. A key or token shows its own questions,
    but cannot answer them, because the program that makes the call also holds it. The callers in ``answered_by`` of
    ``caller_rules`` can answer. Users who are signed in answer the questions of their own apps.

    - ``place``: where the server stores its questions: a folder, or the URL of a PostgreSQL database.
    - ``hosts``: the accepted host names, in addition to this machine's.
    - ``public_url``: the server's URL for its users.
    - ``find_user``: finds a user who is signed in at the server itself, at ``login_path``. Such a user needs no key,
      and the session ends with that sign-in.

    A session lasts twelve hours with an API key and otherwise one hour, but never longer than its token.

    Raises:
        DefinitionError: the place cannot be used, or callers need no credentials, so the page cannot identify them.
    """
    keys = tuple(api_keys)
    known = combine_callers(ApiKeyCallers(keys), callers)
    if not known.needs_credentials:
        raise DefinitionError(
            "An inbox page needs callers with keys or tokens. Without them, it cannot identify a caller."
        )
    console = Console(
        source := ConsoleSource(place=place),
        partial(_sign_in, known, key_callers := ApiKeyCallers(keys)),
        root=INBOX_PATH,
        hosts=hosts,
        secret=_build_secret(place, keys),
        tables=replace(
            build_caller_tables(source, RulesByCaller(caller_rules)),
            find_user=None if find_user is None else partial(_find_signed_in, find_user),
            login_path=login_path,
            stores_sessions=True,
            announce=build_announcer(public_url, hosts),
        ),
        public_url=public_url,
        find_known=partial(_find_known, known, key_callers),
    )
    app.add_front(console)
    return app


async def _find_signed_in(find_user: FindUser, headers: Sequence[tuple[bytes, bytes]]) -> SessionUser | None:
    user = await find_user(headers)
    # AT-35: who is known by a key or a token is known by what programs have.
    if user is None or user.has_key or len(user.caller.name) > _MAX_NAME:
        return None
    return SessionUser(user.caller.name, SESSION_S, has_account=True, groups=user.groups)


def build_announcer(public_url: str, hosts: Iterable[str] = ()) -> Callable[[Scope], None]:
    """Return a function that keeps the address of the inbox page, as the caller of a request knows this server.

    Without ``public_url``, a request must name one of ``hosts`` or the socket that gets it; else there is no address.
    """
    # AT-34
    fixed = f"{public_url.rstrip('/')}{INBOX_PATH}" if public_url else ""
    guard = HostGuard(hosts=hosts)

    def announce(scope: Scope) -> None:
        if fixed:
            PAGE_URL.set(fixed)
            return
        host = next((value for name, value in scope["headers"] if name == b"host"), b"").decode("latin-1")
        own = guard.find_own_host(scope.get("server"), host)
        root, _ = split_mount_path(scope.get("root_path") or "", "")
        PAGE_URL.set(f"{scope['scheme']}://{own}{root}{INBOX_PATH}" if own else "")

    return announce


def _find_known(callers: Callers, key_callers: ApiKeyCallers, key: str) -> SessionUser | None:
    """Return the caller whose key this is, or whose token was verified before; None if it must be checked."""
    fields = _build_fields(key)
    caller = None if fields is None else callers.find_caller(fields)
    return _build_user(caller, key_callers, key) if isinstance(caller, Caller) else None


async def _sign_in(callers: Callers, key_callers: ApiKeyCallers, key: str) -> SessionUser | None:
    """Return the caller whose key or token this is, or None."""
    fields = _build_fields(key)
    if fields is None:
        return None
    caller = callers.find_caller(fields)
    if caller is None:
        caller = await callers.verify(fields)
    return _build_user(caller, key_callers, key) if isinstance(caller, Caller) else None


def _build_fields(key: str) -> Fields | None:
    """Return the header field of a program that has ``key``, or None if none could send it."""
    if not key or len(key) > _MAX_KEY or not (key.isascii() and key.isprintable()):
        return None
    return {b"authorization": b"Bearer " + key.encode()}


def _build_user(caller: Caller, key_callers: ApiKeyCallers, key: str) -> SessionUser | None:
    # The name goes into the cookie as a whole: a shorter one could be that of another caller.
    if len(caller.name) > _MAX_NAME:
        return None
    is_key = key_callers.needs_credentials and isinstance(key_callers.find_caller(_build_fields(key) or {}), Caller)
    return SessionUser(caller.name, SESSION_S if is_key else find_remaining_s(key, time.time(), TOKEN_SESSION_S))


def _build_secret(place: Place, keys: Iterable[str | ApiKey]) -> bytes:
    """Return what signs the sessions: the same for all processes of one server, and another one when a key changes."""
    texts = sorted(one if isinstance(one, str) else f"{one.name} {one.key.reveal()}" for one in keys)
    return sha256(b"inbox" + open_used_nonces(place).key + "\0".join(texts).encode()).digest()
