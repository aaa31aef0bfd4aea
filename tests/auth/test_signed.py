"""What a signed token may leave out or say oddly, and what is then made of it."""

from __future__ import annotations

import json
import runpy
import sys
from base64 import urlsafe_b64encode
from hashlib import sha256
from typing import Any

import pytest
from joserfc import jws, jwt
from joserfc.jwk import OctKey, RSAKey

from toolwire.auth import caller_token
from toolwire.auth.caller_token import CallerToken, ExpectedClaims, read_jwks, read_secret, read_token
from toolwire.auth.jwt import SigningKey
from toolwire.core.model import Problem

SECRET = b"a secret of the server, long enough"
RING = read_secret(SECRET)
HERE = ExpectedClaims()


def token(**claims: Any) -> bytes:
    return jwt.encode({"alg": "HS256"}, claims, OctKey.import_key(SECRET)).encode()


def read(text: bytes) -> CallerToken:
    found = read_token(text, RING, HERE, 0.0)
    assert isinstance(found, CallerToken)
    return found


@pytest.mark.parametrize(
    ("claims", "name"),
    [
        ({"sub": "ada", "client_id": "app"}, "jwt:ada"),
        ({"sub": 7, "client_id": "app"}, "jwt:app"),
        ({"sub": "", "azp": "other"}, "jwt:other"),
        ({"sub": "x" * 201, "azp": "other"}, f"jwt-{sha256(b'x' * 201).hexdigest()[:32]}"),
    ],
)
def test_caller_name_is_the_first_identity_claim_of_the_token(claims: dict[str, Any], name: str) -> None:
    assert read(token(**claims)).name == name


def test_token_without_identity_claims_gives_a_separate_caller() -> None:
    first, second = read(token(jti="1")), read(token(jti="2"))
    assert first.name.startswith("jwt-")
    assert first.name != second.name
    assert first == read(token(jti="1"))


@pytest.mark.parametrize(
    "more", [{"b64": False}, {"b64": True}, {"crit": ["exp"]}, {"crit": []}, {"crit": ["alg"]}, {"crit": ["b64"]}]
)
def test_a_token_that_demands_an_extension_is_refused(more: dict[str, Any]) -> None:
    header = {"alg": "HS256", **more}
    parts = [urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=") for part in (header, {"sub": "ada"})]
    refused = read_token(b".".join([*parts, b"AA"]), RING, HERE, 0.0)
    assert isinstance(refused, Problem)
    assert "requires an extension" in refused.message or "cannot be read" in refused.message


@pytest.mark.parametrize("payload", [b"[1]", b"7", b"not json"])
def test_token_with_claims_that_are_no_object_is_refused(payload: bytes) -> None:
    text = jws.serialize_compact({"alg": "HS256"}, payload, OctKey.import_key(SECRET)).encode()
    refused = read_token(text, RING, HERE, 0.0)
    assert isinstance(refused, Problem)
    assert "its claims are not an object" in refused.message


@pytest.mark.parametrize("signature", [b"A", b"!!!!", b"", b"AAAA"])
def test_invalid_signature_is_refused(signature: bytes) -> None:
    key = RSAKey.generate_key(2048, parameters={"kid": "k"})
    ring = read_jwks(json.dumps({"keys": [key.as_dict(private=False)]}).encode())
    assert not isinstance(ring, Problem)
    whole = jwt.encode({"alg": "RS256", "kid": "k"}, {"sub": "ada", "exp": 60}, key, algorithms=["RS256"]).encode()
    assert isinstance(read_token(whole, ring, HERE, 0.0), CallerToken)
    refused = read_token(whole.rpartition(b".")[0] + b"." + signature, ring, HERE, 0.0)
    assert isinstance(refused, Problem)


def test_oversized_token_is_refused_before_parsing() -> None:
    key = SigningKey()
    text = key.sign_claims({"iss": "https://a.example", "aud": "https://a.example", "exp": 60, "pad": "x" * 9_000})
    assert key.read_claims(text, issuer="https://a.example", resource="https://a.example", now=0.0) is None


def test_jwt_without_the_extra_names_the_extra_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "joserfc.errors", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'toolwire\[jwt\]'"):
        runpy.run_path(caller_token.__file__)
