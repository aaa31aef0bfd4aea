"""The MCP conformance suite against our authorization server: an app of the suite, a person of ours in a browser.

The suite opens no browser: it prints the address and waits. Whoever reads it here signs in and allows.
"""

from __future__ import annotations

import re
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import httpx2
import pytest
from argon2 import PasswordHasher

from tests.interop.mcp_suite import INSTALLED, LINE, MISSING, NODE, SUITE
from tests.programs import find_free_port
from toolwire.auth.clients import Client
from toolwire.oauth import authorization_server
from toolwire.stores.oauth.accounts import Accounts
from toolwire.stores.oauth.database import OAuthStore
from toolwire.testing.loopback import background

NAME, PASSWORD = "Ada", "correct horse"
CLIENT = Client(id="suite", name="Suite", redirect_uris=("http://127.0.0.1/callback",))
MAX_PAGES = 8
PATIENCE_S = 60


class Late:
    """An app that is made once its address is known, as its issuer has to be."""

    app: Any = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            await self.app(scope, receive, send)


def walk(url: str) -> None:
    """Do what a person does at ``url``: sign in, allow everything, and go back to the app."""
    with httpx2.Client(timeout=10) as browser:
        page = browser.get(url)
        for _ in range(MAX_PAGES):
            if "/callback" in str(page.url):
                return
            if page.has_redirect_location:
                page = browser.get(urljoin(str(page.url), page.headers["location"]))
                continue
            text = page.text.replace("&amp;", "&")
            form: dict[str, Any] = dict(re.findall(r'type="hidden" name="([^"]*)" value="([^"]*)"', text))
            if "password" in text:
                form |= {"name": NAME, "password": PASSWORD}
            else:
                form |= {"scope": re.findall(r'name="scope" value="([^"]*)"', text), "decision": "allow"}
            action = re.findall(r'action="([^"]*)"', text)[0]
            page = browser.post(urljoin(str(page.url), action), data=form)
    raise AssertionError(page.text)


@pytest.mark.requirement("R17")
@pytest.mark.skipif(not INSTALLED, reason=MISSING)
def test_authorization_server_passes_the_conformance_suite_with_a_user(tmp_path: Path) -> None:
    late = Late()
    store = OAuthStore(tmp_path / "oauth.db")
    people = Accounts(store, hasher=PasswordHasher(time_cost=1, memory_cost=8, parallelism=1))
    people.add(NAME, PASSWORD)
    with background(late) as url:
        issuer = url.rstrip("/")
        late.app = authorization_server(
            issuer=issuer, scopes={"tasks:read": "See your tasks"}, store=store, users=people, clients=(CLIENT,)
        )
        reply = _run(["--url", issuer, "--client-id", CLIENT.id, "--port", str(find_free_port())], tmp_path)
    store.close()
    outcomes = {scenario: mark for mark, scenario, _, _ in LINE.findall(reply)}
    assert outcomes == {"authorization-server-metadata-endpoint": "✓", "authorization-code-grant": "✓"}, reply


def _run(arguments: Sequence[str], folder: Path) -> str:
    """Return what the suite said; the address that it prints is walked to meanwhile."""
    command: list[str | Path] = [NODE, SUITE, "authorization", *arguments]
    replies: list[str] = []
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as suite:
        ending = threading.Timer(PATIENCE_S, suite.kill)
        ending.start()
        assert suite.stdout is not None
        for line in suite.stdout:
            replies.append(line)
            if line.startswith("http://") and "state=" in line:
                walk(line.strip())
        ending.cancel()
    return "".join(replies)
