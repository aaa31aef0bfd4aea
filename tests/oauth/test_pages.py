"""Signing in, the consent page, and what another site cannot do with them."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import pytest

from toolwire.auth.clients import Client
from toolwire.core.errors import DefinitionError

from .conftest import CALLBACK, CLIENTS, COOKIE, ISSUER, Site

PAGES = [
    "/oauth/login",
    "/oauth/authorize",
    "/oauth/authorize?client_id=nobody",
    "/oauth/consent",
    "/oauth/nothing",
    "/oauth/logout",
]


@pytest.mark.requirement("AS-17", "D-23")
@pytest.mark.parametrize("path", PAGES)
def test_every_page_including_errors_forbids_framing(site: Site, path: str) -> None:
    page = site.browser.get(path)
    policy = page.headers["content-security-policy"]
    assert "frame-ancestors 'none'" in policy
    assert "default-src 'none'" in policy
    assert page.headers["x-frame-options"] == "DENY"
    assert "<script" not in page.text


@pytest.mark.requirement("AS-17")
def test_consent_page_shows_app_host_scopes_and_user(site: Site) -> None:
    site.browser.sign_in()
    page = site.browser.get(site.ask())
    for shown in ("The App", "app.example", "See your tasks", "Change your tasks", "tasks:read", "Ada", "Tasks"):
        assert shown in page.text
    assert "Delete your tasks" not in page.text
    assert "form-action 'self' https://app.example;" in page.headers["content-security-policy"]
    assert page.text.index("Do not allow") < page.text.index(">Allow<")  # Enter presses the first


@pytest.mark.requirement("AS-17", "D-25")
def test_app_name_is_escaped_on_pages(open_site: Callable[..., Site]) -> None:
    name = "<script>alert(1)</script>\u202e\u200bevil" + "x" * 150
    evil = Client(id='evil"><img src=x>', name=name, redirect_uris=(CALLBACK,))
    site = open_site(clients=(evil,))
    site.browser.sign_in()
    page = site.browser.get(site.ask(evil.id)).text
    assert "<script" not in page
    assert "<img" not in page
    assert "\u202e" not in page
    assert "x" * 100 not in page


@pytest.mark.requirement("AS-19")
def test_sign_in_creates_a_new_session_in_a_host_only_cookie(site: Site) -> None:
    page = site.browser.get("/oauth/login")
    before = page.headers["set-cookie"]
    entered = site.browser.sign_in(onward="/oauth/authorize?x=1")
    after = entered.headers["set-cookie"]
    assert entered.status_code == 303
    assert entered.headers["location"] == "/oauth/authorize?x=1"
    for cookie in (before, after):
        assert cookie.startswith(f"{COOKIE}=")
        assert {"Path=/", "Secure", "HttpOnly", "SameSite=Lax"} <= set(cookie.split("; "))
        assert "Domain" not in cookie
    assert before.split(";")[0] != after.split(";")[0]
    old = site.new_browser()
    old.cookies.set(COOKIE, before.split(";")[0].split("=")[1])
    assert old.get(site.ask()).headers["location"].startswith("/oauth/login")


@pytest.mark.requirement("AS-19", "D-28", "R18")
@pytest.mark.parametrize(
    "onward", ["https://evil.example/", "//evil.example", "/\\evil.example", "javascript:alert(1)", "", "/\r\nx"]
)
def test_sign_in_redirects_only_within_this_site(site: Site, onward: str) -> None:
    assert site.browser.sign_in(onward=onward).headers["location"] == "/"


@pytest.mark.requirement("AS-19")
def test_unknown_name_and_wrong_password_look_the_same_and_five_attempts_block(site: Site) -> None:
    wrong = site.browser.sign_in(password="wrong horse")
    nobody = site.browser.sign_in(name="Nobody")
    assert (wrong.status_code, nobody.status_code) == (403, 403)
    hidden = re.compile(r'value="[^"]*"')
    assert hidden.sub("", wrong.text) == hidden.sub("", nobody.text)
    for _ in range(4):
        site.browser.sign_in(password="wrong horse")
    assert "Too many attempts" in site.browser.sign_in(name="ADA").text  # even with the right password, in any case
    site.clock.now += 61
    assert site.browser.sign_in().status_code == 303


@pytest.mark.requirement("AS-19", "D-27")
def test_an_unknown_name_costs_one_password_check_like_a_known_one(site: Site) -> None:
    checked: list[str] = []

    class Counting:
        def hash(self, password: str) -> str:
            return "hash of " + password

        def verify(self, hashed: str, password: str) -> bool:
            checked.append(hashed)
            return hashed == "hash of " + password

        def check_needs_rehash(self, hashed: str) -> bool:
            return False

    people = type(site.people)(site.store, hasher=Counting())  # type: ignore[arg-type]  # the three methods it uses
    people.add("Grace", "correct horse")
    assert people.check("Grace", "wrong horse") is None
    assert people.check("Nobody", "wrong horse") is None
    assert people.check("grace", "correct horse") is not None
    assert len(checked) == 3


@pytest.mark.requirement("AS-19")
def test_passwords_are_kept_as_argon2id(site: Site) -> None:
    with site.store.read_transaction() as rows:
        found = rows.find_user_by_name("ada")
    assert found is not None
    assert found[2].startswith("$argon2id$")
    with pytest.raises(ValueError, match="8 to"):
        site.people.add("Bob", "short")
    assert site.people.add("ADA", "another horse") is None


CROSS_SITE = [
    {"origin": "https://evil.example"},
    {"origin": "null"},
    {"sec-fetch-site": "cross-site"},
    {"sec-fetch-site": "same-site"},
]


@pytest.mark.requirement("D-22", "AS-17", "D-28", "R18")
@pytest.mark.parametrize("headers", CROSS_SITE, ids=str)
def test_form_posted_from_another_site_is_refused(site: Site, headers: dict[str, str]) -> None:
    site.browser.sign_in()
    page = site.browser.get(site.ask())
    form = {**site.browser.fields(page), "scope": "tasks:read", "decision": "allow"}
    assert site.browser.post("/oauth/consent", form, headers=headers).status_code == 403
    assert site.browser.post("/oauth/logout", {"token": form["token"]}, headers=headers).status_code == 403
    assert site.answer(site.browser.allow(page))["code"]  # none of it changed anything


@pytest.mark.requirement("D-22", "AS-17")
def test_form_requires_the_csrf_token_of_its_session(site: Site) -> None:
    site.browser.sign_in()
    page = site.browser.get(site.ask())
    fields = site.browser.fields(page)
    for token in ("", "x", "ä", site.browser.fields(site.new_browser().get("/oauth/login"))["token"]):
        form = {**fields, "token": token, "scope": "tasks:read", "decision": "allow"}
        assert site.browser.post("/oauth/consent", form).status_code == 403
    assert site.new_browser().post("/oauth/consent", {**fields, "decision": "allow"}).status_code == 403
    assert site.browser.get("/oauth/consent").status_code == 405  # nothing changes by GET
    assert site.browser.get("/oauth/logout").status_code == 405


@pytest.mark.requirement("D-31", "D-30")
def test_consent_request_can_be_answered_once_by_its_own_user(site: Site) -> None:
    site.people.add("Bob", "bobs password")
    site.browser.sign_in()
    page = site.browser.get(site.ask())
    handle = site.browser.fields(page)["request"]
    bob = site.new_browser()
    bob.sign_in("Bob", "bobs password")
    own = bob.fields(bob.get(site.ask()))
    assert (
        bob.post("/oauth/consent", {**own, "request": handle, "scope": "tasks:read", "decision": "allow"}).status_code
        == 404
    )
    assert site.answer(site.browser.allow(page))["code"]
    assert site.browser.allow(page).status_code == 404
    late = site.browser.get(site.ask())
    site.clock.now += 601
    assert site.browser.allow(late).status_code == 404


@pytest.mark.requirement("AS-19")
def test_signing_out_ends_the_session(site: Site) -> None:
    site.browser.sign_in()
    token = site.browser.fields(site.browser.get(site.ask()))["token"]
    stored = dict(site.browser.cookies)[COOKIE]
    assert site.browser.post("/oauth/logout", {"token": token}).status_code == 303
    again = site.new_browser()
    again.cookies.set(COOKIE, stored)
    assert again.get(site.ask()).headers["location"].startswith("/oauth/login")


@pytest.mark.requirement("XL-116", "D-30")
def test_user_sees_connected_apps_and_can_revoke_one(site: Site) -> None:
    site.people.add("Bob", "bobs password")
    tokens = site.tokens()
    ada = site.caller(tokens["access_token"]).name
    (grant,) = site.runner.run(site.server.list_grants(ada))
    assert (grant.client_name, grant.scopes) == ("The App", ("tasks:read", "tasks:write"))
    assert site.runner.run(site.server.list_grants("somebody else")) == []
    assert site.runner.run(site.server.disconnect("somebody else", grant.id)) is False
    assert site.caller(tokens["access_token"]).scopes
    assert site.runner.run(site.server.disconnect(ada, grant.id)) is True
    assert site.caller(tokens["access_token"]).kind == "unauthorized"
    assert site.runner.run(site.server.list_grants(ada)) == []


@pytest.mark.requirement("AS-21")
@pytest.mark.parametrize(
    "wrong",
    [
        {"issuer": "http://tasks.example"},
        {"issuer": "https://tasks.example?x"},
        {"issuer": "https://tasks.example#x"},
        {"issuer": "https://user@tasks.example"},
        {"issuer": "tasks.example"},
        {"resource": "http://tasks.example"},
        {"default_scopes": ("admin",)},
    ],
    ids=str,
)
def test_unsafe_server_configuration_is_refused(open_site: Callable[..., Site], wrong: dict[str, str]) -> None:
    with pytest.raises(DefinitionError):
        open_site(**wrong)


@pytest.mark.requirement("AS-21")
def test_an_https_server_does_not_answer_http(site: Site) -> None:
    plain = type(site.browser)(site.server, ISSUER.replace("https", "http"), site.runner)
    assert plain.get(site.ask()).status_code == 421
    assert plain.post("/oauth/token", {"client_id": "app"}).status_code == 400


@pytest.mark.requirement("AS-21", "D-24")
def test_loopback_server_can_use_http_only_under_its_own_name(open_site: Callable[..., Site]) -> None:
    site = open_site(issuer="http://127.0.0.1:8000", clients=CLIENTS)
    assert site.browser.sign_in().headers["set-cookie"].startswith("toolwire-session-")
    assert site.browser.get(site.ask()).status_code == 200
    rebound = type(site.browser)(site.server, "http://evil.example:8000", site.runner)
    assert rebound.get(site.ask()).status_code == 421


@pytest.mark.requirement("R9", "R10")
@pytest.mark.parametrize("path", ["/oauth/login", "/oauth/token"])
def test_form_that_does_not_arrive_is_abandoned(
    open_site: Callable[..., Site], serve: Callable[[Callable[[str], Any]], str], path: str
) -> None:
    place = urlsplit(serve(lambda base: open_site(issuer=base, body_s=0.05).server))
    head = f"POST {path} HTTP/1.1\r\nhost: {place.netloc}\r\ncontent-length: 9\r\n\r\nname=Ada"
    with socket.create_connection((place.hostname, place.port), 10) as browser:
        browser.sendall(head.encode())
        with browser.makefile("rb") as answer:
            reply = answer.read()  # to its end: the connection is closed
    assert reply.startswith(b"HTTP/1.1 408 ")
    assert b"within 0.05 seconds" in reply
