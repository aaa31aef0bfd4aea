"""A server whose tokens are for its MCP address takes them on all of its protocols, after one sign-in."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import OctKey
from mcp.server.auth.routes import create_auth_routes
from mcp.server.auth.settings import ClientRegistrationOptions, RevocationOptions
from mcp.shared.auth import OAuthToken
from pydantic import AnyHttpUrl
from starlette.applications import Starlette
from starlette.routing import Mount

from tests.oauth.mcp_provider import Provider
from toolwire import Toolkit, Value, asgi, connect_sync
from toolwire.auth.caller_token import ExpectedClaims, read_secret
from toolwire.auth.metadata_discovery import SignInTarget, find_sign_in_target
from toolwire.core.http import Request, Response
from toolwire.core.model import Problem
from toolwire.server.access.signed_tokens import SignedTokenCallers
from toolwire.stores.credentials.files import CredentialStore

from .conftest import Walker

SECRET = b"a secret of at least thirty-two bytes"
PROTOCOLS = ("mcp", "otc", "opentool", "openapi")

pytestmark = pytest.mark.requirement("I-23")


class Issuer(Provider):
    """An issuer whose tokens are JSON Web Tokens for one audience."""

    def __init__(self, base: str) -> None:
        super().__init__()
        self.base = base
        self.count = 0

    def _issued(self, client_id: str, scopes: list[str]) -> OAuthToken:
        self.count += 1
        claims = {
            "iss": self.base,
            "aud": f"{self.base}/mcp",
            "sub": "ada",
            "exp": int(time.time()) + 600,
            "scope": "a",
        }
        token = jwt.encode({"alg": "HS256"}, claims, OctKey.import_key(SECRET), algorithms=["HS256"])
        return OAuthToken(access_token=token, expires_in=600, scope=" ".join(scopes))


@pytest.mark.parametrize("first", PROTOCOLS)
def test_one_sign_in_is_enough_for_all_protocols(
    first: str, serve: Callable[[Callable[[str], Any]], str], tmp_path: Path
) -> None:
    kit = Toolkit("Desk")

    @kit.tool(scopes=["a"], safe=True, approval="auto")
    def look() -> str:
        """Look."""
        return "tea"

    issuers: list[Issuer] = []

    def make(base: str) -> Any:
        issuer = Issuer(base)
        issuers.append(issuer)
        options = ClientRegistrationOptions(enabled=True, valid_scopes=["a"], default_scopes=["a"])
        routes = create_auth_routes(issuer, AnyHttpUrl(base), None, options, RevocationOptions(enabled=False))  # type: ignore[arg-type]  # a protocol class
        expected = ExpectedClaims(issuer=base, audience=f"{base}/mcp")
        app = asgi(kit, callers=SignedTokenCallers(read_secret(SECRET), expected))
        return Starlette(routes=[*routes, Mount("/", app)])

    base, store = serve(make), CredentialStore(tmp_path)
    for protocol in (first, *PROTOCOLS):
        with connect_sync(
            base,
            protocol=protocol,
            user=Walker().person(),
            credential_store=store,
            agree=lambda _: True,
        ) as remote:
            assert remote.call("look") == Value("tea"), protocol
    assert issuers[0].count == 1, "one sign-in serves all protocols"
    assert [one.resource for one in store.list_all()] == [f"{base}/mcp"]


SITE = "https://site.example"
WELL_KNOWN = f"{SITE}/.well-known/oauth-protected-resource"
SERVER = {
    "issuer": SITE,
    "authorization_endpoint": f"{SITE}/authorize",
    "token_endpoint": f"{SITE}/token",
    "code_challenge_methods_supported": ["S256"],
}


def find(url: str, pages: dict[str, Any], named: str = "") -> SignInTarget | Problem:
    steps, outcome = find_sign_in_target(url, resource_metadata=named), None
    try:
        while True:
            asked: Any = steps.send(outcome)  # type: ignore[arg-type]  # the first step takes nothing
            assert isinstance(asked, Request)
            page = pages.get(asked.url)
            outcome = Response(404) if page is None else Response(200, (), json.dumps(page).encode())
    except StopIteration as end:
        found: SignInTarget | Problem = end.value
        return found


def describe(resource: str, base: str) -> dict[str, Any]:
    return {"resource": resource, "authorization_servers": [SITE], "toolwire_base": base}


@pytest.mark.requirement("D-08")
@pytest.mark.parametrize(
    ("url", "address", "base", "is_used"),
    [
        (f"{SITE}/otc", f"{WELL_KNOWN}/a/mcp", f"{SITE}/a", False),
        (f"{SITE}/a/otc", f"{WELL_KNOWN}/a/mcp", f"{SITE}/a", True),
        # The document is not where the host itself says what its resources are.
        (f"{SITE}/b/otc", f"{SITE}/b/metadata", SITE, False),
        (f"{SITE}/b/otc", f"{WELL_KNOWN}/b", SITE, False),
        (f"{SITE}/a/otc", f"{WELL_KNOWN}/a/mcp", "https://other.example", False),
        (f"{SITE}/a/otc", f"{WELL_KNOWN}/a/mcp", "", False),
    ],
)
def test_host_alone_says_where_the_tokens_of_a_resource_are_taken(
    url: str, address: str, base: str, is_used: bool
) -> None:
    pages = {address: describe(f"{SITE}/a/mcp", base), f"{SITE}/.well-known/oauth-authorization-server": SERVER}
    found = find(url, pages, address)
    if is_used:
        assert isinstance(found, SignInTarget)
        assert (found.resource, found.base) == (f"{SITE}/a/mcp", base)
    else:
        assert isinstance(found, Problem)
