"""Add the credential of a user to the requests it is for, and renew it when a server refuses it.

Rules:
- Only requests to the resource of a credential get it, in a header, never in a URL.
- A refused request is sent again after a refresh, or after the user allowed more scopes: at most twice.
"""

# AC-11, D-08: a token goes to its resource. XL-102, AC-08: a call can need a new sign-in or more scopes.

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, TypeAlias

from toolwire.auth.challenge import Challenge
from toolwire.auth.credential import Credential
from toolwire.auth.dpop import Prover, find_token_challenge, wants_nonce
from toolwire.auth.resource_indicators import is_covered_by
from toolwire.auth.security_schemes import DeclaredSignIn
from toolwire.client.transport.request_rules import SendBySteps, Steps
from toolwire.core.codec import BlockingTask
from toolwire.core.http import Request, Response
from toolwire.core.model import Problem
from toolwire.core.url_origin import has_same_origin

from .token_refresher import TokenRefresher


class Refused(NamedTuple):
    """A request that was refused because the user is not signed in, or lacks scopes.

    ``challenge`` is what the response asks for, or None. ``scopes`` are those that the document declares for the
    operation, or None if it declares nothing; ``declared`` is what it says about signing in.
    """

    url: str
    challenge: Challenge | None = None
    scopes: tuple[str, ...] | None = None
    declared: DeclaredSignIn | None = None


SignIn: TypeAlias = Callable[[Refused, Credential | None], Credential | Problem | None]
"""Takes what was refused and the present credential; asks the user, and returns a new credential.

A Problem says why it failed. None leaves the refusal as it is: the user does not want to, or there is no place.
"""

# AC-08: a step-up happens at most twice for one resource and operation.
_MAX_REPEATS = 2


class CredentialAuth:
    """Signs requests to ``site``, and decides what to do if one is refused.

    ``declared`` is what the document of the site says about signing in, once it was read.
    """

    def __init__(self, site: str, refresher: TokenRefresher, sign_in: SignIn | None = None) -> None:
        self._site = site
        self._refresher = refresher
        self._sign_in = sign_in
        self._sign_in_counts: Counter[tuple[str, str]] = Counter()
        self._has_proofs = False
        self.declared: DeclaredSignIn | None = None

    @property
    def identity(self) -> tuple[str, tuple[str, ...]]:
        """The name of the credential, which is no secret, and its scopes."""
        return self._refresher.identity

    def send(self, send: SendBySteps, request: Request, total_s: float | None) -> Steps[Response | Problem]:
        """Yield what must be done to ``send`` the request signed, and return its response.

        What may block, such as a refresh or a new sign-in, is yielded as ``BlockingTask``.
        """
        # The usual case first: a valid token needs no thread, no lock and no file.
        signed: Any = self.sign_now(request)
        if signed is None:
            signed = yield BlockingTask(partial(self.sign, request))
        # No credential, so nothing is sent: the server would only refuse it.
        if isinstance(signed, Problem):
            return signed
        answer = yield from self._send_with_nonce(send, signed, total_s)
        for _ in range(_MAX_REPEATS):
            if not isinstance(answer, Response) or answer.status not in (401, 403):
                break
            signed = yield BlockingTask(partial(self.sign_again, request, answer))
            if signed is None:
                break
            if isinstance(signed, Problem):
                return signed
            answer = yield from self._send_with_nonce(send, signed, total_s)
        return answer

    def sign_now(self, request: Request) -> Request | None:
        """Return ``request`` as it is sent, or None if its token must be refreshed first, or cannot be used here."""
        if request.signed:
            return request
        credential = self._refresher.find_valid()
        if not is_covered_by(self._site, request.url) or self._refresher.is_empty:
            return request
        if credential is None or credential.proof_key is None:
            return None if credential is None else _add_credential(request, credential)
        # The first proof loads the code that signs it, which is not done here.
        bound = self._add_credential(request, credential) if self._has_proofs else None
        return None if isinstance(bound, Problem) else bound

    def sign(self, request: Request) -> Request | Problem:
        """Return ``request`` signed with a valid credential. It may refresh the credential, which blocks."""
        fresh = self._refresher.ensure_valid()
        if isinstance(fresh, Problem) and self._refresher.is_empty and self._sign_in is not None:
            return request  # its refusal says where to sign in
        return fresh if isinstance(fresh, Problem) else self._add_credential(request, fresh)

    def sign_again(self, request: Request, answer: Response) -> Request | Problem | None:
        """Return ``request`` with a new credential after ``answer`` refused it, or None. It may block.

        A Problem says why the user could not sign in.
        """
        if request.signed or not is_covered_by(self._site, request.url):
            return None
        # It was sent again once: a server that wants a new nonce each time wants to go on forever.
        if self._has_proofs and wants_nonce(answer):
            return None
        challenge = find_token_challenge(answer)
        credential = self._refresher.credential
        # I-23: a refusal says nothing about a token that was not sent.
        is_sent = credential is not None and credential.is_for(request.url)
        # Another process may have refreshed the token since, or signed in: that one is tried first.
        if answer.status == 401 and (credential is None or is_sent) and _is_token_refused(challenge):
            is_certain = credential is not None and _is_about_token(challenge, credential)
            refused = None if credential is None else credential.access
            fresh = self._refresher.ensure_valid(refused, is_certain=is_certain)
            if not isinstance(fresh, Problem) and fresh.is_for(request.url):
                return self._add_credential(request, fresh)
        credential = self._refresher.credential if is_sent else None
        if not self._may_help(request, answer.status, challenge, credential):
            return None
        may_be_void = answer.status == 401 and credential is not None and _may_concern_token(challenge, credential)
        return self._sign_in_again(request, challenge, credential, may_be_void=may_be_void)

    def _may_help(
        self, request: Request, status: int, challenge: Challenge | None, credential: Credential | None
    ) -> bool:
        """Return whether another sign-in may help a request that was refused with ``status``."""
        error = "" if challenge is None else challenge.parameters.get("error", "")
        if challenge is not None and (status == 401 or error):
            return status == 401 or error == "insufficient_scope"
        # XL-102: a server that says nothing more; its document says whether and for which scopes users sign in.
        if self.declared is None or request.scopes is None:
            return False
        return (
            credential is None
            or status == 401
            or (credential.kind == "oauth" and not set(request.scopes) <= set(credential.scopes))
        )

    def _sign_in_again(
        self, request: Request, challenge: Challenge | None, credential: Credential | None, *, may_be_void: bool
    ) -> Request | Problem | None:
        # Without the query, which differs between calls of one operation.
        operation = (request.method, request.url.partition("?")[0])
        named = set() if challenge is None else set(challenge.parameters.get("scope", "").split())
        wanted = named or set(request.scopes or ())
        # A server that asks for scopes which the token has would ask forever, unless it no longer takes the token: it
        # may have another authorization server now (SEP-2352).
        goes_round = credential is not None and not may_be_void and bool(wanted) and wanted <= set(credential.scopes)
        if self._sign_in is None or goes_round or self._sign_in_counts[operation] >= _MAX_REPEATS:
            return None
        self._sign_in_counts[operation] += 1
        found = self._sign_in(Refused(request.url, challenge, request.scopes, self.declared), credential)
        if found is None or isinstance(found, Problem):
            return found
        self._refresher.replace(found)
        return self._add_credential(request, found)

    def _add_credential(self, request: Request, credential: Credential) -> Request | Problem:
        """Return ``request`` with ``credential``, and with a proof if its tokens are bound to a key."""
        # MC-11, D-08: a bound token is sent with a proof for its own request, or not at all.
        signed = _add_credential(request, credential)
        if credential.proof_key is None or signed is request:
            return signed
        prover = self._refresher.find_prover(credential)
        if prover is None or isinstance(prover, Problem):
            return prover or signed
        self._has_proofs = True
        return prover.add_proof(signed, credential.access)

    def _send_with_nonce(self, send: SendBySteps, signed: Request, total_s: float | None) -> Steps[Response | Problem]:
        """Return the answer to ``signed``. A server that wants a nonce in it gets it once more, with the nonce."""
        answer = yield from send(signed, total_s)
        credential = self._refresher.credential
        if not self._has_proofs or credential is None or isinstance(answer, Problem):
            return answer
        if signed.signed or not credential.is_for(signed.url):
            return answer
        prover = self._refresher.find_prover(credential)
        if isinstance(prover, Prover) and prover.store_nonce(signed, answer) and answer.status == 401:
            answer = yield from send(prover.add_proof(_add_credential(signed, credential), credential.access), total_s)
            if isinstance(answer, Response):
                prover.store_nonce(signed, answer)
        return answer


def _is_token_refused(challenge: Challenge | None) -> bool:
    """Return whether a 401 with ``challenge`` can mean that the token is invalid."""
    return challenge is None or challenge.parameters.get("error", "invalid_token") == "invalid_token"


def _add_credential(request: Request, credential: Credential) -> Request:
    """Return ``request`` with ``credential`` in place of any other, if the credential is for its URL."""
    if not credential.is_for(request.url):
        return request
    name = credential.header.encode("latin-1")
    others = [field for field in request.headers if field[0].lower() != name]
    return request._replace(
        headers=(*others, (name, (credential.prefix + credential.access.reveal()).encode("latin-1"))),
        credentials=(*request.credentials, credential.access),
    )


def _is_about_token(challenge: Challenge | None, credential: Credential) -> bool:
    """Return whether a 401 with ``challenge`` says that the token of ``credential`` is invalid.

    A server behind this one, or another kind of credential, can be refused too.
    """
    # AO-02
    says_so = challenge is not None and challenge.parameters.get("error") == "invalid_token"
    return says_so and _may_concern_token(challenge, credential)


def _may_concern_token(challenge: Challenge | None, credential: Credential) -> bool:
    """Return whether a 401 with ``challenge`` can be about the token of ``credential``, as far as its metadata tell."""
    metadata = "" if challenge is None else challenge.parameters.get("resource_metadata", "")
    return _is_token_refused(challenge) and (not metadata or has_same_origin(metadata, credential.resource))
