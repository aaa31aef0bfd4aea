"""A browser that showed a key once: what its cookie opens, for how long, and what it does not open."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from tests.postgres import shared_postgres  # noqa: F401 - a fixture
from toolwire import Secret, Toolkit, asgi
from toolwire.core.http import Response
from toolwire.core.model import Problem
from toolwire.server import App
from toolwire.server.access.api_keys import ApiKey, ApiKeyCallers
from toolwire.server.access.browser_session import BrowserUser
from toolwire.server.access.callers import AnonymousCallers, Caller, CombinedCallers
from toolwire.server.access.key_sessions import SESSION_S, KeySessions
from toolwire.server.access.session_ends import MAX_HERE
from toolwire.server.asking.confirmation import ConfirmationTokens

Ask = Callable[..., Response]
BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
FORM = {"accept": BROWSER, "content-type": "application/x-www-form-urlencoded", "sec-fetch-site": "same-origin"}
KEY = "ada-key-of-a-caller"
SCOPE = {"type": "http", "scheme": "http", "server": ("127.0.0.1", 9627), "root_path": ""}


def serve(*names: str, place: Path | str = "", **options: Any) -> App:
    kit = Toolkit("Bureau")

    @kit.tool(long=True, approval="auto")
    def build() -> int:
        """Build."""
        return 7

    keys = [ApiKey(key=Secret(f"{name}-key-of-a-caller"), name=name) for name in names]
    return asgi(kit, api_keys=keys, confirmations=place, **options)


def post(ask: Ask, app: App, fields: dict[str, str], path: str = "/calls", **header: str) -> Response:
    headers = {**FORM, **{name.replace("_", "-"): value for name, value in header.items()}}
    return ask(app, "POST", path, headers, urlencode(fields).encode())


def sign_in(ask: Ask, app: App, key: str = KEY) -> str:
    """Return the cookie that a browser sends after the sign-in."""
    done = post(ask, app, {"step": "sign-in", "key": key})
    assert (done.status, dict(done.headers)[b"location"]) == (303, b"/calls")
    given = dict(done.headers)[b"set-cookie"].decode()
    assert all(word in given for word in ("; HttpOnly", "; SameSite=Strict", "; Path=/", "; Max-Age=3600"))
    return given.partition(";")[0]


def look(ask: Ask, app: App, cookie: str, **header: str) -> Response:
    return ask(app, "GET", "/calls", {"accept": BROWSER, "cookie": cookie, **header})


@pytest.mark.requirement("LC-05", "D-22")
def test_cookie_opens_the_pages_and_holds_nothing_of_the_key(ask: Ask) -> None:
    app = serve("ada", "bob")
    cookie = sign_in(ask, app)
    seen = look(ask, app, cookie)
    assert (seen.status, b"key:ada" in seen.body, b"Sign out" in seen.body) == (200, True, True)
    raw = cookie.partition("=")[2].partition(".")[0]
    text = base64.urlsafe_b64decode(raw + "=" * (-len(raw) % 4)).decode()
    assert KEY not in text + cookie
    assert sha256(KEY.encode()).hexdigest() not in text  # a weak key could be guessed at by it


@pytest.mark.requirement("LC-05", "D-22", "D-27")
def test_cookie_is_no_credential_for_a_program(ask: Ask) -> None:
    app = serve("ada")
    cookie = sign_in(ask, app)
    for method, path, accept in (
        ("GET", "/calls", "application/json"),
        ("GET", "/api/build", BROWSER),
        ("POST", "/mcp", "application/json, text/event-stream"),
        ("POST", "/", BROWSER),
    ):
        answer = ask(app, method, path, {"cookie": cookie, "accept": accept, "content-type": "application/json"}, b"{}")
        assert answer.status == 401, path


@pytest.mark.requirement("LC-05", "D-22")
def test_form_of_another_site_signs_nobody_in_or_out(ask: Ask) -> None:
    app = serve("ada")
    cookie = sign_in(ask, app)
    for foreign in ({"sec_fetch_site": "cross-site"}, {"origin": "https://evil.example"}):
        refused = post(ask, app, {"step": "sign-in", "key": KEY}, **foreign)
        assert (refused.status, b"set-cookie" in dict(refused.headers)) == (403, False)
        refused = post(ask, app, {"step": "sign-out"}, cookie=cookie, **foreign)
        assert (refused.status, b"set-cookie" in dict(refused.headers)) == (403, False)
    done = post(ask, app, {"step": "sign-out"}, cookie=cookie)
    assert (done.status, b"Max-Age=0" in dict(done.headers)[b"set-cookie"]) == (303, True)


@pytest.mark.requirement("LC-05", "D-22")
def test_wrong_key_begins_no_session_and_a_changed_cookie_is_none(ask: Ask) -> None:
    app = serve("ada", "bob")
    wrong = post(ask, app, {"step": "sign-in", "key": "a-wrong-key"})
    assert (wrong.status, b"set-cookie" in dict(wrong.headers)) == (401, False)
    name, _, value = sign_in(ask, app).partition("=")
    text, _, signature = value.partition(".")
    other = sign_in(ask, serve("ada", "bob")).partition("=")[2]  # of another server, with another secret
    for forged in ("", ".", "x.y", f"{text}.", f"{text}x.{signature}", f".{signature}", other, "\xff.\xff"):
        assert look(ask, app, f"{name}={forged}").status == 401, forged


@pytest.mark.requirement("LC-05", "D-22", "D-27")
def test_key_that_is_taken_away_ends_its_sessions_at_once(ask: Ask, tmp_path: Path) -> None:
    cookie = sign_in(ask, serve("ada", "bob", place=tmp_path / "words"))
    # another process of the same server knows the session, as long as it has the key
    assert look(ask, serve("bob", "ada", place=tmp_path / "words"), cookie).status == 200
    assert look(ask, serve("bob", place=tmp_path / "words"), cookie).status == 401


class Tokens(AnonymousCallers):
    """A source that knows its callers by tokens."""

    needs_credentials = True


@pytest.mark.requirement("LC-05", "D-39")
@pytest.mark.parametrize("shared", ["", "folder", "postgresql"])
def test_copy_of_a_cookie_opens_nothing_after_the_sign_out(
    ask: Ask, tmp_path: Path, shared: str, request: pytest.FixtureRequest
) -> None:
    place: Path | str = tmp_path / "words" if shared == "folder" else ""
    if shared == "postgresql":
        place = request.getfixturevalue("shared_postgres").create_database()
    app = serve("ada", "bob", place=place)
    cookie, second, other = sign_in(ask, app), sign_in(ask, app), sign_in(ask, app, "bob-key-of-a-caller")
    foreign = post(ask, app, {"step": "sign-out"}, cookie=cookie, origin="https://evil.example")
    assert (foreign.status, look(ask, app, cookie).status) == (403, 200)
    assert post(ask, app, {"step": "sign-out"}, cookie=cookie).status == 303
    # the other browsers stay signed in, and another process of the same server knows of the sign-out
    for each in (app, serve("ada", "bob", place=place)) if shared else (app,):
        assert [look(ask, each, one).status for one in (cookie, second, other)] == [401, 200, 200]


@pytest.mark.requirement("LC-05", "D-39")
def test_without_the_store_of_sign_outs_no_cookie_is_trusted_and_a_sign_out_says_that_it_failed(
    ask: Ask, tmp_path: Path
) -> None:
    app = serve("ada", place=tmp_path / "words")
    cookie = sign_in(ask, app)
    assert look(ask, app, cookie).status == 200
    store = tmp_path / "words" / "ended_sessions.sqlite3"
    store.unlink()
    store.mkdir()
    app = serve("ada", place=tmp_path / "words")
    for answer in (look(ask, app, cookie), post(ask, app, {"step": "sign-out"}, cookie=cookie)):
        assert (answer.status, b"read or end this server" in answer.body) == (503, True)
        assert b"set-cookie" not in dict(answer.headers)


@pytest.mark.requirement("LC-05", "D-39")
def test_sign_outs_of_one_caller_bring_no_ended_session_back() -> None:
    now = [1_000_000.0]
    keys = ApiKeyCallers([ApiKey(key=Secret(KEY), name="ada"), ApiKey(key=Secret("bob-key"), name="bob")])
    sessions = KeySessions(keys, b"s" * 32, wall=lambda: now[0])

    async def begin(credential: str, name: str) -> dict[bytes, bytes]:
        field = await sessions.begin(SCOPE, {}, credential.encode(), Caller(f"key:{name}"))
        assert isinstance(field, tuple)
        return {b"cookie": field[1].partition(b";")[0]}

    async def story() -> None:
        ended = await begin(KEY, "ada")
        await sessions.end(SCOPE, ended)
        for _ in range(MAX_HERE + 1):
            await sessions.end(SCOPE, await begin("bob-key", "bob"))
        assert await sessions.find(SCOPE, ended) is None
        now[0] += 1
        assert await sessions.find(SCOPE, await begin(KEY, "ada")) is not None

    asyncio.run(story())


@pytest.mark.requirement("LC-05", "D-22")
def test_session_lasts_an_hour_and_that_of_a_token_no_longer_than_the_token() -> None:
    now = [1_000_000.0]
    keys = ApiKeyCallers([ApiKey(key=Secret(KEY), name="ada")])
    sessions = KeySessions(CombinedCallers(Tokens(), keys), b"s" * 32, wall=lambda: now[0])

    def begin(credential: str, caller: Caller) -> dict[bytes, bytes]:
        field = asyncio.run(sessions.begin(SCOPE, {}, credential.encode(), caller))
        assert isinstance(field, tuple)
        return {b"cookie": field[1].partition(b";")[0]}

    claims = base64.urlsafe_b64encode(json.dumps({"exp": now[0] + 60}).encode()).decode().rstrip("=")
    eve = Caller("eve", frozenset({"a"}), "app")
    lasts = {
        SESSION_S: begin(KEY, Caller("key:ada")),
        900.0: begin("a-token-without-an-end", eve),
        60.0: begin(f"h.{claims}.s", eve),
    }
    for seconds, fields in lasts.items():
        now[0] = 1_000_000.0 + seconds - 1
        found = asyncio.run(sessions.find(SCOPE, fields))
        assert found is not None
        assert found.caller == (eve if seconds < SESSION_S else Caller("key:ada"))
        now[0] += 1
        assert asyncio.run(sessions.find(SCOPE, fields)) is None
        now[0] = 1_000_000.0
    # another port of this host is another server; a caller whom no cookie holds gets none
    elsewhere = {**SCOPE, "server": ("127.0.0.1", 9628)}
    assert asyncio.run(sessions.find(elsewhere, lasts[60.0])) is None
    assert asyncio.run(sessions.begin(SCOPE, {}, b"token", Caller("e" * 4_000))) is None


@pytest.mark.requirement("LC-05", "D-22")
def test_cookie_that_came_by_https_goes_back_by_https_alone(ask: Ask) -> None:
    app = serve("ada", hosts=["tools.example"])
    fields = {"host": "tools.example", "origin": "https://tools.example"}
    given = dict(post(ask, app, {"step": "sign-in", "key": KEY}, **fields).headers)[b"set-cookie"].decode()
    assert given.startswith("__Host-toolwire_calls_")
    assert given.endswith("; Secure")
    cookie = given.partition(";")[0]
    assert look(ask, app, cookie, host="tools.example").status == 200


@pytest.mark.requirement("AT-42", "D-39")
def test_who_reads_the_state_cannot_make_the_session_of_a_token(tmp_path: Path) -> None:
    words = ConfirmationTokens(tmp_path)
    secret = words.derive_key(b"key sessions")  # what an attacker reads in the state
    sessions = [KeySessions(Tokens(), secret, place=tmp_path) for _ in range(2)]
    eve = Caller("eve", frozenset({"a"}), "app")

    async def story() -> None:
        forged = await KeySessions(Tokens(), secret).begin(SCOPE, {}, b"a-token", eve)
        assert isinstance(forged, tuple)
        fields = {b"cookie": forged[1].partition(b";")[0]}
        assert await sessions[0].find(SCOPE, fields) is None
        begun = await sessions[0].begin(SCOPE, {}, b"a-token", eve)
        assert isinstance(begun, tuple)
        fields = {b"cookie": begun[1].partition(b";")[0]}
        for one in sessions:  # the other process too
            found = await one.find(SCOPE, fields)
            assert isinstance(found, BrowserUser)
            assert found.caller == eve
        assert await sessions[1].end(SCOPE, fields)
        assert await sessions[0].find(SCOPE, fields) is None

    asyncio.run(story())


@pytest.mark.requirement("AT-42")
def test_session_of_a_token_that_cannot_be_kept_does_not_begin(tmp_path: Path) -> None:
    sessions = KeySessions(Tokens(), b"s" * 32, place=tmp_path)
    (tmp_path / "ended_sessions.sqlite3").mkdir()
    found = asyncio.run(sessions.begin(SCOPE, {}, b"a-token", Caller("eve")))
    assert isinstance(found, Problem)
    assert "Cannot read or end this server's sessions now. Try again" in found.message
