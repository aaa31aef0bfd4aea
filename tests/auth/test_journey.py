"""From a person's answer to tokens: what is checked before anything is used."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest

from toolwire.auth.authorization_code import (
    StartedSignIn,
    finish_sign_in,
    renew_credential,
    request_client_credentials,
    revoke_credential,
    start_sign_in,
)
from toolwire.auth.client_identity import ClientIdentity, identify_client
from toolwire.auth.credential import Credential, read_credential, write_credential
from toolwire.auth.device_authorization import DeviceCode, poll_device_sign_in, start_device_sign_in
from toolwire.auth.metadata_discovery import AuthorizationServerMetadata, SignInTarget
from toolwire.auth.pkce import compute_challenge
from toolwire.auth.token_request import read_tokens
from toolwire.client.transport.drivers import run
from toolwire.core.http import Request, Response
from toolwire.core.model import Kind, Problem, Secret
from toolwire.testing.wire import CannedTransport

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


def answering(data: Any, status: int = 200) -> CannedTransport:
    return CannedTransport(lambda _: Response(status, (), json.dumps(data).encode()))


def form(request: Request) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(request.body.decode()).items()}


def begun(where: SignInTarget | None = None, identity: ClientIdentity | None = None) -> StartedSignIn:
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
def test_the_page_is_asked_for_with_all_that_protects_the_answer() -> None:
    asked = {name: values[0] for name, values in parse_qs(urlsplit(begun().url).query).items()}
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
    assert "vvv" not in repr(begun())
    old = begun(SignInTarget(resource=SITE, server=server(), sends_resource=False))
    assert "resource" not in parse_qs(urlsplit(old.url).query)


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
def test_an_answer_of_another_issuer_is_not_used_an_error_neither(
    promised: bool, issuer: str | None, taken: bool, answer: dict[str, str]
) -> None:
    started = begun(place(sends_issuer=promised))
    query = urlencode({**answer, "state": "s" * 43, **({"iss": issuer} if issuer else {})})
    door = answering(TOKENS)
    said = run(finish_sign_in(started, query, 0.0), door)
    if taken and "code" in answer:
        assert isinstance(said, Credential)
        return
    assert door.sent == []
    assert isinstance(said, Problem)
    assert "hacked" not in said.message
    assert ("access_denied" in said.message) is taken


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
def test_an_answer_without_the_state_of_this_sign_in_is_not_used(query: str) -> None:
    door = answering(TOKENS)
    assert isinstance(run(finish_sign_in(begun(), query, 0.0), door), Problem)
    assert door.sent == []


@pytest.mark.requirement("AC-07", "XL-110")
def test_a_code_is_exchanged_with_its_verifier_at_the_servers_own_endpoint() -> None:
    door = answering(TOKENS)
    found = run(finish_sign_in(begun(), f"code=c&state={'s' * 43}", 100.0), door)
    assert isinstance(found, Credential)
    assert (found.access.reveal(), found.expires_at, found.scopes, found.resource) == ("at", 700.0, ("a",), SITE)
    (request,) = door.sent
    assert request.url == f"{ISSUER}/t"
    expected = {"grant_type": "authorization_code", "code": "c", "redirect_uri": BACK, "code_verifier": "v" * 43}
    assert form(request) == {**expected, "resource": SITE, "client_id": "me"}


@pytest.mark.requirement("AC-09", "AC-07")
def test_a_refresh_goes_where_the_token_came_from_and_keeps_what_it_does_not_change() -> None:
    old = Credential(
        kind="oauth",
        resource=SITE,
        access=Secret("at"),
        refresh=Secret("rt"),
        scopes=("a",),
        token_url=f"{ISSUER}/t",
        client_id="me",
    )
    door = answering({"access_token": "at2", "token_type": "Bearer"})
    new = run(renew_credential(old, 0.0), door)
    assert isinstance(new, Credential)
    assert (new.access.reveal(), new.refresh, new.scopes, new.expires_at) == ("at2", Secret("rt"), ("a",), None)
    assert form(door.sent[0]) == {
        "grant_type": "refresh_token",
        "refresh_token": "rt",
        "resource": SITE,
        "client_id": "me",
    }
    refused = run(renew_credential(old, 0.0), answering({"error": "invalid_grant"}, 400))
    assert isinstance(refused, Problem)
    assert refused.details["error"] == "invalid_grant"
    assert "rt" not in refused.message


@pytest.mark.requirement("AC-12")
def test_both_tokens_are_revoked_the_refresh_token_first() -> None:
    old = Credential(
        kind="oauth",
        resource=SITE,
        access=Secret("at"),
        refresh=Secret("rt"),
        revocation_url=f"{ISSUER}/r",
        client_id="me",
    )
    door = answering({})
    assert run(revoke_credential(old), door) is True
    assert [form(request)["token"] for request in door.sent] == ["rt", "at"]
    assert run(revoke_credential(old), answering({}, 503)) is False


@pytest.mark.requirement("AC-04", "XL-113")
def test_our_id_is_configured_or_a_document_or_registered_or_asked_for() -> None:
    both = server(accepts_documents=True, registration_url=f"{ISSUER}/r")
    mine = ClientIdentity(client_id="mine")
    page = "https://app.example/oauth-client.json"
    nothing = answering({})
    assert run(identify_client(both, (BACK,), configured=mine, document_url=page), nothing) is mine
    assert run(identify_client(both, (BACK,), document_url=page), nothing) == ClientIdentity(client_id=page)
    assert nothing.sent == []
    registering = answering({"client_id": "new"}, 201)
    assert run(
        identify_client(server(registration_url=f"{ISSUER}/r"), (BACK,), document_url=page), registering
    ) == ClientIdentity(client_id="new", is_registered=True)
    body = json.loads(registering.sent[0].body)
    assert (body["application_type"], body["redirect_uris"]) == ("native", [BACK])
    said = run(identify_client(server(), (BACK,)), nothing)
    assert isinstance(said, Problem)
    assert "--client-id" in said.message
    for odd in ({}, [], {"client_id": 7}, {"client_id": ""}):
        assert isinstance(run(identify_client(both, (BACK,)), answering(odd, 201)), Problem)


@pytest.mark.requirement("AC-13")
def test_a_program_signs_in_with_its_own_secret() -> None:
    door = answering({"access_token": "at", "token_type": "Bearer"})
    identity = ClientIdentity(client_id="m e", secret=Secret("p:w"), method="client_secret_basic")
    found = run(request_client_credentials(place(), identity, ("a",), 0.0), door)
    assert isinstance(found, Credential)
    assert found.refresh is None
    assert (b"authorization", b"Basic bSUyMGU6cCUzQXc=") in door.sent[0].headers
    assert form(door.sent[0]) == {"grant_type": "client_credentials", "scope": "a", "resource": SITE}


@pytest.mark.requirement("AC-13")
def test_another_device_is_given_a_code_and_looked_after() -> None:
    where = place(device_url=f"{ISSUER}/d")
    me = ClientIdentity(client_id="me")
    data = {
        "device_code": "dc",
        "user_code": "ABCD",
        "verification_uri": f"{ISSUER}/go",
        "interval": 2,
        "expires_in": 60,
    }
    device = run(start_device_sign_in(where, me, ("a",), 0.0), answering(data))
    assert isinstance(device, DeviceCode)
    assert (device.user_code, device.interval_s, device.expires_at) == ("ABCD", 2.0, 60.0)
    pending = run(
        poll_device_sign_in(where, me, device, ("a",), 0.0), answering({"error": "authorization_pending"}, 400)
    )
    assert isinstance(pending, Problem)
    assert pending.details["error"] == "authorization_pending"
    assert isinstance(run(poll_device_sign_in(where, me, device, ("a",), 0.0), answering(TOKENS)), Credential)
    assert isinstance(run(start_device_sign_in(place(), me, (), 0.0), answering(data)), Problem)
    assert isinstance(run(start_device_sign_in(where, me, (), 0.0), answering({"device_code": 7})), Problem)


@pytest.mark.requirement("AC-10", "D-26")
@pytest.mark.parametrize("spot", list(TOKENS))
@pytest.mark.parametrize("value", [None, 7, "", "x y\n", [], {}, True, -1])
def test_odd_tokens_are_refused_or_read_and_never_shown(spot: str, value: Any) -> None:
    read = read_tokens({**TOKENS, spot: value}, 0.0)
    assert isinstance(read, Problem) or read.access.reveal() == "at"
    assert "'rt'" not in repr(read)


@pytest.mark.requirement("AC-10")
def test_what_is_written_of_a_credential_reads_the_same_with_its_secrets_apart() -> None:
    whole = Credential(
        kind="oauth",
        resource=SITE,
        access=Secret("at"),
        refresh=Secret("rt"),
        client_secret=Secret("cs"),
        expires_at=1.5,
        scopes=("a", "b"),
    )
    plain, secrets = write_credential(whole)
    assert set(secrets.values()) == {"at", "rt", "cs"}
    assert not {"at", "rt", "cs"} & set(map(str, plain.values()))
    assert read_credential(json.loads(json.dumps(plain)), secrets) == whole
    assert read_credential({}, {}) is None
    assert "access=***" in repr(whole)


@pytest.mark.requirement("AC-09")
def test_a_sign_in_that_cannot_be_renewed_says_how_to_begin_anew() -> None:
    door = answering(TOKENS)
    ended = run(renew_credential(Credential(kind="oauth", resource=SITE, access=Secret("at")), 0.0), door)
    assert isinstance(ended, Problem)
    assert ended.details["error"] == "invalid_grant"
    assert f"toolwire login {SITE}" in ended.message
    assert door.sent == []


def test_a_server_of_the_older_kind_is_asked_to_renew_without_a_resource() -> None:
    old = Credential(
        kind="oauth",
        resource=SITE,
        access=Secret("at"),
        refresh=Secret("rt"),
        token_url=f"{ISSUER}/t",
        sends_resource=False,
    )
    door = answering(TOKENS)
    assert isinstance(run(renew_credential(old, 0.0), door), Credential)
    assert "resource" not in form(door.sent[0])


@pytest.mark.requirement("AC-12")
def test_only_what_there_is_is_revoked_and_only_where_that_can_be_done() -> None:
    alone = Credential(kind="oauth", resource=SITE, access=Secret("at"), revocation_url=f"{ISSUER}/r", client_id="me")
    door = answering({})
    assert run(revoke_credential(alone), door) is True
    assert [form(request)["token"] for request in door.sent] == ["at"]
    nowhere = answering({})
    assert run(revoke_credential(Credential(kind="oauth", resource=SITE, access=Secret("at"))), nowhere) is False
    assert nowhere.sent == []


def test_a_server_that_is_not_reached_is_a_problem_wherever_it_happens() -> None:
    gone = Problem(kind=Kind.UNREACHABLE, message="Nobody answers.")
    door = CannedTransport(lambda _: gone)
    me = ClientIdentity(client_id="me")
    assert run(identify_client(server(registration_url=f"{ISSUER}/r"), (BACK,)), door) == gone
    assert run(request_client_credentials(place(), me, (), 0.0), door) == gone
    assert isinstance(run(start_device_sign_in(place(device_url=f"{ISSUER}/d"), me, (), 0.0), door), Problem)


def test_without_a_page_to_sign_in_at_nothing_is_begun() -> None:
    said = start_sign_in(
        place(authorization_url=""), ClientIdentity(client_id="me"), BACK, (), state="s" * 43, verifier="v" * 43
    )
    assert isinstance(said, Problem)
    assert ISSUER in said.message


@pytest.mark.requirement("AC-04")
def test_a_secret_that_registering_gave_is_sent_as_the_server_wants_it_and_never_shown() -> None:
    said = {"client_id": "new", "client_secret": "hunter2", "token_endpoint_auth_method": "client_secret_post"}
    identity = run(identify_client(server(registration_url=f"{ISSUER}/r"), (BACK,)), answering(said, 201))
    assert identity == ClientIdentity(
        client_id="new", secret=Secret("hunter2"), method="client_secret_post", is_registered=True
    )
    assert "hunter2" not in repr(identity)
    assert isinstance(identity, ClientIdentity)
    door = answering(TOKENS)
    run(request_client_credentials(place(), identity, (), 0.0), door)
    sent = form(door.sent[0])
    assert (sent["client_id"], sent["client_secret"]) == ("new", "hunter2")
    assert not any(name == b"authorization" for name, _ in door.sent[0].headers)
