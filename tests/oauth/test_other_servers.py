"""Our client signs in to other people's authorization servers: one made with the MCP SDK, one with Authlib on Flask."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from mcp.server.auth.routes import create_auth_routes, create_protected_resource_routes
from mcp.server.auth.settings import ClientRegistrationOptions, RevocationOptions
from pydantic import AnyHttpUrl
from starlette.applications import Starlette

from tests.oauth.mcp_provider import Provider
from tests.support.authlib_issuer import run_authlib
from toolwire import Toolkit, asgi
from toolwire.auth.authorization_code import renew_credential
from toolwire.auth.caller_token import ExpectedClaims, read_secret
from toolwire.auth.client_identity import ClientIdentity
from toolwire.auth.credential import Credential
from toolwire.client.login import SignInOptions, find_sign_in, sign_in, sign_out
from toolwire.client.transport.drivers import run
from toolwire.client.transport.network import SyncNetwork
from toolwire.core.model import Problem
from toolwire.server.access.signed_tokens import SignedTokenCallers

from .conftest import Walker


@pytest.mark.requirement("AC-01", "AC-04", "AC-07", "AC-09")
def test_our_client_signs_in_to_a_server_made_with_the_mcp_sdk(serve: Callable[[Callable[[str], Any]], str]) -> None:
    provider = Provider()

    def make(base: str) -> Any:
        options = ClientRegistrationOptions(enabled=True, valid_scopes=["a", "b"], default_scopes=["a"])
        routes = create_auth_routes(provider, AnyHttpUrl(base), None, options, RevocationOptions(enabled=True))  # type: ignore[arg-type]  # a protocol class
        resource = AnyHttpUrl(f"{base}/mcp")
        routes += create_protected_resource_routes(resource, [AnyHttpUrl(base)], ["a"])
        return Starlette(routes=routes)

    base, transport = serve(make), SyncNetwork()
    place = find_sign_in(f"{base}/mcp", transport)
    assert not isinstance(place, Problem), place
    assert (place.resource, place.scopes) == (f"{base}/mcp", ("a",))
    first = sign_in(place, SignInOptions(), Walker().person(), transport)
    assert isinstance(first, Credential), first
    assert first.registered is True
    second = run(renew_credential(first, 0.0), transport)
    assert isinstance(second, Credential)
    assert second.refresh != first.refresh
    assert second.scopes == ("a",)
    assert sign_out(second, transport) is False  # this server wants a client_secret of public clients, and says 400
    assert provider.revoked == []


@pytest.fixture
def flask_site(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    with run_authlib(monkeypatch) as base:
        yield base


@pytest.mark.reveals_secrets  # the log of that server has its request lines
@pytest.mark.requirement("AC-01", "AC-04", "AC-06", "AC-09")
def test_our_client_signs_in_to_a_server_made_with_authlib_on_flask(flask_site: str) -> None:
    transport = SyncNetwork()
    place = find_sign_in(f"{flask_site}/api", transport)
    assert not isinstance(place, Problem), place
    assert (place.sends_resource, place.server.sends_issuer) == (False, True)
    first = sign_in(place, SignInOptions(identity=ClientIdentity(client_id="native")), Walker().person(), transport)
    assert isinstance(first, Credential), first
    assert first.scopes == ("a",)
    second = run(renew_credential(first, 0.0), transport)
    assert isinstance(second, Credential)
    assert second.refresh != first.refresh
    unknown = sign_in(place, SignInOptions(), Walker().person(), transport)
    assert isinstance(unknown, Problem)
    assert "--client-id" in unknown.message


@pytest.mark.reveals_secrets  # the log of that server has its request lines
@pytest.mark.requirement("AS-14", "AS-15", "AC-01", "AC-07")
def test_our_client_finds_the_issuer_of_a_server_that_takes_its_tokens(
    flask_site: str, serve: Callable[[Callable[[str], Any]], str]
) -> None:
    kit = Toolkit("Desk")

    @kit.tool(scopes=["a"])
    def look() -> str:
        """Look."""
        return "tea"

    def make(base: str) -> Any:
        expected = ExpectedClaims(issuer=flask_site, audience=f"{base}/mcp")
        return asgi(kit, callers=SignedTokenCallers(read_secret(b"a secret of at least thirty-two bytes"), expected))

    transport = SyncNetwork()
    place = find_sign_in(f"{serve(make)}/mcp", transport)
    assert not isinstance(place, Problem), place
    assert (place.server.issuer, place.scopes, place.sends_resource) == (flask_site, ("a",), True)
    signed_in = sign_in(place, SignInOptions(identity=ClientIdentity(client_id="native")), Walker().person(), transport)
    assert isinstance(signed_in, Credential), signed_in
    assert signed_in.resource == place.resource
