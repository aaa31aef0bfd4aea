"""Apply the rules of the network to one exchange, without any network: a generator yields what a transport must do.

A transport drives the generator: it gets a ``ResolveHost`` or a ``SendRequest``, does that and nothing else, and sends
the outcome back. A ``Signer`` adds ``BlockingTask``, which may block.

Rules:
- Every address of a name must be allowed, and only a checked address is connected to. A later answer of the resolver is
  used only after it was checked itself.
- Credentials are added here, for the origin of each request.
- The next address is tried only if nothing can have reached the server at the last one. A request that may be repeated
  is sent once more if its connection was dead.
- An origin that failed several times in a row is not asked for a while.
- A forward proxy resolves names itself. A name that this machine can resolve is checked here all the same.
"""

# D-05, D-06: DNS cannot lead a request into the user's network. D-08: a credential goes to its own origin.

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Container, Generator, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

from toolwire.core.codec import BlockingTask
from toolwire.core.http import Request, Response
from toolwire.core.model import Problem, Secret
from toolwire.telemetry.propagation import TRACE_MODULE, current_traceparent

from .addresses import NetworkReach, is_address_allowed, read_address
from .circuit_breaker import CircuitBreaker
from .credential_echoes import NO_ECHOES, CredentialEchoes, find_echoes
from .failures import forbidden_target, offline, timeout, unreachable
from .limits import TransportLimits
from .proxies import Proxies, Proxy, proxy_refusal
from .redirects import (
    REDIRECTS,
    find_redirect,
    is_same_resource,
    note_sign_in_page,
    redirect_loop,
    redirect_without_approval,
)
from .request_headers import NAME, VALUE, Fields, check_headers
from .url_policy import Target, admit, allow_origins_in_private_networks, origin_of, refuse_address

T = TypeVar("T")

Credentials: TypeAlias = Mapping[str, Sequence[tuple[str, Secret]]]
"""Secret header fields by the origin (``https://example.com``) that they are sent to."""

SiteHeaders: TypeAlias = Mapping[str, Sequence[tuple[str, str | Secret]]]
"""Header fields that the user adds to every request, by the origin that they are sent to."""

_ADDRESSES_TRIED = 4
_REPEATABLE = frozenset({"GET", "HEAD", "OPTIONS", "QUERY", "PUT", "DELETE"})  # twice has the effect of once
_MAX_ORIGINS = 256
_MAX_URLS = 256
_MAX_URL_CHARS = 512


class ResolveHost(NamedTuple):
    """Asks for the addresses of ``host`` within ``within_s`` seconds; the reply is these or a Problem."""

    origin: str
    host: str
    port: int
    within_s: float


class SendRequest(NamedTuple):
    """Asks for one request to one address; the reply is a Response or a Problem.

    ``address`` is what the socket connects to: the server, or its ``proxy``. ``checked`` is the address of the server
    as far as this machine knows it, and otherwise that of the proxy.
    """

    target: Target
    address: str
    method: str
    fields: Fields
    secrets: Sequence[tuple[str, Secret]]
    body: bytes
    within_s: float
    echoes: CredentialEchoes = NO_ECHOES
    proxy: Proxy | None = None
    checked: str = ""

    @property
    def peer(self) -> str:
        """What a message calls the other end of the socket."""
        return self.target.origin if self.proxy is None else self.proxy.name

    @property
    def port(self) -> int:
        """The port that the socket connects to."""
        return self.target.port if self.proxy is None else self.proxy.port

    def check_proxy(self, proxy: Proxy, answer: Response | Problem) -> Response | Problem:
        """Return ``answer``, or the Problem that it is the proxy's own: it wants a password."""
        # In the tunnel of https, the same status is an answer of the server.
        is_own = isinstance(answer, Response) and answer.status == 407 and self.target.url.scheme == "http"
        return proxy_refusal(self.target, proxy, 407) if is_own else answer


Steps: TypeAlias = Generator[ResolveHost | SendRequest | BlockingTask, Any, T]
"""Yields what a transport must do, and is sent the outcome."""

SendBySteps: TypeAlias = Callable[[Request, float | None], Steps[Response | Problem]]
"""Yields what must be done to send a request within some seconds, and returns its response or a Problem."""


class Signer(Protocol):
    """Adds the credential of a user to requests."""

    def send(self, send: SendBySteps, request: Request, total_s: float | None) -> Steps[Response | Problem]:
        """Yield what must be done to ``send`` the request signed, and return its response."""
        ...


class StayOffline:
    """In place of a signer: no request is sent, and its reply is that of a rule which refuses it, or a Problem."""

    def send(self, send: SendBySteps, request: Request, total_s: float | None) -> Steps[Response | Problem]:
        """Return why ``request`` is not sent."""
        # SE-07: the rules hold for a document that was stored as for one that is fetched.
        yield from ()
        steps = send(request, total_s)
        try:
            next(steps)
        except StopIteration as end:
            refusal: Response | Problem = end.value
            return refusal
        steps.close()
        return offline()


class _PinnedAddress(NamedTuple):
    """Where to connect, until when: to the server, or to ``proxy``. ``checked`` is the server's address if known."""

    addresses: tuple[str, ...]
    until: float
    checked: str = ""
    proxy: Proxy | None = None


class RequestRules:
    """The rules of one transport, and its cache of checked addresses.

    If ``origins`` is given, no other origin is connected to. ``proxies`` are the forward proxies to use.
    """

    __slots__ = (
        "_breaker",
        "_clock",
        "_credentials",
        "_echoes",
        "_headers",
        "_origins",
        "_pins",
        "_private",
        "_proxies",
        "_targets",
        "limits",
    )

    def __init__(
        self,
        *,
        limits: TransportLimits,
        credentials: Credentials | None = None,
        headers: SiteHeaders | None = None,
        allow_private: Iterable[str] = (),
        allow_http: Iterable[str] = (),
        origins: Container[str] | None = None,
        proxies: Proxies | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.limits: TransportLimits = limits
        self._breaker = CircuitBreaker(limits.breaker_failures, clock, limits.breaker_name)
        self._credentials = _check_credentials(credentials or {})
        self._echoes = {
            origin: find_echoes(secret for _, secret in secrets) for origin, secrets in self._credentials.items()
        }
        self._headers = headers or {}
        self._origins = origins
        self._private = allow_origins_in_private_networks(allow_private, allow_http)
        self._proxies = proxies
        self._clock = clock
        self._pins: dict[str, _PinnedAddress] = {}
        self._targets: dict[str, Target] = {}

    def steps(self, request: Request, total_s: float | None) -> Steps[Response | Problem]:
        """Yield what must be done for ``request``, and return its response or a Problem."""
        fields = check_headers(request)
        if isinstance(fields, Problem):
            return fields
        # The trace goes on at the server; nothing of the trace says what the call contains.
        if TRACE_MODULE in sys.modules and (traceparent := current_traceparent()):
            fields = [*fields, ("traceparent", traceparent)]
        target = self._admit_target(request.url)
        if isinstance(target, Problem):
            return target
        # One deadline for all redirects and addresses together.
        deadline = self._clock() + (self.limits.total_s if total_s is None else total_s)
        asked = target
        for _ in range(self.limits.redirects + 1):
            if self._breaker.circuits and (refusal := self._breaker.refuse(target.origin)) is not None:
                return refusal
            response = yield from self._send_to_target(target, request, fields, deadline)
            if self._breaker.circuits or isinstance(response, Problem):
                self._breaker.record(target.origin, response)
            if isinstance(response, Problem) or response.status not in REDIRECTS:
                return response if target is asked else note_sign_in_page(request.method, asked, target, response)
            following = self._find_next_target(request, target, response)
            if not isinstance(following, Target):
                return response if following is None else following
            target = following
        return redirect_loop(target.origin, self.limits.redirects)

    def _find_next_target(self, request: Request, target: Target, response: Response) -> Target | Problem | None:
        """Return the target that ``response`` redirects to, None if it is no redirect, or why it is not followed."""
        url = find_redirect(request.method, target, response)
        if url is None or isinstance(url, Problem):
            return url
        # The user agreed to one address, so another one needs a new question.
        if request.approved and not is_same_resource(target, url):
            return redirect_without_approval(request.method, target.origin, url)
        return self._admit_target(url)

    def _admit_target(self, url: str) -> Target | Problem:
        target = self._targets.get(url)
        if target is None:
            admitted = admit(url, self._private)
            if isinstance(admitted, Problem):
                return admitted
            target = admitted
            # Most calls go to the URL of an earlier one. A query is not kept: it may hold a secret.
            if target.url.query is None and len(url) <= _MAX_URL_CHARS:
                if len(self._targets) >= _MAX_URLS:
                    self._targets.clear()
                self._targets[url] = target
        # Asked each time: the user may have allowed another origin meanwhile.
        if self._origins is None or target.origin in self._origins:
            return target
        return forbidden_target(f"{target.origin} was not contacted. Allow it explicitly if you trust it.")

    def _send_to_target(
        self, target: Target, request: Request, fields: Fields, deadline: float
    ) -> Steps[Response | Problem]:
        secrets: Sequence[tuple[str, Secret]] = ()
        echoes = NO_ECHOES
        if self._credentials or self._headers or request.credentials:
            fields, secrets, echoes = self._add_credentials(target, request, fields)
        if target.address is not None and self._proxies is None:
            pin: _PinnedAddress | Problem = _PinnedAddress((target.address,), 0.0)
        else:
            pin = yield from self._find_addresses(target, deadline)
        if isinstance(pin, Problem):
            return pin
        last: Problem | None = None
        for address in pin.addresses:
            within_s = deadline - self._clock()
            if within_s <= 0:
                return timeout(target.origin, sent=False)
            hop = SendRequest(
                target,
                address,
                request.method,
                fields,
                secrets,
                request.body,
                within_s,
                echoes,
                pin.proxy,
                pin.checked or address,
            )
            answer: Response | Problem = yield hop
            # A server closes idle connections without notice, so the first request on one may be lost.
            if isinstance(answer, Problem) and request.method in _REPEATABLE and _is_stale(answer):
                answer = yield hop._replace(within_s=deadline - self._clock())
            if isinstance(answer, Response) or answer.details.get("sent", True) or _is_final(answer):
                if address is not pin.addresses[0]:
                    self._prefer(target.origin, address)
                return answer if hop.proxy is None else hop.check_proxy(hop.proxy, answer)
            last = answer
        self._pins.pop(target.origin, None)
        # No address answered: resolve the name anew for the next call.
        return timeout(target.origin, sent=False) if last is None else last

    def _add_credentials(
        self, target: Target, request: Request, fields: Fields
    ) -> tuple[Fields, Sequence[tuple[str, Secret]], CredentialEchoes]:
        """Return the header fields of ``request`` to ``target``, those that are secret, and how these may come back."""
        secrets = () if request.signed else self._credentials.get(target.origin, ())
        added: list[Secret] = []
        if self._headers and (own := self._headers.get(target.origin)):
            # XL-089: they are sent with a request that has its credentials too.
            names = {name for name, _ in own}
            fields = [field for field in fields if field[0].lower() not in names]
            fields += [(name, value) for name, value in own if isinstance(value, str)]
            hidden = [(name, value) for name, value in own if isinstance(value, Secret)]
            secrets = (*(pair for pair in secrets if pair[0].lower() not in names), *hidden)
            added = [value for _, value in hidden]
        # The key of the site replaces what the request has under the same name: two credentials would be read
        # differently by different servers.
        if secrets:
            taken = {name.lower() for name, _ in secrets}
            fields = [field for field in fields if field[0].lower() not in taken]
        echoes = self._echoes.get(target.origin, NO_ECHOES) if secrets else NO_ECHOES
        if request.credentials or added:
            echoes = echoes.join(find_echoes((*request.credentials, *added)))
        return fields, secrets, echoes

    def _find_addresses(self, target: Target, deadline: float) -> Steps[_PinnedAddress | Problem]:
        """Return where to connect for ``target``: the checked addresses of its host, or those of its proxy."""
        now = self._clock()
        pin = self._pins.get(target.origin)
        if pin is not None and now < pin.until:
            return pin
        proxy = None if self._proxies is None else self._proxies.find(target)
        if isinstance(proxy, Problem):
            return proxy
        found = yield from self._check_server(target, proxy, deadline - now)
        if isinstance(found, Problem):
            return found
        checked = found[0] if found else ""
        if proxy is not None:
            found = yield from self._find_proxy(target, proxy, deadline)
            if isinstance(found, Problem):
                return found
        # A cache that is emptied at its limit needs no bookkeeping for each call.
        if len(self._pins) >= _MAX_ORIGINS:
            self._pins.clear()
        pin = self._pins[target.origin] = _PinnedAddress(
            tuple(found[:_ADDRESSES_TRIED]), self._clock() + self.limits.pin_s, checked, proxy
        )
        return pin

    def _check_server(self, target: Target, proxy: Proxy | None, within_s: float) -> Steps[Sequence[str] | Problem]:
        """Return the allowed addresses of the host of ``target``: none if only its proxy can tell them."""
        found: Sequence[str] | Problem = (target.address,) if target.address is not None else ()
        if not found:
            # A network with a proxy may have no resolver for public names: the wait for it is short then.
            within_s = within_s if proxy is None else min(within_s, self.limits.connect_s)
            found = yield ResolveHost(target.origin, target.host, target.port, within_s)
        if isinstance(found, Problem) or not found:
            # Over http, the unknown server could be a public one, where nothing is protected on the way.
            if proxy is not None and target.url.scheme == "https":
                return ()
            return found if isinstance(found, Problem) else _not_found(target.origin)
        self._pins.pop(target.origin, None)
        # One private address among public ones is how DNS rebinding begins.
        if not all(is_address_allowed(address, target.reach) for address in found):
            return refuse_address(target.origin, target.reach)
        return found

    def _find_proxy(self, target: Target, proxy: Proxy, deadline: float) -> Steps[Sequence[str] | Problem]:
        """Return the addresses of ``proxy``. The user has named it, so it may be private."""
        if read_address(proxy.host) is not None:
            found: Sequence[str] | Problem = (proxy.host,)
        else:
            found = yield ResolveHost(proxy.name, proxy.host, proxy.port, deadline - self._clock())
        if isinstance(found, Problem):
            return found
        if not found:
            return _not_found(proxy.name)
        reaches = (NetworkReach.PRIVATE_ONLY, NetworkReach.LOOPBACK)
        if target.url.scheme == "http" and not all(
            any(is_address_allowed(address, reach) for reach in reaches) for address in found
        ):
            return forbidden_target(
                f"{target.origin} was not contacted: the address of its proxy is not in a private network, and http is"
                " not protected on the way. Write https:// instead."
            )
        return found

    def _prefer(self, origin: str, address: str) -> None:
        """Move the address that answered to the front, so that the next call tries it first."""
        pin = self._pins.get(origin)
        if pin is not None and address in pin.addresses[1:]:
            others = (other for other in pin.addresses if other != address)
            self._pins[origin] = pin._replace(addresses=(address, *others))


def _not_found(name: str) -> Problem:
    return unreachable(f"{name} was not found. Check the host name.", "dns", sent=False)


def _is_final(problem: Problem) -> bool:
    """Return whether a proxy refuses, at whatever address."""
    return problem.details.get("reason") == "proxy"


def _is_stale(problem: Problem) -> bool:
    """Return whether the connection ended before any response: the server had closed it while it was idle."""
    return problem.details.get("answered") is False


def _check_credentials(credentials: Credentials) -> Mapping[str, Sequence[tuple[str, Secret]]]:
    bound: dict[str, Sequence[tuple[str, Secret]]] = {}
    for text, secrets in credentials.items():
        origin = origin_of(text)
        for name, secret in secrets:
            if NAME.fullmatch(name) is None or VALUE.fullmatch(secret.reveal()) is None:
                raise ValueError(f"a credential for {origin} cannot be sent as a header")
        bound[origin] = tuple(secrets)
    return bound
