"""An application with users behind nginx with TLS, below a path: the MCP SDKs sign in there and get more scopes."""

from __future__ import annotations

import html
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.docs.blocks import read_blocks
from tests.docs.page import ROOT
from tests.interop.mcp_makers import CACHE, HERE, INSTALLED, MISSING, start_node
from tests.programs import find_free_port
from tests.support.proxies import run_proxy, run_server, trust_certificate, wait_until_healthy

PAGE = ROOT / "docs/how-to/app-with-users.md"
CALLBACK = "http://127.0.0.1:9/callback"
WAIT_S = 60.0


@pytest.fixture(params=["uvicorn", "FastAPI"])
def site(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The address of the application of the page, whose path uvicorn or the application itself knows."""
    port, front = find_free_port(), find_free_port()
    url = f"https://127.0.0.1:{front}/shop"
    for block in read_blocks(PAGE.read_text("utf-8")):
        if block.name in ("accounts.py", "app.py"):
            text = block.text.replace("http://127.0.0.1:9627", url)
            if request.param == "FastAPI":
                text = text.replace("FastAPI(", 'FastAPI(root_path="/shop", ')
            (tmp_path / block.name).write_text(text + HEALTH * (block.name == "app.py"), "utf-8")
    argv = [sys.executable, "-m", "uvicorn", "app:app", "--port", str(port), "--proxy-headers"]
    argv += ["--root-path", "/shop"] if request.param == "uvicorn" else []

    def change(text: str) -> str:
        text = text.replace("proxy_pass http://toolwire;", "proxy_pass http://toolwire/;")
        well_known = "location /.well-known/oauth- { proxy_pass http://toolwire; }"  # as behind-a-proxy.md says
        assert well_known in (ROOT / "docs/how-to/behind-a-proxy.md").read_text("utf-8")
        return text.replace("    location / {", f"    {well_known}\n    location /shop/ {{")

    with run_server(argv, port, tmp_path), run_proxy("nginx", tmp_path, port, front, change):
        wait_until_healthy(front, tmp_path, "/shop/health")
        yield url


HEALTH = """

@app.get("/health", include_in_schema=False)
def say_well() -> str:
    return "well"
"""


class Browser:
    """A browser of Ada, who allows what ``scopes`` says."""

    def __init__(self, folder: Path) -> None:
        self._http = httpx2.Client(verify=trust_certificate(folder), timeout=WAIT_S)

    def sign_in(self, url: str, scopes: Sequence[str]) -> str:
        """Return the address that leads back to the host."""
        page = self._http.get(url)
        for _ in range(8):
            location = page.headers.get("location", "")
            if location.startswith(CALLBACK):
                return location
            if location:
                page = self._http.get(page.url.join(location))
                continue
            assert page.status_code == 200, page.text
            page = self._send_form(page, {"name": "Ada", "password": "correct horse", "scope": list(scopes)})
        raise AssertionError(page.text)

    def revoke_all(self, site: str) -> None:
        """Take back all that apps may do."""
        page = self._http.get(f"{site}/oauth/connected")
        for grant in re.findall(r'name="grant" value="([^"]*)"', page.text):
            assert self._send_form(page, {"grant": grant}).status_code == 303

    def _send_form(self, page: httpx2.Response, filled: dict[str, Any]) -> httpx2.Response:
        hidden = dict(re.findall(r'type="hidden" name="([^"]*)" value="([^"]*)"', page.text))
        form = {name: html.unescape(value) for name, value in hidden.items()} | {"decision": "allow"} | filled
        action = re.findall(r'action="([^"]*)"', page.text)
        target = page.url.join(html.unescape(action[0])) if action else page.url
        own = {"origin": f"https://{page.url.netloc.decode()}", "sec-fetch-site": "same-origin"}
        return self._http.post(target, data=form, headers=own)

    def close(self) -> None:
        self._http.close()


@pytest.mark.requirement("AO-01", "CR-02")
@pytest.mark.skipif(not INSTALLED, reason=MISSING)
def test_typescript_sdk_signs_in_gets_more_scopes_and_signs_in_again_when_they_are_revoked(
    site: str, tmp_path: Path
) -> None:
    target = {"packages": str(CACHE), "url": f"{site}/mcp", "callback": CALLBACK}
    env = {**os.environ, "NODE_EXTRA_CA_CERTS": str(tmp_path / "fullchain.pem")}
    argv = start_node(HERE / "signed_in.mjs", json.dumps(target))
    browser, signed_in, line = Browser(tmp_path), 0, ""
    with subprocess.Popen(argv, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as host:
        assert host.stdin is not None
        assert host.stdout is not None
        for line in host.stdout:
            if line.startswith("https:"):
                allowed = ["orders:read"] if signed_in == 0 else ["orders:read", "orders:write"]
                host.stdin.write(f"{browser.sign_in(line.strip(), allowed)}\n")
                signed_in += 1
            elif line == "signed in\n":
                browser.revoke_all(site)
                host.stdin.write("\n")
            host.stdin.flush()
    browser.close()
    got = json.loads(line)
    assert (got["tools"], got["read"]) == (["listOrders", "order"], "[]")
    assert (got["write"], got["again"]) == ("soup for Ada", '["soup"]')
    assert signed_in == 3
