"""What every endpoint of the authorization server works with, and what a request and an answer are."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from ipaddress import ip_address, ip_network
from time import time
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

from anyio import CapacityLimiter, WouldBlock, fail_after, sleep, to_thread

from toolwire.auth.clients import hash_secret
from toolwire.auth.oauth_error import OAuthError
from toolwire.core.http import Response
from toolwire.core.model import Json, Problem
from toolwire.framing import jsontext
from toolwire.server.run.worker_threads import ThreadPool
from toolwire.stores.oauth.database import GrantEvent, OAuthRows, OAuthStore, StoreUnavailableError
from toolwire.telemetry.oauth_metrics import TokenCount

from .settings import OAuthSettings

T = TypeVar("T")

_THREADS = 16
_STORE = "store"  # the one caller of these threads
_MAX_PASSWORD_THREADS = 2
_MAX_PASSWORD_QUEUE = 32
_MAX_DELAYED = 16

Fetch: TypeAlias = Callable[[str], Awaitable[Response | Problem]]
"""GETs a URL that somebody else chose, guarded: no redirects, no private addresses, bounded in size and time."""

Audit: TypeAlias = Callable[[GrantEvent], None]


class Account(Protocol):
    """A person with an account: an id that never changes, and the name they know themselves by."""

    @property
    def id(self) -> str:
        """What tokens name the person by."""
        ...

    @property
    def name(self) -> str:
        """What the person is shown as."""
        ...


class Users(Protocol):
    """The accounts. Both are called in a worker thread, and may take as long as a password takes.

    ``check`` is never called where people sign in at your application.
    """

    def check(self, name: str, password: str, /) -> Account | None:
        """Return whose name and password these are; an unknown name must cost as much as a wrong password."""
        ...

    def find(self, user_id: str, /) -> Account | None:
        """Return the person of that id, None if they are gone."""
        ...


IdentifyUser: TypeAlias = Callable[[Mapping[str, Any]], "str | Awaitable[str | None] | None"]
"""Takes the ASGI scope of a request; returns the id of the person whom your application knows by it, or None."""


class OAuthRequest(NamedTuple):
    """One request to an endpoint. ``fields`` have names in lower case; ``scope`` is that of ASGI."""

    method: str
    path: str
    query: str
    headers: Mapping[bytes, bytes]
    body: bytes
    scope: Mapping[str, Any] = MappingProxyType({})

    @property
    def network(self) -> str:
        """The address the request came from; of IPv6 the network of a site, since one caller has a whole one."""
        host = str((self.scope.get("client") or ("",))[0])
        try:
            address = ip_address(host)
        except ValueError:
            return host
        return host if address.version == 4 else str(ip_network((address, 64), strict=False))

    def get_header(self, name: bytes) -> str:
        """Return a header field, empty where there is none."""
        return self.headers.get(name, b"").decode("latin-1")

    def media_type(self) -> str:
        """Return the type of the body, without parameters."""
        return self.get_header(b"content-type").partition(";")[0].strip().lower()


class BusyError(Exception):
    """More people sign in at once than this server checks."""


@contextmanager
def take_slot(slots: CapacityLimiter) -> Generator[None, None, None]:
    """Take one of a few places, and give it back at the end.

    Raises:
        BusyError: all are taken.
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
    """The parts of one authorization server. ``now`` gives seconds since 1970, ``secret`` 256 random bits as text."""

    settings: OAuthSettings
    store: OAuthStore
    users: Users
    fetch: Fetch
    audit: Audit | None = None
    now: Callable[[], float] = time
    make_secret: Callable[[], str] = field(default=partial(secrets.token_urlsafe, 32))
    on_revoke: list[Callable[[], None]] = field(default_factory=list)
    token_count: TokenCount = field(default_factory=TokenCount)
    identify_user: IdentifyUser | None = None
    threads: ThreadPool = field(default_factory=partial(ThreadPool, _THREADS, _THREADS))
    delayed_sign_ins: CapacityLimiter = field(default_factory=partial(CapacityLimiter, _MAX_DELAYED))
    pause: Callable[[float], Awaitable[None]] = sleep
    password_checks: CapacityLimiter = field(
        default_factory=partial(CapacityLimiter, _MAX_PASSWORD_THREADS + _MAX_PASSWORD_QUEUE)
    )
    password_threads: CapacityLimiter = field(default_factory=partial(CapacityLimiter, _MAX_PASSWORD_THREADS))

    async def run_in_thread(self, work: Callable[..., T], *args: object) -> T:
        """Return what ``work`` returns, which asks the database, in one of the few threads for that.

        A thread that was given up keeps its place until the database answers it, so that there are never more.

        Raises:
            StoreGoneError: the database did not answer in time. What was begun may still be done, whole or not at all.
        """
        try:
            with fail_after(self.settings.store_s):
                return await self.threads.run(_STORE, partial(work, *args))
        except TimeoutError as error:
            raise StoreUnavailableError(f"the database did not answer in {self.settings.store_s:g} s") from error

    async def check_password(self, name: str, password: str) -> Account | None:
        """Return whose name and password these are: a few at once, since each takes 64 MiB and a core.

        Raises:
            BusyError: too many wait for that.
        """
        with take_slot(self.password_checks):
            return await to_thread.run_sync(self.users.check, name, password, limiter=self.password_threads)

    def record_event(self, rows: OAuthRows, kind: str, *, token: str = "", **about: str) -> None:
        """Write down that something happened; a token only by the beginning of its digest's digest."""
        # AS-22
        event = GrantEvent(
            at=self.now(), kind=kind, token=hash_secret(hash_secret(token))[:16] if token else "", **about
        )
        rows.add(event)
        if self.audit is not None:
            self.audit(event)

    def revoke_grant(self, rows: OAuthRows, grant_id: str) -> None:
        """End a grant with all its tokens, for this process at once."""
        rows.revoke_grant(grant_id, self.now())
        for forget in self.on_revoke:
            forget()


CORS = ((b"access-control-allow-origin", b"*"),)
_NO_STORE = ((b"cache-control", b"no-store"), (b"pragma", b"no-cache"))


def build_json_response(data: Json, status: int = 200, *more: tuple[bytes, bytes]) -> Response:
    """Return JSON that is kept by nobody, and that any web page may read."""
    # AS-09, AS-20
    headers = ((b"content-type", b"application/json"), *_NO_STORE, *CORS, *more)
    return Response(status, headers, jsontext.write(data))


def build_error_response(refusal: OAuthError, *more: tuple[bytes, bytes]) -> Response:
    """Return an OAuth error as JSON."""
    return build_json_response(refusal.to_json(), refusal.status, *more)


def build_redirect(url: str, *more: tuple[bytes, bytes]) -> Response:
    """Return a redirect that is followed with GET, whatever the request was."""
    # AS-19
    headers = ((b"location", url.encode("latin-1", "replace")), *_NO_STORE, (b"referrer-policy", b"no-referrer"), *more)
    return Response(303, headers)
