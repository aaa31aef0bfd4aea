"""Let an external OpenID provider say who a user is: its metadata, its page, its token endpoint and its keys.

Rules:
- The metadata must name the issuer exactly. Endpoints are https, or http on this machine for an issuer there.
- The ID token comes from the token endpoint for the code, is signed by a published key, for this client alone, and has
  the nonce of this sign-in. What the issuer says at its UserInfo endpoint must be about the same subject.
- What cannot be asked signs nobody in: a user with fewer claims could be in a group that may do more.
"""
# PL-03

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Collection, Mapping
from hmac import compare_digest
from time import monotonic, time
from typing import Final, NamedTuple, TypeAlias
from urllib.parse import urlencode, urlsplit

import anyio

from toolwire.auth.caller_token import CallerToken, ExpectedClaims, Keyring, UnknownKey, read_token
from toolwire.auth.client_identity import ClientIdentity
from toolwire.auth.loopback_hosts import is_loopback_host
from toolwire.auth.pkce import METHOD, compute_challenge
from toolwire.auth.server_metadata import OPENID_PATH
from toolwire.auth.token_request import build_form_request, read_error_code, read_tokens
from toolwire.core.http import Request, Response
from toolwire.core.model import Json, Kind, Problem, Secret
from toolwire.core.url_display import show_url
from toolwire.core.url_origin import get_host, read_origin
from toolwire.framing import jsontext
from toolwire.server.access.signed_tokens import IssuerKeys
from toolwire.stores.oauth.issuer_accounts import Identity, IssuerAccount, IssuerAccounts

Send: TypeAlias = Callable[[Request], Awaitable[Response | Problem]]
"""Sends a request through a guarded network."""

_JSON: Final = ((b"accept", b"application/json"),)
_FRESH_S, _BETWEEN_S = 3_600.0, 5.0
_MAX_SUBJECT: Final = 180  # a name in calls has at most 200 characters
_SUBJECT: Final = re.compile(rf"[!-~]{{1,{_MAX_SUBJECT}}}")
_MAX_NAME, _MAX_CLAIMS = 100, 65_536
_NAMES: Final = ("preferred_username", "name", "email")
_OF_THE_TOKEN: Final = frozenset(
    ("aud", "exp", "iat", "nbf", "jti", "nonce", "azp", "sid", "auth_time", "acr", "amr", "at_hash", "c_hash", "s_hash")
)
"""The claims that are about the token or the sign-in, and not about the user."""


class _Metadata(NamedTuple):
    login_url: str
    token_url: str
    keys_url: str
    userinfo_url: str
    scopes: Collection[str]
    sends_issuer: bool
    takes_post_only: bool


class OpenIdProvider:
    """The OpenID provider ``issuer``, at which this server is registered as ``client_id``.

    ``send`` sends requests, ``admits`` returns whether a user with these claims may sign in, and ``groups_claim`` is
    the claim with the groups of a user. ``now`` returns seconds since 1970, ``clock`` seconds that never go back.
    """

    def __init__(
        self,
        issuer: str,
        client_id: str,
        accounts: IssuerAccounts,
        send: Send,
        *,
        secret: Secret | None = None,
        groups_claim: str = "groups",
        admits: Callable[[Mapping[str, Json]], bool] = lambda _: True,
        now: Callable[[], float] = time,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._issuer, self._client_id, self._secret = issuer, client_id, secret
        self._accounts, self._send, self._admits = accounts, send, admits
        self._groups_claim, self._now, self._clock = groups_claim, now, clock
        self._expected = ExpectedClaims(issuer=issuer, audience=client_id)
        self._keys = IssuerKeys(self._fetch_keys)
        self._lock: anyio.Lock | None = None
        self._metadata: _Metadata | Problem | None = None
        self._tried_at = -_FRESH_S

    def check(self, _name: str, _password: str, /) -> None:
        """Return None: the passwords are the issuer's own."""

    def find(self, user_id: str, /) -> IssuerAccount | None:
        """Return the user with this name in calls, or None if the last sign-in is too old."""
        return self._accounts.find(user_id)

    def save(self, identity: Identity) -> IssuerAccount:
        """Store who signed in, and return the account."""
        return self._accounts.save(identity)

    async def find_metadata(self) -> _Metadata | Problem:
        """Return where the endpoints of the issuer are, asked for again after an hour; else why that is not known."""
        if self._lock is None:
            self._lock = anyio.Lock()
        async with self._lock:
            known, passed_s = self._metadata, self._clock() - self._tried_at
            if known is None or passed_s >= (_BETWEEN_S if isinstance(known, Problem) else _FRESH_S):
                # Before the attempt: anyone can begin a sign-in, and must not make this server ask each time.
                self._tried_at = self._clock()
                found = await self._fetch_metadata()
                if not isinstance(found, Problem) or known is None or isinstance(known, Problem):
                    self._metadata = known = found
            return known

    async def build_login_url(self, redirect_uri: str, *, state: str, nonce: str, verifier: str) -> str | Problem:
        """Return the URL of the issuer's page, or why there is none now."""
        metadata = await self.find_metadata()
        if isinstance(metadata, Problem):
            return metadata
        # Some issuers send the groups of a user only to a client that asks for the scope of this name.
        more = [self._groups_claim] if self._groups_claim in metadata.scopes else []
        query = {
            "response_type": "code",
            "client_id": self._client_id,
            "redirect_uri": redirect_uri,
            "scope": " ".join(("openid", "profile", *more)),
            "state": state,
            "nonce": nonce,
            "code_challenge": compute_challenge(verifier),
            "code_challenge_method": METHOD,
        }
        return f"{metadata.login_url}{'&' if '?' in metadata.login_url else '?'}{urlencode(query)}"

    async def identify(
        self, answer: Mapping[str, str], redirect_uri: str, *, nonce: str, verifier: str
    ) -> Identity | Problem:
        """Return who signed in, by the ``answer`` that the browser brings back; else why nobody did."""
        metadata = await self.find_metadata()
        if isinstance(metadata, Problem):
            return metadata
        issuer, sent = answer.get("iss", ""), ""
        # RFC 9207: an answer of another issuer, which its user confused with this one.
        if issuer != self._issuer and (issuer or metadata.sends_issuer):
            sent = "the answer is not from this issuer"
        elif "error" in answer:
            sent = f"the issuer says {read_error_code(answer) or 'that it failed'}"
        if sent:
            return _refuse(sent)
        tokens = await self._redeem_code(metadata, answer.get("code", ""), redirect_uri, verifier)
        if isinstance(tokens, Problem):
            return tokens
        claims = await self._read_id_token(tokens.get("id_token"), nonce)
        if not isinstance(claims, Problem) and metadata.userinfo_url:
            claims = await self._add_user(metadata.userinfo_url, tokens, claims)
        return claims if isinstance(claims, Problem) else self._build_identity(claims)

    async def _redeem_code(
        self, metadata: _Metadata, code: str, redirect_uri: str, verifier: str
    ) -> Mapping[str, Json] | Problem:
        """Return what the token endpoint answers to the code of this sign-in."""
        form = {"grant_type": "authorization_code", "code": code, "redirect_uri": redirect_uri}
        method = "none" if self._secret is None else "client_secret_basic"
        if self._secret is not None and metadata.takes_post_only:
            method = "client_secret_post"
        client = ClientIdentity(client_id=self._client_id, secret=self._secret, method=method)
        request = build_form_request(metadata.token_url, client, {**form, "code_verifier": verifier})
        return await self._ask(request, "token endpoint")

    async def _read_id_token(self, text: Json, nonce: str) -> Mapping[str, Json] | Problem:
        """Return the claims of an ID token for this client and this sign-in."""
        if not isinstance(text, str) or not text.isascii():
            return _refuse("the issuer sent no ID token")
        token = self._read_token(text, await self._keys.get_keyring())
        if isinstance(token, UnknownKey):
            token = self._read_token(text, await self._keys.get_newer_keyring())
        if isinstance(token, UnknownKey):
            return _refuse("the issuer does not publish the key that signed the ID token")
        if isinstance(token, Problem):
            return _refuse(f"the issuer's ID token was rejected ({token.message.rstrip('.')})")
        fault = self._find_claim_fault(token.claims, nonce)
        return _refuse(fault) if fault else token.claims

    def _read_token(self, text: str, keyring: Keyring | Problem) -> CallerToken | Problem | UnknownKey:
        return (
            keyring if isinstance(keyring, Problem) else read_token(text.encode(), keyring, self._expected, self._now())
        )

    def _find_claim_fault(self, claims: Mapping[str, Json], nonce: str) -> str:
        """Return what is wrong with the claims of an ID token besides its issuer, audience and time."""
        claimed_nonce, audience = claims.get("nonce"), claims.get("aud")
        if not isinstance(claimed_nonce, str) or not compare_digest(claimed_nonce.encode(), nonce.encode()):
            return "the ID token belongs to another sign-in"
        # OpenID Connect Core, 3.1.3.7: one for several clients says which of them it was issued to.
        is_shared = isinstance(audience, list) and audience != [self._client_id]
        if claims.get("azp", "" if is_shared else self._client_id) != self._client_id:
            return "the ID token was issued to another client"
        return "" if isinstance(claims.get("sub"), str) else "the ID token names no subject"

    async def _add_user(
        self, url: str, answer: Mapping[str, Json], claims: Mapping[str, Json]
    ) -> Mapping[str, Json] | Problem:
        """Return ``claims`` with those that the UserInfo endpoint adds."""
        tokens = read_tokens(answer, self._now())
        if isinstance(tokens, Problem):
            return tokens
        bearer = (b"authorization", f"Bearer {tokens.access.reveal()}".encode())
        more = await self._ask(Request("GET", url, (*_JSON, bearer)), "UserInfo endpoint")
        if isinstance(more, Problem):
            return more
        # OpenID Connect Core, 5.3.2: an access token that was swapped is another user's.
        if more.get("sub") != claims["sub"]:
            return _refuse("the issuer's UserInfo endpoint described a different user")
        return {**more, **claims}

    def _build_identity(self, claims: Mapping[str, Json]) -> Identity | Problem:
        subject = str(claims["sub"])
        if _SUBJECT.fullmatch(subject) is None:
            return _refuse(f"the issuer's ID for you is not 1 to {_MAX_SUBJECT} ASCII characters without spaces")
        elsewhere = claims.get("_claim_names")
        if isinstance(elsewhere, dict) and self._groups_claim in elsewhere:
            text = "it must send those of this application alone"
            return _refuse(f"you are in too many groups for the issuer to list them: {text}")
        if not self._admits(claims):
            return Problem(
                kind=Kind.FORBIDDEN,
                message="Your account is not allowed to sign in here. Ask the operator of this server.",
            )
        user_claims = {name: value for name, value in claims.items() if name not in _OF_THE_TOKEN}
        if len(jsontext.write(user_claims)) > _MAX_CLAIMS:
            return _refuse("the issuer sends more claims about you than this server stores (64 KiB)")
        return Identity(issuer=self._issuer, subject=subject, name=_read_name(claims, subject), claims=user_claims)

    async def _fetch_metadata(self) -> _Metadata | Problem:
        url = f"{self._issuer.rstrip('/')}{OPENID_PATH}"
        document = await self._ask(Request("GET", url, _JSON), "metadata")
        if isinstance(document, Problem):
            return document
        if document.get("issuer") != self._issuer:
            text = f"its metadata at {show_url(url)} names another issuer. Write the issuer exactly as it is there"
            return _refuse(text, Kind.BAD_ANSWER)
        endpoints = ("authorization_endpoint", "token_endpoint", "jwks_uri")
        for name in endpoints:
            if not self._is_endpoint(document.get(name)):
                return _refuse(f"its metadata contains no https URL for {name}", Kind.BAD_ANSWER)
        userinfo, scopes = document.get("userinfo_endpoint"), document.get("scopes_supported")
        methods = document.get("token_endpoint_auth_methods_supported")
        login_url, token_url, keys_url = (str(document[name]) for name in endpoints)
        return _Metadata(
            login_url=login_url,
            token_url=token_url,
            keys_url=keys_url,
            userinfo_url=str(userinfo) if self._is_endpoint(userinfo) else "",
            scopes=[one for one in scopes if isinstance(one, str)] if isinstance(scopes, list) else (),
            sends_issuer=document.get("authorization_response_iss_parameter_supported") is True,
            takes_post_only=isinstance(methods, list) and "client_secret_basic" not in methods,
        )

    def _is_endpoint(self, url: Json) -> bool:
        origin = read_origin(url) if isinstance(url, str) else None
        if origin is None or origin.has_user_info or not isinstance(url, str) or urlsplit(url).fragment:
            return False
        is_local = self._issuer.startswith("http://") and is_loopback_host(get_host(url))
        return url.isascii() and url.isprintable() and (origin.scheme == "https" or is_local)

    async def _fetch_keys(self) -> bytes | Problem:
        metadata = await self.find_metadata()
        if isinstance(metadata, Problem):
            return metadata
        answer = await self._send(Request("GET", metadata.keys_url, _JSON))
        if isinstance(answer, Problem) or answer.status == 200:
            return answer if isinstance(answer, Problem) else answer.body
        return _refuse(f"cannot fetch its keys (status {answer.status})", Kind.BAD_ANSWER)

    async def _ask(self, request: Request, what: str) -> Mapping[str, Json] | Problem:
        """Return the JSON object that the issuer answers; the Problem names an error, and nothing else that it says."""
        answer = await self._send(request)
        if isinstance(answer, Problem):
            return _refuse(f"cannot reach the {what} of {self._issuer} ({answer.message.rstrip('.')})", answer.kind)
        data = jsontext.read(answer.body)
        if answer.status == 200 and isinstance(data, dict):
            return data
        word = (read_error_code(data) if isinstance(data, dict) else "") or f"status {answer.status}"
        return _refuse(f"the {what} of {self._issuer} answers {word}", Kind.BAD_ANSWER)


def _read_name(claims: Mapping[str, Json], subject: str) -> str:
    """Return the name for pages, which anyone may choose and which identifies nobody."""
    names = (claims.get(one) for one in _NAMES)
    return next((name for name in names if isinstance(name, str) and name.strip() and name.isprintable()), subject)[
        :_MAX_NAME
    ]


def _refuse(why: str, kind: Kind = Kind.UNAUTHORIZED) -> Problem:
    return Problem(kind=kind, message=f"The sign-in failed: {why}.")
