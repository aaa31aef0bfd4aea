"""Sign and read access tokens as JWTs (RFC 9068), and read the assertions of clients (RFC 7523).

Rules:
- We choose the algorithms. What a token says about its algorithm, keys or key URL is not followed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, KeySet

from toolwire.core.model import Json

from .grants import is_current
from .request_parameters import OAuthError, invalid_client
from .resource_indicators import canonical_uri
from .server_metadata import ALGORITHMS

_LEEWAY_S = 30
_MAX_LIFETIME_S = 600
_MAX_CHARACTERS = 8_192


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientAssertion:
    """An assertion of a client: its unique id, and until when that id must not come again."""

    id: str
    expires_at: float


class SigningKey:
    """An ES256 key that signs access tokens. Store it, because tokens are valid only with the key that signed them."""

    def __init__(self, pem: str | None = None) -> None:
        key = ECKey.generate_key("P-256") if pem is None else ECKey.import_key(pem)
        key.ensure_kid()
        self._keys = KeySet([key])
        self._key = key

    @property
    def pem(self) -> str:
        """The private key as PEM text. Keep it secret."""
        return self._key.as_pem(private=True).decode()

    def public_jwks(self) -> dict[str, Json]:
        """Return the JWK Set for those who verify tokens."""
        return {"keys": [{**self._key.as_dict(private=False), "use": "sig", "alg": "ES256"}]}

    def sign_claims(self, claims: Mapping[str, Json]) -> str:
        """Return an access token with ``claims``."""
        # AS-10
        header = {"typ": "at+jwt", "alg": "ES256", "kid": self._key.kid}
        return jwt.encode(header, dict(claims), self._key, algorithms=["ES256"])

    def read_claims(self, text: str, *, issuer: str, resource: str, now: float) -> Mapping[str, Json] | None:
        """Return the claims of an access token that this key signed for ``resource``, or None."""
        # AS-08, AS-10
        token = _decode(text, self._keys, ("ES256",))
        if token is None or token.header.get("typ") != "at+jwt":
            return None
        claims: Mapping[str, Json] = token.claims
        since, until = _read_number(claims.get("iat")), _read_number(claims.get("exp"))
        if claims.get("iss") != issuer or since is None or until is None or not is_current(since, until, now):
            return None
        audience = claims.get("aud")
        return claims if isinstance(audience, str) and canonical_uri(audience) == canonical_uri(resource) else None


def is_jwt(text: str) -> bool:
    """Return whether ``text`` looks like a signed token rather than an opaque one."""
    return text.count(".") == 2


def read_assertion(
    text: str, keys: Mapping[str, Json], client_id: str, audiences: Collection[str], now: float
) -> ClientAssertion | OAuthError:
    """Return the proof ``text`` of the client with ``keys``: by itself, for us, not old, and not for long."""
    # AS-09
    try:
        key_set = KeySet.import_key_set({"keys": list(keys.get("keys", ()))})
    except (JoseError, ValueError, TypeError, KeyError, AttributeError):
        return invalid_client("Cannot read the app's keys.")
    token = _decode(text, key_set, ALGORITHMS)
    if token is None:
        return invalid_client("client_assertion is not signed by a key of this app.")
    wrong = _find_fault(token.claims, client_id, audiences, now)
    if wrong:
        return invalid_client(f"client_assertion {wrong}.")
    return ClientAssertion(id=f"{client_id} {token.claims['jti']}", expires_at=token.claims["exp"] + _LEEWAY_S)


def _find_fault(claims: Mapping[str, Json], client_id: str, audiences: Collection[str], now: float) -> str:
    """Return what is wrong with the claims of a client's proof, empty where nothing is."""
    audience, until, start = claims.get("aud"), _read_number(claims.get("exp")), _read_number(claims.get("nbf", 0))
    named = audience if isinstance(audience, list) else [audience]
    if claims.get("iss") != client_id or claims.get("sub") != client_id:
        return "is not by and about this app"
    if not any(isinstance(each, str) and each in audiences for each in named):
        return "is for another server"
    if until is None or not now - _LEEWAY_S < until < now + _MAX_LIFETIME_S:
        return "has expired, or is good for too long"
    if start is None or start > now + _LEEWAY_S:
        return "is not good yet"
    return "" if isinstance(claims.get("jti"), str) and claims["jti"] else "has no jti"


def _decode(text: str, keys: KeySet, algorithms: Collection[str]) -> jwt.Token | None:
    if len(text) > _MAX_CHARACTERS:
        return None
    try:
        return jwt.decode(text, keys, algorithms=list(algorithms))
    except (JoseError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def _read_number(value: Json) -> float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None
