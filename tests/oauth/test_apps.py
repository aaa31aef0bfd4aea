"""Apps that name themselves by a document, or register."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import anyio
import pytest
from joserfc import jwt
from joserfc.jwk import ECKey

from tests.oauth.app_document import JSON, URL, build_document_response
from tests.oauth.registered_app import register_app
from toolwire.client.transport.limits import TransportLimits
from toolwire.client.transport.network import Network
from toolwire.core.http import Response
from toolwire.core.model import Problem
from toolwire.oauth.factory import build_document_fetch

from .conftest import CALLBACK, ISSUER, Site


@pytest.mark.requirement("AS-16", "AS-17", "XL-114")
def test_app_with_a_client_document_is_shown_with_its_host_and_gets_tokens(site: Site) -> None:
    site.internet.pages[URL] = build_document_response(grant_types=["authorization_code", "refresh_token"])
    site.browser.sign_in()
    page = site.browser.get(site.ask(URL))
    assert "Docs" in page.text
    assert "<dd>app.example</dd>" in page.text
    code = site.answer(site.browser.allow(page))["code"]
    tokens = site.redeem(code, client_id=URL).json()
    assert site.refresh(tokens["refresh_token"], client_id=URL).status_code == 200


@pytest.mark.requirement("AS-16")
def test_client_document_is_fetched_once_while_it_is_fresh(site: Site) -> None:
    site.internet.pages[URL] = build_document_response((b"cache-control", b"max-age=600"))
    for _ in range(3):
        assert site.browser.get(site.ask(URL)).status_code == 303
    assert site.internet.asked == [URL]
    site.clock.now += 601
    site.browser.get(site.ask(URL))
    assert site.internet.asked == [URL, URL]


@pytest.mark.requirement("AS-16", "R18")
@pytest.mark.parametrize(
    "wrong",
    [
        build_document_response(status=500),
        build_document_response(client_id="https://app.example/other"),
        Response(200, (JSON,), b"{"),
        build_document_response(client_secret="x"),
    ],
    ids=["status", "client_id", "json", "secret"],
)
def test_invalid_client_document_is_not_cached(site: Site, wrong: Response) -> None:
    site.internet.pages[URL] = wrong
    assert site.browser.get(site.ask(URL)).status_code == 400
    site.internet.pages[URL] = build_document_response()
    assert site.browser.get(site.ask(URL)).status_code == 303


@pytest.mark.requirement("AS-16")
@pytest.mark.parametrize(
    "url",
    ["http://app.example/c.json", "https://app.example", "https://app.example/a/../c.json", "https://127.0.0.1/c.json"],
)
def test_invalid_client_document_url_is_not_fetched(site: Site, url: str) -> None:
    assert site.browser.get(site.ask(url)).status_code == 400
    assert site.internet.asked == []


@pytest.mark.requirement("AS-16")
def test_client_document_fetches_from_one_site_are_limited(site: Site) -> None:
    for number in range(40):
        assert site.browser.get(site.ask(f"https://app.example/{number}.json")).status_code == 400
    assert len(site.internet.asked) == 20
    site.clock.now += 61
    site.browser.get(site.ask("https://app.example/41.json"))
    assert len(site.internet.asked) == 21


@pytest.mark.requirement("AS-16", "AS-17")
def test_changed_app_needs_new_consent(site: Site) -> None:
    site.internet.pages[URL] = build_document_response()
    site.browser.sign_in()
    first = site.browser.get(site.ask(URL))
    assert first.status_code == 200  # never without asking the first time
    site.redeem(site.answer(site.browser.allow(first))["code"], client_id=URL)
    known = site.browser.get(site.ask(URL))
    assert "code" in site.answer(known)
    assert site.browser.get(site.ask(URL, prompt="consent")).status_code == 200
    assert site.browser.get(site.ask(URL, scope="tasks:delete")).status_code == 200
    for change in ({"client_name": "Other"}, {"redirect_uris": [CALLBACK, "https://app.example/2"]}):
        site.clock.now += 61
        site.internet.pages[URL] = build_document_response(**change)
        page = site.browser.get(site.ask(URL))
        assert page.status_code == 200
        assert "has changed since you last allowed it" in page.text


@pytest.mark.requirement("AS-17")
def test_loopback_app_needs_consent_each_time_with_a_warning(site: Site) -> None:
    local = {"redirect_uri": "http://127.0.0.1:4000/callback"}
    site.browser.sign_in()
    for _ in range(2):
        page = site.browser.get(site.ask("native", **local))
        assert page.status_code == 200
        assert "a program on this device" in page.text
        code = site.answer(site.browser.allow(page))["code"]
        assert site.redeem(code, client_id="native", redirect_uri=local["redirect_uri"]).status_code == 200


@pytest.mark.requirement("AS-09", "AS-16")
def test_an_app_with_a_document_can_prove_itself_with_a_key(site: Site) -> None:
    key, keys = ECKey.generate_key("P-256"), "https://app.example/keys.json"
    site.internet.pages[URL] = build_document_response(jwks_uri=keys, token_endpoint_auth_method="private_key_jwt")
    site.internet.pages[keys] = Response(200, (JSON,), json.dumps({"keys": [key.as_dict(private=False)]}).encode())
    code = site.code(client_id=URL)
    claims = {"iss": URL, "sub": URL, "aud": ISSUER, "exp": int(site.clock()) + 60, "jti": "1"}
    form = {
        "client_assertion_type": "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
        "client_assertion": jwt.encode({"alg": "ES256"}, claims, key),
    }
    assert site.redeem(code, client_id=URL).status_code == 401
    assert site.redeem(code, client_id=URL, **form).status_code == 200


@pytest.mark.requirement("AS-16", "D-05", "XL-114", "R18")
def test_client_documents_are_fetched_through_the_address_checks() -> None:
    refused = [
        "http://app.example/c",
        "https://10.0.0.1/c",
        "https://169.254.169.254/c",
        "https://[::ffff:127.0.0.1]/c",
    ]
    refused += ["https://rebound.example/c", "https://127.1/c", "file:///etc/passwd"]

    async def fetched() -> list[Response | Problem]:
        network = Network(limits=TransportLimits(redirects=0, total_s=2), resolve=lambda host, port: ["127.0.0.1"])
        fetch = build_document_fetch(network)
        answers = [await fetch(url) for url in refused]
        await network.aclose()
        return answers

    for answer in anyio.run(fetched):
        assert isinstance(answer, Problem)
        assert answer.details["sent"] is False


# registration


@pytest.mark.requirement("AS-18")
def test_registration_is_off_by_default(site: Site) -> None:
    assert register_app(site).status_code == 404
    assert "registration_endpoint" not in site.browser.get("/.well-known/oauth-authorization-server").json()


@pytest.mark.requirement("AS-18")
def test_app_can_register_if_registration_is_enabled(open_site: Callable[..., Site]) -> None:
    site = open_site(registration=True)
    answer = register_app(
        site, token_endpoint_auth_method="none", application_type="native", software_statement="x.y.z"
    )
    body = answer.json()
    assert answer.status_code == 201
    assert "client_secret" not in body
    assert not body["client_id"].startswith("http")
    assert body["redirect_uris"] == [CALLBACK]
    code = site.code(client_id=body["client_id"])
    assert site.redeem(code, client_id=body["client_id"]).status_code == 200
    secret = register_app(site, token_endpoint_auth_method="client_secret_post").json()
    assert secret["client_secret_expires_at"] == 0
    code = site.code(client_id=secret["client_id"])
    form = {"client_id": secret["client_id"], "client_secret": secret["client_secret"]}
    assert site.redeem(code, **form).status_code == 200


@pytest.mark.requirement("AS-18")
@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"redirect_uris": None}, "invalid_redirect_uri"),
        ({"redirect_uris": ["http://app.example/"]}, "invalid_redirect_uri"),
        ({"redirect_uris": [7]}, "invalid_redirect_uri"),
        ({"redirect_uris": [CALLBACK] * 21}, "invalid_redirect_uri"),
        ({"token_endpoint_auth_method": "tls_client_auth"}, "invalid_client_metadata"),
        ({"grant_types": ["password"]}, "invalid_client_metadata"),
        ({"application_type": "toaster"}, "invalid_client_metadata"),
        ({"client_name": ["x"]}, "invalid_client_metadata"),
    ],
    ids=str,
)
def test_invalid_registration_is_refused(open_site: Callable[..., Site], wrong: dict[str, Any], error: str) -> None:
    answer = register_app(open_site(registration=True), **wrong)
    assert (answer.status_code, answer.json()["error"]) == (400, error)


@pytest.mark.requirement("AS-18")
def test_registrations_are_rate_limited_and_unused_ones_expire(open_site: Callable[..., Site]) -> None:
    site = open_site(registration=True)
    answers = [register_app(site) for _ in range(21)]
    assert [answer.status_code for answer in answers] == [201] * 20 + [429]
    site.clock.now += 61
    assert register_app(site).status_code == 201
    used, unused = answers[0].json()["client_id"], answers[1].json()["client_id"]
    site.code(client_id=used)
    site.clock.now += 86_400
    assert site.browser.get(site.ask(used)).status_code == 200
    assert site.browser.get(site.ask(unused)).status_code == 400


EVIL = "https://evil.example/cb"


@pytest.mark.requirement("AS-16", "AS-17")
def test_changed_app_does_not_inherit_earlier_scopes_without_consent(site: Site) -> None:
    site.internet.pages[URL] = build_document_response()
    site.browser.sign_in()
    code = site.answer(site.browser.allow(site.browser.get(site.ask(URL, scope="tasks:read tasks:write"))))["code"]
    assert site.redeem(code, client_id=URL).status_code == 200
    site.clock.now += 120
    site.internet.pages[URL] = build_document_response(redirect_uris=[EVIL], client_name="Evil")
    asked = site.browser.get(site.ask(URL, scope="tasks:read", redirect_uri=EVIL))
    code = site.answer(site.browser.allow(asked))["code"]
    assert site.redeem(code, client_id=URL, redirect_uri=EVIL).json()["scope"] == "tasks:read"
    assert site.browser.get(site.ask(URL, scope="tasks:read", redirect_uri=EVIL)).status_code == 303
    assert site.browser.get(site.ask(URL, scope="tasks:read tasks:write", redirect_uri=EVIL)).status_code == 200


@pytest.mark.requirement("AS-16", "AS-17")
@pytest.mark.parametrize("decision", ["allow", "deny"])
def test_answer_for_an_app_that_changed_during_consent_is_refused(site: Site, decision: str) -> None:
    site.internet.pages[URL] = build_document_response()
    site.browser.sign_in()
    page = site.browser.get(site.ask(URL))
    site.clock.now += 61
    site.internet.pages[URL] = build_document_response(redirect_uris=[EVIL], client_name="Evil")
    answer = site.browser.allow(page, decision=decision)
    assert (answer.status_code, "location" in answer.headers) == (409, False)
    assert "This app changed while you were being asked. Start again from the app" in answer.text
    assert site.browser.get(site.ask(URL, redirect_uri=EVIL)).status_code == 200


@pytest.mark.requirement("D-34")
def test_app_key_fetches_are_limited(site: Site) -> None:
    keys = "https://victim.example/big"
    site.internet.pages[URL] = build_document_response(
        (b"cache-control", b"max-age=86400"), token_endpoint_auth_method="private_key_jwt", jwks_uri=keys
    )
    kind = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
    for _ in range(30):
        site.token(
            client_id=URL,
            grant_type="authorization_code",
            code="x",
            client_assertion="a.b.c",
            client_assertion_type=kind,
        )
    assert site.internet.asked.count(keys) == 20


def allow_then_swap(site: Site, **changes: Any) -> str:
    """Return the code of a consent after which the site of the app put another document in its place."""
    site.internet.pages[URL] = build_document_response()
    site.browser.sign_in()
    page = site.browser.get(site.ask(URL))
    site.clock.now += 50  # the document is used again for a minute
    code = site.answer(site.browser.allow(page))["code"]
    site.clock.now += 15
    site.internet.pages[URL] = build_document_response(**changes)
    return code


@pytest.mark.requirement("AS-16", "D-28")
def test_document_swapped_between_consent_and_redemption_moves_no_code(site: Site) -> None:
    code = allow_then_swap(site, redirect_uris=[EVIL], client_name="Evil")
    moved = site.redeem(code, client_id=URL, redirect_uri=EVIL)
    assert (moved.status_code, moved.json()["error"]) == (400, "invalid_grant")
    assert site.internet.asked.count(URL) == 2, "the new document was read"
    thief = site.redeem(code, client_id=URL, code_verifier="v" * 43)
    assert (thief.status_code, thief.json()["error"]) == (400, "invalid_grant")
    # Who was asked about the old document gets what they allowed, and is asked about the new one.
    assert site.redeem(code, client_id=URL).status_code == 200
    page = site.browser.get(site.ask(URL, redirect_uri=EVIL))
    assert (page.status_code, "has changed since you last allowed it" in page.text) == (200, True)


@pytest.mark.requirement("AS-16", "D-28")
def test_swapped_document_that_wants_keys_or_another_grant_lets_nobody_redeem_without_them(site: Site) -> None:
    keys = "https://evil.example/keys.json"
    code = allow_then_swap(site, token_endpoint_auth_method="private_key_jwt", jwks_uri=keys)
    assert site.redeem(code, client_id=URL).status_code == 401
    site.clock.now += 61
    site.internet.pages[URL] = build_document_response(status=404)
    assert site.redeem(code, client_id=URL).status_code == 401


@pytest.mark.requirement("D-05", "AS-09")
@pytest.mark.parametrize(
    "url",
    [
        "http://app.example/keys",
        "http://169.254.169.254/latest/meta-data",
        "https://127.0.0.1/keys",
        "https://10.0.0.1/keys",
        "https://[::ffff:169.254.169.254]/keys",
        "https://2130706433/keys",
        "https://localhost/keys",
        "file:///etc/passwd",
    ],
)
def test_keys_of_a_client_are_fetched_from_no_address_of_the_servers_network(site: Site, url: str) -> None:
    site.internet.pages[URL] = build_document_response(jwks_uri=url, token_endpoint_auth_method="private_key_jwt")
    answer = redeem_with_assertion(site)
    assert (answer.status_code, answer.json()["error"]) == (401, "invalid_client")

    # What the server asked for goes through the checked network, which reaches nothing there.
    async def fetched() -> list[Response | Problem]:
        network = Network(limits=TransportLimits(redirects=0, total_s=2), resolve=lambda host, port: ["127.0.0.1"])
        fetch = build_document_fetch(network)
        answers = [await fetch(one) for one in site.internet.asked if one != URL]
        await network.aclose()
        return answers

    for response in anyio.run(fetched):
        assert isinstance(response, Problem)
        assert response.details["sent"] is False


@pytest.mark.requirement("D-05", "AS-09")
def test_redirect_in_place_of_the_keys_of_a_client_is_not_followed(site: Site) -> None:
    keys, metadata = "https://app.example/keys.json", b"http://169.254.169.254/latest/meta-data"
    site.internet.pages[URL] = build_document_response(jwks_uri=keys, token_endpoint_auth_method="private_key_jwt")
    site.internet.pages[keys] = Response(302, ((b"location", metadata),), b'{"keys": []}')
    assert redeem_with_assertion(site).status_code == 401
    assert site.internet.asked == [URL, keys]


def redeem_with_assertion(site: Site) -> Any:
    """Try a code as an app that proves itself with a key."""
    claims = {"iss": URL, "sub": URL, "aud": ISSUER, "exp": int(site.clock()) + 60, "jti": "1"}
    return site.token(
        client_id=URL,
        grant_type="authorization_code",
        code="x",
        client_assertion=jwt.encode({"alg": "ES256"}, claims, ECKey.generate_key("P-256")),
        client_assertion_type="urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
    )
