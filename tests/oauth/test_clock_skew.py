# ruff: noqa: F811 - fixtures are imported
"""Two servers that share a database, one with a wrong clock: a token that one issues is valid at the other."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx2
import pytest

from tests.crossings.people import NAME, PASSWORD, get_token
from tests.postgres import Postgres, postgres, wait_until_answering  # noqa: F401 - the fixture
from tests.programs import find_free_port
from tests.support.proxies import run_program

pytest.importorskip("psycopg", reason="psycopg is not here: install toolwire[postgres] to prove this")
LIBRARY = next(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"), None)
WAIT_S = 60.0
APP = """
import os
from toolwire import Toolkit, asgi
from toolwire.oauth import authorization_server, open_accounts

kit = Toolkit("Desk")


@kit.tool(approval="auto", safe=True, scopes=["use"])
def look() -> str:
    return "looked"


people = open_accounts(os.environ["STORE"])
if "NAME" in os.environ:
    people.add(os.environ["NAME"], os.environ["PASSWORD"])
sign_in = authorization_server(
    issuer=os.environ["ISSUER"], store=os.environ["STORE"], users=people, scopes={"use": "Use it"}, registration=True
)
app = sign_in.serve_before(asgi(kit, callers=sign_in.callers))
"""


@pytest.fixture(params=["+2m", "+10m", "-10m"])
def servers(request: pytest.FixtureRequest, postgres: Postgres, tmp_path: Path) -> Iterator[tuple[str, str]]:
    """The URLs of the issuer, whose clock is right, and of the other server."""
    if LIBRARY is None:
        pytest.skip("there is no libfaketime: apt-get install faketime")
    wait_until_answering(postgres)
    (tmp_path / "desk.py").write_text(APP)
    ports = find_free_port(), find_free_port()
    urls = [f"http://127.0.0.1:{port}" for port in ports]
    env = {**os.environ, "STORE": postgres.create_database(), "ISSUER": urls[0]}
    more = {"NAME": NAME, "PASSWORD": PASSWORD}, {"LD_PRELOAD": str(LIBRARY), "FAKETIME": request.param}
    with ExitStack() as running:
        for port, own in zip(ports, more, strict=True):
            argv = [sys.executable, "-m", "uvicorn", "desk:app", "--port", str(port), "--app-dir", str(tmp_path)]
            running.enter_context(run_program(argv, port, tmp_path, {**env, **own}))
        yield urls[0], urls[1]


@pytest.mark.requirement("RE-01")
def test_token_is_valid_at_a_server_with_another_clock(servers: tuple[str, str]) -> None:
    issuer, other = servers
    call = json.dumps({"request": {"tool_id": "look", "input": {}}})
    with httpx2.Client(timeout=WAIT_S) as browser:
        # what the issuer issues, and then what a sign-in that only the other server serves does
        for place in (issuer, other):
            if place == other:
                browser.cookies.clear()
                browser.headers["host"] = issuer.removeprefix("http://")
                browser.event_hooks["request"] = [lambda sent: redirect(sent, issuer, other)]
            token = get_token(browser, issuer, issuer)
            for server in servers:
                fields = {"authorization": f"Bearer {token}", "content-type": "application/json"}
                answer = httpx2.post(f"{server}/call", content=call, headers=fields, timeout=WAIT_S)
                assert answer.json()["output"] == {"value": "looked"}, (place, server, answer.text)


def redirect(sent: httpx2.Request, issuer: str, other: str) -> None:
    """Send a request for the issuer to the other server, as a proxy before both would."""
    sent.url = httpx2.URL(str(sent.url).replace(issuer, other))
