"""Floods of sign-ins, registrations and fetches: bounded, and no way to keep others out."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from typing import Any

import httpx2
import pytest

from tests.oauth.app_document import URL, build_document_response
from tests.oauth.registered_app import register_app
from tests.support.waiting import wait_until_async
from toolwire.core.http import Response
from toolwire.server.oauth.client_lookup import count_fetch_from
from toolwire.stores.oauth.accounts import Accounts

from .conftest import CALLBACK, Site


class SlowPeople:
    """Accounts whose passwords take until ``go`` is set; counts how many are looked at, and at once."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.started = threading.Semaphore(0)
        self.checked = self.now = self.most = 0
        self._lock = threading.Lock()

    def check(self, name: str, password: str) -> None:
        with self._lock:
            self.checked += 1
            self.now += 1
            self.most = max(self.most, self.now)
        self.started.release()
        self.go.wait(20)
        with self._lock:
            self.now -= 1

    def find(self, user_id: str) -> None:
        return None


@pytest.mark.requirement("D-34", "AS-19", "AT-09")
def test_sign_in_flood_uses_few_threads_and_leaves_others_responsive(open_site: Callable[..., Site]) -> None:
    people = SlowPeople()
    site = open_site(users=people)

    async def flood() -> None:
        browsers = [site.new_browser(f"203.0.113.{number}") for number in range(80)]
        pages = [await browser.client.get("/oauth/login") for browser in browsers]
        tasks = [
            asyncio.create_task(
                browser.client.post(
                    "/oauth/login", data={**browser.fields(page), "name": f"n{number}", "password": "wrong horse"}
                )
            )
            for number, (browser, page) in enumerate(zip(browsers, pages, strict=True))
        ]
        await asyncio.to_thread(people.started.acquire)
        await wait_until_async(lambda: sum(task.done() for task in tasks) >= 80 - 2 - 32)
        other = await browsers[0].client.get("/.well-known/oauth-authorization-server")
        token = await site.server.callers.verify({b"authorization": b"Bearer unknown"})
        people.go.set()
        answers = [await task for task in tasks]
        assert (other.status_code, token.kind) == (200, "unauthorized")
        refused = [answer for answer in answers if answer.status_code == 503]
        assert len(refused) == 80 - 2 - 32
        assert {answer.headers["retry-after"] for answer in refused} == {"5"}
        assert "Try again in a few seconds" in refused[0].text
        assert (people.most, people.checked) == (2, 34)

    site.runner.run(flood())


def wrong(site: Site, address: str, name: str = "Ada", password: str = "wrong horse") -> httpx2.Response:
    return site.new_browser(address).sign_in(name=name, password=password)


@pytest.mark.requirement("AS-19", "AT-20")
def test_wrong_passwords_from_others_do_not_lock_an_account(site: Site) -> None:
    waits: list[float] = []

    async def pause(seconds: float) -> None:
        waits.append(seconds)

    object.__setattr__(site.server._context, "pause", pause)
    for number in range(30):
        assert wrong(site, f"198.51.100.{number % 6}").status_code == 403
    assert "Too many attempts for this name from your address" in wrong(site, "198.51.100.1").text
    waits.clear()
    assert wrong(site, "192.0.2.1", password="correct horse").status_code == 303, "from another address Ada gets in"
    assert waits == [3.0], "after a moment"


@pytest.mark.requirement("AS-19", "AT-37")
@pytest.mark.parametrize(
    ("addresses", "others"),
    [
        (["198.51.100.7"] * 31, "198.51.100.8"),
        ([f"2001:db8:0:1::{number}" for number in range(1, 32)], "2001:db8:0:2::1"),
    ],
)
def test_after_thirty_names_from_one_address_each_attempt_waits_and_a_right_password_counts(
    site: Site, addresses: list[str], others: str
) -> None:
    waits: list[float] = []

    async def pause(seconds: float) -> None:
        waits.append(seconds)

    object.__setattr__(site.server._context, "pause", pause)
    for number, address in enumerate(addresses):
        assert wrong(site, address, name=f"name-{number}").status_code == 403
    assert waits == [3.0]
    assert wrong(site, others, name="name-32").status_code == 403
    assert waits == [3.0], "another address does not wait"
    # Everyone behind one proxy may have this address.
    assert wrong(site, addresses[-1], password="correct horse").status_code == 303
    assert waits == [3.0, 3.0]


@pytest.mark.requirement("AS-18", "AT-20")
def test_one_address_cannot_block_registrations_of_others(open_site: Callable[..., Site]) -> None:
    site = open_site(registration=True)
    assert [register_app(site).status_code for _ in range(21)][-1] == 429
    site.browser = site.new_browser("192.0.2.9")
    assert register_app(site).status_code == 201


@pytest.mark.requirement("AS-18", "AT-20")
def test_addresses_of_ipv4_that_come_as_ipv6_are_not_one_network(open_site: Callable[..., Site]) -> None:
    site = open_site(registration=True)
    site.browser = site.new_browser("::ffff:192.0.2.8")
    assert [register_app(site).status_code for _ in range(21)][-1] == 429
    site.browser = site.new_browser("::ffff:192.0.2.9")
    assert register_app(site).status_code == 201


@pytest.mark.requirement("AS-18")
def test_unused_apps_are_deleted_for_new_ones(open_site: Callable[..., Site], monkeypatch: Any) -> None:
    from toolwire.server.oauth import registration

    monkeypatch.setattr(registration, "_MAX_UNUSED", 3)
    site = open_site(registration=True)
    used = register_app(site).json()["client_id"]
    site.code(client_id=used)
    site.redeem(site.code(client_id=used), client_id=used)
    ids = []
    for _ in range(5):
        site.clock.now += 1
        ids.append(register_app(site).json()["client_id"])
    known = [site.browser.get(site.ask(client_id)).status_code == 200 for client_id in (used, *ids)]
    assert known == [True, False, False, True, True, True]


@pytest.mark.requirement("AS-16", "D-34", "AT-14")
@pytest.mark.parametrize(
    "spelled",
    [
        "https://app.example/{}.json",
        "https://App.Example/{}.json",
        "https://app.example:0443/{}.json",
        "https://app.example.:443/{}.json",
        "https://a{}.app.example/c.json",
        "https://a{0}.b{0}.app.example/c.json",
    ],
)
def test_fetches_from_one_site_are_limited_in_every_spelling(site: Site, spelled: str) -> None:
    for number in range(30):
        browser = site.new_browser(f"203.0.113.{number}")
        assert browser.get(site.ask(spelled.format(number))).status_code == 400
    assert len(site.internet.asked) <= 20


@pytest.mark.requirement("AS-16", "D-34")
def test_one_address_cannot_cause_unlimited_fetches_from_many_sites(site: Site) -> None:
    for number in range(60):
        site.browser.get(site.ask(f"https://app-{number}.example/c.json"))
    assert len(site.internet.asked) == 40
    site.internet.pages[URL] = build_document_response()
    assert site.new_browser("192.0.2.9").get(site.ask(URL)).status_code == 303


@pytest.mark.requirement("AS-16", "D-34", "AT-14")
def test_many_domains_with_one_address_share_its_fetch_limit(
    open_site: Callable[..., Site], serve: Callable[[Callable[[str], Any]], str]
) -> None:
    asked: list[str] = []

    async def victim(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        asked.append(scope["path"])
        await send({"type": "http.response.start", "status": 404, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    port = serve(lambda _: victim).rpartition(":")[2]
    site = open_site(issuer="http://127.0.0.1:9999", local_documents=True, fetch=None)
    desk = site.server._context
    assert all(count_fetch_from(desk, "127.0.0.1") for _ in range(55))  # for as many domains of somebody else

    def ask_for_documents(count: int) -> None:
        for number in range(count):
            browser = site.new_browser(f"203.0.113.{number}")
            assert browser.get(site.ask(f"http://127.0.0.1:{port}/{number}.json")).status_code == 400

    ask_for_documents(12)
    assert asked == [f"/{number}.json" for number in range(5)]
    site.clock.now += 61
    ask_for_documents(1)
    assert len(asked) == 6


@pytest.mark.parametrize("written", ["2606:4700::{:x}", "::ffff:1.1.1.1"])
def test_addresses_of_one_network_share_a_limit(site: Site, written: str) -> None:
    found = [count_fetch_from(site.server._context, written.format(number)) for number in range(62)]
    assert found == [True] * 60 + [False] * 2
    assert not count_fetch_from(site.server._context, "2606:4700::ffff" if "{" in written else "1.1.1.1")
    assert count_fetch_from(site.server._context, "9.9.9.9")


EVIL = "https://evil.example/landing"


def document_of(url: str) -> Response:
    body = {"client_id": url, "client_name": "Evil", "redirect_uris": [EVIL]}
    return Response(200, ((b"content-type", b"application/json"),), json.dumps(body).encode())


@pytest.mark.requirement("AS-01", "AS-03", "AT-13")
@pytest.mark.parametrize(
    "mistake", [{"code_challenge_method": "plain"}, {"scope": "nonsense"}, {"response_type": "token"}]
)
@pytest.mark.parametrize("how", ["registered", "document"])
def test_unverified_app_cannot_redirect_without_user_consent(
    open_site: Callable[..., Site], mistake: dict[str, str], how: str
) -> None:
    site = open_site(registration=True)
    if how == "document":
        client = "https://evil.example/c.json"
        site.internet.pages[client] = document_of(client)
    else:
        client = register_app(site, redirect_uris=[EVIL]).json()["client_id"]
    asked = site.ask(client, redirect_uri=EVIL, **mistake)
    stranger = site.browser.get(asked)
    assert (stranger.status_code, "location" in stranger.headers) == (400, False)
    site.browser.sign_in()
    assert site.browser.get(asked).status_code == 400
    site.redeem(site.code(client_id=client, redirect_uri=EVIL), client_id=client, redirect_uri=EVIL)
    assert "error" in site.answer(site.browser.get(asked)), "the person has allowed it before"


@pytest.mark.requirement("AT-15")
@pytest.mark.parametrize("path", ["/oauth/login", "/oauth/consent", "/oauth/logout"])
def test_form_with_too_many_fields_is_refused_in_one_sentence(site: Site, path: str) -> None:
    fields = {f"f{number}": "x" for number in range(150)}
    answer = site.browser.post(path, fields)
    assert answer.status_code == 400
    assert "too many fields" in answer.text
    if path == "/oauth/login":
        assert site.browser.get(path, params=fields).status_code == 400


def test_only_default_scopes_are_preselected(site: Site) -> None:
    site.browser.sign_in()
    page = site.browser.get(site.ask(scope="tasks:read tasks:delete")).text
    assert 'value="tasks:read" checked>' in page
    assert 'value="tasks:delete">' in page
    assert "It lasts at most 90 days, and ends after 30 days without use" in page


def test_consent_page_links_to_the_page_that_revokes(open_site: Callable[..., Site]) -> None:
    site = open_site(connected_url="/connected")
    site.browser.sign_in()
    assert '<a href="/connected">what you allowed</a>' in site.browser.get(site.ask()).text


@pytest.mark.requirement("AT-09")
def test_correct_password_still_works_after_a_flood(site: Site) -> None:
    assert isinstance(site.people, Accounts)
    assert site.browser.sign_in().status_code == 303
    assert CALLBACK in site.browser.allow(site.browser.get(site.ask())).headers["location"]
