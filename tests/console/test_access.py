"""Who may see a console and act in it: one browser for each key, and no page of another site."""

from __future__ import annotations

import http.client
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest

from tests.console.conftest import Browser, Started, build_question

PAGES = ("/", "/inbox", "/permissions", "/rules", "/log", "/nothing")


@pytest.mark.requirement("CO-02", "D-19")
def test_without_the_key_there_is_only_the_page_that_asks_for_it(start: Callable[..., Started]) -> None:
    console = start()
    console.source.approvals.ask(build_question())
    stranger = Browser(console.url)
    for path in PAGES:
        reply = stranger.get(path)
        assert (reply.status, "bank.example" in reply.text) == (401, False)
        assert "Sign in to the console" in reply.text
    assert stranger.get("/events").status == 401
    assert stranger.send("POST", "/inbox", "answer=allow").status == 401
    assert stranger.sign_in("guess").status == 403


@pytest.mark.requirement("CO-02", "D-19")
def test_key_lets_one_browser_in_and_the_next_key_another(start: Callable[..., Started]) -> None:
    console = start()
    first = console.key.key
    assert console.browser().get("/").status == 200
    late = Browser(console.url)
    assert late.sign_in(first).status == 403
    assert late.sign_in(console.key.key).status == 303
    assert late.get("/").status == 200


@pytest.mark.requirement("CO-02", "D-22")
def test_cookie_is_for_this_console_alone_and_no_script_reads_it(start: Callable[..., Started]) -> None:
    console = start()
    cookie = Browser(console.url).sign_in(console.key.key).headers["set-cookie"]
    assert cookie.startswith(f"toolwire_console_{urlsplit(console.url).port}=")
    assert cookie.endswith("; Path=/; HttpOnly; SameSite=Strict")
    # behind a proxy, the port of the browser is another one
    form = urlencode({"key": console.key.key, "next": "/"})
    public = Browser(console.url).send("POST", "/sign-in", form, host="127.0.0.1:7")
    assert public.headers["set-cookie"].startswith("toolwire_console_7=")


@pytest.mark.requirement("CO-02", "D-19", "AT-37")
def test_wrong_keys_do_not_lock_out_an_operator_of_the_same_address(
    start: Callable[..., Started],
) -> None:
    console = start()
    stranger = Browser(console.url)
    for number in range(20):
        assert stranger.sign_in(f"guess {number}").status == 403
    assert Browser(console.url).sign_in(console.key.key).status == 303


@pytest.mark.requirement("CO-02", "D-24")
def test_console_answers_to_its_own_host_alone(start: Callable[..., Started]) -> None:
    console = start()
    for host in ("evil.example", "127.0.0.1.evil.example"):
        connection = http.client.HTTPConnection(urlsplit(console.url).netloc)
        connection.request("GET", "/", headers={"Host": host})
        assert connection.getresponse().status == 421
        connection.close()


@pytest.mark.requirement("CO-02", "D-22")
@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "http://127.0.0.1:1"},
        {"sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "same-site"},
    ],
)
def test_no_other_page_answers_a_question_even_with_cookie_and_token(
    headers: dict[str, str], start: Callable[..., Started]
) -> None:
    console = start()
    id_ = console.source.approvals.ask(build_question())
    browser = console.browser()
    token = browser.get("/inbox").text.partition('name="token" value="')[2].partition('"')[0]
    form = urlencode({"token": token, "id": id_, "answer": "allow"})
    assert browser.send("POST", "/inbox", form, **headers).status == 403
    assert [one.id for one in console.source.approvals.list_pending()] == [id_]
    assert browser.send("POST", "/inbox", form).status == 303


@pytest.mark.requirement("CO-02", "D-22")
def test_form_without_the_token_of_its_session_is_refused(start: Callable[..., Started]) -> None:
    console = start()
    id_ = console.source.approvals.ask(build_question())
    other = console.browser()
    browser = console.browser()
    foreign = other.get("/inbox").text.partition('name="token" value="')[2].partition('"')[0]
    for token in ("", "guess", foreign):
        form = urlencode({"token": token, "id": id_, "answer": "allow"})
        assert browser.send("POST", "/inbox", form).status == 403
    assert len(console.source.approvals.list_pending()) == 1


@pytest.mark.requirement("CO-02", "D-25")
def test_each_page_forbids_frames_inline_scripts_and_everything_from_elsewhere(start: Callable[..., Started]) -> None:
    console = start()
    browser = console.browser()
    for path in (*PAGES, "/sign-in"):
        headers = browser.get(path).headers
        policy = headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; style-src 'sha256-")
        assert "unsafe" not in policy
        assert {"script-src 'self'", "frame-ancestors 'none'", "base-uri 'none'"} <= set(policy.split("; "))
        assert (headers["x-frame-options"], headers["cache-control"]) == ("DENY", "no-store")


@pytest.mark.requirement("CO-02")
def test_signing_out_ends_the_session(start: Callable[..., Started]) -> None:
    browser = start().browser()
    browser.submit("/sign-out")
    assert browser.get("/").status == 401


@pytest.mark.requirement("CO-02", "D-22")
def test_cookie_that_came_by_https_can_be_set_by_no_other_host(start: Callable[..., Started]) -> None:
    console = start()
    host = urlsplit(console.url).netloc
    browser = Browser(console.url)
    form = urlencode({"key": console.key.key, "next": "/"})
    text = browser.send("POST", "/sign-in", form, origin=f"https://{host}").headers["set-cookie"]
    name, _, rest = text.partition("=")
    assert name == f"__Host-toolwire_console_{urlsplit(console.url).port}"
    assert rest.endswith("; Path=/; HttpOnly; SameSite=Strict; Secure")
    # One that a host of the same domain has planted does not take its place.
    mine, theirs = rest.partition(";")[0], console.browser().cookie
    browser.cookie = f"{theirs}; {name}={mine}"
    foreign = Browser(console.url, theirs).get("/inbox").text.partition('name="token" value="')[2].partition('"')[0]
    assert foreign
    assert foreign not in browser.get("/inbox").text


@pytest.mark.requirement("CO-02")
def test_cookies_of_other_programs_at_this_host_sign_nobody_out(start: Callable[..., Started]) -> None:
    browser = start().browser()
    browser.cookie = f'seen={{"a": [1]}}; "; ü=1; {browser.cookie}; x'
    assert browser.get("/").status == 200


@pytest.mark.requirement("CO-02")
@pytest.mark.parametrize(("method", "status"), [("PUT", 405), ("DELETE", 405), ("HEAD", 200)])
def test_other_methods_do_nothing(method: str, status: int, start: Callable[..., Started]) -> None:
    assert start().browser().send(method, "/").status == status


@pytest.mark.requirement("CO-02")
def test_form_that_is_too_large_is_refused(start: Callable[..., Started]) -> None:
    browser: Any = start().browser()
    assert browser.send("POST", "/inbox", "a=" + "b" * (5 << 20)).status == 413


@pytest.mark.requirement("CO-02")
def test_sign_in_leads_to_pages_of_this_console_only(start: Callable[..., Started]) -> None:
    console = start()
    for wanted in ("https://evil.example", "//evil.example", "/\\evil.example", "/nothing\r\nx: y"):
        browser = Browser(console.url)
        form = urlencode({"key": console.key.key, "next": wanted})
        assert browser.send("POST", "/sign-in", form).headers["location"] == "/"


@pytest.mark.requirement("CO-02", "D-22")
def test_cookie_is_sent_by_https_alone_where_the_address_for_users_is_https(start: Callable[..., Started]) -> None:
    console = start(public_url="https://tools.example", hosts=["tools.example"])
    form = urlencode({"key": console.key.key, "next": "/"})
    public = Browser(console.url).send("POST", "/sign-in", form, host="tools.example").headers["set-cookie"]
    assert public.startswith("__Host-toolwire_console")
    assert public.endswith("; Path=/; HttpOnly; SameSite=Strict; Secure")
    # An operator on the machine itself comes by http, where a browser keeps no such cookie.
    form = urlencode({"key": console.key.key, "next": "/"})
    own = Browser(console.url).send("POST", "/sign-in", form).headers["set-cookie"]
    assert own.startswith("toolwire_console")
    assert own.endswith("; Path=/; HttpOnly; SameSite=Strict")
