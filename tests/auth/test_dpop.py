"""Proofs that a key is held: what each is good for, and what of a server is kept."""

from __future__ import annotations

import json
import subprocess
import sys
from base64 import urlsafe_b64encode
from hashlib import sha256
from typing import Any

import jwt
import pytest

from toolwire.auth.credential import Credential, read_credential, write_credential
from toolwire.auth.dpop import Prover, create_proof_key, find_token_challenge, wants_nonce
from toolwire.core.http import Request, Response, get_header
from toolwire.core.model import Secret

SITE = "https://tasks.example"


def build_prover() -> Prover:
    ids = iter(map(str, range(1_000)))
    return Prover(key=create_proof_key(), now=lambda: 1_800_000_000.7, create_id=lambda: next(ids))


def read_proof(request: Request) -> tuple[dict[str, Any], dict[str, Any]]:
    """The header and the claims of a proof, by another library than the one that signed it."""
    text = get_header(request.headers, b"dpop")
    header = jwt.get_unverified_header(text)
    key = jwt.PyJWK(header["jwk"], algorithm="ES256")
    return header, jwt.decode(text, key.key, algorithms=["ES256"], options={"verify_iat": False})


@pytest.mark.requirement("MC-11")
def test_proof_is_for_one_method_url_token_and_moment() -> None:
    prover = build_prover()
    sent = prover.add_proof(Request("POST", f"{SITE}/mcp?key=canary#part", ((b"DPoP", b"of the model"),)), Secret("at"))
    header, claims = read_proof(sent)
    assert [name.lower() for name, _ in sent.headers] == [b"dpop"]
    assert (header["typ"], header["alg"], header["jwk"]["kty"], "d" in header["jwk"]) == (
        "dpop+jwt",
        "ES256",
        "EC",
        False,
    )
    digest = urlsafe_b64encode(sha256(b"at").digest()).decode().rstrip("=")
    assert claims == {"jti": "0", "htm": "POST", "htu": f"{SITE}/mcp", "iat": 1_800_000_000, "ath": digest}
    others = [
        prover.add_proof(Request("GET", f"{SITE}/mcp"), Secret("at")),
        prover.add_proof(Request("POST", f"{SITE}/other"), Secret("at")),
        prover.add_proof(Request("POST", f"{SITE}/mcp"), Secret("other")),
        prover.add_proof(Request("POST", f"{SITE}/mcp")),
    ]
    read = [read_proof(request)[1] for request in others]
    assert [one["htm"] for one in read] == ["GET", "POST", "POST", "POST"]
    assert [one["htu"] for one in read] == [f"{SITE}/mcp", f"{SITE}/other", f"{SITE}/mcp", f"{SITE}/mcp"]
    assert read[2]["ath"] != digest
    assert "ath" not in read[3]
    assert len({one["jti"] for one in [claims, *read]}) == 5


@pytest.mark.requirement("MC-11")
def test_nonce_is_kept_for_its_own_origin_and_only_those_of_sixteen() -> None:
    prover = build_prover()
    refusal = Response(401, ((b"www-authenticate", b'DPoP error="use_dpop_nonce"'), (b"dpop-nonce", b"n1")))
    assert prover.store_nonce(Request("POST", f"{SITE}/mcp"), refusal) is True
    assert read_proof(prover.add_proof(Request("GET", f"{SITE}/x")))[1]["nonce"] == "n1"
    assert "nonce" not in read_proof(prover.add_proof(Request("GET", "https://other.example/x")))[1]
    # An answer that refuses nothing may replace it.
    assert prover.store_nonce(Request("POST", f"{SITE}/mcp"), Response(200, ((b"dpop-nonce", b"n2"),))) is False
    assert read_proof(prover.add_proof(Request("GET", f"{SITE}/x")))[1]["nonce"] == "n2"
    for number in range(40):
        prover.store_nonce(Request("GET", f"https://s{number}.example/"), Response(200, ((b"dpop-nonce", b"n"),)))
    assert "nonce" not in read_proof(prover.add_proof(Request("GET", f"{SITE}/x")))[1]


@pytest.mark.requirement("MC-11")
@pytest.mark.parametrize("nonce", [b"", b"a b", b'a"', b"\xff", b"a\\", b"n" * 513])
def test_nonce_that_is_no_nonce_is_neither_kept_nor_answered(nonce: bytes) -> None:
    prover = build_prover()
    refusal = Response(401, ((b"www-authenticate", b'DPoP error="use_dpop_nonce"'), (b"dpop-nonce", nonce)))
    assert prover.store_nonce(Request("POST", f"{SITE}/mcp"), refusal) is False
    assert "nonce" not in read_proof(prover.add_proof(Request("GET", f"{SITE}/x")))[1]


@pytest.mark.requirement("MC-11")
def test_only_the_error_of_a_nonce_asks_for_the_request_again() -> None:
    assert wants_nonce(Response(400, (), json.dumps({"error": "use_dpop_nonce"}).encode()))
    for other in (
        Response(400, (), b'{"error": "invalid_grant"}'),
        Response(400, (), b"["),
        Response(401, ((b"www-authenticate", b'DPoP error="invalid_token"'),)),
        Response(401, ((b"www-authenticate", b'Bearer error="use_dpop_nonce"'),)),
        Response(200, ((b"www-authenticate", b'DPoP error="use_dpop_nonce"'),)),
    ):
        assert not wants_nonce(other)


@pytest.mark.requirement("MC-11")
def test_challenge_for_a_bound_token_comes_before_one_for_a_bearer_token() -> None:
    both = Response(401, ((b"www-authenticate", b"Basic realm=x, Bearer"), (b"www-authenticate", b"DPoP algs=ES256")))
    found = find_token_challenge(both)
    assert found is not None
    assert found.scheme == "dpop"
    alone = find_token_challenge(Response(401, ((b"www-authenticate", b"Bearer"),)))
    assert alone is not None
    assert alone.scheme == "bearer"
    assert find_token_challenge(Response(401)) is None


@pytest.mark.requirement("MC-11", "D-08")
def test_bound_token_without_its_key_or_as_a_bearer_token_is_no_credential() -> None:
    key = create_proof_key()
    bound = Credential(kind="oauth", resource=SITE, access=Secret("at"), prefix="DPoP ", proof_key=key)
    plain, secrets = write_credential(bound)
    assert read_credential(plain, secrets) == bound
    assert key.reveal() not in json.dumps(plain) + repr(bound)
    assert read_credential(plain, {"access": "at"}) is None
    assert read_credential({**plain, "prefix": "Bearer "}, secrets) is None


WITHOUT_JOSERFC = """
import sys
sys.modules["joserfc"] = None
from toolwire.auth.dpop import find_token_challenge
from toolwire.auth.metadata_discovery import AuthorizationServerMetadata, SignInTarget
from toolwire.client.login.token_refresher import create_target_key
from toolwire.core.http import Response
both = Response(401, ((b"www-authenticate", b"DPoP"), (b"www-authenticate", b"Bearer")))
print(find_token_challenge(both).scheme)
server = AuthorizationServerMetadata(issuer="https://a.example", token_url="https://a.example/t")
print(create_target_key(SignInTarget(resource="https://a.example", server=server, binds_tokens=True)).message)
"""


@pytest.mark.requirement("MC-11")
def test_without_joserfc_a_bearer_token_is_used_or_the_extra_is_named() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT_JOSERFC], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        "bearer",
        "This site binds tokens to a key (DPoP), which needs joserfc: pip install 'toolwire[jwt]'.",
    ]
