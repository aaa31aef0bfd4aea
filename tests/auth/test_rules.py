"""PKCE, parameters, scopes, resources and documents, as rules without a server."""

import json
from typing import Any

import pytest

from toolwire.auth.client_metadata import cache_lifetime_s, read_document, read_document_url
from toolwire.auth.clients import Client, client_fingerprint, read_client, write_client
from toolwire.auth.pkce import compute_challenge, find_proof_error, read_challenge
from toolwire.auth.request_parameters import OAuthError, RequestParameters, read_parameters
from toolwire.auth.resource_indicators import is_covered_by, read_resource
from toolwire.core.http import Response
from toolwire.core.model import Kind, Problem

VERIFIER = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
CHALLENGE = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
URL = "https://app.example/oauth-client.json"


@pytest.mark.requirement("AS-03")
def test_code_challenge_matches_the_example_of_the_specification() -> None:
    assert compute_challenge(VERIFIER) == CHALLENGE
    assert find_proof_error(CHALLENGE, VERIFIER) is None


@pytest.mark.requirement("AS-03", "D-28")
@pytest.mark.parametrize(
    ("challenge", "verifier"),
    [
        (CHALLENGE, ""),
        ("", VERIFIER),
        (CHALLENGE, VERIFIER[:-1]),
        (CHALLENGE, "a" * 129),
        (CHALLENGE, VERIFIER[:-1] + "K"),
    ],
)
def test_wrong_code_verifier_is_refused(challenge: str, verifier: str) -> None:
    refusal = find_proof_error(challenge, verifier)
    assert isinstance(refusal, OAuthError)
    assert refusal.error == "invalid_grant"


@pytest.mark.requirement("AS-03")
@pytest.mark.parametrize(("length", "good"), [(42, False), (43, True), (128, True), (129, False)])
def test_a_challenge_has_43_to_128_characters(length: int, good: bool) -> None:
    asked = RequestParameters(values={"code_challenge": "a" * length, "code_challenge_method": "S256"})
    assert isinstance(read_challenge(asked), str) is good


@pytest.mark.requirement("AS-04")
def test_repeated_parameters_are_refused_and_empty_ones_are_absent() -> None:
    read = read_parameters("a=1&a=2&b=&c=%20x&resource=1&resource=1&resource=2")
    assert isinstance(read, RequestParameters)
    assert (read.get("a"), read.get("b"), read.get("c"), read.resources) == ("", "", " x", ("1", "2"))
    assert read.repeated == {"a"}
    assert isinstance(read.find_repeated(), OAuthError)
    for text in ("a=%ff", "&".join(f"{n}=1" for n in range(65))):
        assert isinstance(read_parameters(text), OAuthError)


@pytest.mark.requirement("AS-08", "AC-07")
def test_resource_parameter_must_name_this_server() -> None:
    ours = "https://tasks.example/api"
    for same in ((), (ours,), (ours + "/",), (ours, ours + "/")):
        assert read_resource(same, ours) == ours
    for other in ("https://tasks.example", ours + "/x", ours + "#x", "tasks", "ftp://tasks.example/api", ours.upper()):
        refusal = read_resource((other,), ours)
        assert isinstance(refusal, OAuthError)
        assert refusal.error == "invalid_target"


@pytest.mark.requirement("AC-11")
@pytest.mark.parametrize(
    ("url", "inside"),
    [
        ("https://x.example/api", True),
        ("https://x.example/api/a?b", True),
        ("https://x.example/api?b", True),
        ("https://x.example/apis", False),
        ("https://x.example/", False),
        ("https://x.example.evil.example/api", False),
    ],
)
def test_resource_covers_urls_below_its_path(url: str, inside: bool) -> None:
    assert is_covered_by("https://x.example/api/", url) is inside


@pytest.mark.requirement("AS-16", "XL-114", "R18")
@pytest.mark.parametrize(
    "url",
    [
        "http://app.example/client.json",
        "https://app.example",
        "https://app.example/",
        "https://app.example/a/../b",
        "https://app.example/%2e%2e/b",
        "https://app.example/./b",
        "https://app.example/b#c",
        "https://user@app.example/b",
        "https://user:pw@app.example/b",
        "https:///b",
        "https://[b/c",
        "https://[::1]a/c",
        "https://app.example:0/b",
        "https://app.example:99999/b",
        "https://app.example\\b/c",
        "https://127.0.0.1/client.json",
        "https://localhost/client.json",
        "https://app.example/ä",
    ],
)
def test_a_document_is_at_an_https_url_with_a_plain_path(url: str) -> None:
    refusal = read_document_url(url, loopback=False)
    assert isinstance(refusal, OAuthError)
    assert refusal.error == "invalid_client"


@pytest.mark.requirement("AS-16")
def test_client_document_on_loopback_is_allowed_only_in_development() -> None:
    assert read_document_url("http://127.0.0.1:8000/client.json", loopback=True) == "http://127.0.0.1:8000/client.json"
    assert isinstance(read_document_url("http://app.example/client.json", loopback=True), OAuthError)


def build_document_response(
    *, status: int = 200, media: str = "application/json", raw: bytes | None = None, **data: Any
) -> Response:
    body = {"client_id": URL, "client_name": "Docs", "redirect_uris": ["https://app.example/callback"], **data}
    text = json.dumps({name: value for name, value in body.items() if value is not None}).encode()
    return Response(status, ((b"content-type", media.encode()),), text if raw is None else raw)


@pytest.mark.requirement("AS-16", "XL-114", "R18")
@pytest.mark.parametrize(
    "response",
    [
        Problem(kind=Kind.UNREACHABLE, message="nobody"),
        build_document_response(status=404),
        build_document_response(status=302),
        build_document_response(media="text/html"),
        build_document_response(raw=b"[]"),
        build_document_response(raw=b"{"),
        build_document_response(raw=b'{"client_id": "' + b"a" * 5_200 + b'"}'),
        build_document_response(client_id=URL + "/"),
        build_document_response(client_id=None),
        build_document_response(redirect_uris=None),
        build_document_response(redirect_uris=[]),
        build_document_response(redirect_uris=["javascript:alert(1)"]),
        build_document_response(redirect_uris=["https://app.example/callback", 7]),
        build_document_response(client_secret="hunter2"),
        build_document_response(token_endpoint_auth_method="client_secret_basic"),
        build_document_response(token_endpoint_auth_method="client_secret_post"),
        build_document_response(token_endpoint_auth_method="private_key_jwt"),
        build_document_response(token_endpoint_auth_method=["none"]),
        build_document_response(client_name=7),
        build_document_response(client_name="x" * 201),
        build_document_response(grant_types=["implicit"]),
        build_document_response(grant_types="authorization_code"),
    ],
    ids=lambda response: response.body[:60].decode() if isinstance(response, Response) else "unreachable",
)
def test_client_document_with_one_wrong_part_is_refused(response: Response | Problem) -> None:
    assert isinstance(read_document(URL, response), OAuthError)


@pytest.mark.requirement("AS-16")
def test_valid_client_document_is_read_and_unknown_members_ignored() -> None:
    client = read_document(
        URL, build_document_response(grant_types=["authorization_code", "refresh_token"], logo_uri="x", foo=1)
    )
    assert isinstance(client, Client)
    assert (client.id, client.name, client.host, client.method) == (URL, "Docs", "app.example", "none")
    assert client.grants == ("authorization_code", "refresh_token")
    assert read_client(write_client(client)) == client


@pytest.mark.requirement("AS-16")
@pytest.mark.parametrize(
    "change",
    [
        {"client_name": "Other"},
        {"redirect_uris": ["https://app.example/2"]},
        {"jwks_uri": "https://app.example/k", "token_endpoint_auth_method": "private_key_jwt"},
    ],
)
def test_client_fingerprint_covers_name_redirects_and_keys(change: dict[str, Any]) -> None:
    before, after = read_document(URL, build_document_response()), read_document(URL, build_document_response(**change))
    assert isinstance(before, Client)
    assert isinstance(after, Client)
    assert client_fingerprint(before) != client_fingerprint(after)


@pytest.mark.requirement("AS-16")
@pytest.mark.parametrize(
    ("control", "seconds"),
    [
        ("", 60),
        ("max-age=5", 60),
        ("public, max-age=3600", 3_600),
        ("max-age=9999999999", 86_400),
        ("no-store, max-age=600", 60),
    ],
)
def test_client_document_is_cached_as_it_states_within_bounds(control: str, seconds: float) -> None:
    assert cache_lifetime_s(Response(200, ((b"cache-control", control.encode()),))) == seconds
