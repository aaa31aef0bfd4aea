"""Tokens that a test signs."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

from joserfc import jwt
from joserfc.jwk import OctKey

NOW = 1_800_000_000.0

SECRET = b"a secret of the server, long enough"

CLAIMS = {
    "sub": "ada",
    "iss": "https://issuer.example",
    "aud": "https://tools.example",
    "exp": NOW + 60,
    "scope": "mail.read mail.send",
}


def sign_token(algorithm: str, key: Any, claims: Mapping[str, Any] = CLAIMS, **header: Any) -> bytes:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # EdDSA is an older name of Ed25519, and most issuers still say it
        return jwt.encode({"alg": algorithm, **header}, dict(claims), key, algorithms=[algorithm]).encode()


def sign_with_secret(claims: Mapping[str, Any] = CLAIMS, secret: bytes = SECRET, **header: Any) -> bytes:
    return sign_token("HS256", OctKey.import_key(secret), claims, **header)
