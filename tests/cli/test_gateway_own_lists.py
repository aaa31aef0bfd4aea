"""An upstream that shows its tools to known callers alone: each caller of a gateway has a list of their own."""

from __future__ import annotations

import json
import secrets
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.programs import find_free_port
from tests.support.caller_accounts import KEYS, call, find_pages
from tests.support.gateway_process import run_gateway
from toolwire import ApiKey, Kind, Problem, Secret, Toolkit, Value, asgi, connect_sync
from toolwire.protocols import BUILTIN
from toolwire.testing import background

MARKS = {"ann": "marigold", "bob": "cornflower"}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the gateway's file, with the keys of its callers and the key of its vault."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "keys.txt").write_text(KEYS)
    key = tmp_path / "vault.key"
    key.touch(mode=0o600)
    key.write_text(secrets.token_hex(32))
    return tmp_path


def build_site() -> Any:
    """Return a server that names no tool to a stranger, and to each account one more tool of its own."""
    kit = Toolkit("Mail")

    @kit.tool(safe=True, approval="auto")
    def look() -> str:
        """Look at the letters."""
        return "letters"

    for name, mark in MARKS.items():

        def tell(mark: str = mark) -> str:
            return f"told {mark}"

        kit.tool(name=f"tell_{mark}", description=f"About {mark}.", safe=True, approval="auto", scopes=[name])(tell)

    @kit.resource("notes://marigold", scopes=["ann"])
    def note() -> str:
        """The note about marigold."""
        return "a note"

    keys = [ApiKey(key=Secret(f"account-of-{name}"), name=name, scopes=frozenset({name})) for name in MARKS]
    return asgi(kit, api_keys=keys, private=True)


def write_file(folder: Path, protocol: str = 'protocol = "mcp"', **sites: str) -> str:
    port = find_free_port()
    tables = "".join(
        f'[upstreams.{name}]\ntarget = "{url}"\nagree = true\ncredentials = "caller"\n{protocol}\n'
        for name, url in sites.items()
    )
    head = f'port = {port}\npublic-url = "http://127.0.0.1:{port}"\napi-key-file = "keys.txt"\nkey-file = "vault.key"\n'
    (folder / "toolwire.toml").write_text(f'{head}state = "kept"\n{tables}')
    return f"http://127.0.0.1:{port}"


def list_names(url: str, key: str, protocol: str) -> list[str]:
    with connect_sync(url, protocol=protocol, api_key=key, agree=lambda _: True) as remote:
        return sorted(tool.name for tool in remote.tools)


def keep_account(url: str, who: str) -> None:
    page = f"{url}/sign-in/mail"
    form = {"key": f"key-of-{who}", "step": "key", "site_key": f"account-of-{who}"}
    assert "You are signed in" in httpx2.post(page, data=form).text


@pytest.mark.requirement("AT-47", "GW-02")
def test_each_caller_has_the_list_of_their_own_account_and_sees_nothing_of_another(folder: Path) -> None:
    with background(build_site()) as site:
        write_file(folder, mail=site)
        with run_gateway() as (_, url):
            for codec in BUILTIN:
                assert list_names(url, "key-of-ann", codec.name) == ["sign_in_at_mail"]
            assert find_pages(call(url, "key-of-ann", "sign_in_at_mail")) == [f"{url}/sign-in/mail"]
            keep_account(url, "ann")
            for codec in BUILTIN:
                assert list_names(url, "key-of-ann", codec.name) == ["look", "tell_marigold"], codec.name
                assert list_names(url, "key-of-bob", codec.name) == ["sign_in_at_mail"], codec.name
            keep_account(url, "bob")
            for codec in BUILTIN:
                assert list_names(url, "key-of-bob", codec.name) == ["look", "tell_cornflower"], codec.name
                assert call(url, "key-of-bob", "tell_cornflower", codec.name) == Value("told cornflower")
                assert call(url, "key-of-ann", "tell_marigold", codec.name) == Value("told marigold")
                for key, mark in (("key-of-bob", "marigold"), ("key-of-ann", "cornflower")):
                    refused = call(url, key, f"tell_{mark}", codec.name)
                    assert isinstance(refused, Problem), codec.name
                    assert refused.kind is Kind.UNKNOWN_TOOL, (codec.name, refused)
            with connect_sync(url, protocol="mcp", api_key="key-of-ann", agree=lambda _: True) as remote:
                assert [one.public_uri for one in remote.list_resources()] == ["mail+notes://marigold"]
                assert remote.read_resource("mail+notes://marigold") == Value("a note")
            with connect_sync(url, protocol="mcp", api_key="key-of-bob", agree=lambda _: True) as remote:
                assert not remote.list_resources()
                assert isinstance(remote.read_resource("mail+notes://marigold"), Problem)
            assert find_leaks(url) == []


def find_leaks(url: str) -> list[str]:
    """Return what a response to Bob, or to nobody, says of the tools of Ann, for many kinds of requests."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
    }
    bodies: list[tuple[str, Any]] = [
        ("/mcp", {"jsonrpc": "2.0", "id": 1, "method": one, "params": {"_meta": meta}})
        for one in ("tools/list", "resources/list", "resources/templates/list", "prompts/list", "server/discover")
    ]
    paths = (
        "/",
        "/openapi.json",
        "/opentool/load",
        "/tools",
        "/llm.json",
        "/health?full",
        "/api/tell_x",
        "/.well-known/x",
    )
    leaks: list[str] = []
    for headers in ({"x-api-key": "key-of-bob"}, {}):
        for path, body in bodies:
            mcp = {"mcp-protocol-version": "2026-07-28", "mcp-method": body["method"], "accept": "application/json"}
            answer = httpx2.post(f"{url}{path}", json=body, headers={**headers, **mcp})
            leaks += [f"{body['method']}"] if MARKS["ann"] in answer.text else []
        for path in paths:
            for accept in ("application/json", "text/html"):
                answer = httpx2.get(f"{url}{path}", headers={**headers, "accept": accept})
                leaks += [path] if MARKS["ann"] in answer.text + json.dumps(dict(answer.headers)) else []
        # A name that the caller guessed is repeated, but nothing else is said of it.
        for form in ({"tool": "look", "step": "call"}, {"tool": "tell_cornflower"}, {"tool": "nothing"}):
            answer = httpx2.post(f"{url}/", data={**form, "key": "key-of-bob" if headers else ""}, headers=headers)
            leaks += ["page"] if MARKS["ann"] in answer.text else []
    return leaks


@pytest.mark.requirement("AT-47")
def test_list_of_a_caller_ends_with_the_sign_in(folder: Path) -> None:
    with background(build_site()) as site:
        write_file(folder, mail=site)
        with run_gateway() as (_, url):
            keep_account(url, "ann")
            assert list_names(url, "key-of-ann", "mcp") == ["look", "tell_marigold"]
            form = {"key": "key-of-ann", "step": "key", "site_key": "account-of-bob"}
            assert "You are signed in" in httpx2.post(f"{url}/sign-in/mail", data=form).text
            assert list_names(url, "key-of-ann", "mcp") == ["look", "tell_cornflower"]


@pytest.mark.requirement("AT-47")
def test_upstream_that_shows_its_tools_to_all_is_as_the_gateway_sees_it(folder: Path) -> None:
    kit = Toolkit("Open")

    @kit.tool(safe=True, approval="auto")
    def look() -> str:
        """Look."""
        return "seen"

    with background(asgi(kit, api_keys=["account-of-ann"])) as shown, background(build_site()) as hidden:
        write_file(folder, "", open=shown, mail=hidden)
        with run_gateway() as (_, url):
            assert list_names(url, "key-of-ann", "otc") == ["look", "sign_in_at_mail"]
            keep_account(url, "ann")
            # Two upstreams have a tool of this name, and each is still called where it is.
            with connect_sync(url, protocol="otc", api_key="key-of-ann") as remote:
                names = sorted(tool.id.partition("@")[0] for tool in remote.tools)
            assert names == ["Mail.look", "Mail.tell_marigold", "Open.look"]
            assert call(url, "key-of-ann", "Mail.look") == Value("letters")
            assert find_pages(call(url, "key-of-ann", "Open.look")) == [f"{url}/sign-in/open"]
            assert list_names(url, "key-of-bob", "otc") == ["look", "sign_in_at_mail"]
