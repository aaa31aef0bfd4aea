"""The authorization code: from the app's request to tokens, and every way it must not go."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from tests.postgres import empty_database, shared_postgres  # noqa: F401 - the fixtures
from toolwire.auth.clients import Client
from toolwire.auth.grants import CodeExchange
from toolwire.auth.request_parameters import OAuthError
from toolwire.server.oauth.token_issuing import redeem_code

from .conftest import CALLBACK, COOKIE, EACH_DATABASE, ISSUER, VERIFIER, Site


@pytest.mark.requirement("AS-05", "AS-06", "AS-07", "XL-110")
@EACH_DATABASE
def test_user_allows_an_app_and_it_gets_tokens(site: Site) -> None:
    sent = site.browser.get(site.ask())
    assert sent.headers["location"].startswith("/oauth/login?next=")
    onward = site.browser.sign_in(onward=site.ask())
    page = site.browser.get(onward.headers["location"])
    answer = site.answer(site.browser.allow(page))
    assert (answer["iss"], answer["state"]) == (ISSUER, "s t&a=te")
    tokens = site.redeem(answer["code"])
    assert tokens.status_code == 200
    assert tokens.headers["cache-control"] == "no-store"
    body = tokens.json()
    assert (body["token_type"], body["expires_in"], body["scope"]) == ("Bearer", 600, "tasks:read tasks:write")
    caller = site.caller(body["access_token"])
    assert caller.scopes == {"tasks:read", "tasks:write"}
    assert site.people.find(caller.name).name == "Ada"  # type: ignore[union-attr]


@pytest.mark.requirement("AS-07")
def test_user_can_deselect_a_scope_and_the_app_is_told(site: Site) -> None:
    body = site.tokens("tasks:read")
    assert body["scope"] == "tasks:read"
    assert site.caller(body["access_token"]).scopes == {"tasks:read"}


@pytest.mark.requirement("AS-07")
def test_scope_that_was_not_requested_cannot_be_granted(site: Site) -> None:
    assert site.tokens("tasks:read", "tasks:delete")["scope"] == "tasks:read"


@pytest.mark.requirement("AS-07")
def test_request_without_a_scope_offers_the_default_scopes(site: Site) -> None:
    assert site.tokens(scope=None)["scope"] == "tasks:read"


@pytest.mark.requirement("AS-07")
def test_unknown_scopes_are_refused_or_dropped_as_configured(open_site: Callable[..., Site]) -> None:
    strict, lax = open_site(where="1"), open_site(where="2", drop_unknown_scopes=True)
    strict.browser.sign_in()
    assert strict.answer(strict.browser.get(strict.ask(scope="tasks:read admin")))["error"] == "invalid_scope"
    assert lax.tokens(scope="tasks:read admin")["scope"] == "tasks:read"
    assert lax.answer(lax.browser.get(lax.ask(scope="admin")))["error"] == "invalid_scope"


@pytest.mark.requirement("AS-06")
def test_denial_is_returned_with_issuer_and_state(site: Site) -> None:
    site.browser.sign_in()
    answer = site.answer(site.browser.allow(site.browser.get(site.ask()), decision="deny"))
    assert answer.pop("error_description")
    assert answer == {"error": "access_denied", "iss": ISSUER, "state": "s t&a=te"}


BEFORE_A_REDIRECT = [
    {"client_id": None},
    {"client_id": "nobody"},
    {"client_id": ["app", "app"]},
    {"redirect_uri": "https://evil.example/callback"},
    {"redirect_uri": [CALLBACK, CALLBACK]},
    {"redirect_uri": "javascript:alert(1)"},
    {"client_id": "native", "redirect_uri": None},
]


@pytest.mark.requirement("AS-01", "AS-04", "R18")
@pytest.mark.parametrize("wrong", BEFORE_A_REDIRECT, ids=str)
def test_wrong_client_or_redirect_shows_an_error_page_without_redirecting(site: Site, wrong: dict[str, object]) -> None:
    answer = site.browser.get(site.ask(**{"client_id": "app", **wrong}))
    assert answer.status_code == 400
    assert "location" not in answer.headers
    assert answer.headers["content-type"].startswith("text/html")


AFTER_THE_REDIRECT_IS_KNOWN = [
    ({"response_type": None}, "invalid_request"),
    ({"response_type": "token"}, "unsupported_response_type"),
    ({"response_mode": "fragment"}, "invalid_request"),
    ({"code_challenge": None}, "invalid_request"),
    ({"code_challenge_method": None}, "invalid_request"),
    ({"code_challenge_method": "plain"}, "invalid_request"),
    ({"code_challenge": "a" * 42}, "invalid_request"),
    ({"code_challenge": "a" * 129}, "invalid_request"),
    ({"scope": ["tasks:read", "tasks:read"]}, "invalid_request"),
    ({"state": ["1", "2"]}, "invalid_request"),
    ({"scope": 'a"b'}, "invalid_scope"),
    ({"resource": "https://other.example"}, "invalid_target"),
    ({"resource": [ISSUER, "https://other.example"]}, "invalid_target"),
    ({"resource": f"{ISSUER}#there"}, "invalid_target"),
    ({"resource": "tasks"}, "invalid_target"),
]


@pytest.mark.requirement("AS-01", "AS-03", "AS-04", "AS-06", "AS-08", "R18")
@pytest.mark.parametrize(("wrong", "error"), AFTER_THE_REDIRECT_IS_KNOWN, ids=str)
def test_other_request_errors_are_returned_to_the_app_with_the_issuer(
    site: Site, wrong: dict[str, object], error: str
) -> None:
    answer = site.answer(site.browser.get(site.ask(**wrong)))
    assert (answer["error"], answer["iss"]) == (error, ISSUER)
    assert "code" not in answer


@pytest.mark.requirement("AS-04")
def test_unknown_parameters_are_ignored_and_empty_ones_absent(site: Site) -> None:
    site.browser.sign_in()
    page = site.browser.get(site.ask(foo="bar", resource="", response_mode="", prompt=""))
    assert page.status_code == 200
    assert site.redeem(site.answer(site.browser.allow(page))["code"], foo="bar", redirect_uri="").status_code == 200


@pytest.mark.requirement("AS-01")
def test_authorization_request_by_post_is_redirected_to_get(site: Site) -> None:
    site.browser.sign_in()
    path, _, query = site.ask().partition("?")
    form = {"content-type": "application/x-www-form-urlencoded"}
    sent = site.browser.post(path, content=query + "&x=%0d%0a\r\nset-cookie: a=b", headers=form)
    assert sent.status_code == 303
    assert "set-cookie" not in sent.headers
    assert site.browser.get(sent.headers["location"]).status_code == 200


@pytest.mark.requirement("AS-05", "R18")
def test_second_use_of_a_code_revokes_the_issued_tokens(site: Site) -> None:
    code = site.code()
    tokens = site.redeem(code).json()
    assert site.redeem(code, code_verifier="x" * 43).json()["error"] == "invalid_grant"
    assert site.caller(tokens["access_token"]).scopes  # a guess at it revokes nothing
    assert site.redeem(code).json()["error"] == "invalid_grant"
    assert site.caller(tokens["access_token"]).kind == "unauthorized"
    assert site.refresh(tokens["refresh_token"]).json()["error"] == "invalid_grant"
    assert "code replayed" in [event.kind for event in site.events]


@pytest.mark.requirement("AS-05")
def test_code_expires_after_a_minute(site: Site) -> None:
    early, late = site.code(), site.code()
    site.clock.now += 59
    assert site.redeem(early).status_code == 200
    site.clock.now += 1
    assert site.redeem(late).json()["error"] == "invalid_grant"


WRONG_REDEEMING = [
    {"code": "nothing"},
    {"code": ""},
    {"code_verifier": ""},
    {"code_verifier": "y" * 43},
    {"code_verifier": "short"},
    {"redirect_uri": "https://app.example/other"},
    {"client_id": "native"},
    {"resource": "https://other.example"},
    {"grant_type": "password"},
    {"grant_type": ""},
]


@pytest.mark.requirement("AS-03", "AS-05", "AS-08", "R18")
@pytest.mark.parametrize("wrong", WRONG_REDEEMING, ids=str)
def test_code_is_bound_to_client_redirect_verifier_and_resource(site: Site, wrong: dict[str, str]) -> None:
    code = site.code()
    answer = site.redeem(code, **wrong)
    assert answer.status_code == 400
    assert answer.json()["error"] in {"invalid_grant", "invalid_target", "invalid_request", "unsupported_grant_type"}
    assert "access_token" not in answer.text
    assert site.redeem(code).status_code == 200  # none of it spent the code


@pytest.mark.requirement("AS-05")
@EACH_DATABASE
def test_only_one_of_concurrent_code_exchanges_gets_tokens(site: Site) -> None:
    client = Client(id="app", name="The App", redirect_uris=(CALLBACK,))
    wish = CodeExchange(client_id="app", verifier=VERIFIER, redirect_uri=CALLBACK)
    desk = site.server._context  # the race is below HTTP
    for _ in range(5):
        code, at_once = site.code(), Barrier(4)

        def take(code: str = code, at_once: Barrier = at_once) -> object:
            at_once.wait(10)
            return redeem_code(desk, client, code, wish)

        with ThreadPoolExecutor(4) as pool:
            answers = [future.result(10) for future in [pool.submit(take) for _ in range(4)]]
        assert sum(not isinstance(answer, OAuthError) for answer in answers) == 1


@pytest.mark.requirement("AS-10")
def test_database_contains_no_usable_code_token_or_session(site: Site) -> None:
    code = site.code()
    tokens = site.redeem(code).json()
    site.browser.get(site.ask(prompt="consent"))
    session = dict(site.browser.cookies)[COOKIE]
    site.store.close()
    dump = b"".join(path.read_bytes() for path in site.path.parent.iterdir())
    for secret in (code, tokens["access_token"], tokens["refresh_token"], session, VERIFIER, "correct horse"):
        assert secret.encode() not in dump
    assert b"tasks:read" in dump


@pytest.mark.requirement("AS-22", "D-26")
@EACH_DATABASE
def test_events_are_recorded_without_tokens(site: Site) -> None:
    tokens = site.tokens()
    refreshed = site.refresh(tokens["refresh_token"]).json()
    site.refresh(tokens["refresh_token"])
    again = site.tokens()
    site.browser.post("/oauth/revoke", {"client_id": "app", "token": again["refresh_token"]})
    kinds = [event.kind for event in site.events if event.client_id]
    assert kinds == [
        "granted",
        "tokens issued",
        "tokens issued",
        "refresh token reused",
        "granted",
        "tokens issued",
        "revoked",
    ]
    with site.store.read_transaction() as rows:
        stored = rows.list_events()
    assert stored[::-1] == site.events
    text = repr(stored) + json.dumps([event.token for event in stored])
    for secret in (tokens, refreshed, again):
        assert secret["access_token"] not in text
        assert secret["refresh_token"] not in text
    assert all(len(event.token) == 16 for event in stored if event.client_id)
