"""Get, refresh and revoke tokens as a client, with the authorization code grant.

Rules:
- No part of a response is used before its state and issuer are checked.
- A refresh token is sent only to the token endpoint that issued it, or the refresh endpoint declared with it on the
  same origin. Both are stored with it.
"""
# AC-06, AC-09

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from hmac import compare_digest
from urllib.parse import parse_qsl, urlencode

from toolwire.core.codec import Flow, fetch
from toolwire.core.http import Response
from toolwire.core.model import Kind, Problem, Secret
from toolwire.framing import jsontext

from .client_identity import ClientIdentity
from .credential import Credential, TokenSet
from .dpop import SCHEME, Prover
from .metadata_discovery import SignInTarget
from .pkce import METHOD, compute_challenge
from .request_parameters import RequestParameters, read_parameters
from .token_request import (
    build_form_request,
    exchange_form,
    offline_parameters,
    read_error_code,
    resource_parameters,
)

_ERROR_CODE = re.compile(r"[a-z_]{1,40}")
_REQUEST_URI = re.compile(r"[!-~]{1,2000}")


@dataclass(frozen=True, slots=True, kw_only=True)
class StartedSignIn:
    """A sign-in without its response: ``url`` is for the browser of the user, the rest is needed for the response."""

    # AC-06

    url: str
    state: Secret
    verifier: Secret
    redirect_uri: str
    target: SignInTarget
    identity: ClientIdentity
    scopes: tuple[str, ...]
    proof_key: Secret | None = None


def start_sign_in(
    target: SignInTarget,
    identity: ClientIdentity,
    redirect_uri: str,
    scopes: Sequence[str],
    *,
    state: str,
    verifier: str,
    proof_key: Secret | None = None,
) -> StartedSignIn | Problem:
    """Return the sign-in to open in a browser; ``state`` and ``verifier`` are 256 random bits each.

    ``proof_key`` is the private key that the tokens will be bound to, if they are.
    """
    # AC-05..08
    if not target.server.authorization_url:
        return Problem(kind=Kind.UNAUTHORIZED, message=f"{target.server.issuer} does not offer a sign-in page.")
    parameters = {
        "response_type": "code",
        "client_id": identity.client_id,
        "redirect_uri": redirect_uri,
        "state": state,
        "code_challenge": compute_challenge(verifier),
        "code_challenge_method": METHOD,
        **offline_parameters(target, scopes),
    }
    page = target.server.authorization_url
    return StartedSignIn(
        url=page + ("&" if "?" in page else "?") + urlencode(parameters),
        state=Secret(state),
        verifier=Secret(verifier),
        redirect_uri=redirect_uri,
        target=target,
        identity=identity,
        scopes=tuple(scopes),
        proof_key=proof_key,
    )


def push_sign_in(started: StartedSignIn) -> Flow[StartedSignIn | Problem]:
    """Return ``started`` with its request pushed if the server requires that, or else unchanged.

    The browser's URL then contains only a reference to the request.
    """
    # AC-06, RFC 9126
    server = started.target.server
    if not server.pushed_url:
        return started
    # after a page that has its own query, which is not part of the request
    own = started.url[len(server.authorization_url) + 1 :]
    response = yield from fetch(build_form_request(server.pushed_url, started.identity, dict(parse_qsl(own))))
    if isinstance(response, Problem):
        return response
    data = jsontext.read(response.body)
    data = data if isinstance(data, dict) else {}
    name = data.get("request_uri")
    if response.status not in (200, 201) or not isinstance(name, str) or _REQUEST_URI.fullmatch(name) is None:
        why = read_error_code(data) or f"status {response.status}"
        text = f"{server.issuer} rejected the sign-in request: {why}."
        return Problem(kind=Kind.BAD_ANSWER, message=text, details={"error": why})
    pushed = urlencode({"client_id": started.identity.client_id, "request_uri": name})
    return replace(started, url=f"{server.authorization_url}{'&' if '?' in server.authorization_url else '?'}{pushed}")


def finish_sign_in(
    started: StartedSignIn, query: str, now: float, prover: Prover | None = None
) -> Flow[Credential | Problem]:
    """Return the credential for the response ``query``, or a Problem. ``prover`` has the key of ``started``."""
    # AC-06
    answer = read_parameters(query)
    if not isinstance(answer, RequestParameters) or not _belongs_to(started, answer):
        return Problem(kind=Kind.UNAUTHORIZED, message="The response belongs to another sign-in, so it was not used.")
    error = answer.get("error")
    if error or not answer.get("code"):
        why = error if _ERROR_CODE.fullmatch(error) else "no code came"
        return Problem(kind=Kind.DENIED, message=f"The sign-in failed: {why}.", details={"error": why})
    form = {
        "grant_type": "authorization_code",
        "code": answer.get("code"),
        "redirect_uri": started.redirect_uri,
        "code_verifier": started.verifier.reveal(),
        **resource_parameters(started.target),
    }
    tokens = yield from exchange_form(started.target.server.token_url, started.identity, form, now, prover)
    return (
        tokens
        if isinstance(tokens, Problem)
        else build_credential(started.target, started.identity, tokens, started.scopes, prover)
    )


def build_credential(
    target: SignInTarget,
    identity: ClientIdentity,
    tokens: TokenSet,
    scopes: Sequence[str],
    prover: Prover | None = None,
) -> Credential:
    """Return the credential to store. If the server names no scopes, it granted those that were requested."""
    return Credential(
        kind="oauth",
        resource=target.resource,
        access=tokens.access,
        prefix="Bearer " if prover is None else SCHEME,
        proof_key=None if prover is None else prover.key,
        issuer=target.server.issuer,
        client_id=identity.client_id,
        client_secret=identity.secret,
        method=identity.method,
        registered=identity.is_registered,
        token_url=target.server.token_url,
        refresh_url=target.server.refresh_url,
        revocation_url=target.server.revocation_url,
        refresh=tokens.refresh,
        expires_at=tokens.expires_at,
        scopes=tokens.scopes or tuple(scopes),
        sends_resource=target.sends_resource,
        base=target.base,
    )


def renew_credential(old: Credential, now: float, prover: Prover | None = None) -> Flow[Credential | Problem]:
    """Return ``old`` with new tokens. A Problem with ``invalid_grant`` in its details means: sign in again.

    ``prover`` has the key of ``old``, if its tokens are bound to one.
    """
    # AC-09
    if old.refresh is None:
        text = f"The sign-in for {old.resource} has expired. Run toolwire login {old.resource}."
        return Problem(kind=Kind.UNAUTHORIZED, message=text, details={"error": "invalid_grant"})
    form = {"grant_type": "refresh_token", "refresh_token": old.refresh.reveal()}
    if old.sends_resource:
        form["resource"] = old.resource
    tokens = yield from exchange_form(old.refresh_url or old.token_url, _client_identity(old), form, now, prover)
    return tokens if isinstance(tokens, Problem) else old.with_tokens(tokens)


def revoke_credential(old: Credential) -> Flow[bool]:
    """Return whether the server revoked the tokens: the refresh token first, then the access token.

    If a server does not revoke access tokens, because they contain their own expiry, only the refresh token is revoked.
    """
    # AC-12
    if not old.revocation_url:
        return False
    done = True
    for secret, hint in ((old.refresh, "refresh_token"), (old.access, "access_token")):
        if secret is not None:
            form = {"token": secret.reveal(), "token_type_hint": hint}
            response = yield from fetch(build_form_request(old.revocation_url, _client_identity(old), form))
            is_ended = not isinstance(response, Problem) and (
                response.status == 200
                # RFC 7009, section 2.2.1
                or (secret is not old.refresh and old.refresh is not None and _revokes_no_such_token(response))
            )
            done = done and is_ended
    return done


def _revokes_no_such_token(response: Response) -> bool:
    data = jsontext.read(response.body)
    return response.status == 400 and isinstance(data, dict) and data.get("error") == "unsupported_token_type"


def _belongs_to(started: StartedSignIn, answer: RequestParameters) -> bool:
    """Return whether a response belongs to this sign-in and comes from its server."""
    # AC-06
    if answer.repeated or not compare_digest(answer.get("state").encode(), started.state.reveal().encode()):
        return False
    server, issuer = started.target.server, answer.get("iss")
    if issuer:
        return not server.is_proven or compare_digest(issuer.encode(), server.issuer.encode())
    return not server.sends_issuer


def _client_identity(old: Credential) -> ClientIdentity:
    return ClientIdentity(client_id=old.client_id, secret=old.client_secret, method=old.method)
