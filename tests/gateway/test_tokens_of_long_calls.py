"""A long call goes to its upstream with the token of its own caller, whoever else calls and whenever it runs."""

from __future__ import annotations

import re
import secrets
import threading
import time
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx2
import pytest
from joserfc import jwt
from joserfc.jwk import OctKey

from tests.support.exchange_server import ExchangeServer
from tests.support.inbox import wait_for
from toolwire import Context, Toolkit, asgi
from toolwire.hosting import open_gateway
from toolwire.testing import background

kit = Toolkit("Tasks")
BOSS = "key-of-boss"


@kit.tool(approval="per-call", long=True, keep_s=60)
def close_all(context: Context) -> str:
    """Close all tasks of the caller."""
    return context.principal


def sign(name: str, secret: str) -> str:
    claims = {"sub": name, "exp": int(time.time()) + 600}
    return jwt.encode({"alg": "HS256"}, claims, OctKey.import_key(secret))


@pytest.fixture
def exchange() -> Iterator[ExchangeServer]:
    with ExchangeServer() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def write_file(folder: Path, secret: str, site: str, exchange: ExchangeServer) -> Path:
    for name, text in (("jwt.secret", secret), ("vault.key", secrets.token_hex(32)), ("keys.txt", f"{BOSS} boss\n")):
        (folder / name).touch(mode=0o600)
        (folder / name).write_text(text)
    asked = "".join(f'[callers."jwt:{name}"]\nquestions = "inbox"\n' for name in ("ann", "bob"))
    file = folder / "toolwire.toml"
    file.write_text(
        'jwt-secret-file = "jwt.secret"\nkey-file = "vault.key"\napi-key-file = "keys.txt"\nstate = "state"\n'
        f'public-url = "http://127.0.0.1:9"\n[callers.leads]\nmembers = ["boss"]\n{asked}'
        f'[upstreams.tasks]\ntarget = "{site}"\nagree = true\ncredentials = "exchange"\n'
        'approvers = {"close*" = ["leads"]}\n[upstreams.tasks.exchange]\n'
        f'token-url = "http://127.0.0.1:{exchange.server_address[1]}/token"\nclient-id = "gateway"\naudience = "t"\n'
    )
    return file


def allow_newest(url: str) -> None:
    with httpx2.Client(base_url=url, follow_redirects=True) as browser:
        page = browser.post("/inbox/sign-in", data={"key": BOSS, "next": "/"}).text
        form = dict(re.findall(r'name="(token)" value="([^"]*)"', page))
        newest = re.findall(r'<article class="card" data-key="([^"]*)"', page)[-1]
        assert browser.post("/inbox/", data={**form, "id": newest, "answer": "allow"}).status_code == 200


@pytest.mark.requirement("GW-02", "D-09", "LC-05")
@pytest.mark.parametrize("private", [False, True], ids=["tools for all", "tools for known callers"])
def test_approved_long_call_runs_with_the_token_of_its_own_caller(
    tmp_path: Path, exchange: ExchangeServer, private: bool
) -> None:
    secret = secrets.token_hex(32)
    ann, bob = sign("ann", secret), sign("bob", secret)
    exchange.tokens = {ann: "account-of-ann", bob: "account-of-bob"}
    app = asgi(kit, api_keys=list(exchange.tokens.values()), private=private)
    with background(app) as site, background(open_gateway(write_file(tmp_path, secret, site, exchange))) as url:

        def send(token: str, method: str, path: str) -> Any:
            fields = {"authorization": f"Bearer {token}"}
            return httpx2.request(method, f"{url}{path}", json={} if method == "POST" else None, headers=fields).json()

        # What looks after all long calls begins with the first of them, which is Ann's.
        for token in (ann, bob):
            accepted = send(token, "POST", "/api/close_all")
            assert "id" in accepted, accepted
            call_id = accepted["id"]
            wait_for(lambda path=f"/calls/{call_id}", token=token: send(token, "GET", path)["state"] == "waiting")
        allow_newest(url)
        ended = wait_for(
            lambda: found if (found := send(bob, "GET", f"/calls/{call_id}"))["state"] == "ended" else None
        )
    assert "error" not in ended, ended["error"]
    assert ended["result"] == f"key-{sha256(b'account-of-bob').hexdigest()[:12]}"
    assert [form["subject_token"] for form in exchange.forms] == [ann, bob]
