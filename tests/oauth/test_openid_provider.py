"""What an external issuer, or an attacker in its place, may not sign anybody in with."""

from __future__ import annotations

import asyncio
import hmac
import json
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import RSAKey

from toolwire.core.http import Request, Response
from toolwire.core.model import Problem, Secret
from toolwire.oauth import Accounts, OAuthStore
from toolwire.oauth.openid_provider import OpenIdProvider
from toolwire.stores.oauth.issuer_accounts import VALID_S, Identity, IssuerAccounts

pytestmark = pytest.mark.requirement("PL-03")

ISSUER = "https://login.example/realms/staff"
KEY = RSAKey.generate_key(2048, {"kid": "one"})
OTHER_KEY = RSAKey.generate_key(2048, {"kid": "one"})
CLAIMS: dict[str, Any] = {"iss": ISSUER, "aud": "gateway", "sub": "s1", "nonce": "n", "preferred_username": "ann"}
METADATA: dict[str, Any] = {
    "issuer": ISSUER,
    "authorization_endpoint": f"{ISSUER}/auth",
    "token_endpoint": f"{ISSUER}/token",
    "jwks_uri": f"{ISSUER}/keys",
    "userinfo_endpoint": f"{ISSUER}/me",
}


class Issuer:
    """An issuer whose answers a test chooses. ``asked`` has the requests that it got."""

    def __init__(self, id_token: str = "", **more: Any) -> None:
        self.metadata = METADATA | more.get("metadata", {})
        self.user: Mapping[str, Any] = more.get("user", {"sub": "s1", "groups": ["staff"]})
        self.id_token = id_token or sign(CLAIMS)
        self.asked: list[Request] = []

    async def send(self, request: Request) -> Response | Problem:
        self.asked.append(request)
        path = request.url.removeprefix(ISSUER)
        answers: dict[str, Any] = {
            "/.well-known/openid-configuration": self.metadata,
            "/keys": {"keys": [KEY.as_dict(private=False)]},
            "/token": {"id_token": self.id_token, "access_token": "a", "token_type": "Bearer"},
            "/me": self.user,
        }
        return Response(200, (), json.dumps(answers[path]).encode())


def sign(claims: Mapping[str, Any], key: Any = KEY, **header: Any) -> str:
    now = int(time.time())
    content = {"iat": now, "exp": now + 60, **claims}
    return jwt.encode({"alg": "RS256", "kid": "one", **header}, content, key, algorithms=["RS256"])


def encode(data: bytes) -> str:
    return urlsafe_b64encode(data).decode().rstrip("=")


def sign_by_hand(algorithm: str, secret: bytes = b"") -> str:
    """Return a token that a library would not sign: without a key, or with the text of a public key as the secret."""
    content = sign(CLAIMS).split(".")[1]
    text = f"{encode(json.dumps({'alg': algorithm, 'kid': 'one'}).encode())}.{content}"
    return f"{text}.{encode(hmac.digest(secret, text.encode(), 'sha256')) if secret else ''}"


def open_provider(issuer: Issuer, folder: Path, **more: Any) -> OpenIdProvider:
    accounts = IssuerAccounts(OAuthStore(folder / "people.db"), ISSUER)
    return OpenIdProvider(ISSUER, "gateway", accounts, issuer.send, secret=Secret("s"), **more)


def identify(issuer: Issuer, folder: Path, answer: Mapping[str, str] | None = None, **more: Any) -> Identity | Problem:
    provider = open_provider(issuer, folder, **more)
    given = {"code": "c", "iss": ISSUER} if answer is None else answer
    return asyncio.run(provider.identify(given, "https://tools.example/oauth/callback", nonce="n", verifier="v" * 43))


def test_person_is_the_subject_with_the_claims_of_both_places(tmp_path: Path) -> None:
    issuer = Issuer()
    found = identify(issuer, tmp_path)
    assert isinstance(found, Identity)
    assert (found.subject, found.name, found.claims["groups"]) == ("s1", "ann", ["staff"])
    assert not {"nonce", "aud", "exp"} & found.claims.keys()
    sent = next(one for one in issuer.asked if one.url.endswith("/token"))
    assert b"code_verifier=" + b"v" * 43 in sent.body
    assert b"authorization" in dict(sent.headers)


PUBLIC = KEY.as_pem(private=False)
FORGED: dict[str, tuple[Callable[[], str], str]] = {
    "nonce missing": (lambda: sign({**CLAIMS, "nonce": None}), "another sign-in"),
    "nonce of another sign-in": (lambda: sign({**CLAIMS, "nonce": "other"}), "another sign-in"),
    "wrong audience": (lambda: sign({**CLAIMS, "aud": "other"}), "it is for a different audience"),
    "audience missing": (lambda: sign({**CLAIMS, "aud": None}), "it is for a different audience"),
    "shared without azp": (lambda: sign({**CLAIMS, "aud": ["gateway", "other"]}), "another client"),
    "issued to another": (lambda: sign({**CLAIMS, "azp": "other"}), "another client"),
    "wrong issuer": (
        lambda: sign({**CLAIMS, "iss": "https://evil.example"}),
        ("its issuer is not the one that this server accepts"),
    ),
    "expired": (lambda: sign({**CLAIMS, "exp": int(time.time()) - 600}), "has expired"),
    "no end": (lambda: sign({**CLAIMS, "exp": None}), "no expiry"),
    "no subject": (lambda: sign({**CLAIMS, "sub": None}), "no subject"),
    "subject that is not text": (lambda: sign({**CLAIMS, "sub": ["s1"]}), "no subject"),
    "alg none": (lambda: sign_by_hand("none"), "it must be signed with"),
    "HS256 with the public key": (lambda: sign_by_hand("HS256", PUBLIC), "it must be signed with"),
    "another key of the same name": (lambda: sign(CLAIMS, OTHER_KEY), "does not match"),
    "unknown key": (lambda: sign(CLAIMS, OTHER_KEY, kid="two"), "does not publish"),
    "no JWT": (lambda: "nothing", "the issuer's ID token was rejected (Invalid token: it cannot be read)"),
}


@pytest.mark.parametrize("name", FORGED)
def test_forged_id_token_signs_nobody_in(tmp_path: Path, name: str) -> None:
    forge, words = FORGED[name]
    found = identify(Issuer(forge()), tmp_path)
    assert isinstance(found, Problem)
    assert words in found.message
    assert forge()[:20] not in found.message


@pytest.mark.parametrize("answer", [{"code": "c", "iss": "https://evil.example"}, {"code": "c"}])
def test_answer_of_another_issuer_is_refused_before_its_code_is_sent(tmp_path: Path, answer: dict[str, str]) -> None:
    issuer = Issuer(metadata={"authorization_response_iss_parameter_supported": True})
    assert isinstance(identify(issuer, tmp_path, answer), Problem)
    assert not any(one.url.endswith("/token") for one in issuer.asked)


@pytest.mark.parametrize("user", [{"sub": "s2", "groups": ["platform"]}, {"groups": ["platform"]}])
def test_user_information_about_somebody_else_signs_nobody_in(tmp_path: Path, user: dict[str, Any]) -> None:
    found = identify(Issuer(user=user), tmp_path)
    assert isinstance(found, Problem)
    assert "different user" in found.message


@pytest.mark.parametrize(
    ("metadata", "words"),
    [
        ({"issuer": f"{ISSUER}/"}, "another issuer"),
        ({"token_endpoint": "http://login.example/token"}, "token_endpoint"),
        ({"jwks_uri": "http://127.0.0.1/keys"}, "jwks_uri"),
        ({"authorization_endpoint": "javascript:alert(1)"}, "authorization_endpoint"),
    ],
)
def test_metadata_that_is_not_the_issuers_own_or_not_https_is_not_used(
    tmp_path: Path, metadata: dict[str, Any], words: str
) -> None:
    provider = open_provider(Issuer(metadata=metadata), tmp_path)
    found = asyncio.run(provider.build_login_url("https://a.example", state="s", nonce="n", verifier="v"))
    assert isinstance(found, Problem)
    assert words in found.message


def test_groups_that_the_issuer_leaves_out_are_not_taken_for_none(tmp_path: Path) -> None:
    found = identify(Issuer(user={"sub": "s1", "_claim_names": {"groups": "src1"}}), tmp_path)
    assert isinstance(found, Problem)
    assert "you are in too many groups for the issuer to list them" in found.message


def test_only_people_whose_claims_the_file_wants_sign_in(tmp_path: Path) -> None:
    found = identify(Issuer(), tmp_path, admits=lambda claims: claims.get("hd") == "team.example")
    assert isinstance(found, Problem)
    assert "Your account is not allowed to sign in here. Ask the operator of this server" in found.message


def test_account_is_one_subject_of_one_issuer_for_a_week(tmp_path: Path) -> None:
    now = 1_000_000.0
    store = OAuthStore(tmp_path / "people.db")
    accounts = IssuerAccounts(store, ISSUER, now=lambda: now)
    one = Identity(issuer=ISSUER, subject="s1", name="ann", claims={"email": "ann@team.example"})
    # The same name and the same unverified address make nobody the same user.
    two = Identity(issuer=ISSUER, subject="s2", name="ann", claims={"email": "ann@team.example"})
    elsewhere = Identity(issuer="https://evil.example", subject="s1", name="ann", claims={})
    ids = {accounts.save(each).id for each in (one, two, elsewhere)}
    assert len(ids) == 3
    assert accounts.find(one.user_id) is not None
    assert accounts.find(elsewhere.user_id) is None
    # With the accounts of the gateway, nobody of an issuer is known, and nobody has a password.
    assert Accounts(store).find(one.user_id) is None
    assert Accounts(store).check(one.user_id, "") is None
    now += VALID_S + 1
    assert accounts.find(one.user_id) is None
