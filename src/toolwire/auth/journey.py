"""The client's way to tokens: ask a person, exchange the code, refresh, revoke; and the ways without a browser.

Rules:
- Nothing of an answer is used before its state and issuer were checked. [AC-06]
- A refresh token goes to the token endpoint it came from, which is kept with it. [AC-09]
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hmac import compare_digest
from urllib.parse import quote, urlencode

from toolwire.core.codec import Flow, fetch
from toolwire.core.http import Headers, Request
from toolwire.core.model import Json, Kind, Problem, Secret
from toolwire.framing import jsontext

from .credential import Credential, Tokens
from .parameters import Parameters, read_parameters
from .pkce import METHOD, challenge_of
from .scopes import write_scopes
from .seeking import Place, Server

_FORM: Headers = ((b"accept", b"application/json"), (b"content-type", b"application/x-www-form-urlencoded"))
_POST: Headers = ((b"accept", b"application/json"), (b"content-type", b"application/json"))
_WORD = re.compile(r"[a-z_]{1,40}")
_TOKEN = re.compile(r"[!-~]{1,16384}")
_DEVICE = "urn:ietf:params:oauth:grant-type:device_code"


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Who we are to one authorization server, and to no other; ``registered`` for this one sign-in. [AC-04]"""

    client_id: str
    secret: Secret | None = None
    method: str = "none"
    registered: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """A sign-in that has begun: ``url`` is for the person's browser, the rest is kept until the answer. [AC-06]"""

    url: str
    state: Secret
    verifier: Secret
    redirect_uri: str
    place: Place
    identity: Identity
    scopes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """What a person types at ``url`` on another device. ``interval_s`` is the pause between two looks."""

    code: Secret
    user_code: str
    url: str
    interval_s: float
    until: float


def identify(
    server: Server, redirect_uris: Sequence[str], *, configured: Identity | None = None, document_url: str = ""
) -> Flow[Identity | Problem]:
    """Return who we are there: as configured, else our metadata document, else newly registered. [AC-04, XL-113]"""
    if configured is not None:
        return configured
    if document_url and server.documents:
        return Identity(client_id=document_url)
    if server.registration_url:
        return (yield from _registered(server, redirect_uris))
    text = f"{server.issuer} does not know toolwire: register it there, and give the id you get with --client-id."
    return Problem(kind=Kind.UNAUTHORIZED, message=text)


def start(
    place: Place, identity: Identity, redirect_uri: str, scopes: Sequence[str], *, state: str, verifier: str
) -> Started | Problem:
    """Return the sign-in to open in a browser; ``state`` and ``verifier`` are 256 random bits each. [AC-05..08]"""
    if not place.server.authorization_url:
        return Problem(kind=Kind.UNAUTHORIZED, message=f"{place.server.issuer} has no page to sign in at.")
    parameters = {
        "response_type": "code",
        "client_id": identity.client_id,
        "redirect_uri": redirect_uri,
        "state": state,
        "code_challenge": challenge_of(verifier),
        "code_challenge_method": METHOD,
        **_asked(place, scopes),
    }
    page = place.server.authorization_url
    return Started(
        url=page + ("&" if "?" in page else "?") + urlencode(parameters),
        state=Secret(state),
        verifier=Secret(verifier),
        redirect_uri=redirect_uri,
        place=place,
        identity=identity,
        scopes=tuple(scopes),
    )


def finish(started: Started, query: str, now: float) -> Flow[Credential | Problem]:
    """Return the credential that the answer ``query`` leads to, or why it leads to none. [AC-06]"""
    answer = read_parameters(query)
    if not isinstance(answer, Parameters) or not _is_for(started, answer):
        return Problem(kind=Kind.UNAUTHORIZED, message="The answer does not belong to this sign-in; it was not used.")
    error = answer.get("error")
    if error or not answer.get("code"):
        why = error if _WORD.fullmatch(error) else "no code came"
        return Problem(kind=Kind.DENIED, message=f"Signing in did not work: {why}.", details={"error": why})
    form = {
        "grant_type": "authorization_code",
        "code": answer.get("code"),
        "redirect_uri": started.redirect_uri,
        "code_verifier": started.verifier.reveal(),
        **_resource(started.place),
    }
    tokens = yield from _exchange(started.place.server.token_url, started.identity, form, now)
    return (
        tokens if isinstance(tokens, Problem) else credential(started.place, started.identity, tokens, started.scopes)
    )


def credential(place: Place, identity: Identity, tokens: Tokens, scopes: Sequence[str]) -> Credential:
    """Return what is kept of a sign-in; a server that does not say its scopes granted those asked for."""
    return Credential(
        kind="oauth",
        resource=place.resource,
        access=tokens.access,
        issuer=place.server.issuer,
        client_id=identity.client_id,
        client_secret=identity.secret,
        method=identity.method,
        registered=identity.registered,
        token_url=place.server.token_url,
        revocation_url=place.server.revocation_url,
        refresh=tokens.refresh,
        until=tokens.until,
        scopes=tokens.scopes or tuple(scopes),
        indicated=place.indicated,
    )


def renew(old: Credential, now: float) -> Flow[Credential | Problem]:
    """Return ``old`` with new tokens. A Problem with ``invalid_grant`` in its details means: sign in again. [AC-09]"""
    if old.refresh is None:
        text = f"The sign-in for {old.resource} has ended: run toolwire login {old.resource}."
        return Problem(kind=Kind.UNAUTHORIZED, message=text, details={"error": "invalid_grant"})
    form = {"grant_type": "refresh_token", "refresh_token": old.refresh.reveal()}
    if old.indicated:
        form["resource"] = old.resource
    tokens = yield from _exchange(old.token_url, _identity(old), form, now)
    return tokens if isinstance(tokens, Problem) else old.with_tokens(tokens)


def revoke(old: Credential) -> Flow[bool]:
    """Return whether the server took back what it gave: the refresh token first, then the access token. [AC-12]"""
    if not old.revocation_url:
        return False
    done = True
    for secret, hint in ((old.refresh, "refresh_token"), (old.access, "access_token")):
        if secret is not None:
            form = {"token": secret.reveal(), "token_type_hint": hint}
            response = yield from fetch(_post(old.revocation_url, _identity(old), form))
            done = done and not isinstance(response, Problem) and response.status == 200
    return done


def by_secret(place: Place, identity: Identity, scopes: Sequence[str], now: float) -> Flow[Credential | Problem]:
    """Return a credential of our own, with no person behind it: the client credentials grant. [AC-13]"""
    form = {"grant_type": "client_credentials", **_asked(place, scopes)}
    tokens = yield from _exchange(place.server.token_url, identity, form, now)
    return tokens if isinstance(tokens, Problem) else credential(place, identity, tokens, scopes)


def start_device(place: Place, identity: Identity, scopes: Sequence[str], now: float) -> Flow[Device | Problem]:
    """Return what to show a person who signs in on another device (RFC 8628). [AC-13]"""
    if not place.server.device_url:
        text = f"{place.server.issuer} cannot be signed in to from another device: run this where a browser is."
        return Problem(kind=Kind.UNAUTHORIZED, message=text)
    response = yield from fetch(_post(place.server.device_url, identity, dict(_asked(place, scopes))))
    data = None if isinstance(response, Problem) or response.status != 200 else jsontext.read(response.body)
    match data:
        case {"device_code": str(code), "user_code": str(user_code), "verification_uri": str(url), **more}:
            interval, lasts = more.get("interval", 5), more.get("expires_in", 600)
            pause = float(interval) if isinstance(interval, int) and 1 <= interval <= 60 else 5.0
            until = now + (float(lasts) if isinstance(lasts, int) and 0 < lasts <= 3_600 else 600.0)
            return Device(code=Secret(code), user_code=user_code[:40], url=url[:500], interval_s=pause, until=until)
        case _:
            return _bad(f"{place.server.issuer} did not give a code for another device.")


def poll_device(
    place: Place, identity: Identity, device: Device, scopes: Sequence[str], now: float
) -> Flow[Credential | Problem]:
    """Return the credential once the person has signed in; ``authorization_pending`` in details means: look again."""
    form = {"grant_type": _DEVICE, "device_code": device.code.reveal()}
    tokens = yield from _exchange(place.server.token_url, identity, form, now)
    return tokens if isinstance(tokens, Problem) else credential(place, identity, tokens, scopes)


def _is_for(started: Started, answer: Parameters) -> bool:
    """Return whether an answer is that of this sign-in and of the server it was begun with. [AC-06]"""
    if answer.repeated or not compare_digest(answer.get("state").encode(), started.state.reveal().encode()):
        return False
    server, issuer = started.place.server, answer.get("iss")
    if issuer:
        return not server.proven or compare_digest(issuer.encode(), server.issuer.encode())
    return not server.names_issuer


def _registered(server: Server, redirect_uris: Sequence[str]) -> Flow[Identity | Problem]:
    body = {
        "client_name": "toolwire",
        "application_type": "native",
        "redirect_uris": list(redirect_uris),
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
    }
    response = yield from fetch(Request("POST", server.registration_url, _POST, jsontext.write(body)))
    if isinstance(response, Problem):
        return response
    data = jsontext.read(response.body) if response.status in (200, 201) else None
    if not isinstance(data, dict) or not isinstance(data.get("client_id"), str) or not data["client_id"]:
        return _bad(f"{server.issuer} did not register toolwire ({response.status}): give an id with --client-id.")
    secret, method = data.get("client_secret"), data.get("token_endpoint_auth_method", "none")
    if not isinstance(secret, str) or not secret or method == "none":
        return Identity(client_id=data["client_id"], registered=True)
    return Identity(client_id=data["client_id"], secret=Secret(secret), method=str(method), registered=True)


def _exchange(url: str, identity: Identity, form: Mapping[str, str], now: float) -> Flow[Tokens | Problem]:
    response = yield from fetch(_post(url, identity, form))
    if isinstance(response, Problem):
        return response
    data = jsontext.read(response.body)
    if response.status != 200 or not isinstance(data, dict):
        error = data.get("error") if isinstance(data, dict) else None
        word = error if isinstance(error, str) and _WORD.fullmatch(error) else f"status {response.status}"
        return Problem(
            kind=Kind.UNAUTHORIZED, message=f"The authorization server refused: {word}.", details={"error": word}
        )
    return read_tokens(data, now)


def read_tokens(data: Mapping[str, Json], now: float) -> Tokens | Problem:
    """Return the tokens of a token endpoint's answer; only Bearer tokens are taken."""
    access, refresh, lasts = data.get("access_token"), data.get("refresh_token"), data.get("expires_in")
    if not isinstance(access, str) or _TOKEN.fullmatch(access) is None:
        return _bad("The authorization server gave no access token that can be sent.")
    if str(data.get("token_type", "")).lower() != "bearer":
        return _bad("The authorization server gave a token of a type that is not known here.")
    until = now + lasts if isinstance(lasts, int | float) and not isinstance(lasts, bool) and lasts >= 0 else None
    scope = data.get("scope")
    return Tokens(
        access=Secret(access),
        refresh=Secret(refresh) if isinstance(refresh, str) and refresh else None,
        until=until,
        scopes=tuple(scope.split()) if isinstance(scope, str) else (),
    )


def _post(url: str, identity: Identity, form: Mapping[str, str]) -> Request:
    headers = _FORM
    if identity.secret is not None and identity.method == "client_secret_basic":
        pair = f"{quote(identity.client_id, safe='')}:{quote(identity.secret.reveal(), safe='')}"
        headers = (*_FORM, (b"authorization", b"Basic " + b64encode(pair.encode())))
    else:
        form = {**form, "client_id": identity.client_id}
        if identity.secret is not None:
            form["client_secret"] = identity.secret.reveal()
    return Request("POST", url, headers, urlencode(form).encode())


def _asked(place: Place, scopes: Sequence[str]) -> Mapping[str, str]:
    scope = {"scope": write_scopes(scopes)} if scopes else {}
    return {**scope, **_resource(place)}


def _resource(place: Place) -> Mapping[str, str]:
    return {"resource": place.resource} if place.indicated else {}


def _identity(old: Credential) -> Identity:
    return Identity(client_id=old.client_id, secret=old.client_secret, method=old.method)


def _bad(message: str) -> Problem:
    return Problem(kind=Kind.BAD_ANSWER, message=message)
