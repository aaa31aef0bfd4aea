"""Authorization servers that are not those of the site: the user is asked, and a token stays with its resource."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from toolwire.auth.credential import Credential
from toolwire.client.login import SignInOptions, SignInUser, step_up
from toolwire.client.login.credential_auth import CredentialAuth, Refused
from toolwire.client.login.token_refresher import TokenRefresher
from toolwire.client.transport.network import SyncNetwork
from toolwire.core.http import Request, Response
from toolwire.core.model import Kind, Problem, Secret
from toolwire.stores.credentials.files import CredentialStore

Serve = Callable[[Callable[[str], Any]], str]


def answer_json(pages: Callable[[str], dict[str, Any]]) -> Callable[[str], Any]:
    """Return what makes an application of the JSON documents of ``pages``, by path, for its base URL."""

    def make(base: str) -> Any:
        async def app(scope: Any, _: Any, send: Any) -> None:
            if scope["type"] != "http":
                return
            page = pages(base).get(scope["path"])
            fields = [(b"content-type", b"application/json")]
            await send({"type": "http.response.start", "status": 404 if page is None else 200, "headers": fields})
            await send({"type": "http.response.body", "body": json.dumps(page).encode()})

        return app

    return make


def describe_server(issuer: str, page: str, token: str, **more: Any) -> dict[str, Any]:
    return {
        "issuer": issuer,
        "authorization_endpoint": f"{page}/authorize",
        "token_endpoint": f"{token}/token",
        "code_challenge_methods_supported": ["S256"],
        **more,
    }


def sign_in_at(site: str, allowed: Sequence[str]) -> tuple[Any, list[tuple[str, str]], list[str]]:
    """Return the outcome of a sign-in for ``site``, what was asked, and the pages that were opened."""
    asked: list[tuple[str, str]] = []
    pages: list[str] = []

    def allow_server(who: str, origin: str) -> bool:
        asked.append((who, origin))
        return origin in allowed

    def open_page(url: str) -> bool:
        pages.append(url)
        return True

    user = SignInUser(show=lambda _: None, open_page=open_page, allow_server=allow_server, wait_s=0.01)
    options = SignInOptions(document_url="", scopes=("read",), identity=None)
    transport = SyncNetwork(allow_http=[site, *allowed])
    try:
        return step_up(options, user, transport)(Refused(f"{site}/mcp"), None), asked, pages
    finally:
        transport.close()


@pytest.mark.requirement("AT-46", "D-28")
def test_server_that_metadata_of_a_resource_names_elsewhere_is_asked_about(serve: Serve) -> None:
    good = serve(
        answer_json(lambda base: {"/.well-known/oauth-authorization-server": describe_server(base, base, base)})
    )
    named = {"authorization_servers": [good], "scopes_supported": ["all"]}
    evil = serve(answer_json(lambda base: {"/.well-known/oauth-protected-resource": {"resource": base, **named}}))
    # The client may reach both; what it may not do is sign in there.
    transport = SyncNetwork(allow_http=[evil, good])
    asked: list[tuple[str, str]] = []
    pages: list[str] = []
    user = SignInUser(
        show=lambda _: None,
        open_page=lambda url: pages.append(url) is None,
        allow_server=lambda site, origin: asked.append((site, origin)) is not None,
    )
    found = step_up(SignInOptions(), user, transport)(Refused(f"{evil}/mcp"), None)
    transport.close()
    assert isinstance(found, Problem)
    assert found.kind is Kind.DENIED
    assert evil in found.message
    assert good in found.message
    assert (asked, pages) == ([(evil, good)], [])


@pytest.mark.requirement("AT-46")
def test_server_of_the_site_itself_is_not_asked_about(serve: Serve) -> None:
    def pages(base: str) -> dict[str, Any]:
        resource = {"resource": base, "authorization_servers": [base]}
        server = describe_server(base, base, base)
        return {"/.well-known/oauth-protected-resource": resource, "/.well-known/oauth-authorization-server": server}

    _, asked, _ = sign_in_at(serve(answer_json(pages)), [])
    assert asked == []


@pytest.mark.requirement("AT-39")
@pytest.mark.parametrize("promises", [True, False])
def test_user_is_told_who_gets_the_code_of_a_page_on_another_origin(serve: Serve, promises: bool) -> None:
    honest = serve(answer_json(lambda _: {}))

    def pages(base: str) -> dict[str, Any]:
        more = {"authorization_response_iss_parameter_supported": True} if promises else {}
        resource = {"resource": base, "authorization_servers": [base]}
        server = describe_server(base, honest, base, **more)
        return {"/.well-known/oauth-protected-resource": resource, "/.well-known/oauth-authorization-server": server}

    evil = serve(answer_json(pages))
    found, asked, opened = sign_in_at(evil, [])
    assert asked == [(evil, honest)], "who gets the code, and whose page opens"
    assert isinstance(found, Problem)
    assert (found.kind, opened) == (Kind.DENIED, [])


@pytest.mark.requirement("AT-39")
def test_code_that_goes_to_a_third_origin_is_named_with_it(serve: Serve) -> None:
    honest, collector = serve(answer_json(lambda _: {})), serve(answer_json(lambda _: {}))

    def pages(base: str) -> dict[str, Any]:
        resource = {"resource": base, "authorization_servers": [base]}
        server = describe_server(base, honest, collector)
        return {"/.well-known/oauth-protected-resource": resource, "/.well-known/oauth-authorization-server": server}

    evil = serve(answer_json(pages))
    _, asked, _ = sign_in_at(evil, [honest])
    assert asked == [(collector, honest), (evil, collector)]


SITE = "https://site.example"


def hold(tmp_path: Path, resource: str) -> tuple[CredentialStore, CredentialAuth]:
    store = CredentialStore(tmp_path)
    credential = Credential(kind="oauth", resource=resource, access=Secret("token-1"), issuer=f"{SITE}/as")
    store.put(credential)
    transport = SyncNetwork()
    refresher = TokenRefresher(SITE, store, credential, transport)
    return store, CredentialAuth(SITE, refresher, lambda refused, held: None)


def send(auth: CredentialAuth, url: str, header: bytes) -> list[Request]:
    """Return the requests that are sent for one call, each refused with a 401."""
    seen: list[Request] = []

    def answer(request: Request, _: float | None) -> Any:
        seen.append(request)
        return Response(401, ((b"www-authenticate", header),))
        yield

    steps, outcome = auth.send(answer, Request("POST", url), None), None
    while True:
        try:
            step: Any = steps.send(outcome)
        except StopIteration:
            return seen
        outcome = step.run()


@pytest.mark.requirement("I-23", "AT-46")
@pytest.mark.parametrize("header", [b"Bearer", b'Bearer error="invalid_token"'])
def test_refusal_of_a_request_without_a_token_keeps_the_sign_in(tmp_path: Path, header: bytes) -> None:
    store, auth = hold(tmp_path, f"{SITE}/mcp")
    (sent,) = send(auth, f"{SITE}/otc/call", header)
    assert not any(name == b"authorization" for name, _ in sent.headers), "a token goes to its resource alone"
    assert [one.resource for one in store.list_all()] == [f"{SITE}/mcp"]
    assert auth.identity[0]


@pytest.mark.requirement("AO-02")
@pytest.mark.parametrize(
    ("header", "is_kept"),
    [
        (b'Basic realm="a proxy"', True),
        (b"Bearer", True),
        (b'Bearer realm="api"', True),
        (b'Bearer error="invalid_token", resource_metadata="https://upstream.example/.well-known/x"', True),
        (b'Bearer error="invalid_token"', False),
        (b'Bearer error="invalid_token", resource_metadata="https://site.example/.well-known/x"', False),
    ],
)
def test_only_a_refusal_of_the_token_itself_ends_the_sign_in(tmp_path: Path, header: bytes, is_kept: bool) -> None:
    store, auth = hold(tmp_path, SITE)
    (sent,) = send(auth, f"{SITE}/otc/call", header)
    assert (b"authorization", b"Bearer token-1") in sent.headers
    assert [one.access.reveal() for one in store.list_all()] == (["token-1"] if is_kept else [])
    assert bool(auth.identity[0]) is is_kept


@pytest.mark.requirement("AO-02")
@pytest.mark.parametrize("is_about_the_token", [False, True])
def test_void_refresh_token_does_not_take_the_access_token_with_it(
    serve: Serve, tmp_path: Path, is_about_the_token: bool
) -> None:
    async def refuse(scope: Any, _: Any, send_part: Any) -> None:
        if scope["type"] == "http":
            fields = [(b"content-type", b"application/json")]
            await send_part({"type": "http.response.start", "status": 400, "headers": fields})
            await send_part({"type": "http.response.body", "body": b'{"error": "invalid_grant"}'})

    issuer = serve(lambda _: refuse)
    held = Credential(
        kind="oauth",
        resource=SITE,
        access=Secret("token-1"),
        refresh=Secret("refresh-1"),
        issuer=issuer,
        client_id="me",
        token_url=f"{issuer}/token",
    )
    store = CredentialStore(tmp_path)
    store.put(held)
    refresher = TokenRefresher(SITE, store, held, SyncNetwork(allow_http=[issuer]))
    auth = CredentialAuth(SITE, refresher, lambda refused, held: None)
    send(auth, f"{SITE}/call", b'Bearer error="invalid_token"' if is_about_the_token else b"Basic")
    stored = [(one.access.reveal(), one.refresh) for one in store.list_all()]
    assert stored == ([] if is_about_the_token else [("token-1", None)])


@pytest.mark.requirement("I-23")
def test_sign_in_for_another_part_of_a_site_keeps_the_one_before(tmp_path: Path) -> None:
    store, _ = hold(tmp_path, f"{SITE}/mcp")
    transport = SyncNetwork()
    refresher = TokenRefresher(SITE, store, store.list_all()[0], transport)
    refresher.replace(Credential(kind="oauth", resource=f"{SITE}/otc", access=Secret("token-2"), issuer=f"{SITE}/as"))
    assert sorted(one.resource for one in store.list_all()) == [f"{SITE}/mcp", f"{SITE}/otc"]
