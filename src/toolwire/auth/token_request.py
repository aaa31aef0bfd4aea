"""Send a form to a token endpoint, and read the tokens or the error in its response."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from urllib.parse import quote, urlencode

from toolwire.core.codec import Flow, fetch
from toolwire.core.http import Headers, Request, Response
from toolwire.core.model import Json, Kind, Problem, Secret
from toolwire.framing import jsontext

from .client_identity import ClientIdentity
from .credential import TokenSet
from .dpop import BOUND, Prover
from .metadata_discovery import SignInTarget
from .scopes import merge_scopes, write_scopes

_FORM: Headers = ((b"accept", b"application/json"), (b"content-type", b"application/x-www-form-urlencoded"))
_ERROR_CODE = re.compile(r"[a-z_]{1,40}")
_TOKEN = re.compile(r"[!-~]{1,16384}")
_OFFLINE = "offline_access"
_MAX_S = 10 * 365 * 86_400.0  # a whole number of any length cannot be added to a time


def exchange_form(
    url: str, identity: ClientIdentity, form: Mapping[str, str], now: float, prover: Prover | None = None
) -> Flow[TokenSet | Problem]:
    """Return the tokens that ``form`` is exchanged for; the error's name is in the details of a Problem.

    With ``prover``, only tokens that are bound to its key are taken.
    """
    data = yield from send_form(url, identity, form, prover)
    return data if isinstance(data, Problem) else read_tokens(data, now, "bearer" if prover is None else BOUND)


def send_form(
    url: str, identity: ClientIdentity, form: Mapping[str, str], prover: Prover | None = None
) -> Flow[Mapping[str, Json] | Problem]:
    """Return what a token endpoint answers to ``form``; the error's name is in the details of a Problem."""
    request = build_form_request(url, identity, form)
    response = yield from (fetch(request) if prover is None else _fetch_with_proof(request, prover))
    if isinstance(response, Problem):
        return response
    data = jsontext.read(response.body)
    if response.status != 200 or not isinstance(data, dict):
        word = (read_error_code(data) if isinstance(data, dict) else "") or f"status {response.status}"
        return Problem(
            kind=Kind.UNAUTHORIZED,
            message=f"The authorization server refused the request: {word}.",
            details={"error": word},
        )
    return data


def read_error_code(data: Mapping[str, Json]) -> str:
    """Return the error that a server names, or an empty string."""
    error = data.get("error")
    return error if isinstance(error, str) and _ERROR_CODE.fullmatch(error) else ""


def _fetch_with_proof(request: Request, prover: Prover) -> Flow[Response | Problem]:
    """Return the response to ``request`` with a proof; sent again once if the server wants its nonce in it."""
    response: Response | Problem = yield from fetch(prover.add_proof(request))
    if isinstance(response, Response) and prover.store_nonce(request, response):
        response = yield from fetch(prover.add_proof(request))
        if isinstance(response, Response):
            prover.store_nonce(request, response)
    return response


def read_tokens(data: Mapping[str, Json], now: float, kind: str = "bearer") -> TokenSet | Problem:
    """Return the tokens of a token endpoint's answer; only those of the type ``kind`` (lower case) are taken."""
    access, refresh, lasts = data.get("access_token"), data.get("refresh_token"), data.get("expires_in")
    if not isinstance(access, str) or _TOKEN.fullmatch(access) is None:
        return _build_problem("The authorization server returned no usable access token.")
    sort = str(data.get("token_type", "")).lower()
    if kind == BOUND and sort == "bearer":
        # RFC 9449, 5: the site wants bound tokens, and this one would work for whoever steals it.
        return _build_problem("The authorization server returned a token that is not bound to this sign-in's key.")
    if sort != kind:
        return _build_problem("The authorization server returned a token of an unknown type.")
    until = None
    if isinstance(lasts, int | float) and not isinstance(lasts, bool) and lasts >= 0:
        until = now + min(lasts, _MAX_S)
    scope = data.get("scope")
    return TokenSet(
        access=Secret(access),
        refresh=Secret(refresh) if isinstance(refresh, str) and refresh else None,
        expires_at=until,
        scopes=tuple(scope.split()) if isinstance(scope, str) else (),
    )


def build_form_request(url: str, identity: ClientIdentity, form: Mapping[str, str]) -> Request:
    """Return the request that sends ``form`` as ``identity``."""
    headers = _FORM
    if identity.secret is not None and identity.method == "client_secret_basic":
        pair = f"{quote(identity.client_id, safe='')}:{quote(identity.secret.reveal(), safe='')}"
        headers = (*_FORM, (b"authorization", b"Basic " + b64encode(pair.encode())))
    else:
        form = {**form, **({"client_id": identity.client_id} if identity.client_id else {})}
        if identity.secret is not None:
            form["client_secret"] = identity.secret.reveal()
    return Request("POST", url, headers, urlencode(form).encode())


def scope_parameters(target: SignInTarget, scopes: Sequence[str]) -> Mapping[str, str]:
    """Return the parameters for scopes, and for the resource if the server supports it."""
    # AC-08
    scope = {"scope": write_scopes(scopes)} if scopes else {}
    return {**scope, **resource_parameters(target)}


def offline_parameters(target: SignInTarget, scopes: Sequence[str]) -> Mapping[str, str]:
    """Return the parameters for what a user allows: those for scopes, and for tokens that outlast the user's visit."""
    # QF-08, SEP-2207: unless asked so, an OpenID provider gives no refresh token, or ends it with the user's session.
    if not scopes or _OFFLINE not in target.server.scopes:
        return scope_parameters(target, scopes)
    return {**scope_parameters(target, merge_scopes(scopes, (_OFFLINE,))), "prompt": "consent"}


def resource_parameters(target: SignInTarget) -> Mapping[str, str]:
    """Return the parameter that names the resource of the tokens."""
    # AC-08
    return {"resource": target.resource} if target.sends_resource else {}


def _build_problem(message: str) -> Problem:
    return Problem(kind=Kind.BAD_ANSWER, message=message)
