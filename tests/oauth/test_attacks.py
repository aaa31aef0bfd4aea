"""The known attacks on OAuth, each played against a whole server or client, each with the error it must end in."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any
from urllib.parse import urlencode

import anyio
import pytest

import toolwire
from tests.support.wire import AppTransport, CannedTransport
from toolwire.auth.authorization_code import StartedSignIn, finish_sign_in, start_sign_in
from toolwire.auth.client_identity import ClientIdentity
from toolwire.auth.clients import Client
from toolwire.auth.metadata_discovery import AuthorizationServerMetadata, SignInTarget, find_sign_in_target
from toolwire.client.transport.drivers import run
from toolwire.client.transport.network import Network
from toolwire.core.http import JSON_HEADERS, Request, Response
from toolwire.core.model import Problem
from toolwire.stores.oauth.accounts import Accounts
from toolwire.stores.oauth.database import OAuthStore

from .conftest import CALLBACK, CLIENTS, ISSUER, Site, document

EVIL = "https://evil.example/callback"
ATTACKER = Client(id="evil", name="Tasks (official)", redirect_uris=(EVIL,))


def stolen_code_is_injected_into_another_session(site: Site) -> str:
    code = site.code()
    return str(site.redeem(code, code_verifier="e" * 43).json()["error"])


def stolen_code_is_redeemed_by_the_attackers_own_client(site: Site) -> str:
    return str(site.redeem(site.code(), client_id="evil", redirect_uri="").json()["error"])


def pkce_is_left_out(site: Site) -> str:
    answer = site.browser.get(site.ask(code_challenge=None, code_challenge_method=None))
    return site.answer(answer)["error"]


def pkce_is_downgraded_to_plain(site: Site) -> str:
    return site.answer(site.browser.get(site.ask(code_challenge_method="plain")))["error"]


def code_is_replayed(site: Site) -> str:
    code = site.code()
    tokens = site.redeem(code).json()
    error = str(site.redeem(code).json()["error"])
    assert site.caller(tokens["access_token"]).kind == "unauthorized"
    return error


def redirect_leads_to_the_attacker(site: Site) -> str:
    return _page(site, redirect_uri=EVIL)


def redirect_begins_like_the_registered_one(site: Site) -> str:
    return _page(site, redirect_uri=f"{CALLBACK}.evil.example/") + _page(site, redirect_uri=f"{CALLBACK}/../../evil")


def redirect_impersonates_localhost(site: Site) -> str:
    hosts = ("127.0.0.1.evil.example", "localhost", "127.0.0.1@evil.example", "0.0.0.0", "127.1")
    pages = {_page(site, client_id="native", redirect_uri=f"http://{host}:80/callback") for host in hosts}
    assert pages == {"400 page"}
    return pages.pop()


def phishing_app_calls_itself_official(site: Site) -> str:
    site.browser.sign_in()
    page = site.browser.get(site.ask("evil", redirect_uri=EVIL))
    assert "evil.example" in page.text
    assert "<dd>not known</dd>" in page.text
    return f"{page.status_code} {'asked' if 'Do not allow' in page.text else ''}"


def refresh_token_is_stolen_and_used(site: Site) -> str:
    tokens = site.tokens()
    site.refresh(tokens["refresh_token"])
    return str(site.refresh(tokens["refresh_token"]).json()["error"])


def token_of_another_resource_is_shown(site: Site) -> str:
    token = site.tokens(resource=ISSUER)["access_token"]
    with site.store.write_transaction() as rows:
        rows._run("UPDATE oauth_grants SET resource = 'https://other.example'")
    return str(site.caller(token).details["error"])


def client_proof_has_no_signature(site: Site) -> str:
    form = {
        "client_id": "signer",
        "client_assertion_type": "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
        "client_assertion": "eyJhbGciOiJub25lIn0.eyJpc3MiOiJzaWduZXIiLCJzdWIiOiJzaWduZXIifQ.",
    }
    return str(site.token(grant_type="refresh_token", refresh_token="x", **form).json()["error"])


def client_id_leads_into_the_own_network(site: Site) -> str:
    for url in ("http://169.254.169.254/latest", "https://127.0.0.1/c", "https://localhost/c", "http://[::1]/c"):
        assert _page(site, client_id=url) == "400 page"
    assert site.internet.asked == []
    return "400 page"


def consent_is_forged_by_another_site(site: Site) -> str:
    site.browser.sign_in()
    fields = site.browser.fields(site.browser.get(site.ask()))
    form = {**fields, "scope": "tasks:read", "decision": "allow"}
    return str(site.browser.post("/oauth/consent", form, headers={"origin": "https://evil.example"}).status_code)


def token_is_asked_for_in_the_address(site: Site) -> str:
    return site.answer(site.browser.get(site.ask(response_type="token")))["error"]


def token_of_a_person_is_exchanged_for_one_of_another_app(site: Site) -> str:
    token = site.tokens()["access_token"]
    form = {
        "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
        "subject_token": token,
        "subject_token_type": "urn:ietf:params:oauth:token-type:access_token",
        "audience": "evil",
    }
    return str(site.token(client_id="evil", **form).json()["error"])


def grants_that_this_server_does_not_offer_are_asked_for(site: Site) -> str:
    forms: list[dict[str, Any]] = [
        {"grant_type": "urn:ietf:params:oauth:grant-type:device_code", "device_code": site.code()},
        {"grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer", "assertion": "eyJhbGciOiJub25lIn0.e30."},
        {"grant_type": "urn:ietf:params:oauth:grant-type:saml2-bearer", "assertion": "PHg+"},
        {"grant_type": "urn:openid:params:grant-type:ciba", "auth_req_id": "1"},
        {"grant_type": "password", "username": "ada", "password": "secret"},
        {"grant_type": "client_credentials", "scope": "tasks:read"},
        {"grant_type": "implicit"},
    ]
    errors = {str(site.token(**form).json()["error"]) for form in forms}
    assert len(errors) == 1, errors
    return errors.pop()


def grant_is_named_twice(site: Site) -> str:
    form = [("grant_type", "password"), ("grant_type", "authorization_code"), ("client_id", "app")]
    fields = {"content-type": "application/x-www-form-urlencoded"}
    body = urlencode([*form, ("code", site.code())])
    answer = site.browser.request("POST", "/oauth/token", content=body, headers=fields)
    return str(answer.json()["error"])


def code_of_another_device_is_asked_for(site: Site) -> str:
    paths = ("/oauth/device_authorization", "/oauth/device", "/oauth/device/code", "/device")
    codes = {site.browser.post(path, {"client_id": "evil"}).status_code for path in paths}
    assert len(codes) == 1, codes
    return str(codes.pop())


def subject_token_of_an_app_opens_the_pages_of_a_person(site: Site) -> str:
    token = site.tokens()["access_token"]
    browser = site.new_browser()
    page = browser.get("/oauth/connected", headers={"authorization": f"Bearer {token}"})
    return f"{page.status_code} {'Tasks' in page.text}"


ATTACKS: list[tuple[Callable[[Site], str], str]] = [
    (token_of_a_person_is_exchanged_for_one_of_another_app, "unsupported_grant_type"),
    (grants_that_this_server_does_not_offer_are_asked_for, "unsupported_grant_type"),
    (grant_is_named_twice, "invalid_request"),
    (code_of_another_device_is_asked_for, "404"),
    (subject_token_of_an_app_opens_the_pages_of_a_person, "303 False"),
    (stolen_code_is_injected_into_another_session, "invalid_grant"),
    (stolen_code_is_redeemed_by_the_attackers_own_client, "invalid_grant"),
    (pkce_is_left_out, "invalid_request"),
    (pkce_is_downgraded_to_plain, "invalid_request"),
    (code_is_replayed, "invalid_grant"),
    (redirect_leads_to_the_attacker, "400 page"),
    (redirect_begins_like_the_registered_one, "400 page400 page"),
    (redirect_impersonates_localhost, "400 page"),
    (phishing_app_calls_itself_official, "200 asked"),
    (refresh_token_is_stolen_and_used, "invalid_grant"),
    (token_of_another_resource_is_shown, "invalid_token"),
    (client_proof_has_no_signature, "invalid_client"),
    (client_id_leads_into_the_own_network, "400 page"),
    (consent_is_forged_by_another_site, "403"),
    (token_is_asked_for_in_the_address, "unsupported_response_type"),
]


def _page(site: Site, **wrong: Any) -> str:
    answer = site.browser.get(site.ask(**wrong))
    return f"{answer.status_code} {answer.headers.get('location', 'page')}"


@pytest.mark.requirement("D-28", "R18")
@pytest.mark.parametrize(("attack", "end"), ATTACKS, ids=lambda each: getattr(each, "__name__", ""))
def test_each_attack_on_the_server_ends_in_its_error(
    open_site: Callable[..., Site], attack: Callable[[Site], str], end: str
) -> None:
    keyed = Client(id="signer", redirect_uris=(CALLBACK,), method="private_key_jwt", keys={"keys": []})
    assert attack(open_site(clients=(*CLIENTS, ATTACKER, keyed))) == end


def honest(issuer: str, names_issuer: bool = True) -> StartedSignIn:
    server = AuthorizationServerMetadata(
        issuer=issuer, authorization_url=f"{issuer}/a", token_url=f"{issuer}/t", sends_issuer=names_issuer
    )
    place = SignInTarget(resource="https://tasks.example", server=server)
    started = start_sign_in(
        place, ClientIdentity(client_id="me"), "http://127.0.0.1:1/callback", (), state="s" * 43, verifier="v" * 43
    )
    assert isinstance(started, StartedSignIn)
    return started


@pytest.mark.requirement("D-28", "R18", "AC-06")
@pytest.mark.parametrize("issuer", [None, "https://honest.example", "https://evil.example/"])
def test_a_mix_up_of_two_servers_sends_the_code_to_neither(issuer: str | None) -> None:
    transport = CannedTransport(lambda _: Response(200, (), b"{}"))
    answer = {"code": "c", "state": "s" * 43, **({"iss": issuer} if issuer else {})}
    assert isinstance(run(finish_sign_in(honest("https://evil.example"), urlencode(answer), 0.0), transport), Problem)
    assert transport.sent == []


@pytest.mark.requirement("D-28", "R18", "AC-02")
def test_site_cannot_name_the_metadata_of_another_site() -> None:
    evil = {"resource": "https://tasks.example", "authorization_servers": ["https://evil.example"]}
    transport = CannedTransport(
        lambda request: Response(200, (), json.dumps(evil).encode()) if "protected" in request.url else Response(404)
    )
    assert isinstance(run(find_sign_in_target("https://other.example/api"), transport), Problem)
    assert not any("evil" in request.url for request in transport.sent)


@pytest.mark.requirement("D-09", "AS-17")
def test_an_app_cannot_use_the_consent_that_another_was_given(open_site: Callable[..., Site]) -> None:
    site = open_site(registration=True)
    site.tokens()  # Ada allowed an app before, and is signed in
    body = {"client_name": "The App", "redirect_uris": [EVIL], "token_endpoint_auth_method": "none"}
    evil = site.browser.request("POST", "/oauth/register", json=body).json()["client_id"]
    url = "https://evil.example/client.json"
    data = json.dumps({**document(url), "client_name": "The App", "redirect_uris": [EVIL]}).encode()
    site.internet.pages[url] = Response(200, JSON_HEADERS, data)
    for client_id in (evil, url):
        page = site.browser.get(site.ask(client_id, redirect_uri=EVIL))
        assert page.status_code == 200  # our own question, whatever she answered to others
        assert "evil.example" in page.text
        assert "location" not in page.headers


@pytest.mark.requirement("D-09")
def test_gateway_forwards_no_caller_token_to_its_upstream(
    site: Site, serve: Callable[[Callable[[str], Any]], str]
) -> None:
    kit, seen = toolwire.Toolkit("Upstream"), list[bytes]()

    @kit.tool(approval="auto", safe=True)
    def ping() -> str:
        """Answer."""
        return "pong"

    upstream = toolwire.asgi(kit)

    async def recording(scope: Any, receive: Any, send: Any) -> None:
        seen.extend(value for _, value in scope.get("headers", ()))
        await upstream(scope, receive, send)

    token = site.tokens()["access_token"].encode()
    base = serve(lambda _: recording)
    field = (b"authorization", b"Bearer " + token)
    body = json.dumps({"request": {"tool_id": "Upstream.ping", "input": {}}}).encode()

    async def through() -> tuple[Response, Response]:
        async with toolwire.connect(base, protocol="otc", agree=lambda _: True) as remote:
            transport = AppTransport(toolwire.asgi(remote, callers=site.server.callers))
            url = "http://127.0.0.1:9627/tools/call"
            nobody = await transport.send(Request("POST", url, JSON_HEADERS, body))
            return nobody, await transport.send(Request("POST", url, (*JSON_HEADERS, field), body))

    nobody, answer = anyio.run(through)
    assert nobody.status == 401
    assert b"pong" in answer.body
    assert seen
    assert not any(token in value for value in seen)


@pytest.mark.requirement("D-28", "R18")
def test_metadata_redirect_into_a_private_network_is_not_followed(
    serve: Callable[[Callable[[str], Any]], str],
) -> None:
    async def moved(scope: Any, receive: Any, send: Any) -> None:
        location = b"http://169.254.169.254/latest/meta-data"
        await send({"type": "http.response.start", "status": 302, "headers": [(b"location", location)]})
        await send({"type": "http.response.body", "body": b""})

    base = serve(lambda _: moved)

    async def asked() -> Response | Problem:
        network = Network()
        answer = await network.send(Request("GET", f"{base}/.well-known/oauth-protected-resource"))
        await network.aclose()
        return answer

    answer = anyio.run(asked)
    assert isinstance(answer, Problem)
    assert answer.details["reason"] == "redirect"


# D-27: comparing secrets

_SECRET_NAMES = ("secret", "token", "password", "verifier", "challenge", "state", "csrf", "signature")
_FOLDERS = ("auth", "server/oauth", "client/login")
_MAY_COMPARE = {
    # neither is a secret: the name of a method, and the digest of which scopes were asked for
    "pkce.py: parameters.get('code_challenge_method') != METHOD",
    "grants.py: request.request == token.request",
    # Secret compares in constant time itself
    "refresher.py: stored.access != refused",
}


def _list_comparisons(path: Path) -> list[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare) and any(isinstance(op, ast.Eq | ast.NotEq) for op in node.ops):
            sides = [node.left, *node.comparators]
            if any(isinstance(side, ast.Constant) for side in sides):
                continue  # with a word of ours, which is no secret
            names = " ".join(ast.unparse(side).lower() for side in sides)
            if any(name in names for name in _SECRET_NAMES):
                found.append(f"{path.name}: {ast.unparse(node)}")
    return found


@pytest.mark.requirement("D-27")
def test_secrets_are_never_compared_with_the_equals_operator() -> None:
    source = Path(toolwire.__file__).parent
    found = [
        line
        for folder in _FOLDERS
        for path in sorted((source / folder).glob("*.py"))
        for line in _list_comparisons(path)
    ]
    assert set(found) <= _MAY_COMPARE, found


@pytest.mark.slow
@pytest.mark.requirement("D-27", "AS-19")
def test_unknown_user_name_costs_as_much_time_as_a_wrong_password(tmp_path: Path) -> None:
    store = OAuthStore(tmp_path / "people.db")
    people = Accounts(store)
    people.add("Ada", "correct horse")

    def took(name: str) -> float:
        begun = process_time()  # the work that is done, however busy the machine is
        people.check(name, "wrong horse")
        return process_time() - begun

    times = [(took("Ada"), took("Nobody")) for _ in range(7)]
    known, unknown = (median(each) for each in zip(*times, strict=True))
    store.close()
    assert 0.7 < known / unknown < 1.4
