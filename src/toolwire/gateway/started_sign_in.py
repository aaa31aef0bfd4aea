"""Keep a sign-in that a caller began, sealed, until the browser comes back from the authorization server."""
# GW-02

from __future__ import annotations

import json
from dataclasses import asdict, replace
from hashlib import sha256
from typing import Any, NamedTuple

from toolwire.auth.authorization_code import StartedSignIn
from toolwire.auth.client_identity import ClientIdentity
from toolwire.auth.metadata_discovery import AuthorizationServerMetadata, SignInTarget
from toolwire.core.model import Secret
from toolwire.stores.credentials.caller_vault import CallerVault

VALID_S = 600.0
"""How long a user has to sign in, in seconds."""


class PendingSignIn(NamedTuple):
    """A sign-in that began: who it is for, at which upstream, and the digest of the cookie of the browser."""

    principal: str
    upstream: str
    browser: str
    started: StartedSignIn


def store_sign_in(vault: CallerVault, sign_in: PendingSignIn, now: float) -> bool:
    """Keep ``sign_in`` under its state; return False if too many wait."""
    identity = sign_in.started.identity
    data = {
        "principal": sign_in.principal,
        "upstream": sign_in.upstream,
        "browser": sign_in.browser,
        "url": sign_in.started.url,
        "state": sign_in.started.state.reveal(),
        "verifier": sign_in.started.verifier.reveal(),
        "redirect_uri": sign_in.started.redirect_uri,
        "scopes": list(sign_in.started.scopes),
        "target": asdict(sign_in.started.target),
        "identity": asdict(replace(identity, secret=None)),
        "secret": None if identity.secret is None else identity.secret.reveal(),
        "proof_key": None if sign_in.started.proof_key is None else sign_in.started.proof_key.reveal(),
    }
    return vault.store_started(sign_in.started.state.reveal(), json.dumps(data), now + VALID_S, now)


def take_sign_in(vault: CallerVault, state: str, now: float) -> PendingSignIn | None:
    """Return the sign-in with this state, once, or None if there is none or its time is over."""
    text = vault.take_started(state, now)
    if text is None:
        return None
    data: dict[str, Any] = json.loads(text)
    target = data["target"]
    server = AuthorizationServerMetadata(**_with_tuples(target.pop("server")))
    identity = ClientIdentity(**data["identity"])
    if data["secret"] is not None:
        identity = replace(identity, secret=Secret(data["secret"]))
    started = StartedSignIn(
        url=data["url"],
        state=Secret(data["state"]),
        verifier=Secret(data["verifier"]),
        redirect_uri=data["redirect_uri"],
        target=SignInTarget(server=server, **_with_tuples(target)),
        identity=identity,
        scopes=tuple(data["scopes"]),
        proof_key=Secret(data["proof_key"]) if data.get("proof_key") else None,
    )
    return PendingSignIn(data["principal"], data["upstream"], data["browser"], started)


def digest_cookie(cookie: str) -> str:
    """Return what is kept of the cookie of a browser."""
    return sha256(b"sign-in " + cookie.encode()).hexdigest()


def _with_tuples(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()}
