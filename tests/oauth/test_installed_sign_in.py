"""An installed entry needs one sign-in: its bridge refreshes the tokens of its account for as long as it is used."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.shared.exceptions import MCPError

from tests.programs import find_free_port
from tests.support.openid import log_in, needs_provider, run_provider
from tests.support.proxies import run_program
from tests.support.started_server import wait_until_answered
from toolwire.auth.credential import Credential
from toolwire.client.login.saved_credentials import open_credentials

pytestmark = [pytest.mark.requirement("QF-08"), pytest.mark.reveals_secrets, needs_provider]  # logs of an issuer

TOKEN_S = 600
HOUR_S = 3_600
DAY_S = 24 * HOUR_S
DESK = '''
from toolwire import Context, Toolkit

desk = Toolkit("Desk")


@desk.tool(safe=True, approval="auto", scopes=["read"])
def tell_name(context: Context) -> str:
    """Tell who calls."""
    return context.principal
'''
# Python runs a module of this name at the start of each process.
CLOCK = """
import os, time
real, real_ns = time.time, time.time_ns
def ahead():
    with open(os.environ["TEST_CLOCK"]) as file:
        return int(file.read())
time.time, time.time_ns = lambda: real() + ahead(), lambda: real_ns() + ahead() * 10**9
"""


class World(NamedTuple):
    """A server, its issuer, and the environment of a user's programs. All of them have the clock in one file."""

    url: str
    issuer: str
    env: Mapping[str, str]
    clock: Path

    def wait(self, seconds: int) -> None:
        """Let time pass for all of them."""
        new = self.clock.with_suffix(".new")
        new.write_text(str(int(self.clock.read_text()) + seconds))
        new.replace(self.clock)

    def find(self, account: str) -> Credential:
        """Return the sign-in of an account, as it is stored now."""
        found = open_credentials(Path(self.env["TOOLWIRE_STATE"]) / "credentials").find_covering(self.url, account)
        assert found is not None
        return found


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    clock, modules, port = tmp_path / "clock", tmp_path / "modules", find_free_port()
    clock.write_text("0")
    modules.mkdir()
    (modules / "sitecustomize.py").write_text(CLOCK)
    (tmp_path / "desk.py").write_text(DESK)
    hidden = ("DISPLAY", "WAYLAND_DISPLAY", "TOOLWIRE_PASSPHRASE", "TOOLWIRE_KEY_FILE")
    env = {
        **{name: value for name, value in os.environ.items() if name not in hidden},
        "TOOLWIRE_STATE": str(tmp_path / "state"),
        "PYTHONPATH": str(modules),
        "TEST_CLOCK": str(clock),
    }
    url = f"http://127.0.0.1:{port}"
    with run_provider(tmp_path, [], scopes="read", token_s=TOKEN_S, clock=str(clock)) as issuer:
        words = ["desk.py", "--port", str(port), "--jwks", f"{issuer}/jwks", "--jwt-issuer", issuer]
        argv = [sys.executable, "-m", "toolwire", "serve", *words, "--jwt-audience", f"{url}/mcp"]
        with run_program(argv, port, tmp_path, env):
            wait_until_answered(url)
            yield World(url, issuer, env, clock)


def install(env: Mapping[str, str], file: Path, *words: str) -> None:
    argv = [sys.executable, "-m", "toolwire", "install", "cursor", *words, "--agree", "--file", str(file)]
    subprocess.run(argv, env=env, check=True, capture_output=True, timeout=60)


def test_installed_entries_of_two_accounts_last_for_30_days_by_one_sign_in_each(world: World, tmp_path: Path) -> None:
    sign_in = ("--client-id", "native", "--sign-in-at", world.issuer)
    log_in("sub-ann", world.url, "--account", "work", *sign_in, env=world.env)
    log_in("sub-bob", world.url, *sign_in, env=world.env)
    file, printed = tmp_path / "mcp.json", tmp_path / "bridges.txt"
    install(world.env, file, f"{world.url}/mcp", "--account", "work", "--protocol", "mcp")
    install(world.env, file, world.url)
    entries = {
        "work" if "--account" in entry["args"] else "": StdioServerParameters(
            command=entry["command"], args=entry["args"], env={**world.env, **entry.get("env", {})}, cwd=tmp_path
        )
        for entry in json.loads(file.read_text())["mcpServers"].values()
    }
    names, seen = {"work": "jwt:sub-ann", "": "jwt:sub-bob"}, {account: [world.find(account)] for account in entries}
    assert seen.keys() == names.keys()

    async def call(client: Client) -> str:
        result: Any = await client.call_tool("tell_name", {})
        return str(result.content[0].text)

    async def use(account: str, *waits: int) -> None:
        """Start the program, and call after each of the waits, which lets an access token expire, or nearly."""
        with printed.open("a") as errors:
            async with Client(stdio_client(entries[account], errlog=errors)) as client:
                for wait_s in waits:
                    world.wait(wait_s)
                    assert await call(client) == names[account]
                    seen[account].append(world.find(account))

    async def live() -> None:
        await use("work", *[TOKEN_S + 60] * 12, *[12 * HOUR_S] * 14)  # one program, over the ends of 26 tokens
        for days in (6, 9, 9):  # started again, each time after days without a call
            await use("", days * DAY_S)
            await use("work", 0, TOKEN_S - 30)  # the last is before an end, which the call might not meet

    anyio.run(live)
    assert int(world.clock.read_text()) > 30 * DAY_S
    for account, known in seen.items():
        tokens = [one.refresh.reveal() for one in known if one.refresh is not None]
        assert len({one.access.reveal() for one in known}) == len(set(tokens)) == len(known), (
            "each call needed a refresh"
        )
        assert {one.account for one in known} == {account}
        for path in tmp_path.glob("mcp.json*"):
            text = path.read_text()
            assert not [one for one in tokens if one in text]
            assert not [one for one in known if one.access.reveal() in text]
    assert "login" not in printed.read_text()

    # What this rests on: an old token of either kind is worth nothing, and what nobody uses for long ends.
    first = seen["work"][0]
    assert first.refresh is not None
    answer = httpx2.post(f"{world.url}/mcp", headers={"authorization": f"Bearer {first.access.reveal()}"}, json={})
    assert answer.status_code == 401
    form = {"grant_type": "refresh_token", "client_id": "native", "refresh_token": first.refresh.reveal()}
    assert httpx2.post(first.token_url, data=form).json()["error"] == "invalid_grant"

    async def come_back_late() -> str:
        world.wait(15 * DAY_S)
        async with Client(stdio_client(entries[""])) as client:
            try:
                return await call(client)
            except MCPError as error:
                return str(error)

    assert f"Run toolwire login {world.url}." in anyio.run(come_back_late)
