"""What a decision is bound to: the digest of exactly what was shown and will be sent. [XL-050, D-20]"""

from __future__ import annotations

from hashlib import sha256
from typing import NamedTuple
from urllib.parse import urlsplit

from toolwire.core.http import Request
from toolwire.core.model import Call

from .tool_definition import digest, plain


class CredentialRef(NamedTuple):
    """How requests of a connection are signed: ``scheme`` is shown, ``identity`` tells one credential from another.

    ``identity`` is a digest and never the credential itself. ``scopes`` is what it carries, as far as that is known.
    """

    scheme: str = "none"
    identity: str = ""
    scopes: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.scheme} ({', '.join(self.scopes)})" if self.scopes else self.scheme


NO_CREDENTIAL = CredentialRef()
VALID_S = 300.0
"""How long a decision is good for, in seconds."""


def identity(secret: str) -> str:
    """Return what tells one credential from another without saying it."""
    return sha256(b"toolwire credential\0" + secret.encode("utf-8", "surrogatepass")).hexdigest()


def binding(
    call: Call, request: Request, *, connection: str, principal: str, definition: str, credential: CredentialRef
) -> str:
    """Return the digest that a decision about ``call``, sent as ``request``, is bound to."""
    return digest(
        {
            "connection": connection,
            "principal": principal,
            "tool": call.tool.id,
            "definition": definition,
            "arguments": plain(call.arguments),
            "method": request.method,
            "url": request.url,
            "body": sha256(request.body).hexdigest(),
            "headers": [[name.hex(), value.hex()] for name, value in request.headers],
            "credential": [credential.scheme, credential.identity, list(credential.scopes)],
        }
    )


def goes_on(approved: Request, following: Request) -> bool:
    """Return whether ``following`` belongs to what was approved: the same said again, or an answer fetched.

    Both only on the approved origin. A request that only opens a session at the same URL belongs to it too. Anything
    else is a new request that somebody must see first.
    """
    if _origin(approved.url) != _origin(following.url):
        return False
    if following.method == "GET" and not following.body:
        return True
    if following.opens_session and following.url == approved.url:
        return True
    return (following.method, following.body) == (approved.method, approved.body)


def _origin(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return parts.scheme, parts.netloc
