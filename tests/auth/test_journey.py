"""From a person's answer to tokens: what is checked before anything is used."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest

from tests.support.wire import CannedTransport
from toolwire.auth.authorization_code import (
    StartedSignIn,
    finish_sign_in,
    push_sign_in,
    renew_credential,
    revoke_credential,
    start_sign_in,
)
from toolwire.auth.client_identity import DEVICE_GRANT, ClientIdentity, identify_client
from toolwire.auth.credential import Credential, read_credential, write_credential
from toolwire.auth.device_authorization import DeviceCode, poll_device_sign_in, start_device_sign_in
from toolwire.auth.metadata_discovery import AuthorizationServerMetadata, SignInTarget
from toolwire.auth.pkce import compute_challenge
from toolwire.auth.program_grants import request_client_credentials
from toolwire.auth.token_request import read_tokens
from toolwire.client.transport.drivers import run
from toolwire.core.http import Request, Response
from toolwire.core.model import Kind, Problem, Secret

ISSUER = "https://login.example"
SITE = "https://tasks.example"
BACK = "http://127.0.0.1:4000/callback"
TOKENS = {"access_token": "at", "token_type": "bearer", "expires_in": 600, "refresh_token": "rt", "scope": "a"}


def server(**more: Any) -> AuthorizationServerMetadata:
    return AuthorizationServerMetadata(
        **{"issuer": ISSUER, "authorization_url": f"{ISSUER}/a", "token_url": f"{ISSUER}/t", **more}
    )


def place(**more: Any) -> SignInTarget:
    return SignInTarget(resource=SITE, server=server(**more))


def credential(refresh: str | None = "rt", **more: Any) -> Credential:
    secret = None if refresh is None else Secret(refresh)
    return Credential(kind="oauth", resource=SITE, access=Secret("at"), refresh=secret, **more)


def build_transport(data: Any, status: int = 200) -> CannedTransport:
    return CannedTransport(lambda _: Response(status, (), json.dumps(data).encode()))


def form(request: Request) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(request.body.decode()).items()}


def begin_sign_in(where: SignInTarget | None = None, identity: ClientIdentity | None = None) -> StartedSignIn:
    started = start_sign_in(
        where or place(),
        identity or ClientIdentity(client_id="me"),
        BACK,
        ("a", "b"),
        state="s" * 43,
        verifier="v" * 43,
    )
    assert isinstance(started, StartedSignIn)
    return started


@pytest.mark.requirement("AC-06", "AC-07", "AC-08", "XL-110")
def test_authorization_url_contains_state_pkce_resource_and_scopes() -> None:
    asked = {name: values[0] for name, values in parse_qs(urlsplit(begin_sign_in().url).query).items()}
    assert asked == {
        "response_type": "code",
        "client_id": "me",
        "redirect_uri": BACK,
        "state": "s" * 43,
        "code_challenge": compute_challenge("v" * 43),
        "code_challenge_method": "S256",
        "scope": "a b",
        "resource": SITE,
    }
    assert "vvv" not in repr(begin_sign_in())
    old = begin_sign_in(SignInTarget(resource=SITE, server=server(), sends_resource=False))
    assert "resource" not in parse_qs(urlsplit(old.url).query)


@pytest.mark.requirement("QF-08", "AC-09")
def test_sign_in_asks_a_server_that_offers_it_for_tokens_that_outlast_the_visit() -> None:
    offering = place(scopes=("a", "offline_access"), device_url=f"{ISSUER}/d")
    door, me = build_transport({}), ClientIdentity(client_id="me")
    run(start_device_sign_in(offering, me, ("a", "b"), 0.0), door)
    on_page = {name: values[0] for name, values in parse_qs(urlsplit(begin_sign_in(offering).url).query).items()}
    for asked in (on_page, form(door.sent[0])):
        # OpenID Connect Core, 11: without the prompt, a provider ignores the scope.
        assert (asked["scope"], asked["prompt"]) == ("a b offline_access", "consent")
    # A program has no visit, and a request without scopes gets those that the server gives by itself.
    run(request_client_credentials(offering, ClientIdentity(client_id="me", secret=Secret("s")), ("a",), 0.0), door)
    run(start_device_sign_in(offering, me, (), 0.0), door)
    assert [(form(sent).get("scope"), "prompt" in form(sent)) for sent in door.sent[1:]] == [
        ("a", False),
        (None, False),
    ]


ROWS = [  # promised, sent, taken: the four rows of RFC 9207, and its trap
    (True, ISSUER, True),
    (True, None, False),
    (True, "https://evil.example", False),
    (True, ISSUER + "/", False),
    (False, ISSUER, True),
    (False, None, True),
    (False, "https://evil.example", False),
]


@pytest.mark.requirement("AC-06", "D-28", "R18")
@pytest.mark.parametrize(("promised", "issuer", "taken"), ROWS)
@pytest.mark.parametrize("answer", [{"code": "c"}, {"error": "access_denied", "error_description": "You are hacked"}])
def test_authorization_response_of_another_issuer_is_refused(
    promised: bool, issuer: str | None, taken: bool, answer: dict[str, str]
) -> None:
    started = begin_sign_in(place(sends_issuer=promised))
    query = urlencode({**answer, "state": "s" * 43, **({"iss": issuer} if issuer else {})})
    transport = build_transport(TOKENS)
    outcome = run(finish_sign_in(started, query, 0.0), transport)
    if taken and "code" in answer:
        assert isinstance(outcome, Credential)
        return
    assert transport.sent == []
    assert isinstance(outcome, Problem)
    assert "hacked" not in outcome.message
    assert ("access_denied" in outcome.message) is taken


@pytest.mark.requirement("AC-06", "D-28", "R18")
@pytest.mark.parametrize(
    "query",
    [
        "code=c",
        "code=c&state=",
        "code=c&state=x",
        f"code=c&state={'s' * 43}&state={'s' * 43}",
        f"code=c&code=d&state={'s' * 43}",
        f"state={'s' * 43}",
        "",
        "%ff",
    ],
)
def test_authorization_response_with_another_state_is_refused(query: str) -> None:
    transport = build_transport(TOKENS)
    assert isinstance(run(finish_sign_in(begin_sign_in(), query, 0.0), transport), Problem)
    assert transport.sent == []


@pytest.mark.requirement("AC-07", "XL-110")
def test_code_is_exchanged_with_its_verifier_at_the_token_endpoint() -> None:
    transport = build_transport(TOKENS)
    found = run(finish_sign_in(begin_sign_in(), f"code=c&state={'s' * 43}", 100.0), transport)
    assert isinstance(found, Credential)
    assert (found.access.reveal(), found.expires_at, found.scopes, found.resource) == ("at", 700.0, ("a",), SITE)
    (request,) = transport.sent
    assert request.url == f"{ISSUER}/t"
    expected = {"grant_type": "authorization_code", "code": "c", "redirect_uri": BACK, "code_verifier": "v" * 43}
    assert form(request) == {**expected, "resource": SITE, "client_id": "me"}


@pytest.mark.requirement("AC-09", "AC-07")
def test_refresh_uses_the_original_token_endpoint_and_keeps_unchanged_fields() -> None:
    old = credential(scopes=("a",), token_url=f"{ISSUER}/t", client_id="me")
    transport = build_transport({"access_token": "at2", "token_type": "Bearer"})
    new = run(renew_credential(old, 0.0), transport)
    assert isinstance(new, Credential)
    assert (new.access.reveal(), new.refresh, new.scopes, new.expires_at) == ("at2", Secret("rt"), ("a",), None)
    assert form(transport.sent[0]) == {
        "grant_type": "refresh_token",
        "refresh_token": "rt",
        "resource": SITE,
        "client_id": "me",
    }
    refused = run(renew_credential(old, 0.0), build_transport({"error": "invalid_grant"}, 400))
    assert isinstance(refused, Problem)
    assert refused.details["error"] == "invalid_grant"
    assert "rt" not in refused.message


# As node-oidc-provider 9.13.3 answers where it requires pushed requests.
PUSHED = b'{"expires_in":60,"request_uri":"urn:ietf:params:oauth:request_uri:1vjRGWz8aFCwPVy2hFyMX"}'


@pytest.mark.requirement("AC-06")
@pytest.mark.parametrize("page", [f"{ISSUER}/a", f"{ISSUER}/a?tenant=x&y=%20"])
def test_request_is_pushed_where_the_server_takes_no_other(page: str) -> None:
    where = place(authorization_url=page, pushed_url=f"{ISSUER}/push")
    me = ClientIdentity(client_id="me", secret=Secret("pw"), method="client_secret_post")
    started = begin_sign_in(where, me)
    transport = CannedTransport(lambda _: Response(201, (), PUSHED))
    pushed = run(push_sign_in(started), transport)
    assert isinstance(pushed, StartedSignIn)
    base, _, query = pushed.url.rpartition("&client_id=" if "?" in page else "?client_id=")
    assert base == page
    assert query == "me&request_uri=urn%3Aietf%3Aparams%3Aoauth%3Arequest_uri%3A1vjRGWz8aFCwPVy2hFyMX"
    (request,) = transport.sent
    assert (request.method, request.url) == ("POST", f"{ISSUER}/push")
    assert form(request) == {
        "response_type": "code",
        "client_id": "me",
        "client_secret": "pw",
        "redirect_uri": BACK,
        "state": "s" * 43,
        "code_challenge": compute_challenge("v" * 43),
        "code_challenge_method": "S256",
        "scope": "a b",
        "resource": SITE,
    }


@pytest.mark.requirement("AC-06")
@pytest.mark.parametrize(
    ("body", "status", "why"),
    [
        (b'{"error":"invalid_target"}', 400, "invalid_target"),
        (b"<html>", 502, "status 502"),
        (b'{"request_uri":"a b"}', 201, "status 201"),
        (b'{"request_uri":7}', 201, "status 201"),
    ],
)
def test_request_that_is_not_taken_opens_no_page(body: bytes, status: int, why: str) -> None:
    started = begin_sign_in(place(pushed_url=f"{ISSUER}/push"))
    refused = run(push_sign_in(started), CannedTransport(lambda _: Response(status, (), body)))
    assert isinstance(refused, Problem)
    assert refused.message == f"{ISSUER} rejected the sign-in request: {why}."


def test_request_stays_in_the_url_where_it_need_not_be_pushed() -> None:
    started = begin_sign_in()
    transport = build_transport({})
    assert run(push_sign_in(started), transport) is started
    assert transport.sent == []


@pytest.mark.requirement("AC-04", "AC-13")
def test_registration_for_a_sign_in_on_another_device_names_its_grant() -> None:
    transport = build_transport({"client_id": "new"}, 201)
    here = server(registration_url=f"{ISSUER}/r")
    run(identify_client(here, (BACK,), grants=(DEVICE_GRANT,)), transport)
    run(identify_client(here, (BACK,)), transport)
    usual = ["authorization_code", "refresh_token"]
    assert [json.loads(one.body)["grant_types"] for one in transport.sent] == [
        [*usual, "urn:ietf:params:oauth:grant-type:device_code"],
        usual,
    ]


@pytest.mark.requirement("AC-13")
def test_refused_device_sign_in_says_why() -> None:
    where, me = place(device_url=f"{ISSUER}/d"), ClientIdentity(client_id="me")
    refused = run(start_device_sign_in(where, me, (), 0.0), build_transport({"error": "invalid_request"}, 400))
    assert isinstance(refused, Problem)
    assert refused.message == f"{ISSUER} did not return a device code: invalid_request."


@pytest.mark.requirement("AC-12")
def test_revocation_revokes_the_refresh_token_then_the_access_token() -> None:
    old = credential(revocation_url=f"{ISSUER}/r", client_id="me")
    transport = build_transport({})
    assert run(revoke_credential(old), transport) is True
    assert [form(request)["token"] for request in transport.sent] == ["rt", "at"]
    assert run(revoke_credential(old), build_transport({}, 503)) is False


@pytest.mark.requirement("AC-12")
@pytest.mark.parametrize(
    ("refresh", "status", "error", "is_done"),
    [
        ("rt", 400, "unsupported_token_type", True),
        ("rt", 400, "invalid_request", False),
        ("rt", 503, "unsupported_token_type", False),
        (None, 400, "unsupported_token_type", False),
    ],
)
def test_revocation_is_done_where_a_server_revokes_refresh_tokens_alone(
    refresh: str | None, status: int, error: str, is_done: bool
) -> None:
    def answer(request: Request) -> Response:
        if form(request)["token_type_hint"] == "refresh_token":
            return Response(200, (), b"")
        # As node-oidc-provider 9.13.3 says it of an access token that is a JWT.
        text = "Structured JWT Tokens cannot be revoked via the revocation_endpoint"
        return Response(status, (), json.dumps({"error": error, "error_description": text}).encode())

    old = credential(refresh, revocation_url=f"{ISSUER}/r", client_id="me")
    assert run(revoke_credential(old), CannedTransport(answer)) is is_done


@pytest.mark.requirement("AC-04", "XL-113")
def test_client_id_comes_from_setting_then_document_then_registration_then_user() -> None:
    both = server(accepts_documents=True, registration_url=f"{ISSUER}/r")
    mine = ClientIdentity(client_id="mine")
    page = "https://app.example/oauth-client.json"
    nothing = build_transport({})
    assert run(identify_client(both, (BACK,), configured=mine, document_url=page), nothing) is mine
    assert run(identify_client(both, (BACK,), document_url=page), nothing) == ClientIdentity(client_id=page)
    assert nothing.sent == []
    registering = build_transport({"client_id": "new"}, 201)
    assert run(
        identify_client(server(registration_url=f"{ISSUER}/r"), (BACK,), document_url=page), registering
    ) == ClientIdentity(client_id="new", is_registered=True)
    body = json.loads(registering.sent[0].body)
    assert (body["application_type"], body["redirect_uris"]) == ("native", [BACK])
    outcome = run(identify_client(server(), (BACK,)), nothing)
    assert isinstance(outcome, Problem)
    assert "--client-id" in outcome.message
    for odd in ({}, [], {"client_id": 7}, {"client_id": ""}):
        assert isinstance(run(identify_client(both, (BACK,)), build_transport(odd, 201)), Problem)


@pytest.mark.requirement("AC-13")
def test_client_credentials_flow_authenticates_with_the_client_secret() -> None:
    transport = build_transport({"access_token": "at", "token_type": "Bearer"})
    identity = ClientIdentity(client_id="m e", secret=Secret("p:w"), method="client_secret_basic")
    found = run(request_client_credentials(place(), identity, ("a",), 0.0), transport)
    assert isinstance(found, Credential)
    assert found.refresh is None
    assert (b"authorization", b"Basic bSUyMGU6cCUzQXc=") in transport.sent[0].headers
    assert form(transport.sent[0]) == {"grant_type": "client_credentials", "scope": "a", "resource": SITE}


@pytest.mark.requirement("AC-13")
def test_device_flow_returns_a_user_code_and_polls_for_the_token() -> None:
    where = place(device_url=f"{ISSUER}/d")
    me = ClientIdentity(client_id="me")
    data = {
        "device_code": "dc",
        "user_code": "ABCD",
        "verification_uri": f"{ISSUER}/go",
        "interval": 2,
        "expires_in": 60,
    }
    device = run(start_device_sign_in(where, me, ("a",), 0.0), build_transport(data))
    assert isinstance(device, DeviceCode)
    assert (device.user_code, device.interval_s, device.expires_at) == ("ABCD", 2.0, 60.0)
    for strange in (0, -1, 3_601, "60", None, 10**400):
        given = run(start_device_sign_in(where, me, ("a",), 7.0), build_transport({**data, "expires_in": strange}))
        assert isinstance(given, DeviceCode)
        assert given.expires_at == 607.0, "ten minutes where the server names no time that can be"
    pending = run(
        poll_device_sign_in(where, me, device, ("a",), 0.0), build_transport({"error": "authorization_pending"}, 400)
    )
    assert isinstance(pending, Problem)
    assert pending.details["error"] == "authorization_pending"
    assert isinstance(run(poll_device_sign_in(where, me, device, ("a",), 0.0), build_transport(TOKENS)), Credential)
    assert isinstance(run(start_device_sign_in(place(), me, (), 0.0), build_transport(data)), Problem)
    assert isinstance(run(start_device_sign_in(where, me, (), 0.0), build_transport({"device_code": 7})), Problem)


@pytest.mark.requirement("AC-13", "D-28")
@pytest.mark.parametrize(
    "change",
    [
        {"verification_uri": "javascript:alert(1)"},
        {"verification_uri": "http://login.example/go"},
        {"verification_uri": "http://127.0.0.1:9/go"},
        {"verification_uri": f"{ISSUER}/go\u202e"},
        {"verification_uri": "https://login.example@evil.example/go"},
        {"user_code": "\x1b[2JABCD"},
        {"user_code": "AB\u200bCD"},
        {"user_code": "x" * 41},
        {"user_code": ""},
        {"device_code": None},
    ],
)
def test_hostile_answer_for_another_device_is_not_shown(change: dict[str, Any]) -> None:
    data = {"device_code": "dc", "user_code": "ABCD", "verification_uri": f"{ISSUER}/go", **change}
    found = run(
        start_device_sign_in(place(device_url=f"{ISSUER}/d"), ClientIdentity(client_id="me"), (), 0.0),
        build_transport(data),
    )
    assert isinstance(found, Problem)


@pytest.mark.requirement("AC-13")
@pytest.mark.parametrize("said", [0, -1, 10**400, 1e308, True, "60", None, [], 61])
def test_device_code_waits_within_bounds_whatever_its_server_says(said: Any) -> None:
    data = {"device_code": "dc", "user_code": "ABCD", "verification_uri": f"{ISSUER}/go"}
    found = run(
        start_device_sign_in(place(device_url=f"{ISSUER}/d"), ClientIdentity(client_id="me"), (), 0.0),
        build_transport({**data, "interval": said, "expires_in": said}),
    )
    assert isinstance(found, DeviceCode)
    assert 1 <= found.interval_s <= 60
    assert 0 < found.expires_at <= 3_600


@pytest.mark.requirement("AC-10", "D-26")
@pytest.mark.parametrize("spot", list(TOKENS))
@pytest.mark.parametrize("value", [None, 7, "", "x y\n", [], {}, True, -1, 10**400, 1e308])
def test_unusual_token_response_is_read_or_refused_and_never_printed(spot: str, value: Any) -> None:
    read = read_tokens({**TOKENS, spot: value}, 0.0)
    assert isinstance(read, Problem) or read.access.reveal() == "at"
    assert "'rt'" not in repr(read)


@pytest.mark.requirement("AC-10")
def test_stored_credential_is_read_back_with_its_secrets_separate() -> None:
    whole = credential(client_secret=Secret("cs"), expires_at=1.5, scopes=("a", "b"))
    plain, secrets = write_credential(whole)
    assert set(secrets.values()) == {"at", "rt", "cs"}
    assert not {"at", "rt", "cs"} & set(map(str, plain.values()))
    assert read_credential(json.loads(json.dumps(plain)), secrets) == whole
    assert read_credential({}, {}) is None
    assert "access=***" in repr(whole)


@pytest.mark.requirement("AC-09")
def test_credential_without_refresh_token_names_the_login_command() -> None:
    transport = build_transport(TOKENS)
    ended = run(renew_credential(credential(None), 0.0), transport)
    assert isinstance(ended, Problem)
    assert ended.details["error"] == "invalid_grant"
    assert f"toolwire login {SITE}" in ended.message
    assert transport.sent == []


def test_refresh_at_an_older_server_omits_the_resource() -> None:
    old = credential(token_url=f"{ISSUER}/t", sends_resource=False)
    transport = build_transport(TOKENS)
    assert isinstance(run(renew_credential(old, 0.0), transport), Credential)
    assert "resource" not in form(transport.sent[0])


@pytest.mark.requirement("AC-12")
def test_revocation_sends_only_existing_tokens_to_a_revocation_endpoint() -> None:
    alone = credential(None, revocation_url=f"{ISSUER}/r", client_id="me")
    transport = build_transport({})
    assert run(revoke_credential(alone), transport) is True
    assert [form(request)["token"] for request in transport.sent] == ["at"]
    nowhere = build_transport({})
    assert run(revoke_credential(credential(None)), nowhere) is False
    assert nowhere.sent == []


def test_unreachable_authorization_server_is_a_problem_in_every_flow() -> None:
    gone = Problem(kind=Kind.UNREACHABLE, message="Nobody answers.")
    transport = CannedTransport(lambda _: gone)
    me = ClientIdentity(client_id="me")
    assert run(identify_client(server(registration_url=f"{ISSUER}/r"), (BACK,)), transport) == gone
    assert run(request_client_credentials(place(), me, (), 0.0), transport) == gone
    assert isinstance(run(start_device_sign_in(place(device_url=f"{ISSUER}/d"), me, (), 0.0), transport), Problem)


def test_sign_in_without_an_authorization_endpoint_is_refused() -> None:
    reply = start_sign_in(
        place(authorization_url=""), ClientIdentity(client_id="me"), BACK, (), state="s" * 43, verifier="v" * 43
    )
    assert isinstance(reply, Problem)
    assert ISSUER in reply.message


@pytest.mark.requirement("AC-04")
def test_registered_client_secret_is_sent_by_the_server_method_and_never_printed() -> None:
    reply = {"client_id": "new", "client_secret": "hunter2", "token_endpoint_auth_method": "client_secret_post"}
    identity = run(identify_client(server(registration_url=f"{ISSUER}/r"), (BACK,)), build_transport(reply, 201))
    assert identity == ClientIdentity(
        client_id="new", secret=Secret("hunter2"), method="client_secret_post", is_registered=True
    )
    assert "hunter2" not in repr(identity)
    assert isinstance(identity, ClientIdentity)
    transport = build_transport(TOKENS)
    run(request_client_credentials(place(), identity, (), 0.0), transport)
    sent = form(transport.sent[0])
    assert (sent["client_id"], sent["client_secret"]) == ("new", "hunter2")
    assert not any(name == b"authorization" for name, _ in transport.sent[0].headers)
