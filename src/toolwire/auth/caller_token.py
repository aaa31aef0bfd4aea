"""Check callers' signed tokens (JWT).

Rules:
- The keys decide which algorithms are accepted, not the token. A shared secret accepts only HS256, public keys never
  HS256.
- ``none``, encrypted tokens, ``crit`` and keys that are too short are refused.
- A token that is bound to its client's key (DPoP) is refused, because it must not work without the proof.
- A token never appears in a Problem.
"""
# D-26

from __future__ import annotations

import math
from base64 import b64decode
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, NamedTuple, TypeAlias, TypeGuard

from toolwire.core.errors import DefinitionError
from toolwire.core.model import Json, Kind, Problem
from toolwire.framing import jsontext

try:
    from joserfc.errors import JoseError
    from joserfc.jwa import JWS_ALGORITHMS
    from joserfc.jwk import ECKey, OctKey, OKPKey, RSAKey, import_key
    from joserfc.jws import JWSRegistry, extract_compact
except ModuleNotFoundError as _error:
    raise ModuleNotFoundError("Signed tokens need joserfc: pip install 'toolwire[jwt]'", name=_error.name) from _error

Key: TypeAlias = OctKey | RSAKey | ECKey | OKPKey

MAX_TOKEN = 8_192
MAX_KEYS = 64
MIN_SECRET = 32
"""The minimum length of an HS256 secret in bytes, from RFC 7518."""
_MIN_RSA_CHARS = 342  # of base64: 2,048 bits
_MAX_NAME = 200
_MAX_SCOPES = 200

_PUBLIC = {"RSA": ("RS256",), "EC": ("ES256",), "OKP": ("EdDSA", "Ed25519")}
_CURVES = ("P-256", "Ed25519")
_PRIVATE = frozenset({"d", "p", "q", "dp", "dq", "qi", "oth"})
_PUBLIC_ALGORITHMS = tuple(name for names in _PUBLIC.values() for name in names)
_ALGORITHMS: dict[str, Any] = {algorithm.name: algorithm for algorithm in JWS_ALGORITHMS}
_ALGORITHMS["EdDSA"] = _ALGORITHMS["Ed25519"]  # the older name of the same algorithm
_HEADERS = JWSRegistry(strict_check_header=False)  # unknown members are ignored, as RFC 7515 says
_HEADERS.max_header_length = 4_096
_UNREADABLE = (JoseError, ValueError, TypeError, KeyError, AttributeError, RecursionError)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedClaims:
    """The claims that a token for this server must contain.

    An empty ``issuer`` accepts any issuer. ``audience`` is this server's name. ``leeway_s`` is how far clocks can
    differ.
    """

    issuer: str = ""
    audience: str = ""
    leeway_s: float = 30.0


@dataclass(frozen=True, slots=True)
class Keyring:
    """The keys that can sign tokens. ``is_shared`` is true for a secret that the caller also has."""

    keys: tuple[Key, ...] = field(repr=False)
    is_shared: bool = False


class CallerToken(NamedTuple):
    """A valid token: its caller's name, its scopes, its expiry in seconds since 1970, and its OAuth client if any.

    ``claims`` contains all of its claims.
    """

    name: str
    scopes: frozenset[str]
    expires: float
    client_id: str = ""
    claims: Mapping[str, Json] = {}


class UnknownKey(NamedTuple):
    """The token names a key that is not in the keyring. A newer keyring might contain it."""

    problem: Problem


def read_secret(secret: bytes) -> Keyring:
    """Return the keyring of the secret that signs HS256.

    Raises:
        DefinitionError: it is shorter than 32 bytes.
    """
    if len(secret) < MIN_SECRET:
        raise DefinitionError(f"A secret for signed tokens must have at least {MIN_SECRET} bytes, not {len(secret)}.")
    return Keyring((OctKey.import_key(secret),), is_shared=True)


def read_jwks(data: bytes) -> Keyring | Problem:
    """Return a JWK Set's public keys that can verify signatures. Other keys are left out."""
    document = jsontext.read(data)
    entries = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(entries, list) or len(entries) > MAX_KEYS:
        text = f'This is not a JWK Set: it needs a "keys" list of at most {MAX_KEYS}.'
        return Problem(kind=Kind.BAD_ANSWER, message=text)
    keys = tuple(key for entry in entries if (key := _read_public_key(entry)) is not None)
    if not keys:
        return Problem(kind=Kind.BAD_ANSWER, message="No key in this set can verify RS256, ES256 or EdDSA signatures.")
    return Keyring(keys)


def is_token(text: bytes) -> bool:
    """Return whether ``text`` looks like a signed token at all."""
    return len(text) <= MAX_TOKEN and text.count(b".") == 2


def read_token(
    text: bytes, keyring: Keyring, expected: ExpectedClaims, now: float
) -> CallerToken | Problem | UnknownKey:
    """Return the token in ``text``, or a Problem, or UnknownKey. ``now`` is in seconds since 1970."""
    try:
        signed = extract_compact(text, registry=_HEADERS)
        header = signed.headers()
        if "crit" in header or "b64" in header:
            return _refuse("it requires an extension that this server does not support")
        _HEADERS.check_header(header)
    except _UNREADABLE:
        return _refuse("it cannot be read")
    key = _find_key(header, keyring)
    if isinstance(key, Problem | UnknownKey):
        return key
    if not _is_signed_by(text, key, header["alg"]):
        return _refuse("its signature does not match its key")
    claims = jsontext.read(signed.payload)
    if not isinstance(claims, dict):
        return _refuse("its claims are not an object")
    refusal = _read_claims(claims, keyring, expected, now) or _refuse_bound(claims.get("cnf"))
    return refusal or _build_token(claims, text, expected)


def _read_public_key(entry: Json) -> Key | None:
    if not isinstance(entry, dict) or entry.get("kty") not in tuple(_PUBLIC) or entry.get("use", "sig") != "sig":
        return None
    if entry["kty"] == "RSA" and len(str(entry.get("n"))) < _MIN_RSA_CHARS:
        return None
    operations = entry.get("key_ops")
    if operations is not None and (not isinstance(operations, list) or "verify" not in operations):
        return None
    left = _PRIVATE | {"alg"} if entry.get("alg") in _PUBLIC["OKP"] else _PRIVATE  # both names mean the same
    try:
        key = import_key({name: value for name, value in entry.items() if name not in left})
    except _UNREADABLE:
        return None
    if isinstance(key, ECKey | OKPKey):
        return key if key.curve_name in _CURVES else None
    return key


def _find_key(header: Mapping[str, Any], keyring: Keyring) -> Key | Problem | UnknownKey:
    """Return the key that the token names, if it supports the algorithm of the token."""
    algorithm, id_ = header.get("alg"), header.get("kid")
    taken = ("HS256",) if keyring.is_shared else _PUBLIC_ALGORITHMS
    if algorithm not in taken:
        return _refuse(f"it must be signed with {' or '.join(taken)}")
    if keyring.is_shared:
        return keyring.keys[0]
    fitting = [key for key in keyring.keys if algorithm in _algorithms(key)]
    if id_ is None:
        return fitting[0] if len(fitting) == 1 else _refuse("it has no key ID")
    named = [key for key in fitting if key.kid == id_]
    return named[0] if named else UnknownKey(_refuse("its signing key is unknown"))


def _algorithms(key: Key) -> tuple[str, ...]:
    own, names = key.get("alg"), _PUBLIC[key.key_type]
    return names if own is None else tuple(name for name in names if name == own)


def _is_signed_by(text: bytes, key: Key, algorithm: str) -> bool:
    content, _, signature = text.rpartition(b".")
    model = _ALGORITHMS[algorithm]
    try:
        model.check_key(key)
        decoded = b64decode(signature + b"=" * (-len(signature) % 4), b"-_", validate=True)
        return model.verify(content, decoded, key) is True
    except _UNREADABLE:
        return False


def _read_claims(claims: Mapping[str, Json], keyring: Keyring, expected: ExpectedClaims, now: float) -> Problem | None:
    """Return why ``claims`` are not for this server and for now, or None."""
    # OXP-012
    expires, begins = claims.get("exp"), claims.get("nbf")
    if not (_is_time(expires) or (expires is None and keyring.is_shared)) or not (begins is None or _is_time(begins)):
        return _refuse("it has no expiry time in seconds since 1970")
    if _is_time(expires) and now >= expires + expected.leeway_s:
        return _refuse("it has expired. Get a new one")
    if _is_time(begins) and now < begins - expected.leeway_s:
        return _refuse("it is not valid yet")
    if expected.issuer and claims.get("iss") != expected.issuer:
        return _refuse("its issuer is not the one that this server accepts")
    if not _is_for_audience(claims.get("aud"), expected.audience, keyring):
        return _refuse("it is for a different audience")
    return None


def _refuse_bound(confirmation: Json) -> Problem | None:
    """Return the refusal of a token that needs a proof in each request, which this server does not check.

    A token that is bound to a certificate is accepted, because a proxy in front checks the certificate.
    """
    # RFC 9449, 7.2: if it were accepted as a bearer token, a thief could use it.
    if not isinstance(confirmation, dict) or "jkt" not in confirmation:
        return None
    return _refuse("it is bound to a key (DPoP), and this server accepts only bearer tokens")


def _build_token(claims: Mapping[str, Json], text: bytes, expected: ExpectedClaims) -> CallerToken:
    expires = claims.get("exp")
    until = math.inf if expires is None else expires + expected.leeway_s
    return CallerToken(_read_name(claims, text), _read_scopes(claims), until, _read_client(claims), claims)


def _is_time(value: Json) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e15


def _is_for_audience(audience: Json, own: str, keyring: Keyring) -> bool:
    """Return whether a token is for this server. Only tokens of a shared secret may omit the audience."""
    if audience is None:
        return keyring.is_shared or not own
    named = audience if isinstance(audience, list) else [audience]
    return bool(own) and own in [name for name in named if isinstance(name, str)]


def _read_name(claims: Mapping[str, Json], text: bytes) -> str:
    """Return the caller's name. A token without a name is a separate caller.

    A digest replaces a name that is too long or cannot be printed.
    """
    for claim in ("sub", "client_id", "azp"):
        name = claims.get(claim)
        if isinstance(name, str) and name:
            # Never use the next claim instead. It names the app, which is a different caller.
            is_plain = len(name) <= _MAX_NAME and name.isprintable()
            return (
                f"jwt:{name}" if is_plain else f"jwt-{sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"
            )
    return f"jwt-{sha256(text).hexdigest()[:12]}"


def _read_client(claims: Mapping[str, Json]) -> str:
    """Return a token's OAuth client, from the claim of RFC 9068 or of OpenID Connect."""
    found = (claims.get(claim) for claim in ("client_id", "azp"))
    return next((name for name in found if isinstance(name, str) and 0 < len(name) <= _MAX_NAME), "")


def _read_scopes(claims: Mapping[str, Json]) -> frozenset[str]:
    """Return the scopes of a token, from ``scope`` or ``scp``."""
    declared = claims.get("scope", claims.get("scp"))
    names = declared.split() if isinstance(declared, str) else declared if isinstance(declared, list) else []
    return frozenset(name for name in names[:_MAX_SCOPES] if isinstance(name, str))


def _refuse(why: str) -> Problem:
    return Problem(kind=Kind.UNAUTHORIZED, message=f"Invalid token: {why}.")
