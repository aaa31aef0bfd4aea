"""Bind tokens to a key, and prove with each request that we hold it (RFC 9449, DPoP).

Rules:
- A proof is for one method, one URL, one token and one moment. It has an id of its own, so it is used once.
- Without joserfc there are no proofs: ``can_prove`` says so, and nothing else of signing in needs it.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64encode
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from importlib.util import find_spec
from typing import TYPE_CHECKING

from toolwire.core.http import Request, Response, get_header
from toolwire.core.model import Json, Secret
from toolwire.core.url_origin import get_origin
from toolwire.framing import jsontext

from .challenge import Challenge, find_bearer, read_challenges

if TYPE_CHECKING:  # only the extra brings it
    from joserfc.jwk import ECKey

ALGORITHM = "ES256"
SCHEME = "DPoP "
BOUND = "dpop"
"""The type of a bound token, and the scheme of its challenge, in lower case."""
NEEDED = "This site binds tokens to a key (DPoP), which needs joserfc: pip install 'toolwire[jwt]'"

# RFC 9449, 8.1: visible characters without the quote and the backslash.
_NONCE = re.compile(r"[!#-\[\]-~]{1,512}")
_MAX_ORIGINS = 16


def can_prove() -> bool:
    """Return whether joserfc is here, which signs the proofs."""
    return find_spec("joserfc") is not None


def create_proof_key() -> Secret:
    """Return a new private key as PEM text."""
    from joserfc.jwk import ECKey

    return Secret(ECKey.generate_key("P-256").as_pem(private=True).decode())


@dataclass(slots=True, kw_only=True)
class Prover:
    """Adds proofs with one private ``key``, and remembers the last nonce of each server, of the last 16 at most.

    ``now`` returns seconds since 1970, and ``create_id`` a random text of at least 96 bits.
    """

    key: Secret
    now: Callable[[], float]
    create_id: Callable[[], str]
    _nonces: dict[str, str] = field(default_factory=dict)
    _loaded: ECKey | None = None

    def add_proof(self, request: Request, access: Secret | None = None) -> Request:
        """Return ``request`` with a new proof in place of any other. ``access`` is the token that it carries."""
        proof = self._sign(request.method, request.url, access, self._nonces.get(get_origin(request.url), ""))
        others = [header for header in request.headers if header[0].lower() != b"dpop"]
        return request._replace(headers=(*others, (b"dpop", proof.encode())))

    def store_nonce(self, request: Request, response: Response) -> bool:
        """Keep the nonce of ``response``, and return whether its server wants ``request`` again with it."""
        nonce = get_header(response.headers, b"dpop-nonce")
        if not nonce or _NONCE.fullmatch(nonce) is None:
            return False
        origin = get_origin(request.url)
        if origin not in self._nonces and len(self._nonces) >= _MAX_ORIGINS:
            self._nonces.clear()
        self._nonces[origin] = nonce
        return wants_nonce(response)

    def _sign(self, method: str, url: str, access: Secret | None, nonce: str) -> str:
        from joserfc import jwt
        from joserfc.jwk import ECKey

        if self._loaded is None:
            self._loaded = ECKey.import_key(self.key.reveal())
        # RFC 9449, 4.2: the URL has no query and no fragment.
        target = url.partition("#")[0].partition("?")[0]
        claims: dict[str, Json] = {"jti": self.create_id(), "htm": method, "htu": target, "iat": int(self.now())}
        if access is not None:
            claims["ath"] = urlsafe_b64encode(sha256(access.reveal().encode()).digest()).decode().rstrip("=")
        if nonce:
            claims["nonce"] = nonce
        header = {"typ": "dpop+jwt", "alg": ALGORITHM, "jwk": self._loaded.as_dict(private=False)}
        return jwt.encode(header, claims, self._loaded, algorithms=[ALGORITHM])


def wants_nonce(response: Response) -> bool:
    """Return whether ``response`` refuses a request only for its nonce: of a token endpoint, or of a resource."""
    if response.status == 400:
        data = jsontext.read(response.body)
        return isinstance(data, dict) and data.get("error") == "use_dpop_nonce"
    challenge = _find_dpop(_list_challenges(response)) if response.status == 401 else None
    return challenge is not None and challenge.parameters.get("error") == "use_dpop_nonce"


def find_token_challenge(response: Response) -> Challenge | None:
    """Return the challenge of ``response`` that a sign-in can meet: for a bound token, else for a bearer token."""
    values = _list_challenges(response)
    bound, bearer = _find_dpop(values), find_bearer(values)
    # A site that takes both is used without joserfc too.
    return (bound or bearer) if can_prove() else (bearer or bound)


def _find_dpop(values: list[str]) -> Challenge | None:
    return next((each for each in read_challenges(values) if each.scheme == BOUND), None)


def _list_challenges(response: Response) -> list[str]:
    return [value.decode("latin-1") for name, value in response.headers if name == b"www-authenticate"]
