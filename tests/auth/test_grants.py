"""When an access token is good, and which request for one is none."""

from __future__ import annotations

from dataclasses import replace

import pytest

from toolwire.auth.authorization_request import AuthorizationRequest, SupportedScopes, read_authorization_request
from toolwire.auth.clients import Client
from toolwire.auth.grants import OAuthGrant, Token, is_valid_at
from toolwire.auth.pkce import compute_challenge
from toolwire.auth.request_parameters import OAuthError, RequestParameters

SITE = "https://tasks.example"
GRANT = OAuthGrant(
    id="g", user="ada", client_id="app", client_name="App", fingerprint="f", resource=SITE, scopes=("a",), created=0.0,
    until=100.0,
)  # fmt: skip
TOKEN = Token(digest="d", kind="access", grant="g", scopes=("a",), since=0.0, until=10.0)
OFFER = SupportedScopes(resource=SITE, scopes=("a", "b"), defaults=("a",))
ASKED = {"response_type": "code", "code_challenge": compute_challenge("v" * 43), "code_challenge_method": "S256"}


@pytest.mark.requirement("AS-08", "AS-10")
def test_access_token_is_valid_only_while_unexpired_granted_and_for_its_resource() -> None:
    assert is_valid_at(TOKEN, GRANT, SITE + "/", 9.9)
    assert not is_valid_at(TOKEN, GRANT, SITE, 10.0)
    assert not is_valid_at(TOKEN, replace(GRANT, revoked=1.0), SITE, 5.0)
    assert not is_valid_at(TOKEN, replace(GRANT, until=5.0), SITE, 5.0)
    assert not is_valid_at(TOKEN, GRANT, "https://other.example", 5.0)
    assert not is_valid_at(replace(TOKEN, kind="refresh"), GRANT, SITE, 5.0)
    assert not is_valid_at(None, GRANT, SITE, 5.0)
    assert not is_valid_at(TOKEN, None, SITE, 5.0)


@pytest.mark.requirement("AS-04")
@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"response_type": ""}, "invalid_request"),
        ({"response_type": "token"}, "unsupported_response_type"),
        ({"response_mode": "fragment"}, "invalid_request"),
        ({"state": "s" * 5_000}, "invalid_request"),
        ({"code_challenge": ""}, "invalid_request"),
        ({"code_challenge_method": "plain"}, "invalid_request"),
        ({"code_challenge": "short"}, "invalid_request"),
        ({"scope": 'a "b"'}, "invalid_scope"),
        ({"scope": "c"}, "invalid_scope"),
    ],
)
def test_authorization_request_with_one_wrong_part_is_refused(change: dict[str, str], error: str) -> None:
    client = Client(id="app", redirect_uris=(f"{SITE}/back",))
    good = read_authorization_request(RequestParameters(values=ASKED), client, f"{SITE}/back", OFFER)
    assert isinstance(good, AuthorizationRequest)
    assert good.scopes == ("a",)
    refused = read_authorization_request(RequestParameters(values=ASKED | change), client, f"{SITE}/back", OFFER)
    assert isinstance(refused, OAuthError)
    assert refused.error == error
