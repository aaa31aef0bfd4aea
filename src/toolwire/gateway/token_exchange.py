"""Exchange the token of a caller for one that an upstream takes (RFC 8693). The upstream never sees the first one."""
# GW-02

from __future__ import annotations

from dataclasses import dataclass
from time import time

from toolwire.auth.client_identity import ClientIdentity
from toolwire.auth.credential import Credential
from toolwire.auth.token_request import exchange_form
from toolwire.client.transport.drivers import Transport, arun
from toolwire.core.model import Kind, Problem, Secret
from toolwire.core.url_origin import get_origin

_GRANT = "urn:ietf:params:oauth:grant-type:token-exchange"
_ACCESS_TOKEN = "urn:ietf:params:oauth:token-type:access_token"  # noqa: S105 - the name of a type


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenExchange:
    """Where and how tokens are exchanged for an upstream. ``audience``, ``resource`` and ``scopes`` may be empty."""

    token_url: str
    identity: ClientIdentity
    audience: str = ""
    resource: str = ""
    scopes: tuple[str, ...] = ()

    async def exchange(self, token: Secret, url: str, transport: Transport) -> Credential | Problem:
        """Return a credential for the site of ``url``, or why the server gave none."""
        form = {
            "grant_type": _GRANT,
            "subject_token": token.reveal(),
            "subject_token_type": _ACCESS_TOKEN,
            "requested_token_type": _ACCESS_TOKEN,
        }
        more = {"audience": self.audience, "resource": self.resource, "scope": " ".join(self.scopes)}
        form |= {name: value for name, value in more.items() if value}
        tokens = await arun(exchange_form(self.token_url, self.identity, form, time()), transport)
        if isinstance(tokens, Problem):
            if tokens.kind is not Kind.UNAUTHORIZED:
                return tokens
            text = f"Your token could not be exchanged for one of {get_origin(url)}. {tokens.message}"
            return Problem(kind=Kind.FORBIDDEN, message=text, details={**tokens.details, "sent": False})
        return Credential(
            kind="oauth",
            resource=get_origin(url),
            access=tokens.access,
            issuer=get_origin(self.token_url),
            client_id=self.identity.client_id,
            expires_at=tokens.expires_at,
            scopes=tokens.scopes or self.scopes,
        )
