"""Finding where to sign in, and what is not believed on the way."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.wire import CannedTransport
from toolwire.auth.challenge import Challenge, read_challenges
from toolwire.auth.metadata_discovery import (
    AuthorizationServerMetadata,
    SignInTarget,
    fetch_server_metadata,
    find_authorization_server,
    find_sign_in_target,
    is_safe_endpoint,
)
from toolwire.auth.security_schemes import read_security_schemes
from toolwire.client.transport.drivers import run
from toolwire.core.http import Request, Response
from toolwire.core.model import Problem

SITE = "https://tasks.example"
API = f"{SITE}/api"
ISSUER = "https://login.example/tenant"
NOWHERE = Response(404)


def server(issuer: str = ISSUER, **more: Any) -> dict[str, Any]:
    data = {
        "issuer": issuer,
        "authorization_endpoint": "https://login.example/authorize",
        "token_endpoint": "https://login.example/token",
        "code_challenge_methods_supported": ["S256"],
        "scopes_supported": ["a", "b", "c"],
        **more,
    }
    return {name: value for name, value in data.items() if value is not None}


def resource(about: str = API, **more: Any) -> dict[str, Any]:
    return {"resource": about, "authorization_servers": [ISSUER], "scopes_supported": ["a"], **more}


def find_target(pages: dict[str, Any], url: str = API, challenge: str = "") -> tuple[SignInTarget | Problem, list[str]]:
    transport = CannedTransport(
        lambda request: Response(200, (), json.dumps(pages[request.url]).encode()) if request.url in pages else NOWHERE
    )
    reply = read_challenges([challenge])[0] if challenge else None
    place = run(find_sign_in_target(url, reply), transport)
    return place, [request.url for request in transport.sent]


RESOURCE = "/.well-known/oauth-protected-resource"
SERVER = "/.well-known/oauth-authorization-server"


@pytest.mark.requirement("AC-01")
@pytest.mark.parametrize(("required", "pushed"), [(True, "https://login.example/push"), (False, ""), (None, "")])
def test_requests_are_pushed_only_where_the_server_requires_it(required: bool | None, pushed: str) -> None:
    reply = {
        "pushed_authorization_request_endpoint": "https://login.example/push",
        "require_pushed_authorization_requests": required,
    }
    place, _ = find_target(
        {f"{SITE}{RESOURCE}": resource(SITE), f"https://login.example{SERVER}/tenant": server(**reply)}
    )
    assert not isinstance(place, Problem), place
    assert place.server.pushed_url == pushed


@pytest.mark.requirement("AC-01", "AC-08", "OQ-10")
def test_challenge_names_the_metadata_url_and_the_needed_scopes() -> None:
    pages = {f"{SITE}/meta": resource(), f"https://login.example{SERVER}/tenant": server()}
    place, asked = find_target(pages, challenge=f'Bearer resource_metadata="{SITE}/meta", scope="x y"')
    assert isinstance(place, SignInTarget)
    assert (place.resource, place.server.issuer, place.scopes, place.sends_resource) == (API, ISSUER, ("x", "y"), True)
    assert asked == [f"{SITE}/meta", f"https://login.example{SERVER}/tenant"]


@pytest.mark.requirement("AC-01")
def test_well_known_urls_are_tried_in_order_without_a_challenge() -> None:
    pages = {f"{SITE}{RESOURCE}": resource(SITE), f"{ISSUER}/.well-known/openid-configuration": server()}
    place, asked = find_target(pages)
    assert isinstance(place, SignInTarget)
    assert place.scopes == ("a",)
    assert asked == [
        f"{SITE}{RESOURCE}/api",
        f"{SITE}{RESOURCE}",
        f"https://login.example{SERVER}/tenant",
        "https://login.example/.well-known/openid-configuration/tenant",
        f"{ISSUER}/.well-known/openid-configuration",
    ]


@pytest.mark.requirement("O-38")
@pytest.mark.parametrize("url", [f"{API}?tenant=a", f"{SITE}?tenant=a", f"{SITE}/?tenant=a"])
def test_the_query_of_a_resource_is_kept_in_the_address_of_its_metadata(url: str) -> None:
    path = "/api" if url.startswith(API) else ""
    _, asked = find_target({}, url)
    assert asked[:2] == [f"{SITE}{RESOURCE}{path}?tenant=a", f"{SITE}{RESOURCE}"]


@pytest.mark.requirement("AC-01", "AC-07")
def test_site_that_is_its_own_authorization_server_needs_no_resource_metadata() -> None:
    place, asked = find_target({f"{SITE}{SERVER}": server(SITE)})
    assert isinstance(place, SignInTarget)
    assert (place.resource, place.sends_resource, place.scopes) == (SITE, False, ("a", "b", "c"))
    assert asked[-1] == f"{SITE}{SERVER}"


@pytest.mark.requirement("AC-01", "AC-02", "D-28", "XL-024")
def test_resource_metadata_on_another_origin_is_not_fetched() -> None:
    challenge = 'Bearer resource_metadata="https://evil.example/meta"'
    _, asked = find_target({}, challenge=challenge)
    assert not any(url.startswith("https://evil.example") for url in asked)


LIES = [
    {f"{SITE}{RESOURCE}/api": resource("https://other.example")},
    {f"{SITE}{RESOURCE}/api": resource(f"{SITE}/ap")},
    {f"{SITE}{RESOURCE}/api": resource(None)},  # type: ignore[arg-type]  # hostile
    {f"{SITE}{RESOURCE}/api": resource(authorization_servers=[])},
    {f"{SITE}{RESOURCE}/api": resource(authorization_servers=["http://login.example"])},
    {f"{SITE}{RESOURCE}/api": resource(authorization_servers=["javascript:alert(1)"])},
    {f"{SITE}{RESOURCE}/api": resource(), f"https://login.example{SERVER}/tenant": server("https://evil.example")},
    {f"{SITE}{RESOURCE}/api": resource(), f"https://login.example{SERVER}/tenant": server(ISSUER + "/")},
    {f"{SITE}{SERVER}": server("https://evil.example")},
]


@pytest.mark.requirement("AC-02", "D-28", "R18", "XL-024")
@pytest.mark.parametrize("pages", LIES, ids=lambda pages: str(list(pages.values())[-1])[:70])
def test_metadata_with_another_resource_or_issuer_is_refused(pages: dict[str, Any]) -> None:
    place, _ = find_target(pages)
    assert isinstance(place, Problem)


@pytest.mark.requirement("AC-03", "D-28", "R18")
@pytest.mark.parametrize("methods", [None, [], ["plain"], "S256", [256]])
def test_authorization_server_without_pkce_is_refused(methods: Any) -> None:
    pages = {f"{SITE}{SERVER}": server(SITE, code_challenge_methods_supported=methods)}
    place, _ = find_target(pages)
    assert isinstance(place, Problem)
    assert "PKCE" in place.message


@pytest.mark.requirement("AC-02", "D-29", "R18")
@pytest.mark.parametrize(
    "member", ["authorization_endpoint", "token_endpoint", "revocation_endpoint", "registration_endpoint"]
)
@pytest.mark.parametrize(
    "url",
    ["http://login.example/x", "javascript:alert(1)", "file:///etc/passwd", "https://a b", "http://127.0.0.1/x", 7, ""],
)
def test_endpoints_must_use_https(member: str, url: Any) -> None:
    place, _ = find_target({f"{SITE}{SERVER}": server(SITE, **{member: url})})
    assert isinstance(place, Problem)


@pytest.mark.requirement("AC-02")
def test_http_is_allowed_only_if_server_and_endpoint_are_loopback() -> None:
    assert is_safe_endpoint("http://127.0.0.1:8000/token", "http://127.0.0.1:8000")
    assert is_safe_endpoint("http://[::1]:8000/token", "http://localhost:8000")
    assert not is_safe_endpoint("http://127.0.0.1:8000/token", "https://login.example")
    assert not is_safe_endpoint("http://127.0.0.1.evil.example/token", "http://127.0.0.1:8000")
    assert not is_safe_endpoint("http://127.0.0.1@evil.example/token", "http://127.0.0.1:8000")


@pytest.mark.requirement("AC-02", "D-05")
@pytest.mark.parametrize(
    "here", ["http://127.0.0.1:8/x", "https://127.0.0.1:8/x", "https://127.9.9.9/x", "https://localhost/x",
             "https://a.localhost/x", "https://[::1]/x", "https://[::ffff:127.0.0.1]/x", "https://0.0.0.0/x"]
)  # fmt: skip
def test_remote_metadata_cannot_name_a_loopback_server(here: str) -> None:
    asked: list[str] = []

    def answers(request: Request) -> Response:
        asked.append(request.url)
        message = {**resource(), "authorization_servers": [here]}
        return Response(200, (), json.dumps(message).encode()) if RESOURCE in request.url else Response(404)

    assert isinstance(run(find_sign_in_target(f"{SITE}/api"), CannedTransport(answers)), Problem)
    assert all(url.startswith(SITE) for url in asked)
    assert not is_safe_endpoint(here, SITE)
    assert is_safe_endpoint(here, "http://localhost:9000/")


@pytest.mark.requirement("AC-01")
def test_hostile_metadata_raises_no_exception() -> None:
    for spot in server():
        for value in (None, 7, "x", [], {}, True):
            for page in (
                {f"{SITE}{SERVER}": {**server(SITE), spot: value}},
                {f"{SITE}{RESOURCE}/api": {**resource(), spot: value}},
            ):
                assert isinstance(find_target(page)[0], SignInTarget | Problem)
    transport = CannedTransport(lambda _: Response(200, (), b"[1]"))
    assert isinstance(run(find_authorization_server(ISSUER), transport), Problem)


@pytest.mark.requirement("AC-01")
def test_metadata_url_of_a_document_must_belong_to_its_issuer() -> None:
    good = f"{ISSUER}/.well-known/openid-configuration"
    transport = CannedTransport(lambda _: Response(200, (), json.dumps(server()).encode()))
    assert isinstance(run(fetch_server_metadata(good), transport), AuthorizationServerMetadata)
    assert isinstance(run(fetch_server_metadata("https://login.example/other"), transport), Problem)
    assert isinstance(run(fetch_server_metadata("http://login.example/x"), transport), Problem)


# what a document declares


def document(**flows: Any) -> dict[str, Any]:
    return {"openapi": "3.1.0", "components": {"securitySchemes": {"o": {"type": "oauth2", "flows": flows}}}}


@pytest.mark.requirement("AC-01", "AC-03", "XL-110")
def test_openapi_oauth_flows_give_unverified_sign_in_targets() -> None:
    flow = {"authorizationUrl": "/oauth/authorize", "tokenUrl": "/oauth/token", "scopes": {"tasks:read": "Read"}}
    reply = read_security_schemes(
        document(authorizationCode=flow, clientCredentials={"tokenUrl": "/oauth/token"}), f"{SITE}/openapi.json", SITE
    )
    place = reply.targets["page"]
    assert (place.server.authorization_url, place.server.token_url) == (
        f"{SITE}/oauth/authorize",
        f"{SITE}/oauth/token",
    )
    assert (place.scopes, place.sends_resource, place.server.is_proven) == (("tasks:read",), False, False)
    assert reply.targets["secret"].server.token_url == f"{SITE}/oauth/token"


@pytest.mark.requirement("AC-13", "CV-28")
def test_device_flow_of_an_openapi_document_is_used_at_its_own_origin() -> None:
    flow = {"deviceAuthorizationUrl": "/oauth/device", "tokenUrl": "/oauth/token", "scopes": {"tasks:read": "Read"}}
    reply = read_security_schemes(document(deviceAuthorization=flow), f"{SITE}/openapi.json", SITE)
    place = reply.targets["device"]
    assert (place.server.device_url, place.server.token_url) == (f"{SITE}/oauth/device", f"{SITE}/oauth/token")
    elsewhere = flow | {"deviceAuthorizationUrl": "https://evil.example/device"}
    assert not read_security_schemes(document(deviceAuthorization=elsewhere), f"{SITE}/openapi.json", SITE).targets


@pytest.mark.requirement("AC-13")
def test_implicit_and_password_flows_are_named_and_not_used() -> None:
    reply = read_security_schemes(
        document(implicit={"authorizationUrl": "/a"}, password={"tokenUrl": "/t"}), f"{SITE}/o", SITE
    )
    assert reply.targets == {}
    assert reply.unsafe == ("implicit", "password")


@pytest.mark.requirement("AC-01", "D-28")
@pytest.mark.parametrize(
    "flow",
    [
        {"authorizationUrl": "https://honest.example/a", "tokenUrl": "https://evil.example/t"},
        {"authorizationUrl": "javascript:alert(1)", "tokenUrl": "https://evil.example/t"},
        {"authorizationUrl": "/a", "tokenUrl": "http://evil.example/t"},
        {"authorizationUrl": "/a"},
        {"tokenUrl": 7},
        {"tokenUrl": "https://["},
    ],
)
def test_oauth_flow_with_an_unsafe_url_is_not_used(flow: dict[str, Any]) -> None:
    reply = read_security_schemes(document(authorizationCode=flow), f"{SITE}/openapi.json", SITE)
    assert not any(place.server.authorization_url for place in reply.targets.values())


@pytest.mark.requirement("AC-14", "XL-112")
def test_key_schemes_say_how_a_key_is_sent() -> None:
    schemes = {
        "k": {"type": "apiKey", "in": "header", "name": "X-Key"},
        "b": {"type": "http", "scheme": "bearer"},
        "q": {"type": "apiKey", "in": "query", "name": "key"},
        "i": {"type": "openIdConnect", "openIdConnectUrl": "https://login.example/.well-known/openid-configuration"},
        "p": {"type": "http", "scheme": "basic"},
        "odd": 7,
    }
    reply = read_security_schemes({"components": {"securitySchemes": schemes}}, f"{SITE}/openapi.json", SITE)
    assert reply.keys == (("x-key", ""), ("authorization", "Bearer "), ("authorization", "Basic "))
    assert reply.metadata_urls == ("https://login.example/.well-known/openid-configuration",)
    for odd in (
        None,
        [],
        {"components": 7},
        {"components": {"securitySchemes": {"o": {"type": "oauth2", "flows": 7}}}},
    ):
        assert read_security_schemes(odd, SITE, SITE).targets == {}


def test_challenge_without_metadata_uses_the_well_known_urls() -> None:
    place, _ = find_target({f"{SITE}{SERVER}": server(SITE)}, challenge='Bearer realm="x"')
    assert isinstance(place, SignInTarget)
    assert Challenge(scheme="bearer", parameters={}).parameters == {}
    assert Request("GET", SITE).method == "GET"


@pytest.mark.requirement("AC-01")
def test_resource_metadata_of_a_root_site_is_fetched_once() -> None:
    pages = {f"{SITE}{RESOURCE}": resource(SITE), f"https://login.example{SERVER}/tenant": server()}
    place, asked = find_target(pages, SITE)
    assert isinstance(place, SignInTarget)
    assert place.resource == SITE
    assert asked[0] == f"{SITE}{RESOURCE}"
    assert asked.count(f"{SITE}{RESOURCE}") == 1


def test_unknown_or_invalid_oauth_flows_are_ignored() -> None:
    odd = document(telepathy={"tokenUrl": "/t"}, authorizationCode=7, clientCredentials=[])
    reply = read_security_schemes(odd, f"{SITE}/openapi.json", SITE)
    assert (dict(reply.targets), reply.unsafe) == ({}, ())
