"""A sign-in that replaces another is not undone by a renewal of the older tokens that ends later."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from toolwire import Secret
from toolwire.auth.credential import Credential
from toolwire.client.login.token_refresher import TokenRefresher
from toolwire.core.http import Request, Response
from toolwire.gateway.personal_toolbox import CallerPlace
from toolwire.gateway.sign_in_pages import _replace_credential
from toolwire.stores.credentials.caller_vault import CallerVault
from toolwire.stores.credentials.files import CredentialFolder

URL = "https://mail.example"
WAIT_S = 20


class Place(CredentialFolder):
    """A folder that says when the page asks for its lock."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.asked = threading.Event()

    @contextmanager
    def lock(self, name: str) -> Generator[None, None, None]:
        if threading.current_thread().name == "page":
            self.asked.set()
        with super().lock(name):
            yield


class TokenServer:
    """Renews tokens when the test lets it."""

    def __init__(self) -> None:
        self.came, self.may_answer = threading.Event(), threading.Event()

    def send(self, _request: Request) -> Response:
        self.came.set()
        assert self.may_answer.wait(WAIT_S)
        body = {"access_token": "renewed-of-old-account", "token_type": "Bearer", "expires_in": 3_600}
        return Response(200, ((b"content-type", b"application/json"),), json.dumps(body).encode())


def build_credential(access: str, expires_at: float) -> Credential:
    return Credential(
        kind="oauth",
        resource=URL,
        access=Secret(access),
        issuer="https://login.example",
        client_id="gateway",
        token_url="https://login.example/token",
        refresh=Secret(f"refresh-{access}"),
        expires_at=expires_at,
    )


@pytest.mark.requirement("AT-56", "TE-02")
def test_sign_in_that_is_stored_during_a_renewal_stays(tmp_path: Path) -> None:
    place, server = Place(tmp_path), TokenServer()
    vault = CallerVault(place, [Secret("k" * 40)])
    store = vault.open_store("key:ann")
    old = build_credential("old", time.time() - 1)
    store.put(old)
    refresher = TokenRefresher(URL, store, old, server)  # type: ignore[arg-type]  # it only sends
    renewing = threading.Thread(target=refresher.ensure_valid)
    renewing.start()
    assert server.came.wait(WAIT_S)
    upstream: Any = SimpleNamespace(toolbox=SimpleNamespace(place=CallerPlace(URL, "")))
    newer = build_credential("new", time.time() + 3_600)
    page = threading.Thread(target=_replace_credential, args=(vault, "key:ann", upstream, newer), name="page")
    page.start()
    assert place.asked.wait(WAIT_S)
    server.may_answer.set()
    renewing.join(WAIT_S)
    page.join(WAIT_S)
    found = vault.open_store("key:ann").find_covering(URL)
    assert found is not None
    assert found.access.reveal() == "new"
