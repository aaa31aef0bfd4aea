"""Refreshing, revoking, and what a token is good for."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey

from tests.postgres import empty_database, shared_postgres  # noqa: F401 - the fixtures
from toolwire.auth.clients import Client
from toolwire.auth.jwt import SigningKey

from .conftest import CALLBACK, CLIENTS, EACH_DATABASE, ISSUER, Site

DAY_S = 86_400.0


@pytest.mark.requirement("AS-11")
def test_each_refresh_gives_a_new_token_and_the_old_one_is_dead(site: Site) -> None:
    first = site.tokens()
    second = site.refresh(first["refresh_token"]).json()
    assert second["refresh_token"] != first["refresh_token"]
    assert second["scope"] == first["scope"]
    assert site.caller(second["access_token"]).scopes == {"tasks:read", "tasks:write"}


@pytest.mark.requirement("AS-11", "D-28", "R18")
@EACH_DATABASE
def test_a_stolen_refresh_token_that_is_replayed_ends_the_whole_family(site: Site) -> None:
    first = site.tokens()
    second = site.refresh(first["refresh_token"]).json()
    third = site.refresh(second["refresh_token"]).json()
    assert site.refresh(first["refresh_token"]).json()["error"] == "invalid_grant"
    assert site.caller(third["access_token"]).kind == "unauthorized"
    assert site.refresh(third["refresh_token"]).json()["error"] == "invalid_grant"
    assert "refresh token reused" in [event.kind for event in site.events]


@pytest.mark.requirement("AS-11")
def test_another_app_that_has_the_token_gets_nothing_and_ends_nothing(site: Site) -> None:
    tokens = site.tokens()
    assert site.refresh(tokens["refresh_token"], client_id="native").json()["error"] == "invalid_grant"
    assert site.refresh(tokens["refresh_token"]).status_code == 200


@pytest.mark.requirement("AS-11")
def test_refresh_can_reduce_scopes_but_not_add_them(site: Site) -> None:
    tokens = site.tokens()
    assert site.refresh(tokens["refresh_token"], scope="tasks:delete").json()["error"] == "invalid_scope"
    fewer = site.refresh(tokens["refresh_token"], scope="tasks:read").json()
    assert fewer["scope"] == "tasks:read"
    assert site.refresh(fewer["refresh_token"], scope="tasks:write").json()["error"] == "invalid_scope"


@pytest.mark.requirement("AS-08", "AS-11")
def test_refresh_keeps_its_resource(site: Site) -> None:
    tokens = site.tokens(resource=ISSUER)
    assert site.refresh(tokens["refresh_token"], resource="https://other.example").json()["error"] == "invalid_target"
    assert site.refresh(tokens["refresh_token"], resource=ISSUER + "/").status_code == 200


@pytest.mark.requirement("AS-11")
@EACH_DATABASE
def test_a_refresh_token_ends_after_30_days_unused_and_after_90_in_any_case(site: Site) -> None:
    tokens, idle = site.tokens(), site.tokens()
    for _ in range(3):
        site.clock.now += 29 * DAY_S
        tokens = site.refresh(tokens["refresh_token"]).json()
    assert site.refresh(idle["refresh_token"]).json()["error"] == "invalid_grant"
    site.clock.now += 4 * DAY_S
    assert site.refresh(tokens["refresh_token"]).json()["error"] == "invalid_grant"


@pytest.mark.requirement("AS-11")
def test_retry_within_the_grace_period_gets_the_same_successor_if_configured(
    open_site: Callable[..., Site],
) -> None:
    site = open_site(grace_s=10.0)
    token = site.tokens()["refresh_token"]
    successor = site.refresh(token).json()["refresh_token"]
    site.clock.now += 9
    again = site.refresh(token).json()
    assert again["refresh_token"] == successor
    assert site.caller(again["access_token"]).scopes
    assert site.refresh(token, scope="tasks:read").json()["error"] == "invalid_grant"  # another request is no retry
    assert site.refresh(successor).json()["error"] == "invalid_grant"


@pytest.mark.requirement("AS-11")
def test_reuse_after_the_grace_period_ends_the_family(open_site: Callable[..., Site]) -> None:
    site = open_site(grace_s=10.0)
    token = site.tokens()["refresh_token"]
    successor = site.refresh(token).json()["refresh_token"]
    site.clock.now += 10
    assert site.refresh(token).json()["error"] == "invalid_grant"
    assert site.refresh(successor).json()["error"] == "invalid_grant"


@pytest.mark.requirement("AS-10")
def test_access_token_expires_after_ten_minutes(site: Site) -> None:
    token = site.tokens()["access_token"]
    site.clock.now += 599
    assert site.caller(token).scopes
    site.clock.now += 1
    assert site.caller(token).kind == "unauthorized"


@pytest.mark.requirement("AS-12", "XL-116")
@EACH_DATABASE
def test_revoking_a_refresh_token_ends_the_access_tokens_of_its_grant(site: Site) -> None:
    tokens = site.tokens()
    assert site.caller(tokens["access_token"]).scopes
    form = {"client_id": "app", "token": tokens["refresh_token"], "token_type_hint": "refresh_token"}
    assert site.browser.post("/oauth/revoke", form).status_code == 200
    fields = {b"authorization": f"Bearer {tokens['access_token']}".encode()}
    assert site.server.callers.find_caller(fields) is None  # what was remembered is forgotten at once
    assert site.caller(tokens["access_token"]).kind == "unauthorized"
    assert site.refresh(tokens["refresh_token"]).json()["error"] == "invalid_grant"


@pytest.mark.requirement("AS-12")
def test_revoking_an_access_token_ends_only_that_token(site: Site) -> None:
    tokens = site.tokens()
    form = {"client_id": "app", "token": tokens["access_token"], "token_type_hint": "refresh_token"}
    assert site.browser.post("/oauth/revoke", form).status_code == 200
    assert site.caller(tokens["access_token"]).kind == "unauthorized"
    assert site.refresh(tokens["refresh_token"]).status_code == 200


@pytest.mark.requirement("AS-12")
def test_revoking_an_unknown_or_foreign_token_does_nothing(site: Site) -> None:
    tokens = site.tokens()
    for form in (
        {"client_id": "app", "token": "nothing"},
        {"client_id": "app", "token": "nothing", "token_type_hint": "no_such_hint"},
        {"client_id": "native", "token": tokens["refresh_token"]},
    ):
        assert site.browser.post("/oauth/revoke", form).status_code == 200
    assert site.caller(tokens["access_token"]).scopes
    assert site.browser.post("/oauth/revoke", {"client_id": "app"}).status_code == 400
    assert site.browser.post("/oauth/revoke", {"client_id": "nobody", "token": "x"}).status_code == 401


@pytest.mark.requirement("AS-08", "D-28", "R18")
def test_a_token_for_one_resource_is_refused_at_another_of_the_same_server(open_site: Callable[..., Site]) -> None:
    here, there = open_site(), open_site(resource="https://other.example")
    token = here.tokens()["access_token"]
    assert here.caller(token).scopes
    assert there.caller(token).kind == "unauthorized"  # the store is the same; the audience is not


# who redeems


@pytest.mark.requirement("AS-09")
def test_token_endpoint_accepts_only_form_posts(site: Site) -> None:
    assert site.browser.get("/oauth/token").status_code == 405
    answer = site.browser.post("/oauth/token", content=b"{}", headers={"content-type": "application/json"})
    assert (answer.status_code, answer.json()["error"]) == (400, "invalid_request")
    assert answer.headers["cache-control"] == "no-store"
    repeated = b"client_id=app&grant_type=refresh_token&grant_type=refresh_token&refresh_token=x"
    form = {"content-type": "application/x-www-form-urlencoded"}
    assert site.browser.post("/oauth/token", content=repeated, headers=form).json()["error"] == "invalid_request"


def basic(name: str, secret: str) -> dict[str, str]:
    return {"authorization": "Basic " + b64encode(f"{name}:{secret}".encode()).decode()}


@pytest.mark.requirement("AS-09")
def test_each_client_authenticates_by_its_registered_method(site: Site) -> None:
    code = site.code(client_id="web app")
    right = basic("web+app", "p%3Aw%2Fd+%25")
    assert site.redeem(code, client_id="web app").status_code == 401
    assert site.redeem(code, client_id="web app", client_secret="p:w/d %").status_code == 401
    wrong = site.redeem(code, client_id="", headers=basic("web+app", "wrong"))
    assert wrong.status_code == 401
    assert wrong.headers["www-authenticate"].startswith("Basic ")
    assert wrong.json()["error"] == "invalid_client"
    both = site.redeem(code, client_id="web app", client_secret="p:w/d %", headers=right)
    assert (both.status_code, both.json()["error"]) == (400, "invalid_request")
    assert site.redeem(code, client_id="app", headers=right).status_code == 400
    assert site.redeem(code, client_id="", headers={"authorization": "Basic ???"}).status_code == 401
    assert site.redeem(code, client_id="", headers=right).status_code == 200
    posted = site.code(client_id="poster")
    assert site.redeem(posted, client_id="poster", client_secret="px").status_code == 401
    assert site.redeem(posted, client_id="poster", client_secret="pw").status_code == 200
    assert site.redeem(site.code(), client_secret="x").status_code == 401


def sign_claims(key: ECKey, **claims: object) -> str:
    return jwt.encode({"alg": "ES256"}, {key: value for key, value in claims.items() if value is not None}, key)


@pytest.mark.requirement("AS-09", "R18")
def test_client_assertion_signed_with_a_key_is_valid_once(open_site: Callable[..., Site]) -> None:
    key, stranger = ECKey.generate_key("P-256"), ECKey.generate_key("P-256")
    signer = Client(
        id="signer",
        redirect_uris=(CALLBACK,),
        method="private_key_jwt",
        keys={"keys": [key.as_dict(private=False)]},
    )
    site = open_site(clients=(*CLIENTS, signer))
    code, now = site.code(client_id="signer"), int(site.clock())
    good = {"iss": "signer", "sub": "signer", "aud": ISSUER, "exp": now + 60, "jti": "1"}
    form = {
        "client_id": "signer",
        "client_assertion_type": "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
    }
    unsigned = sign_claims(key, **good).split(".")
    bad = [
        sign_claims(stranger, **good),
        "eyJhbGciOiJub25lIn0." + unsigned[1] + ".",
        *(
            sign_claims(key, **{**good, **wrong})
            for wrong in (
                {"iss": "app"},
                {"sub": "app"},
                {"aud": "https://other.example"},
                {"aud": None},
                {"exp": now - 60},
                {"exp": now + 3_600},
                {"exp": None},
                {"exp": "soon"},
                {"jti": None},
                {"nbf": now + 300},
            )
        ),
        "x.y",
        "",
    ]
    for assertion in bad:
        answer = site.redeem(code, **form, client_assertion=assertion)
        assert (answer.status_code, answer.json()["error"]) == (401, "invalid_client")
    assert site.redeem(code, **{**form, "client_assertion_type": "other"}, client_assertion="x").status_code == 401
    assertion = sign_claims(key, **good)
    tokens = site.redeem(code, **form, client_assertion=assertion)
    assert tokens.status_code == 200
    refresh = tokens.json()["refresh_token"]
    assert site.refresh(refresh, **form, client_assertion=assertion).status_code == 401
    token_endpoint = {**good, "aud": [f"{ISSUER}/oauth/token"], "jti": "2"}
    assert site.refresh(refresh, **form, client_assertion=sign_claims(key, **token_endpoint)).status_code == 200


@pytest.mark.requirement("AS-09")
def test_client_not_registered_for_refresh_gets_no_refresh_token(open_site: Callable[..., Site]) -> None:
    once = Client(id="once", redirect_uris=(CALLBACK,), grants=("authorization_code",))
    site = open_site(clients=(once,))
    body = site.redeem(site.code(client_id="once"), client_id="once").json()
    assert "refresh_token" not in body
    assert site.refresh("x", client_id="once").json()["error"] == "unauthorized_client"


# signed access tokens


@pytest.mark.requirement("AS-10", "R18")
def test_an_access_token_can_be_a_jwt_that_others_verify(open_site: Callable[..., Site]) -> None:
    key = SigningKey()
    site = open_site(key=SigningKey(key.pem))
    token = site.tokens()["access_token"]
    keys = site.browser.get("/oauth/jwks").json()
    assert "d" not in keys["keys"][0]
    read = jwt.decode(token, ECKey.import_key(keys["keys"][0]), algorithms=["ES256"])
    assert read.header["typ"] == "at+jwt"
    assert (read.claims["iss"], read.claims["aud"], read.claims["client_id"]) == (ISSUER, ISSUER, "app")
    assert read.claims["exp"] - read.claims["iat"] == 600
    assert site.caller(token).name == read.claims["sub"]
    head, body, signature = token.split(".")
    for forged in (f"eyJhbGciOiJub25lIn0.{body}.", f"{head}.{body}.{signature[:-4]}AAAA", read.claims["jti"]):
        assert site.caller(forged).kind == "unauthorized"
    site.browser.post("/oauth/revoke", {"client_id": "app", "token": token})
    assert site.caller(token).kind == "unauthorized"


@pytest.mark.requirement("AS-10")
def test_a_jwt_of_another_key_issuer_or_audience_is_not_taken() -> None:
    key, other = SigningKey(), SigningKey()
    claims = {"iss": ISSUER, "aud": ISSUER, "iat": 1, "exp": 100, "jti": "1"}
    assert key.read_claims(key.sign_claims(claims), issuer=ISSUER, resource=ISSUER, now=99) is not None
    assert key.read_claims(key.sign_claims(claims), issuer=ISSUER, resource=ISSUER, now=100) is None
    assert key.read_claims(other.sign_claims(claims), issuer=ISSUER, resource=ISSUER, now=99) is None
    assert key.read_claims(key.sign_claims({**claims, "aud": [ISSUER]}), issuer=ISSUER, resource=ISSUER, now=99) is None
    assert (
        key.read_claims(key.sign_claims({**claims, "iss": "https://x.example"}), issuer=ISSUER, resource=ISSUER, now=99)
        is None
    )


@pytest.mark.requirement("AS-11")
def test_retry_is_refused_once_the_successor_was_used(open_site: Callable[..., Site]) -> None:
    site = open_site(grace_s=10.0)
    first = site.tokens()["refresh_token"]
    second = site.refresh(first).json()["refresh_token"]
    third = site.refresh(second).json()["refresh_token"]
    assert site.refresh(first).json()["error"] == "invalid_grant"
    assert site.refresh(third).json()["error"] == "invalid_grant"
