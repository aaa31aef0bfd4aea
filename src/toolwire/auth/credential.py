"""Describe the credential of a user for a site (tokens or a key), and its stored form."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields, replace
from hashlib import sha256
from typing import Any, Literal

from toolwire.core.model import Secret

from .dpop import SCHEME
from .resource_indicators import is_covered_by

_SECRETS = ("access", "refresh", "client_secret", "proof_key")


_ACCOUNT = "account "


def name_account(account: str) -> str:
    """Return the principal of the credentials of ``account``; ``""`` is the one without a name."""
    # QF-08: a program of 1.0.0rc1 that shares the store takes these for nobody's it knows.
    return f"{_ACCOUNT}{account}" if account else ""


def name_as(account: str) -> str:
    """Return ``account`` as the rest of "signed in ...", empty for the one without a name."""
    return f" as {account}" if account else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenSet:
    """A token endpoint's tokens. ``expires_at`` is None if the response contains no lifetime."""

    access: Secret
    refresh: Secret | None = None
    expires_at: float | None = None
    scopes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Credential:
    """A credential for ``resource``, as a URL: its requests and those below it carry ``access``.

    So do those below ``base``, the URL of all protocols of that server, if it has one; no others do.
    ``principal`` says whose it is, where that is not the user: see ``name_account``.
    ``header`` and ``prefix`` say how. With ``kind`` ``oauth`` it can be refreshed and revoked where it came from.
    ``proof_key`` is the private key, as PEM text, that the tokens are bound to (RFC 9449), if they are.
    """

    # AC-11

    kind: Literal["oauth", "key"]
    resource: str
    access: Secret
    principal: str = ""
    header: str = "authorization"
    prefix: str = "Bearer "
    issuer: str = ""
    client_id: str = ""
    client_secret: Secret | None = None
    method: str = "none"
    registered: bool = False
    token_url: str = ""
    refresh_url: str = ""
    revocation_url: str = ""
    refresh: Secret | None = None
    expires_at: float | None = None
    scopes: tuple[str, ...] = ()
    sends_resource: bool = True
    proof_key: Secret | None = None
    base: str = ""

    def is_for(self, url: str) -> bool:
        """Return whether a request to ``url`` may contain the credential."""
        return is_covered_by(self.resource, url) or (bool(self.base) and is_covered_by(self.base, url))

    @property
    def account(self) -> str:
        """The user's name for the account, or ``""`` for the unnamed account."""
        return self.principal.removeprefix(_ACCOUNT) if self.principal.startswith(_ACCOUNT) else ""

    @property
    def storage_name(self) -> str:
        """The name in the store. It is the same for every sign-in of one user with one client."""
        # AC-10
        parts = (self.kind, self.issuer, self.client_id, self.resource, self.principal)
        return sha256(json.dumps(parts).encode()).hexdigest()

    def with_tokens(self, tokens: TokenSet) -> Credential:
        """Return the credential with newer tokens. Values that they do not contain stay the same."""
        return replace(
            self,
            access=tokens.access,
            refresh=tokens.refresh or self.refresh,
            expires_at=tokens.expires_at,
            scopes=tokens.scopes or self.scopes,
        )


def write_credential(credential: Credential) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the public fields of a credential, and its secrets."""
    plain: dict[str, Any] = {}
    secrets: dict[str, str] = {}
    for each in fields(credential):
        value = getattr(credential, each.name)
        if isinstance(value, Secret):
            secrets[each.name] = value.reveal()
        elif each.name not in _SECRETS:
            plain[each.name] = list(value) if isinstance(value, tuple) else value
    return plain, secrets


def read_credential(plain: dict[str, Any], secrets: dict[str, Any]) -> Credential | None:
    """Return the credential that ``write_credential`` wrote, or None if it is damaged."""
    known = {each.name for each in fields(Credential)}
    try:
        values: dict[str, Any] = {name: value for name, value in plain.items() if name in known}
        values |= {name: Secret(str(value)) for name, value in secrets.items() if name in _SECRETS}
        values["scopes"] = tuple(map(str, values.get("scopes", ())))
        found = Credential(**values)
        float(found.expires_at or 0)
        # A bound token without its key, or as a plain bearer token, is never sent.
        if found.kind == "oauth" and (found.proof_key is None) == (found.prefix == SCHEME):
            return None
        return found if isinstance(values["resource"], str) and isinstance(values.get("base", ""), str) else None
    except (TypeError, ValueError, OverflowError):
        return None
