"""A clock that is set back makes nothing valid for longer than its lifetime."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any

import pytest

from toolwire.auth.jwt import SigningKey
from toolwire.stores.clock import ConfirmedTime

from .conftest import Site

HOUR = 3_600.0


@pytest.mark.requirement("AS-05")
def test_code_issued_in_the_future_is_refused(site: Site) -> None:
    code = site.code()
    site.clock.now -= HOUR
    assert site.redeem(code).json()["error"] == "invalid_grant"


@pytest.mark.requirement("AS-10")
@pytest.mark.parametrize("key", [None, SigningKey()], ids=["opaque", "jwt"])
def test_an_access_token_of_the_future_is_refused(open_site: Callable[..., Site], key: SigningKey | None) -> None:
    site = open_site(key=key)
    token = site.tokens()["access_token"]
    assert site.caller(token).scopes
    site.clock.now -= HOUR
    assert site.caller(token).kind == "unauthorized"


def test_signed_token_issued_in_the_future_is_refused_from_its_claims() -> None:
    key, site = SigningKey(), "https://tasks.example"
    claims = {"iss": site, "aud": site, "iat": 1_000, "exp": 1_600}
    token = key.sign_claims(claims)
    assert key.read_claims(token, issuer=site, resource=site, now=1_100.0) is not None
    assert key.read_claims(token, issuer=site, resource=site, now=900.0) is None


@pytest.mark.requirement("AS-11")
def test_refresh_token_issued_in_the_future_is_refused_despite_a_valid_grant(site: Site) -> None:
    tokens = site.tokens()
    site.clock.now += 2 * HOUR
    newer = site.refresh(tokens["refresh_token"]).json()
    site.clock.now -= HOUR
    assert site.refresh(newer["refresh_token"]).json()["error"] == "invalid_grant"


@pytest.mark.requirement("AS-11")
def test_clock_set_back_does_not_extend_the_refresh_grace_period(open_site: Callable[..., Site]) -> None:
    site = open_site(grace_s=10.0)
    token = site.tokens()["refresh_token"]
    site.clock.now += 2 * HOUR
    assert site.refresh(token).status_code == 200
    site.clock.now -= HOUR
    assert site.refresh(token).json()["error"] == "invalid_grant"
    assert "refresh token reused" in [event.kind for event in site.events]


@pytest.mark.requirement("AS-19")
def test_session_started_in_the_future_is_invalid(site: Site) -> None:
    site.browser.sign_in()
    assert site.browser.get(site.ask()).status_code == 200
    site.clock.now -= HOUR
    assert "/oauth/login" in site.browser.get(site.ask()).headers["location"]


@pytest.mark.requirement("AS-19")
def test_password_attempts_in_the_future_do_not_count(site: Site) -> None:
    for _ in range(5):
        site.browser.sign_in(password="wrong")
    assert "Too many" in site.browser.sign_in().text
    site.clock.now -= HOUR
    assert site.browser.sign_in().status_code == 303


def test_a_stored_text_of_the_future_is_not_found(site: Site) -> None:
    with site.store.write_transaction() as rows:
        rows.save_record("a", "text", now=HOUR, until=2 * HOUR)
        assert rows.find_record("a", HOUR + 1) == "text"
        assert rows.find_record("a", HOUR - 60) is None


def test_expired_rows_are_deleted_after_a_clock_change(site: Site) -> None:
    def count_attempts() -> Any:
        with sqlite3.connect(site.path) as database:
            return database.execute("SELECT count(*) FROM oauth_attempts").fetchone()[0]

    site.server._passed = ConfirmedTime(site.clock)
    site.clock.now -= HOUR
    site.browser.sign_in(password="wrong")
    assert count_attempts() > 0
    site.clock.now += 700
    site.browser.get("/oauth/login")
    site.clock.now += 700
    site.browser.get("/oauth/login")
    site.clock.now += 700
    site.browser.get("/oauth/login")
    assert count_attempts() == 0


@pytest.mark.requirement("RE-01")
def test_a_leap_of_the_clock_ends_nothing(site: Site) -> None:
    tokens = site.tokens()
    site.browser.sign_in()
    site.clock.now += 366 * 24 * HOUR
    site.new_browser().get("/oauth/login")
    site.clock.now -= 366 * 24 * HOUR
    assert "code=" in site.browser.get(site.ask()).headers["location"], "still signed in"
    assert site.caller(tokens["access_token"]).scopes
    assert "access_token" in site.refresh(tokens["refresh_token"]).json()


@pytest.mark.requirement("AS-05", "AS-08")
def test_clocks_of_two_processes_may_differ_a_little(site: Site) -> None:
    site.clock.now += 20  # the process that issues
    code = site.code()
    site.clock.now -= 20  # the process that redeems
    assert site.caller(site.redeem(code).json()["access_token"]).scopes
