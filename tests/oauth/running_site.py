"""A site on loopback whose tools need a token, and whose own authorization server gives it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from argon2 import PasswordHasher

import toolwire
from tests.oauth.conftest import SCOPES, Walker
from toolwire.auth.client_identity import ClientIdentity
from toolwire.auth.clients import Client
from toolwire.auth.credential import Credential
from toolwire.client.login import (
    SignInOptions,
    find_sign_in,
    sign_in,
)
from toolwire.client.transport.network import SyncNetwork
from toolwire.core.model import Problem
from toolwire.oauth import authorization_server
from toolwire.server.oauth import AuthorizationServer
from toolwire.stores.credentials.files import CredentialStore
from toolwire.stores.oauth.accounts import Accounts
from toolwire.stores.oauth.database import OAuthStore

NATIVE = Client(id="native", name="toolwire", redirect_uris=("http://127.0.0.1/callback", "http://[::1]/callback"))
ME = SignInOptions(identity=ClientIdentity(client_id="native"))


def tasks() -> toolwire.Toolkit:
    kit = toolwire.Toolkit("Tasks")

    @kit.tool(approval="auto", safe=True, scopes=["tasks:read"])
    def list_tasks() -> list[str]:
        """List the tasks."""
        return ["wash up"]

    @kit.tool(approval="auto", scopes=["tasks:read", "tasks:delete"])
    def clear() -> str:
        """Delete every task."""
        return "gone"

    return kit


class Running:
    """A site on loopback whose tools need a token."""

    def __init__(self, folder: Path, serve: Callable[[Callable[[str], Any]], str], **settings: Any) -> None:
        self.store = OAuthStore(folder / "oauth.db")
        people = Accounts(self.store, hasher=PasswordHasher(time_cost=1, memory_cost=8, parallelism=1))
        people.add("Ada", "correct horse")
        self.server: AuthorizationServer

        def make(base: str) -> Any:
            options = {"default_scopes": ("tasks:read",), "clients": (NATIVE,), **settings}
            self.server = authorization_server(issuer=base, store=self.store, users=people, scopes=SCOPES, **options)
            return self.server.serve_before(self.wrapped())

        self.url = serve(make)
        self.transport = SyncNetwork()
        self.credentials = CredentialStore(folder / "credentials")

    def wrapped(self) -> Any:
        return toolwire.asgi(tasks(), callers=self.server.callers)

    def kinds(self) -> list[str]:
        with self.store.read_transaction() as rows:
            return [event.kind for event in rows.list_events()[::-1] if event.client_id]

    def signed_in(self, walker: Walker, wish: SignInOptions = ME) -> Credential:
        place = find_sign_in(f"{self.url}/tools", self.transport)
        assert not isinstance(place, Problem), place
        found = sign_in(place, wish, walker.person(), self.transport)
        assert isinstance(found, Credential), found
        self.credentials.put(found)
        return found
