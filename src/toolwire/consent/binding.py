"""Bind a decision to the request that was shown. It permits no other request."""
# XL-050, D-20

from __future__ import annotations

from hashlib import sha256
from typing import NamedTuple

from toolwire.core.http import Request
from toolwire.core.model import Call
from toolwire.core.url_origin import has_same_origin

from .tool_definition import compute_digest, to_plain_json


class CredentialRef(NamedTuple):
    """The credential that a connection adds to its requests.

    ``scheme`` is shown to the user. ``identity`` is a digest that differs for each credential, never the credential
    itself. ``scopes`` are the credential's scopes, as far as they are known.
    """

    scheme: str = "none"
    identity: str = ""
    scopes: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.scheme} ({', '.join(self.scopes)})" if self.scopes else self.scheme


NO_CREDENTIAL = CredentialRef()
DECISION_VALID_S = 300.0
"""How many seconds a decision is valid."""
REFUSAL_S = 60.0
"""For how many seconds the same call gets the same no, and nobody is asked."""
# QF-03


def compute_identity(secret: str) -> str:
    """Return a digest that differs for each credential and does not reveal it."""
    return sha256(b"toolwire credential\0" + secret.encode("utf-8", "surrogatepass")).hexdigest()


def compute_binding(
    call: Call,
    request: Request,
    *,
    connection: str,
    principal: str,
    definition: str,
    credential: CredentialRef,
) -> str:
    """Return the digest of ``call`` as it is sent in ``request``. A decision counts for this digest only."""
    return compute_digest(
        {
            "connection": connection,
            "principal": principal,
            "tool": call.tool.id,
            "definition": definition,
            "arguments": to_plain_json(call.arguments),
            "method": request.method,
            "url": request.url,
            "body": sha256(request.body).hexdigest(),
            "headers": [[name.hex(), value.hex()] for name, value in request.headers],
            "credential": [credential.scheme, credential.identity, list(credential.scopes)],
        }
    )


def is_covered(approved: Request, following: Request) -> bool:
    """Return whether the approval of ``approved`` covers ``following``, the next request of the same call.

    On the approved origin, it covers a repetition of the request, a GET, and a request that only opens a session at the
    same URL. Any other request needs a new approval.
    """
    if not has_same_origin(approved.url, following.url):
        return False
    # A flow polls for its result with GET.
    if following.method == "GET" and not following.body:
        return True
    if following.opens_session and following.url == approved.url:
        return True
    return (following.method, following.body) == (approved.method, approved.body)
