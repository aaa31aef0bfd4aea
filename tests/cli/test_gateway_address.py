"""A gateway names its own address only as its file has it: a request can name any."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.cli.conftest import Outcome
from tests.support.gateway_process import run_gateway
from toolwire import Toolkit, asgi
from toolwire.hosting.build_settings import build_gateway_settings
from toolwire.hosting.gateway_file import parse_gateway_file
from toolwire.hosting.serve_settings import ServeSettings
from toolwire.testing import background

DESK = '''
from toolwire import Toolkit

desk = Toolkit("Desk")


@desk.tool(approval="auto")
def read() -> str:
    """Read."""
    return "text"
'''
HOOK = '[webhook]\nurl = "https://hooks.example"\nsecret-env = "HOOK"\n'
PEOPLE = '[sign-in]\nname = "Tools"\n'
PERSONAL = '[upstreams.mail]\ntarget = "http://127.0.0.1:1"\ncredentials = "caller"\n'
NEEDING = {
    "sign-in at an upstream": ('api-key-file = "keys.txt"\n', PERSONAL),
    "sign-in at the gateway": ('state = "kept"\n', PEOPLE),
    "webhook": ('consent = "inbox"\n', HOOK),
    "webhook of a caller": (
        "",
        HOOK.replace("webhook", "callers.ann.webhook") + '[callers.ann]\nquestions = "inbox"\n',
    ),
    "receipts": ('receipts = "required"\nreceipt-keys = "receipts.json"\n', ""),
    "links to the inbox": ('consent = "inbox"\napi-key-file = "keys.txt"\n', ""),
}
PLAIN = {
    "plain": ("", ""),
    "keys": ('api-key-file = "keys.txt"\n', ""),
    "inbox without callers": ('consent = "inbox"\n', ""),
    "receipts for an audience": (
        'receipts = "required"\nreceipt-keys = "receipts.json"\nreceipt-audience = "tools.example"\n',
        "",
    ),
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the gateway's file."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOOK", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    monkeypatch.setenv("TOOLWIRE_SETTINGS", "trust")
    (tmp_path / "desk.py").write_text(DESK)
    (tmp_path / "keys.txt").write_text("key-of-ann ann\n")
    return tmp_path


def write_text(what: tuple[str, str], above: str = "") -> str:
    first, tables = what
    return f'{above}port = 0\n{first}[upstreams.desk]\ntarget = "desk.py"\n{tables}'


def read(text: str) -> ServeSettings:
    return build_gateway_settings(parse_gateway_file(text.encode(), "toolwire.toml"))


@pytest.mark.requirement("AT-34")
@pytest.mark.parametrize("action", ["check", "run"])
@pytest.mark.parametrize("what", NEEDING)
@pytest.mark.parametrize(
    "host", ["", 'allow-host = ["tools.example"]\n', 'allow-host = ["a.example:1", "b.example:2"]\n']
)
def test_gateway_that_names_its_address_does_not_start_without_one(
    folder: Path, toolwire: Callable[..., Outcome], what: str, action: str, host: str
) -> None:
    (folder / "toolwire.toml").write_text(write_text(NEEDING[what], host))
    outcome = toolwire("gateway", action)
    assert outcome.code == 2, outcome
    assert 'set public-url = "https://tools.example", or one allow-host with its port' in outcome.err
    assert outcome.err.count("\n") == 1


@pytest.mark.requirement("AT-34")
@pytest.mark.parametrize("what", NEEDING)
def test_address_is_the_public_url_or_the_one_allowed_host_with_its_port(what: str) -> None:
    given = read(write_text(NEEDING[what], 'public-url = "https://tools.example"\n'))
    allowed = read(write_text(NEEDING[what], 'allow-host = ["127.0.0.1:9628"]\n'))
    assert (given.server.public_url, allowed.server.public_url) == ("https://tools.example", "http://127.0.0.1:9628")
    assert (given.server.receipt_audience, allowed.server.receipt_audience) == (
        ("tools.example", "127.0.0.1:9628") if what == "receipts" else ("", "")
    )


@pytest.mark.requirement("AT-34")
@pytest.mark.parametrize("what", PLAIN)
def test_gateway_that_names_no_address_needs_none(what: str) -> None:
    assert read(write_text(PLAIN[what])).server.public_url == ""


@pytest.mark.requirement("AT-34", "GW-01")
def test_plain_gateway_starts_without_an_address(folder: Path) -> None:
    (folder / "toolwire.toml").write_text(write_text(PLAIN["plain"]))
    with run_gateway() as (_, url):
        assert httpx2.get(f"{url}/health").status_code == 200


@pytest.mark.requirement("SE-02")
def test_open_tool_document_of_a_gateway_states_its_public_url(folder: Path) -> None:
    (folder / "toolwire.toml").write_text(write_text(PLAIN["plain"], 'public-url = "https://tools.example"\n'))
    with run_gateway() as (_, url):
        assert httpx2.get(f"{url}/opentool/load").json()["server"]["url"] == "https://tools.example"


@pytest.mark.requirement("AT-34", "GW-02")
def test_sign_in_leads_back_to_the_gateway_whatever_host_its_caller_names(folder: Path) -> None:
    key = folder / "vault.key"
    key.touch(mode=0o600)
    key.write_text(secrets.token_hex(32))
    kit = Toolkit("Mail")

    @kit.tool(safe=True, approval="auto")
    def look() -> str:
        """Look."""
        return "mail"

    with background(asgi(kit)) as site:
        tables = PERSONAL.replace("http://127.0.0.1:1", site)
        above = 'public-url = "https://tools.example"\nkey-file = "vault.key"\nstate = "kept"\n'
        (folder / "toolwire.toml").write_text(write_text(("api-key-file = 'keys.txt'\n", tables), above))
        with run_gateway() as (_, url):
            head = {"x-api-key": "key-of-ann", "host": "127.0.0.1:6666", "accept": "application/json"}
            paths = httpx2.get(f"{url}/openapi.json", headers=head).json()["paths"]
            path = next(one for one in paths if "look" in one)
            answer = httpx2.get(f"{url}{path}", headers=head)
            named: Any = answer.json()["details"]["missing_requirements"]["authorization"]
            assert [one["url"] for one in named] == ["https://tools.example/sign-in/mail"]
            assert "6666" not in answer.text + str(answer.headers)
            page = httpx2.post(f"{url}/sign-in/mail", data={"key": "key-of-ann"}, headers=head)
            assert not re.search("6666", page.text)
