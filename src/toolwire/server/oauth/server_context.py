"""Define what all endpoints share: the settings, the store, the clock, a request, and the common responses."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from ipaddress import IPv4Address, ip_address, ip_network
from time import time
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar
from urllib.parse import quote

from anyio import CapacityLimiter, WouldBlock, fail_after, sleep, to_thread

from toolwire.auth.clients import hash_secret
from toolwire.auth.request_parameters import OAuthError
from toolwire.core.http import Response
from toolwire.core.model import Json, Problem
from toolwire.framing import jsontext
from toolwire.server.http.messages import split_mount_path
from toolwire.server.run.worker_threads import ThreadPool
from toolwire.stores.oauth.database import GrantEvent, OAuthRows, OAuthStore, StoreUnavailableError
from toolwire.stores.oauth.issuer_accounts import Identity

from .settings import OAuthSettings

T = TypeVar("T")

_THREADS = 16
_STORE = "store"  # the name of the one caller of these threads
_MAX_PASSWORD_THREADS = 2
_MAX_PASSWORD_QUEUE = 32
_MAX_DELAYED = 16

Fetch: TypeAlias = Callable[[str], Awaitable[Response | Problem]]
"""Fetches a URL that a client chose: no redirects, only public addresses, with limits on size and time."""

Audit: TypeAlias = Callable[[GrantEvent], None]


class Account(Protocol):
    """A user: an ID that never changes, and a display name."""

    @property
    def id(self) -> str:
        """The user's ID in tokens."""
        ...

    @property
    def name(self) -> str:
        """The user's name on pages."""
        ...


class Users(Protocol):
    """The users' accounts. Both methods run in a worker thread, so they can block.

    ``check`` is not called if users sign in at your application.
    """

    def check(self, name: str, password: str, /) -> Account | None:
        """Return the user with this name and password, or None. Unknown names must take as long as wrong passwords."""
        ...

    def find(self, user_id: str, /) -> Account | None:
        """Return the user with this id, or None."""
        ...


IdentifyUser: TypeAlias = Callable[[Mapping[str, Any]], "str | int | Awaitable[str | int | None] | None"]
"""Takes a request's ASGI scope. Returns the ID of the user who is signed in at your application, or None."""


class IdentityProvider(Users, Protocol):
    """An external issuer at whose page the users of this server sign in."""

    async def build_login_url(self, redirect_uri: str, *, state: str, nonce: str, verifier: str) -> str | Problem:
        """Return the URL of the issuer's page, or why there is none now."""
        ...

    async def identify(
        self, answer: Mapping[str, str], redirect_uri: str, *, nonce: str, verifier: str
    ) -> Identity | Problem:
        """Return who signed in, by the ``answer`` that the browser brings back; else why nobody did."""
        ...

    def save(self, identity: Identity, /) -> Account:
        """Store who signed in, and return the account. It may be slow."""
        ...


class OAuthRequest(NamedTuple):
    """A request to an endpoint. The names of ``headers`` are in lower case; ``scope`` is the ASGI scope."""

    method: str
    path: str
    query: str
    headers: Mapping[bytes, bytes]
    body: bytes
    scope: Mapping[str, Any] = MappingProxyType({})

    @property
    def network(self) -> str:
        """The address that the request came from; for IPv6 its network of 64 bits."""
        # A single IPv6 user has a whole network, and could use a new address for each request.
        host = str((self.scope.get("client") or ("",))[0])
        try:
            address = ip_address(host)
        except ValueError:
            return host
        if isinstance(address, IPv4Address):
            return host
        return str(address.ipv4_mapped or ip_network((address, 64), strict=False))

    def get_header(self, name: bytes) -> str:
        """Return a header field, or an empty text."""
        return self.headers.get(name, b"").decode("latin-1")

    def media_type(self) -> str:
        """Return the media type of the body, without parameters."""
        return self.get_header(b"content-type").partition(";")[0].strip().lower()


class BusyError(Exception):
    """Too many users sign in at the same time."""


@contextmanager
def take_slot(slots: CapacityLimiter) -> Generator[None, None, None]:
    """Hold one of a few slots until the end of the block.

    Raises:
        BusyError: no slot is free.
    """
    try:
        slots.acquire_nowait()
    except WouldBlock as error:
        raise BusyError from error
    try:
        yield
    finally:
        slots.release()


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerContext:
    """The parts of one authorization server.

    ``now`` returns seconds since 1970, and ``make_secret`` 256 random bits as text. ``on_revoke`` are called after each
    revocation in this process.
    """

    settings: OAuthSettings
    store: OAuthStore
    users: Users
    fetch: Fetch
    audit: Audit | None = None
    now: Callable[[], float] = time
    make_secret: Callable[[], str] = field(default=partial(secrets.token_urlsafe, 32))
    on_revoke: list[Callable[[], None]] = field(default_factory=list)
    identify_user: IdentifyUser | None = None
    identity_provider: IdentityProvider | None = None
    threads: ThreadPool = field(default_factory=partial(ThreadPool, _THREADS, _THREADS))
    delayed_sign_ins: CapacityLimiter = field(default_factory=partial(CapacityLimiter, _MAX_DELAYED))
    pause: Callable[[float], Awaitable[None]] = sleep
    password_checks: CapacityLimiter = field(
        default_factory=partial(CapacityLimiter, _MAX_PASSWORD_THREADS + _MAX_PASSWORD_QUEUE)
    )
    password_threads: CapacityLimiter = field(default_factory=partial(CapacityLimiter, _MAX_PASSWORD_THREADS))

    async def run_in_thread(self, work: Callable[..., T], *args: object) -> T:
        """Return what ``work`` returns. It runs in one of a few threads for the database.

        Raises:
            StoreUnavailableError: the database did not answer in time. The transaction may still be done, as a whole.
        """
        # A thread that was given up stays counted until the database answers, so that a database that hangs cannot make
        # the number of threads grow.
        try:
            with fail_after(self.settings.store_s):
                return await self.threads.run(_STORE, partial(work, *args))
        except TimeoutError as error:
            raise StoreUnavailableError(f"the database did not answer in {self.settings.store_s:g} s") from error

    async def check_password(self, name: str, password: str) -> Account | None:
        """Return the user with this name and password, or None.

        Raises:
            BusyError: too many checks wait.
        """
        # Each check takes 64 MiB and a core for a moment, so only a few run at once.
        with take_slot(self.password_checks):
            return await to_thread.run_sync(self.users.check, name, password, limiter=self.password_threads)

    def record_event(self, rows: OAuthRows, kind: str, *, token: str = "", **about: str) -> None:
        """Store an event and pass it to ``audit``. A token is named by the beginning of the digest of its digest."""
        # AS-22
        event = GrantEvent(
            at=self.now(), kind=kind, token=hash_secret(hash_secret(token))[:16] if token else "", **about
        )
        rows.add(event)
        if self.audit is not None:
            self.audit(event)

    def revoke_grant(self, rows: OAuthRows, grant_id: str) -> None:
        """Revoke a grant with all its tokens. In this process it ends at once, in others after ``cache_s``."""
        rows.revoke_grant(grant_id, self.now())
        for forget in self.on_revoke:
            forget()


# AS-20: any origin, but without credentials: a browser sends no cookie with such a request.
CORS = ((b"access-control-allow-origin", b"*"),)
# RFC 6749, 5.1 requires both fields for a response with tokens.
_NO_STORE = ((b"cache-control", b"no-store"), (b"pragma", b"no-cache"))


def build_json_response(data: Json, status: int = 200, *more: tuple[bytes, bytes]) -> Response:
    """Return a JSON response that is not cached, and that pages of any site may read."""
    # AS-09, AS-20
    headers = ((b"content-type", b"application/json"), *_NO_STORE, *CORS, *more)
    return Response(status, headers, jsontext.write(data))


def build_error_response(refusal: OAuthError, *more: tuple[bytes, bytes]) -> Response:
    """Return an OAuth error as JSON."""
    return build_json_response(refusal.to_json(), refusal.status, *more)


def build_redirect(url: str, *more: tuple[bytes, bytes]) -> Response:
    """Return a redirect that browsers follow with GET, also after a POST."""
    # AS-19
    headers = ((b"location", url.encode("latin-1", "replace")), *_NO_STORE, (b"referrer-policy", b"no-referrer"), *more)
    return Response(303, headers)


def build_app_url(request: OAuthRequest, url: str) -> str:
    """Return ``url`` of a page of the application. A path is one of the application, wherever that is mounted."""
    root, _ = split_mount_path(request.scope.get("root_path") or "", "")
    return root + url if url.startswith("/") and not f"{url}/".startswith(("//", f"{root}/")) else url


def build_login_url(context: ServerContext, request: OAuthRequest, onward: str) -> str:
    """Return the URL of the sign-in page, which leads on to ``onward``."""
    url = build_app_url(request, context.settings.login_url) or f"{context.settings.base_path}/login"
    return f"{url}{'&' if '?' in url else '?'}next={quote(onward, safe='')}"
