"""Tokens for a program: what is signed, and to whom a signed token is sent."""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from joserfc import jwt
from joserfc.jwk import ECKey, OKPKey, RSAKey

from tests.support.wire import CannedTransport
from toolwire.auth.client_identity import ClientIdentity
from toolwire.auth.client_key import ClientKey
from toolwire.auth.credential import Credential, write_credential
from toolwire.auth.metadata_discovery import AuthorizationServerMetadata, SignInTarget
from toolwire.auth.program_grants import (
    IdentityProvider,
    exchange_id_token,
    request_by_assertion,
    request_client_credentials,
)
from toolwire.client.transport.drivers import run
from toolwire.core.errors import DefinitionError
from toolwire.core.http import Request, Response
from toolwire.core.model import Problem, Secret

pytestmark = pytest.mark.requirement("AC-13", "MC-11")
ISSUER, SITE, HOME = "https://login.example", "https://tasks.example", "https://id.example"
NOW = 1_000.0
TOKENS = {"access_token": "at", "token_type": "bearer", "refresh_token": "rt"}
KEY = ECKey.generate_key("P-256")
PEM = KEY.as_pem(private=True).decode()
SHORT = (
    rsa.generate_private_key(65_537, 1_024).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
)
PROGRAM = ClientIdentity(client_id="me", method="private_key_jwt", key=ClientKey(PEM))
WORKLOAD = ClientIdentity(client_id="")
PROVIDER = IdentityProvider(issuer=HOME, identity=ClientIdentity(client_id="here"))
ID_CLAIMS = {"iss": HOME, "aud": "here", "exp": NOW + 60}


def build_target(**more: Any) -> SignInTarget:
    return SignInTarget(
        resource=SITE,
        server=AuthorizationServerMetadata(**{"issuer": ISSUER, "token_url": f"{ISSUER}/t", **more}),
    )


def build_token(claims: Any) -> Secret:
    parts = [urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in ({"alg": "ES256"}, claims)]
    return Secret(".".join([*parts, "c2ln"]))


def build_transport(data: Any = TOKENS) -> CannedTransport:
    return CannedTransport(lambda _: Response(200, (), json.dumps(data).encode()))


def read_form(request: Request) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(request.body.decode()).items()}


class Provider:
    """An identity provider: its metadata, and what it answers to a token exchange."""

    def __init__(self, metadata: Mapping[str, Any] | None = None, answer: Mapping[str, Any] | None = None) -> None:
        self.metadata = {"issuer": HOME, "token_endpoint": f"{HOME}/t", **(metadata or {})}
        granted = build_token({"aud": ISSUER, "exp": NOW + 60}).reveal()
        self.answer = {
            "access_token": granted,
            "issued_token_type": "urn:ietf:params:oauth:token-type:id-jag",
            "token_type": "N_A",
            **(answer or {}),
        }
        self.transport = CannedTransport(self.respond)

    def respond(self, request: Request) -> Response:
        data = self.metadata if request.method == "GET" else self.answer
        return Response(200, (), json.dumps(data).encode())

    @property
    def posted(self) -> list[Request]:
        return [request for request in self.transport.sent if request.method == "POST"]


def test_client_proves_itself_with_a_signed_assertion_for_a_minute() -> None:
    transport = build_transport()
    found = run(request_client_credentials(build_target(), PROGRAM, ("a",), NOW, unique_id="u" * 43), transport)
    sent = read_form(transport.sent[0])
    proof = sent.pop("client_assertion")
    assert sent == {
        "grant_type": "client_credentials",
        "scope": "a",
        "resource": SITE,
        "client_id": "me",
        "client_assertion_type": "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
    }
    public = ECKey.import_key(KEY.as_pem(private=False))
    assert jwt.decode(proof, public, algorithms=["ES256"]).claims == {
        "iss": "me",
        "sub": "me",
        "aud": ISSUER,
        "iat": 1_000,
        "exp": 1_060,
        "jti": "u" * 43,
    }
    assert transport.sent[0].url == f"{ISSUER}/t"
    assert isinstance(found, Credential)
    assert found.refresh is None
    assert "PRIVATE" not in repr(PROGRAM) + str(write_credential(found))


@pytest.mark.parametrize("key", [ECKey.generate_key("P-256"), RSAKey.generate_key(2048)])
def test_client_key_is_read_from_pem_and_from_a_jwk(key: Any) -> None:
    named = {**key.as_dict(private=True), "kid": "mine"}
    for text, kid in ((key.as_pem(private=True).decode(), None), (json.dumps(named), "mine")):
        proof = ClientKey(text).sign("me", ISSUER, NOW, "id").reveal()
        assert jwt.decode(proof, key, algorithms=["ES256", "RS256"]).header.get("kid") == kid


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hunter2",
        "{",
        "[]",
        '{"kty": "oct", "k": "aHVudGVyMg"}',
        '{"kty": "EC", "crv": "P-256", "x": 7}',
        "hunter2" * 9_999,
        KEY.as_pem(private=False).decode(),
        ECKey.generate_key("P-384").as_pem(private=True).decode(),
        SHORT,
        OKPKey.generate_key("Ed25519").as_pem(private=True).decode(),
    ],
)
@pytest.mark.filterwarnings("ignore::joserfc.errors.SecurityWarning")
def test_text_that_is_no_fit_private_key_is_refused_without_showing_it(text: str) -> None:
    with pytest.raises(
        DefinitionError,
        match="The client key must be a private key in PEM or JWK format: P-256, or RSA with at least 2,048 bits",
    ) as refused:
        ClientKey(text)
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize("audience", [ISSUER, f"{ISSUER}/", f"{ISSUER}/t", ["https://other.example", ISSUER]])
def test_workload_sends_its_token_without_a_client_id(audience: Any) -> None:
    transport = build_transport()
    token = build_token({"aud": audience, "exp": NOW + 60})
    found = run(request_by_assertion(build_target(), WORKLOAD, token, ("a",), NOW), transport)
    assert isinstance(found, Credential)
    assert (found.access.reveal(), found.refresh) == ("at", None)
    assert read_form(transport.sent[0]) == {
        "grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer",
        "assertion": token.reveal(),
        "scope": "a",
        "resource": SITE,
    }


@pytest.mark.parametrize(
    "claims",
    [
        {"aud": "https://other.example", "exp": NOW + 60},
        {"aud": f"{ISSUER}.evil.example", "exp": NOW + 60},
        {"aud": [], "exp": NOW + 60},
        {"aud": 7, "exp": NOW + 60},
        {"exp": NOW + 60},
        {"aud": ISSUER, "exp": NOW},
        {"aud": ISSUER, "exp": True},
        {"aud": ISSUER},
        [],
        None,
    ],
)
def test_assertion_for_another_server_or_an_expired_one_is_not_sent(claims: Any) -> None:
    transport, token = build_transport(), build_token(claims)
    outcome = run(request_by_assertion(build_target(), WORKLOAD, token, (), NOW), transport)
    assert isinstance(outcome, Problem)
    assert token.reveal() not in repr(outcome)
    assert transport.sent == []


@pytest.mark.parametrize("text", ["", "hunter2", "a.b.c", "a.é.c", "a.b.c.d", "a.b", f"a.{'b' * 20_000}.c", "a.b\n.c"])
def test_text_that_is_no_signed_token_is_not_sent(text: str) -> None:
    transport = build_transport()
    outcome = run(request_by_assertion(build_target(), WORKLOAD, Secret(text), (), NOW), transport)
    assert isinstance(outcome, Problem)
    assert outcome.message == "The assertion is not a signed token (JWT)."
    assert transport.sent == []


def test_token_endpoint_of_another_server_is_no_audience() -> None:
    transport = build_transport()
    other = build_target(token_url="https://other.example/t")
    token = build_token({"aud": "https://other.example/t", "exp": NOW + 60})
    assert isinstance(run(request_by_assertion(other, WORKLOAD, token, (), NOW), transport), Problem)
    assert transport.sent == []


def test_nothing_is_signed_or_sent_for_a_server_that_only_a_document_describes() -> None:
    transport, target = build_transport(), build_target(is_proven=False)
    token = build_token({"aud": ISSUER, "exp": NOW + 60})
    for flow in (
        request_client_credentials(target, PROGRAM, (), NOW, unique_id="u" * 43),
        request_by_assertion(target, WORKLOAD, token, (), NOW),
    ):
        assert isinstance(run(flow, transport), Problem)
    assert isinstance(run(exchange_id_token(PROVIDER, build_token(ID_CLAIMS), target, (), NOW), transport), Problem)
    assert transport.sent == []


def test_identity_provider_gives_an_assertion_for_the_server_and_the_resource() -> None:
    provider, token = Provider(), build_token(ID_CLAIMS)
    found = run(exchange_id_token(PROVIDER, token, build_target(), ("a",), NOW), provider.transport)
    assert found == Secret(provider.answer["access_token"])
    assert [request.url for request in provider.posted] == [f"{HOME}/t"]
    assert read_form(provider.posted[0]) == {
        "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
        "requested_token_type": "urn:ietf:params:oauth:token-type:id-jag",
        "audience": ISSUER,
        "resource": SITE,
        "scope": "a",
        "subject_token": token.reveal(),
        "subject_token_type": "urn:ietf:params:oauth:token-type:id_token",
        "client_id": "here",
    }


@pytest.mark.parametrize(
    "changed", [{"iss": "https://other.example"}, {"iss": 7}, {"aud": "another"}, {"aud": None}, {"exp": NOW - 1}]
)
def test_id_token_of_another_provider_or_client_is_not_sent(changed: dict[str, Any]) -> None:
    provider, token = Provider(), build_token(ID_CLAIMS | changed)
    outcome = run(exchange_id_token(PROVIDER, token, build_target(), (), NOW), provider.transport)
    assert isinstance(outcome, Problem)
    assert token.reveal() not in repr(outcome)
    assert provider.transport.sent == []


@pytest.mark.parametrize(
    "metadata",
    [
        {"issuer": "https://other.example"},
        {"token_endpoint": "http://id.example/t"},
        {"token_endpoint": "http://127.0.0.1/t"},
        {"token_endpoint": 7},
    ],
)
def test_id_token_is_not_sent_where_the_metadata_of_the_provider_is_wrong(metadata: dict[str, Any]) -> None:
    provider = Provider(metadata)
    outcome = run(exchange_id_token(PROVIDER, build_token(ID_CLAIMS), build_target(), (), NOW), provider.transport)
    assert isinstance(outcome, Problem)
    assert provider.posted == []


@pytest.mark.parametrize("issuer", ["http://id.example", "ftp://id.example", "id.example", ""])
def test_identity_provider_without_https_is_refused(issuer: str) -> None:
    provider = Provider()
    plain = IdentityProvider(issuer=issuer, identity=PROVIDER.identity)
    token = build_token(ID_CLAIMS | {"iss": issuer})
    assert isinstance(run(exchange_id_token(plain, token, build_target(), (), NOW), provider.transport), Problem)
    assert provider.transport.sent == []


@pytest.mark.parametrize(
    "answer", [{"issued_token_type": "urn:ietf:params:oauth:token-type:access_token"}, {"access_token": 7}]
)
def test_another_token_of_the_identity_provider_is_not_passed_on(answer: dict[str, Any]) -> None:
    provider = Provider(answer=answer)
    outcome = run(exchange_id_token(PROVIDER, build_token(ID_CLAIMS), build_target(), (), NOW), provider.transport)
    assert isinstance(outcome, Problem)
    assert str(provider.answer["access_token"]) not in outcome.message
