"""Doors that put a person's credential on the requests it is for, and see to it when it is refused.

Rules:
- Only requests to the resource of a credential carry it, in a header, never in a URL. [AC-11, D-08]
- A refused request is sent again after a refresh, and after the person allowed more; twice at most, then its answer
  stands. [XL-102, AC-08]
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from anyio import to_thread

from toolwire.auth.challenge import Challenge, bearer
from toolwire.auth.credential import Credential
from toolwire.auth.resource_indicators import covers
from toolwire.client.transport.drivers import Hear, SyncHear, SyncTransport, Transport
from toolwire.core.http import Request, Response
from toolwire.core.model import Problem

from .token_refresher import TokenRefresher

SignIn: TypeAlias = Callable[[str, Challenge, Credential | None], Credential | Problem]
"""Takes the URL that was refused, its challenge and what there is; asks the person, and returns a credential."""

_AGAIN = 2


class CredentialAuth:
    """What signs requests to ``site``, and decides what to do about a refusal. It may wait for network and person."""

    def __init__(self, site: str, keeper: TokenRefresher, sign_in: SignIn | None = None) -> None:
        self._site = site
        self._keeper = keeper
        self._sign_in = sign_in
        self._asked: Counter[tuple[str, str]] = Counter()

    @property
    def identity(self) -> tuple[str, tuple[str, ...]]:
        """What tells the credential from another: a name that is no secret, and its scopes."""
        return self._keeper.identity

    def signing(self, door: Transport) -> AuthTransport:
        """Return ``door``, with what this hand puts on each request."""
        return AuthTransport(door, self)

    def signing_sync(self, door: SyncTransport) -> SyncAuthTransport:
        """Return the blocking ``door``, with what this hand puts on each request."""
        return SyncAuthTransport(door, self)

    def ready(self, request: Request) -> Request | None:
        """Return ``request`` as it is sent, None where that has to be waited for."""
        if request.signed:
            return request
        held = self._keeper.held()
        if not covers(self._site, request.url) or self._keeper.empty:
            return request
        return None if held is None else _signed(request, held)

    def sign(self, request: Request) -> Request | Problem:
        """Return ``request`` signed with a credential that is good."""
        fresh = self._keeper.fresh()
        if isinstance(fresh, Problem) and self._keeper.empty and self._sign_in is not None:
            return request  # its refusal says where to sign in
        return fresh if isinstance(fresh, Problem) else _signed(request, fresh)

    def again(self, request: Request, answer: Response) -> Request | None:
        """Return ``request`` to be sent once more after ``answer`` refused it, None where that would not help."""
        if request.signed or not covers(self._site, request.url):
            return None
        values = [value.decode("latin-1") for name, value in answer.headers if name == b"www-authenticate"]
        challenge = bearer(values)
        held = self._keeper.credential
        if answer.status == 401 and held is not None:
            fresh = self._keeper.fresh(held.access)
            if not isinstance(fresh, Problem):
                return _signed(request, fresh)
        if challenge is None or (answer.status == 403 and challenge.parameters.get("error") != "insufficient_scope"):
            return None
        return self._signed_in(request, challenge)

    def _signed_in(self, request: Request, challenge: Challenge) -> Request | None:
        held = self._keeper.credential
        operation = (request.method, request.url.partition("?")[0])
        wanted = set(challenge.parameters.get("scope", "").split())
        goes_round = held is not None and bool(wanted) and wanted <= set(held.scopes)
        if self._sign_in is None or goes_round or self._asked[operation] >= _AGAIN:
            return None
        self._asked[operation] += 1
        found = self._sign_in(request.url, challenge, held)
        if isinstance(found, Problem):
            return None
        self._keeper.replace(found)
        return _signed(request, found)


class AuthTransport:
    """What asynchronous requests go through: ``door``, with what ``hand`` puts on them."""

    def __init__(self, door: Transport, hand: CredentialAuth) -> None:
        self._door = door
        self._hand = hand

    async def send(self, request: Request) -> Response | Problem:
        """Return what came back for ``request``."""
        return await self._sent(request, self._door.send)

    async def listen(self, request: Request, hear: Hear, *, brief: bool = False) -> Response | Problem:
        """Return what came back for ``request``, whose stream goes to ``hear``."""

        async def send(signed: Request) -> Response | Problem:
            return await self._door.listen(signed, hear, brief=brief)

        return await self._sent(request, send)

    async def aclose(self) -> None:
        """Close every connection."""
        await self._door.aclose()

    async def _sent(
        self, request: Request, send: Callable[[Request], Awaitable[Response | Problem]]
    ) -> Response | Problem:
        ready = self._hand.ready(request)
        signed = ready if ready is not None else await to_thread.run_sync(self._hand.sign, request)
        if isinstance(signed, Problem):
            return signed
        answer = await send(signed)
        for _ in range(_AGAIN):
            if not isinstance(answer, Response) or answer.status not in (401, 403):
                break
            again = await to_thread.run_sync(self._hand.again, request, answer)
            if again is None:
                break
            answer = await send(again)
        return answer


class SyncAuthTransport:
    """What blocking requests go through: ``door``, with what ``hand`` puts on them."""

    def __init__(self, door: SyncTransport, hand: CredentialAuth) -> None:
        self._door = door
        self._hand = hand

    def send(self, request: Request) -> Response | Problem:
        """Return what came back for ``request``."""
        return self._sent(request, self._door.send)

    def listen(self, request: Request, hear: SyncHear, *, brief: bool = False) -> Response | Problem:
        """Return what came back for ``request``, whose stream goes to ``hear``."""
        return self._sent(request, lambda signed: self._door.listen(signed, hear, brief=brief))

    def close(self) -> None:
        """Close every connection."""
        self._door.close()

    def _sent(self, request: Request, send: Callable[[Request], Response | Problem]) -> Response | Problem:
        signed = self._hand.ready(request) or self._hand.sign(request)
        if isinstance(signed, Problem):
            return signed
        answer = send(signed)
        for _ in range(_AGAIN):
            if not isinstance(answer, Response) or answer.status not in (401, 403):
                break
            again = self._hand.again(request, answer)
            if again is None:
                break
            answer = send(again)
        return answer


def _signed(request: Request, credential: Credential) -> Request:
    """Return ``request`` with ``credential``, if it is for what that covers, in the place of any other."""
    if not covers(credential.resource, request.url):
        return request
    name = credential.header.encode("latin-1")
    others = [field for field in request.headers if field[0].lower() != name]
    return request._replace(
        headers=(*others, (name, (credential.prefix + credential.access.reveal()).encode("latin-1"))),
        credentials=(*request.credentials, credential.access),
    )
