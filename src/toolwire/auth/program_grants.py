"""Get tokens for a program, without a page: by its own proof, or by an assertion of another party about it.

Rules:
- An assertion is signed or sent only for a server whose own metadata was checked, and names it as its audience.
- Tokens that an assertion gave are not refreshed: a new assertion gives new ones.
- No assertion appears in a Problem.
"""
# AC-13

from __future__ import annotations

import re
from base64 import urlsafe_b64decode
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from toolwire.core.codec import Flow
from toolwire.core.model import Json, Kind, Problem, Secret
from toolwire.core.url_origin import has_same_origin
from toolwire.framing import jsontext

from .authorization_code import build_credential
from .client_identity import ClientIdentity
from .credential import Credential
from .dpop import Prover
from .metadata_discovery import AuthorizationServerMetadata, SignInTarget, find_authorization_server
from .token_request import exchange_form, scope_parameters, send_form

_BY_ASSERTION = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
_JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_EXCHANGE_GRANT = "urn:ietf:params:oauth:grant-type:token-exchange"
_ID_JAG = "urn:ietf:params:oauth:token-type:id-jag"
_ID_TOKEN = "urn:ietf:params:oauth:token-type:id_token"  # noqa: S105 - a name, no token
_JWT = re.compile(r"[A-Za-z0-9_-]{1,4096}\.[A-Za-z0-9_-]{1,16384}\.[A-Za-z0-9_-]{1,4096}")


@dataclass(frozen=True, slots=True, kw_only=True)
class IdentityProvider:
    """The identity provider of the user's organization: its issuer, and who this client is there."""

    issuer: str
    identity: ClientIdentity


def request_client_credentials(
    target: SignInTarget,
    identity: ClientIdentity,
    scopes: Sequence[str],
    now: float,
    *,
    prover: Prover | None = None,
    unique_id: str = "",
) -> Flow[Credential | Problem]:
    """Return a credential of the program itself, without a user: the client credentials grant.

    ``unique_id`` is 256 random bits for the proof of an identity with a key.
    """
    form = {"grant_type": "client_credentials", **scope_parameters(target, scopes)}
    return (yield from _request(target, identity, form, scopes, now, prover=prover, unique_id=unique_id))


def request_by_assertion(
    target: SignInTarget,
    identity: ClientIdentity,
    assertion: Secret,
    scopes: Sequence[str],
    now: float,
    *,
    prover: Prover | None = None,
    unique_id: str = "",
) -> Flow[Credential | Problem]:
    """Return the credential that ``assertion`` gives at the server of ``target`` (RFC 7523, section 2.1).

    ``identity`` may have no id: a workload needs none.
    """
    refusal = refuse_described(target.server) or _refuse_assertion(assertion, list_audiences(target.server), now)
    if refusal is not None:
        return refusal
    form = {"grant_type": _JWT_BEARER, "assertion": assertion.reveal(), **scope_parameters(target, scopes)}
    found = yield from _request(target, identity, form, scopes, now, prover=prover, unique_id=unique_id)
    return found if isinstance(found, Problem) else replace(found, refresh=None)


def exchange_id_token(
    provider: IdentityProvider, id_token: Secret, target: SignInTarget, scopes: Sequence[str], now: float
) -> Flow[Secret | Problem]:
    """Return the assertion (ID-JAG) for the server of ``target`` that the provider gives for the ID token of a user."""
    refusal = refuse_described(target.server) or _refuse_id_token(id_token, provider, now)
    if refusal is not None:
        return refusal
    server = yield from find_authorization_server(provider.issuer, has_page=False)
    if isinstance(server, Problem):
        return server
    form = {
        "grant_type": _EXCHANGE_GRANT,
        "requested_token_type": _ID_JAG,
        "audience": target.server.issuer,
        "subject_token": id_token.reveal(),
        "subject_token_type": _ID_TOKEN,
        **scope_parameters(target, scopes),
    }
    data = yield from send_form(server.token_url, provider.identity, form)
    if isinstance(data, Problem):
        return data
    given, kind = data.get("access_token"), data.get("issued_token_type")
    if kind != _ID_JAG or not isinstance(given, str):
        text = f"{provider.issuer} issued no assertion for {target.server.issuer}."
        return Problem(kind=Kind.BAD_ANSWER, message=text)
    return Secret(given)


def refuse_described(server: AuthorizationServerMetadata) -> Problem | None:
    """Return why no assertion is made for ``server``, or None if its own metadata describes it."""
    if server.is_proven:
        return None
    text = f"No assertion was sent to {server.issuer}, because only the called server's own document describes it."
    return Problem(kind=Kind.UNAUTHORIZED, message=text)


def list_audiences(server: AuthorizationServerMetadata) -> tuple[str, ...]:
    """Return the audiences that an assertion for ``server`` may name: its issuer, or its own token endpoint."""
    # The token endpoint of another server as the audience would have this one pass on what is for that one.
    own = (server.token_url,) if has_same_origin(server.token_url, server.issuer) else ()
    return (server.issuer, *own)


def _request(
    target: SignInTarget,
    identity: ClientIdentity,
    form: Mapping[str, str],
    scopes: Sequence[str],
    now: float,
    *,
    prover: Prover | None,
    unique_id: str,
) -> Flow[Credential | Problem]:
    """Return the credential for ``form``, sent with the proof of who the client is."""
    if identity.key is not None:
        refusal = refuse_described(target.server)
        if refusal is not None:
            return refusal
        proof = identity.key.sign(identity.client_id, target.server.issuer, now, unique_id)
        form = {**form, "client_assertion_type": _BY_ASSERTION, "client_assertion": proof.reveal()}
    tokens = yield from exchange_form(target.server.token_url, identity, form, now, prover)
    if isinstance(tokens, Problem):
        return tokens
    found = build_credential(target, identity, tokens, scopes, prover)
    # A stored credential has no key to prove with that a refresh is ours.
    return found if identity.key is None else replace(found, refresh=None, revocation_url="")


def _refuse_assertion(assertion: Secret, audiences: Collection[str], now: float) -> Problem | None:
    """Return why ``assertion`` is not sent to the server with these audiences, or None."""
    # The server checks the signature. Here it matters that no site gets what is for another server.
    claims = _read_claims(assertion)
    if isinstance(claims, Problem):
        return claims
    named = claims.get("aud")
    known = {each.rstrip("/") for each in audiences}
    if not any(isinstance(each, str) and each.rstrip("/") in known for each in _list(named)):
        return _refuse(f"The assertion is for a different audience than {next(iter(audiences))}, so it was not sent.")
    return _refuse_expired(claims, now)


def _refuse_id_token(id_token: Secret, provider: IdentityProvider, now: float) -> Problem | None:
    claims = _read_claims(id_token)
    if isinstance(claims, Problem):
        return claims
    issuer = claims.get("iss")
    if not isinstance(issuer, str) or issuer.rstrip("/") != provider.issuer.rstrip("/"):
        return _refuse(f"The ID token was not issued by {provider.issuer}, so it was not sent.")
    if provider.identity.client_id not in _list(claims.get("aud")):
        return _refuse(f"The ID token was issued to a different client at {provider.issuer}, so it was not sent.")
    return _refuse_expired(claims, now)


def _refuse_expired(claims: Mapping[str, Json], now: float) -> Problem | None:
    until = claims.get("exp")
    if isinstance(until, int | float) and not isinstance(until, bool) and until > now:
        return None
    return _refuse("The assertion has expired or has no expiry time. Get a new one.")


def _read_claims(token: Secret) -> Mapping[str, Json] | Problem:
    """Return the claims of a signed token, unchecked."""
    text = token.reveal()
    data: Json | Problem = None
    if _JWT.fullmatch(text) is not None:
        part = text.split(".")[1]
        try:
            data = jsontext.read(urlsafe_b64decode(part + "=" * (-len(part) % 4)))
        except ValueError:
            data = None
    return data if isinstance(data, dict) else _refuse("The assertion is not a signed token (JWT).")


def _list(value: Json) -> list[Json]:
    return value if isinstance(value, list) else [value]


def _refuse(message: str) -> Problem:
    return Problem(kind=Kind.UNAUTHORIZED, message=message)
