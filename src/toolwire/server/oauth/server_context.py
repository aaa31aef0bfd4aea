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

from toolwire.auth.clients import digest
from toolwire.auth.oauth_error import OAuthError
from toolwire.core.http import Response
from toolwire.core.model import Json, Problem
from toolwire.framing import jsontext
from toolwire.server.run.worker_threads import ThreadPool
from toolwire.stores.oauth.database import GrantEvent, OAuthRows, OAuthStore, StoreGoneError
from toolwire.telemetry.oauth_metrics import TokenCount

from .settings import OAuthSettings

T = TypeVar("T")

_THREADS = 16
_STORE = "store"  # the one caller of these threads
_PASSWORDS_AT_ONCE = 2
_PASSWORDS_WAITING = 32
_WAITING = 16

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


SignedIn: TypeAlias = Callable[[Mapping[str, Any]], "str | Awaitable[str | None] | None"]
"""Takes the ASGI scope of a request; returns the id of the person whom your application knows by it, or None."""


class OAuthRequest(NamedTuple):
    """One request to an endpoint. ``fields`` have names in lower case; ``scope`` is that of ASGI."""

    method: str
    path: str
    query: str
    fields: Mapping[bytes, bytes]
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

    def field(self, name: bytes) -> str:
        """Return a header field, empty where there is none."""
        return self.fields.get(name, b"").decode("latin-1")

    def media(self) -> str:
        """Return the type of the body, without parameters."""
        return self.field(b"content-type").partition(";")[0].strip().lower()


class BusyError(Exception):
    """More people sign in at once than this server checks."""


@contextmanager
def take_place(places: CapacityLimiter) -> Generator[None, None, None]:
    """Take one of a few places, and give it back at the end.

    Raises:
        BusyError: all are taken.
    """
    try:
        places.acquire_nowait()
    except WouldBlock as error:
        raise BusyError from error
    try:
        yield
    finally:
        places.release()


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerContext:
    """The parts of one authorization server. ``now`` gives seconds since 1970, ``secret`` 256 random bits as text."""

    settings: OAuthSettings
    store: OAuthStore
    users: Users
    fetch: Fetch
    audit: Audit | None = None
    now: Callable[[], float] = time
    secret: Callable[[], str] = field(default=partial(secrets.token_urlsafe, 32))
    revoked: list[Callable[[], None]] = field(default_factory=list)
    count: TokenCount = field(default_factory=TokenCount)
    signed_in: SignedIn | None = None
    threads: ThreadPool = field(default_factory=partial(ThreadPool, _THREADS, _THREADS))
    waiting: CapacityLimiter = field(default_factory=partial(CapacityLimiter, _WAITING))
    pause: Callable[[float], Awaitable[None]] = sleep
    asked: CapacityLimiter = field(default_factory=partial(CapacityLimiter, _PASSWORDS_AT_ONCE + _PASSWORDS_WAITING))
    passwords: CapacityLimiter = field(default_factory=partial(CapacityLimiter, _PASSWORDS_AT_ONCE))

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
            raise StoreGoneError(f"the database did not answer in {self.settings.store_s:g} s") from error

    async def check_password(self, name: str, password: str) -> Account | None:
        """Return whose name and password these are: a few at once, since each takes 64 MiB and a core.

        Raises:
            BusyError: too many wait for that.
        """
        with take_place(self.asked):
            return await to_thread.run_sync(self.users.check, name, password, limiter=self.passwords)

    def note(self, rows: OAuthRows, kind: str, *, token: str = "", **about: str) -> None:
        """Write down that something happened; a token only by the beginning of its digest's digest."""
        # AS-22
        event = GrantEvent(at=self.now(), kind=kind, token=digest(digest(token))[:16] if token else "", **about)
        rows.add(event)
        if self.audit is not None:
            self.audit(event)

    def revoke(self, rows: OAuthRows, grant_id: str) -> None:
        """End a grant with all its tokens, for this process at once."""
        rows.revoke(grant_id, self.now())
        for forget in self.revoked:
            forget()


CORS = ((b"access-control-allow-origin", b"*"),)
_NO_STORE = ((b"cache-control", b"no-store"), (b"pragma", b"no-cache"))


def said(data: Json, status: int = 200, *more: tuple[bytes, bytes]) -> Response:
    """Return JSON that is kept by nobody, and that any web page may read."""
    # AS-09, AS-20
    headers = ((b"content-type", b"application/json"), *_NO_STORE, *CORS, *more)
    return Response(status, headers, jsontext.write(data))


def refused(refusal: OAuthError, *more: tuple[bytes, bytes]) -> Response:
    """Return an OAuth error as JSON."""
    return said(refusal.write(), refusal.status, *more)


def see_other(url: str, *more: tuple[bytes, bytes]) -> Response:
    """Return a redirect that is followed with GET, whatever the request was."""
    # AS-19
    headers = ((b"location", url.encode("latin-1", "replace")), *_NO_STORE, (b"referrer-policy", b"no-referrer"), *more)
    return Response(303, headers)
