"""Callers of a gateway have their own credentials at its upstreams: they sign in on its pages, and are told where."""

from __future__ import annotations

import html
import re
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import httpx2
import pytest
from joserfc import jwt
from joserfc.jwk import OctKey

from tests.cli.conftest import Outcome
from tests.programs import find_free_port
from tests.support.caller_accounts import KEYS, Site, build_kit, call, find_pages, serve_site
from tests.support.exchange_server import ExchangeServer
from tests.support.gateway_process import run_gateway
from tests.support.people import read_fields
from toolwire import Kind, Problem, Value, asgi
from toolwire.client.login import SignInUser
from toolwire.protocols import BUILTIN
from toolwire.testing import background


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the gateway's file, with the keys of its callers and the key of its vault."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "keys.txt").write_text(KEYS)
    key = tmp_path / "vault.key"
    key.touch(mode=0o600)
    key.write_text(secrets.token_hex(32))
    return tmp_path


@pytest.fixture
def tasks(folder: Path) -> Iterator[Site]:
    with serve_site("Tasks", folder) as site:
        yield site


def write_file(folder: Path, more: str = "", **sites: str) -> None:
    tables = "".join(
        f'[upstreams.{name}]\ntarget = "{url}"\nagree = true\ncredentials = "caller"\n' for name, url in sites.items()
    )
    port = find_free_port()
    head = f'port = {port}\npublic-url = "http://127.0.0.1:{port}"\n'
    text = f'{head}api-key-file = "keys.txt"\nkey-file = "vault.key"\nstate = "kept"\n{tables}{more}'
    (folder / "toolwire.toml").write_text(text)


def sign_in(page: str, key: str, name: str) -> httpx2.Response:
    """Sign in on the page at this URL as a person does in a browser, and return the last page."""
    with httpx2.Client() as client:
        assert "password" in client.get(page).text
        chosen = client.post(page, data={"key": key})
        assert "Continue to" in chosen.text, re.sub("<[^>]*>", " ", chosen.text.partition("</head>")[2])
        (onward,) = re.findall(r'href="(http[^"]*)"', chosen.text)
        answer = client.get(html.unescape(onward))
        for _ in range(8):
            if answer.has_redirect_location:
                answer = client.get(str(answer.url.join(answer.headers["location"])))
                continue
            if "/sign-in/return" in str(answer.url):
                return answer
            form = read_fields(answer.text)
            action = re.findall(r'action="([^"]*)"', answer.text)[0]
            if 'name="password"' in answer.text:
                form |= {"name": name, "password": "correct horse"}
            else:
                scopes = re.findall(r'name="scope" value="([^"]*)"', answer.text)
                form |= {"scope": scopes, "decision": "allow"}  # type: ignore[dict-item]  # a list is several fields
            answer = client.post(str(answer.url.join(action)), data=form)
        raise AssertionError(answer.text)


@pytest.mark.requirement("GW-02", "GW-03")
def test_each_caller_signs_in_and_calls_the_upstream_as_themselves(folder: Path, tasks: Site) -> None:
    write_file(folder, tasks=tasks.url)
    with run_gateway() as (_, url):
        (page,) = find_pages(call(url, "key-of-ann", "who_am_i_at_tasks"))
        assert page == f"{url}/sign-in/tasks"
        done = sign_in(page, "key-of-ann", "Ada")
        assert (done.status_code, "You are signed in to tasks" in done.text) == (200, True)
        as_ada = call(url, "key-of-ann", "who_am_i_at_tasks")
        assert find_pages(call(url, "key-of-bob", "who_am_i_at_tasks")) == [page]
        sign_in(page, "key-of-bob", "Bob")
        as_bob = call(url, "key-of-bob", "who_am_i_at_tasks")
        assert isinstance(as_ada, Value)
        assert isinstance(as_bob, Value)
        assert as_ada.value != as_bob.value
        assert call(url, "key-of-ann", "who_am_i_at_tasks") == as_ada
        # what a caller allowed is for that caller: the upstream hears who it is from
        assert call(url, "key-of-ann", "write_at_tasks", text="a", approve=lambda _: True) == Value(
            f"{as_ada.value}: a"
        )
        denied = call(url, "key-of-bob", "write_at_tasks", text="a", approve=lambda _: False)
        assert isinstance(denied, Problem)
    assert not any(b"key-of" in value for value in tasks.seen)
    stored = b"".join(path.read_bytes() for path in (folder / "kept").rglob("*") if path.is_file())
    tokens = {value.removeprefix(b"Bearer ") for value in tasks.seen if value.startswith(b"Bearer ")}
    assert len(tokens) == 2
    assert not any(token in stored for token in tokens)
    with run_gateway() as (_, url):  # credentials outlive the gateway
        assert call(url, "key-of-bob", "who_am_i_at_tasks") == as_bob


@pytest.mark.requirement("GW-03")
def test_all_missing_sign_ins_are_told_at_once_in_the_words_of_each_protocol(folder: Path, tasks: Site) -> None:
    with serve_site("Notes", folder) as notes:
        write_file(folder, tasks=tasks.url, notes=notes.url)
        with run_gateway() as (_, url):
            both = [f"{url}/sign-in/tasks", f"{url}/sign-in/notes"]
            headers = {"x-api-key": "key-of-ann"}
            for protocol in ("otc", "openapi", "opentool"):
                assert find_pages(call(url, "key-of-ann", "who_am_i_at_tasks", protocol)) == both, protocol
            paths = httpx2.get(f"{url}/openapi.json", headers=headers).json()["paths"]
            path = next(one for one in paths if "who_am_i_at_tasks" in one)
            answer = httpx2.get(f"{url}{path}", headers=headers)
            assert answer.status_code == 401
            assert answer.headers["www-authenticate"] == (
                f'Bearer error="sign_in_required", authorization_uri="{both[0]}"'
            )
            reply = answer.json()["details"]["missing_requirements"]["authorization"]
            assert [one["url"] for one in reply] == both
            opened: list[str] = []

            def open_page(asked: Any) -> dict[str, Any]:
                opened.append(asked.url)
                sign_in(asked.url, "key-of-ann", "Ada")
                return {}

            result = call(url, "key-of-ann", "who_am_i_at_tasks", "mcp", provide_input=open_page)
            assert isinstance(result, Value), result
            assert opened == both


@pytest.mark.requirement("GW-03")
def test_call_goes_on_once_the_user_of_the_client_has_signed_in(folder: Path, tasks: Site) -> None:
    write_file(folder, tasks=tasks.url)
    with run_gateway() as (_, url):
        shown: list[str] = []

        def show(sentence: str) -> None:
            shown.append(sentence)
            sign_in(re.findall(r"http\S*", sentence)[-1], "key-of-ann", "Ada")

        result = call(url, "key-of-ann", "who_am_i_at_tasks", user=SignInUser(show=show, wait_s=20.0))
        assert isinstance(result, Value), result
        assert len(shown) == 1
        state = f"{url}/sign-in/tasks/state"
        assert httpx2.get(state).status_code == 401
        assert httpx2.get(state, headers={"x-api-key": "key-of-bob"}).json() == {"status": "pending"}
        assert httpx2.get(state, headers={"x-api-key": "key-of-ann"}).json() == {"status": "granted"}


@pytest.mark.requirement("GW-02")
def test_sign_in_ends_only_in_the_browser_where_its_caller_began_it(folder: Path, tasks: Site) -> None:
    write_file(folder, tasks=tasks.url)
    with run_gateway() as (_, url):
        page = f"{url}/sign-in/tasks"
        with httpx2.Client() as client:
            assert "Continue to" not in client.post(page, data={"key": "wrong"}).text
            foreign = client.post(page, data={"key": "key-of-ann"}, headers={"sec-fetch-site": "cross-site"})
            assert foreign.status_code == 403
            assert client.post(f"{url}/sign-in/other", data={"key": "key-of-ann"}).status_code == 404
            chosen = client.post(page, data={"key": "key-of-ann"})
            (onward,) = re.findall(r'href="(http[^"]*)"', chosen.text)
            state = parse_qs(html.unescape(onward).partition("?")[2])["state"][0]
            back = f"{url}/sign-in/return?code=x&state={state}"
            # another gateway at another port of this host has a cookie of its own
            assert [re.fullmatch("toolwire-sign-in-[0-9a-f]{12}", name) is not None for name in client.cookies] == [
                True
            ]
            assert httpx2.get(back).status_code == 400  # another browser has no cookie of it
            assert client.get(back).status_code == 400  # and it was good for one return
            assert httpx2.get(f"{url}/sign-in/return?state=guess").status_code == 400
        assert find_pages(call(url, "key-of-ann", "who_am_i_at_tasks")) == [page]


@pytest.mark.requirement("GW-02")
def test_caller_keeps_a_key_of_a_site_that_has_no_sign_in(folder: Path) -> None:
    with background(asgi(build_kit("Tasks"), api_keys=["site-a", "site-b"])) as site:
        write_file(folder, tasks=site)
        with run_gateway() as (_, url):
            (page,) = find_pages(call(url, "key-of-ann", "who_am_i_at_tasks"))
            asked = httpx2.post(page, data={"key": "key-of-ann"})
            assert "Your key for that site" in asked.text
            form = {"key": "key-of-ann", "step": "key", "site_key": "site-a"}
            assert "You are signed in" in httpx2.post(page, data=form).text
            assert isinstance(call(url, "key-of-ann", "who_am_i_at_tasks"), Value)
            assert find_pages(call(url, "key-of-bob", "who_am_i_at_tasks")) == [page]


@pytest.mark.requirement("GW-02")
def test_token_of_a_caller_is_exchanged_and_never_reaches_the_upstream(folder: Path) -> None:
    secret = secrets.token_hex(32)
    (folder / "jwt.secret").write_text(secret)

    def sign(name: str) -> str:
        return jwt.encode({"alg": "HS256"}, {"sub": name, "exp": int(time.time()) + 600}, OctKey.import_key(secret))

    ann, bob, eve = sign("ann"), sign("bob"), sign("eve")
    seen: list[bytes] = []
    app = asgi(build_kit("Tasks"), api_keys=["for-ann", "for-bob"])

    async def recording(scope: Any, receive: Any, send: Any) -> None:
        seen.extend(value for _, value in scope.get("headers", ()))
        await app(scope, receive, send)

    with background(recording) as site, ExchangeServer() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        server.tokens = {ann: "for-ann", bob: "for-bob"}
        (folder / "toolwire.toml").write_text(
            f'port = 0\njwt-secret-file = "jwt.secret"\nkey-file = "vault.key"\n[upstreams.tasks]\ntarget = "{site}"\n'
            'agree = true\ncredentials = "exchange"\n[upstreams.tasks.exchange]\n'
            f'token-url = "http://127.0.0.1:{server.server_address[1]}/token"\nclient-id = "gateway"\naudience = "t"\n'
        )
        try:
            with run_gateway() as (_, url):
                results = [call(url, token, "who_am_i_at_tasks") for token in (ann, bob, ann)]
                assert all(isinstance(one, Value) for one in results), results
                assert results[0] == results[2] != results[1]
                refused = call(url, eve, "who_am_i_at_tasks")
                assert isinstance(refused, Problem)
                assert refused.kind is Kind.FORBIDDEN
        finally:
            server.shutdown()
            thread.join()
    assert [form["subject_token"] for form in server.forms] == [ann, bob, eve]
    assert {(form["grant_type"][-14:], form["audience"], form["client_id"]) for form in server.forms} == {
        ("token-exchange", "t", "gateway")
    }
    assert not any(token.encode() in value for value in seen for token in (ann, bob, eve))


@pytest.mark.requirement("GW-02")
@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (('credentials = "caller"', 'credentials = "his"'), "toolwire.toml:9:1: credentials must be one of gateway"),
        (('credentials = "caller"', 'credentials = "exchange"'), 'toolwire.toml:6:1: credentials = "exchange" and'),
        (('credentials = "caller"', "client-id = 7\n"), "toolwire.toml:9:1: client-id is a string, not a number."),
        (('api-key-file = "keys.txt"', ""), "callers need keys or tokens"),
        (
            ('key-file = "vault.key"', ""),
            (
                "Callers' credentials are always encrypted. Create a key that only you can read, such as "
                "`openssl rand -hex 32` prints, and name its file with key-file or"
            ),
        ),
        (('"vault.key"', '"keys.txt"'), "Other users can read"),
        (
            ('target = "http://127', 'target = "stdio:x http://127'),
            "toolwire.toml:9:1: callers have credentials at a URL, or at the API",
        ),
    ],
)
def test_wrong_settings_of_callers_are_one_sentence(
    folder: Path, tasks: Site, toolwire: Callable[..., Outcome], change: tuple[str, str], sentence: str
) -> None:
    write_file(folder, tasks=tasks.url)
    file = folder / "toolwire.toml"
    file.write_text(file.read_text().replace(*change, 1))
    outcome = toolwire("gateway", "run")
    assert outcome.code == 2, outcome
    assert sentence in outcome.err
    assert outcome.err.count("\n") == 1


def test_protocols_are_those_that_are_tested_here() -> None:
    assert {codec.name for codec in BUILTIN} == {"otc", "openapi", "opentool", "mcp"}
