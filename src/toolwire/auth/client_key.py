"""Sign the assertions with which a client proves its identity (RFC 7523, section 2.2)."""

from __future__ import annotations

from typing import Any, TypeAlias, cast

from toolwire.core.errors import DefinitionError
from toolwire.core.model import Secret
from toolwire.framing import jsontext

try:
    from joserfc import jwt
    from joserfc.errors import JoseError
    from joserfc.jwk import ECKey, RSAKey
except ModuleNotFoundError as _error:
    raise ModuleNotFoundError(
        "Signed assertions need joserfc: pip install 'toolwire[jwt]'", name=_error.name
    ) from _error

LIFETIME_S = 60
"""How long an assertion is valid, in seconds. This is enough for one request."""
_MAX_CHARACTERS = 32_768
_MIN_RSA_CHARS = 342  # of base64: 2,048 bits
_Private: TypeAlias = ECKey | RSAKey
_UNREADABLE = (JoseError, ValueError, TypeError, KeyError, AttributeError)


class ClientKey:
    """A client's private key. P-256 signs with ES256, and RSA with RS256. ``text`` is PEM or a JWK.

    Raises:
        DefinitionError: ``text`` is not a private key of these kinds, or is an RSA key with fewer than 2,048 bits.
    """

    def __init__(self, text: str) -> None:
        self._key, self._algorithm = _read_key(text)

    def __repr__(self) -> str:
        return f"ClientKey({self._algorithm})"

    def sign(self, client_id: str, audience: str, now: float, unique_id: str) -> Secret:
        """Return a proof for ``audience`` only, valid for a minute from ``now``. ``unique_id`` must be unique."""
        issued = int(now)
        claims = {
            "iss": client_id,
            "sub": client_id,
            "aud": audience,
            "iat": issued,
            "exp": issued + LIFETIME_S,
            "jti": unique_id,
        }
        # A server finds a key by its kid. An unregistered kid would hide the key.
        kid = self._key.kid
        header = {"typ": "JWT", "alg": self._algorithm, **({"kid": kid} if kid else {})}
        return Secret(jwt.encode(header, claims, self._key, algorithms=[self._algorithm]))


def _read_key(text: str) -> tuple[_Private, str]:
    problem = "The client key must be a private key in PEM or JWK format: P-256, or RSA with at least 2,048 bits."
    key = _import_key(text.strip()) if len(text) <= _MAX_CHARACTERS else None
    if key is None or not key.is_private:
        raise DefinitionError(problem)
    members = key.as_dict(private=False)
    if isinstance(key, ECKey) and members["crv"] == "P-256":
        return key, "ES256"
    if isinstance(key, RSAKey) and len(str(members["n"])) >= _MIN_RSA_CHARS:
        return key, "RS256"
    raise DefinitionError(problem)


def _import_key(text: str) -> _Private | None:
    """Return the key in ``text``. The library's errors are dropped, because they can contain a part of the key."""
    data = jsontext.read(text.encode()) if text.startswith("{") else text
    if not isinstance(data, dict | str):
        return None
    for kind in (ECKey, RSAKey):
        try:
            return kind.import_key(cast("Any", data))
        except _UNREADABLE:
            continue
    return None
