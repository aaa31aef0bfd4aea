"""Callers told apart by signed tokens: made here with joserfc, taken or refused by the server."""

from __future__ import annotations

import asyncio
import base64
import hmac
import json
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from joserfc.jwk import ECKey, OctKey, OKPKey, RSAKey

from tests.support.jwt_signing import CLAIMS, NOW, SECRET, sign_token, sign_with_secret
from toolwire import Secret, Toolkit, asgi
from toolwire.auth.caller_token import ExpectedClaims, Keyring, read_jwks, read_secret
from toolwire.core.errors import DefinitionError
from toolwire.core.http import Response, get_header
from toolwire.core.model import Kind, Problem
from toolwire.limits import CallerRules, RulesByCaller
from toolwire.server import App
from toolwire.server.access.api_keys import ApiKey, ApiKeyCallers
from toolwire.server.access.callers import ANONYMOUS_CALLER, AnonymousCallers, Caller, CombinedCallers
from toolwire.server.access.signed_tokens import CACHED_S, IssuerKeys, SignedTokenCallers

HERE = ExpectedClaims(issuer="https://issuer.example", audience="https://tools.example", leeway_s=30)
RSA = RSAKey.generate_key(2048, parameters={"kid": "rsa"})
EC = ECKey.generate_key("P-256", parameters={"kid": "ec"})
ED = OKPKey.generate_key("Ed25519", parameters={"kid": "ed"})
KEYS: Mapping[str, Any] = {"RS256": RSA, "ES256": EC, "EdDSA": ED, "Ed25519": ED}


def build_unsigned_token(
    header: Mapping[str, Any], claims: Mapping[str, Any] = CLAIMS, signature: bytes = b""
) -> bytes:
    parts = (json.dumps(header).encode(), json.dumps(claims).encode(), signature)
    return b".".join(base64.urlsafe_b64encode(part).rstrip(b"=") for part in parts)


def key_set(*keys: Any, **more: Any) -> bytes:
    return json.dumps({"keys": [{**key.as_dict(private=False), **more} for key in keys]}).encode()


def ring(*keys: Any, **more: Any) -> Keyring:
    found = read_jwks(key_set(*keys, **more))
    assert isinstance(found, Keyring)
    return found


def build_key_fetch(*sets: bytes | Problem) -> tuple[Callable[[], Awaitable[bytes | Problem]], list[int]]:
    asked: list[int] = []

    async def fetch() -> bytes | Problem:
        asked.append(1)
        return sets[min(len(asked), len(sets)) - 1]

    return fetch, asked


def find_token_caller(tokens: SignedTokenCallers, token: bytes) -> Caller | Problem:
    fields = {b"authorization": b"Bearer " + token}
    known = tokens.find_caller(fields)
    return asyncio.run(tokens.verify(fields)) if known is None else known


def hs256(expected: ExpectedClaims = HERE, now: float = NOW) -> SignedTokenCallers:
    return SignedTokenCallers(read_secret(SECRET), expected, clock=lambda: now)


def public(*keys: Any, now: float = NOW) -> SignedTokenCallers:
    return SignedTokenCallers(ring(*(keys or (RSA, EC, ED))), HERE, clock=lambda: now)


def refusal(found: Caller | Problem) -> str:
    assert isinstance(found, Problem)
    assert found.kind is Kind.UNAUTHORIZED
    return found.message


@pytest.mark.requirement("D-09", "S-7")
@pytest.mark.parametrize("sub", ["a" * 201, "ada\0", "ada\u202e", "ada\u200b"])
def test_subject_that_cannot_be_a_name_is_never_taken_for_the_app_or_for_another(sub: str) -> None:
    found = find_token_caller(hs256(), sign_with_secret({**CLAIMS, "sub": sub, "client_id": "editor"}))
    assert isinstance(found, Caller)
    assert re.fullmatch("jwt-[0-9a-f]{32}", found.name)
    again = find_token_caller(hs256(), sign_with_secret({**CLAIMS, "sub": sub, "client_id": "other", "jti": "2"}))
    assert isinstance(again, Caller)
    assert again.name == found.name


@pytest.mark.requirement("D-09", "GW-01")
@pytest.mark.parametrize("other", ["key:ann", "key-0123456789ab", "user:ann:123", "jwt:ann", "jwt-0123456789ab", "*"])
def test_subject_of_a_token_gets_no_rule_and_no_right_of_another_caller(other: str) -> None:
    named = CallerRules(scopes=frozenset({"all"}), inbox=True)
    rules = RulesByCaller({other: named, "bob": CallerRules(answered_by=frozenset({other}))})
    mallory = f"jwt:{other}"
    if other != "*":
        assert rules.find(mallory) != named
        assert rules.find(other) == named
    assert not rules.can_answer(mallory, "key:bob", has_account=False)
    # A name that only looks a little like one is a name.
    for name in ("urn:user:5", "user:5", "key-management", "auth0|42"):
        assert RulesByCaller({name: named}).find(f"jwt:{name}") == named


@pytest.mark.requirement("D-05", "S-7")
def test_token_that_names_its_own_keys_is_refused_and_nothing_is_fetched() -> None:
    fetch, asked = build_key_fetch(key_set(EC))
    tokens = SignedTokenCallers(IssuerKeys(fetch), HERE, clock=lambda: NOW)
    mine = ECKey.generate_key("P-256", parameters={"kid": "mine"})
    for header in (
        {"jku": "http://169.254.169.254/keys"},
        {"x5u": "http://127.0.0.1/certificate"},
        {"jwk": mine.as_dict(private=False)},
        {"kid": "../../../../etc/passwd"},
        {"kid": "http://169.254.169.254/"},
    ):
        refusal(find_token_caller(tokens, sign_token("ES256", mine, **{"kid": "ec", **header})))
    assert len(asked) <= 2, "only from the address of the operator"


@pytest.mark.requirement("OTC-035", "OXP-012", "S-7")
def test_token_determines_caller_and_scopes() -> None:
    tokens = hs256()
    expected = Caller("jwt:ada", frozenset({"mail.read", "mail.send"}))
    assert find_token_caller(tokens, sign_with_secret()) == expected
    assert tokens.find_caller({b"authorization": b"Bearer " + sign_with_secret()}) == expected
    assert find_token_caller(tokens, sign_with_secret({**CLAIMS, "scope": None, "scp": ["a", 7]})) == Caller(
        "jwt:ada", frozenset()
    )
    assert find_token_caller(
        tokens, sign_with_secret({**{k: v for k, v in CLAIMS.items() if k != "scope"}, "scp": ["a", 7]})
    ) == Caller("jwt:ada", frozenset({"a"}))


@pytest.mark.requirement("OTC-035")
@pytest.mark.parametrize("algorithm", KEYS)
def test_each_public_key_algorithm_is_accepted_by_key_id(algorithm: str) -> None:
    key = KEYS[algorithm]
    assert isinstance(find_token_caller(public(), sign_token(algorithm, key, kid=key.kid)), Caller)
    assert isinstance(find_token_caller(public(key), sign_token(algorithm, key)), Caller)  # one key needs no name
    other = type(key).generate_key(2048) if key is RSA else type(key).generate_key(key.curve_name)
    assert "signature" in refusal(find_token_caller(public(), sign_token(algorithm, other, kid=key.kid)))


@pytest.mark.requirement("OXP-012")
@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"exp": NOW - 31}, "expired"),
        ({"exp": "soon"}, "no expiry time"),
        ({"exp": True}, "no expiry time"),
        ({"exp": -1}, "no expiry time"),
        ({"nbf": NOW + 31}, "not valid yet"),
        ({"nbf": []}, "no expiry time"),
        ({"iss": "https://other.example"}, "issuer"),
        ({"iss": None}, "issuer"),
        ({"aud": "https://other.example"}, "audience"),
        ({"aud": ["https://other.example", 7]}, "audience"),
        ({"aud": {}}, "audience"),
        ({"cnf": {"jkt": "0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I"}}, "bound to a key"),
        ({"cnf": {"jkt": None}}, "bound to a key"),
    ],
)
def test_a_token_for_another_time_or_place_is_refused(change: dict[str, Any], why: str) -> None:
    assert why in refusal(find_token_caller(hs256(), sign_with_secret({**CLAIMS, **change})))


@pytest.mark.requirement("OXP-012", "D-08")
def test_stolen_token_that_is_bound_to_a_key_opens_nothing() -> None:
    bound = sign_with_secret({**CLAIMS, "cnf": {"jkt": "0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I"}})
    assert "bound to a key" in refusal(find_token_caller(hs256(), bound))
    # A certificate is checked by the proxy that ends TLS, and other members are for other servers.
    for confirmation in ({"x5t#S256": "bwcK0esc3ACC3DB2Y5_lESsXE8o9ltc05O89jdN-dg2"}, {}, "text", None):
        token = sign_with_secret({**CLAIMS, "cnf": confirmation})
        assert isinstance(find_token_caller(hs256(), token), Caller)


@pytest.mark.requirement("OXP-012")
def test_clock_leeway_is_allowed_and_audience_may_be_a_list() -> None:
    for change in ({"exp": NOW - 29}, {"nbf": NOW + 29}, {"aud": ["x", HERE.audience]}):
        assert isinstance(find_token_caller(hs256(), sign_with_secret({**CLAIMS, **change})), Caller)


@pytest.mark.requirement("OXP-012")
def test_shared_secret_tokens_are_checked_for_expiry_and_audience_if_present() -> None:
    bare = {"sub": "ada"}
    open_ = ExpectedClaims()
    assert isinstance(find_token_caller(hs256(open_), sign_with_secret(bare)), Caller)
    assert "audience" in refusal(find_token_caller(hs256(open_), sign_with_secret({**bare, "aud": "anyone"})))
    assert "no expiry time" in refusal(
        find_token_caller(public(), sign_token("RS256", RSA, {**bare, "iss": HERE.issuer}, kid="rsa"))
    )
    dated = {**bare, "iss": HERE.issuer, "exp": NOW + 60}
    assert "audience" in refusal(find_token_caller(public(), sign_token("RS256", RSA, dated, kid="rsa")))


@pytest.mark.requirement("OTC-035")
@pytest.mark.parametrize(
    "token",
    [
        build_unsigned_token({"alg": "none"}),
        build_unsigned_token({"alg": "None", "typ": "JWT"}),
        build_unsigned_token({"alg": ["HS256"]}),
        build_unsigned_token({"alg": {}}),
        build_unsigned_token({}),
        sign_with_secret(secret=b"another secret of somebody else, long"),
        sign_token("HS512", OctKey.import_key(SECRET)),
        build_unsigned_token({"alg": "HS256"}),
        build_unsigned_token({"alg": "HS256", "crit": ["x"], "x": 1}),
        build_unsigned_token({"alg": "HS256", "b64": False, "crit": ["b64"]}),
        build_unsigned_token({"alg": "RS256", "kid": "rsa"}),
        b"..",
        b"a.b.c",
        b"e30.e30.e30",
        b"e30.e30.",
        b"W10.e30.",
        b"x" * 9_000,
        b"ey.." + b"\xff" * 20,
        b"one.two",
        b"a.b.c.d.e",
    ],
)
def test_algorithm_none_other_algorithms_and_garbage_are_refused(token: bytes) -> None:
    for tokens in (hs256(), public()):
        assert token.decode("latin-1") not in refusal(find_token_caller(tokens, token))


@pytest.mark.requirement("OTC-035")
def test_public_key_is_never_used_as_a_shared_secret() -> None:
    for material in (RSA.as_pem(private=False), RSA.as_der(private=False), json.dumps(RSA.as_dict()).encode()):
        content = build_unsigned_token({"alg": "HS256", "kid": "rsa"}).rstrip(b".")
        signature = base64.urlsafe_b64encode(hmac.digest(material, content, "sha256")).rstrip(b"=")
        assert "it must be signed with RS256" in refusal(find_token_caller(public(), content + b"." + signature))


@pytest.mark.requirement("OTC-035")
def test_unusable_keys_of_a_key_set_are_ignored() -> None:
    for entry in (
        OctKey.import_key(SECRET).as_dict(private=True),
        {**RSA.as_dict(), "use": "enc"},
        {**RSA.as_dict(), "key_ops": ["encrypt"]},
        ECKey.generate_key("P-384").as_dict(private=False),
        {"kty": "RSA", "e": "AQAB", "n": "uH" + "A" * 169},
        {"kty": "RSA"},
        {"kty": ["RSA"]},
        {"kty": "RSA", "n": 7, "e": []},
        {"kty": "EC", "crv": "P-256", "x": "A", "y": "A"},
        7,
    ):
        assert isinstance(read_jwks(json.dumps({"keys": [entry]}).encode()), Problem)
        found = read_jwks(json.dumps({"keys": [entry, EC.as_dict(private=False)]}).encode())
        assert isinstance(found, Keyring)
        assert len(found.keys) == 1


@given(st.binary(max_size=60))
def test_any_bytes_as_key_set_or_token_are_refused(data: bytes) -> None:
    assert isinstance(read_jwks(data), Problem)
    assert isinstance(find_token_caller(hs256(), data), Problem)


@pytest.mark.requirement("OTC-035")
def test_key_with_an_algorithm_accepts_no_other_algorithm() -> None:
    tokens = SignedTokenCallers(ring(RSA, alg="PS256"), HERE, clock=lambda: NOW)
    assert "is unknown" in refusal(find_token_caller(tokens, sign_token("RS256", RSA, kid="rsa")))
    assert isinstance(
        find_token_caller(
            SignedTokenCallers(ring(ED, alg="EdDSA"), HERE, clock=lambda: NOW), sign_token("Ed25519", ED)
        ),
        Caller,
    )


def test_a_secret_that_is_too_short_is_refused() -> None:
    with pytest.raises(DefinitionError, match="at least 32 bytes"):
        read_secret(b"short")


def test_verified_token_is_cached_until_it_expires() -> None:
    now = [NOW]
    tokens = SignedTokenCallers(read_secret(SECRET), HERE, clock=lambda: now[0])
    fields = {b"authorization": b"bearer " + sign_with_secret()}
    assert tokens.find_caller(fields) is None
    found = asyncio.run(tokens.verify(fields))
    now[0] = NOW + 89
    assert tokens.find_caller(fields) == found
    now[0] = NOW + 90
    assert tokens.find_caller(fields) is None
    assert "expired" in refusal(asyncio.run(tokens.verify(fields)))


def test_clock_set_back_clears_the_cached_token() -> None:
    now = [NOW]
    tokens = SignedTokenCallers(read_secret(SECRET), HERE, clock=lambda: now[0])
    fields = {b"authorization": b"bearer " + sign_with_secret()}
    found = asyncio.run(tokens.verify(fields))
    now[0] = NOW + 10
    assert tokens.find_caller(fields) == found
    now[0] = NOW - 10
    assert tokens.find_caller(fields) is None


@pytest.mark.requirement("D-26")
def test_malformed_token_is_refused_without_verification() -> None:
    tokens = SignedTokenCallers(read_secret(SECRET), HERE, clock=lambda: NOW)
    known = tokens.find_caller({b"authorization": b"Bearer no.token"})
    assert isinstance(known, Problem)
    assert known.kind is Kind.UNAUTHORIZED
    assert isinstance(tokens.find_caller({}), Problem)


def test_token_without_expiry_is_verified_again_after_a_while() -> None:
    now = [NOW]
    tokens = SignedTokenCallers(read_secret(SECRET), ExpectedClaims(), clock=lambda: now[0])
    fields = {b"x-api-key": sign_with_secret({"sub": "ada"})}
    asyncio.run(tokens.verify(fields))
    now[0] = NOW + CACHED_S
    assert tokens.find_caller(fields) is None


@pytest.mark.requirement("D-26")
def test_token_cache_is_bounded_and_stores_no_token() -> None:
    tokens = SignedTokenCallers(read_secret(SECRET), HERE, max_cached=4, clock=lambda: NOW)
    made = [sign_with_secret({**CLAIMS, "sub": f"user {number}"}) for number in range(9)]
    for token in made:
        find_token_caller(tokens, token)
    known = [tokens.find_caller({b"authorization": b"Bearer " + token}) is not None for token in made]
    assert known == [False] * 5 + [True] * 4
    assert not any(token.decode() in repr(vars(tokens)) for token in made)


def test_unknown_key_id_fetches_keys_at_most_once_per_interval() -> None:
    now = [0.0]
    fetch, asked = build_key_fetch(key_set(RSA), key_set(RSA, EC))
    tokens = SignedTokenCallers(IssuerKeys(fetch, clock=lambda: now[0]), HERE, clock=lambda: NOW)
    old, new = sign_token("RS256", RSA, kid="rsa"), sign_token("ES256", EC, kid="ec")
    assert isinstance(find_token_caller(tokens, old), Caller)
    assert "is unknown" in refusal(find_token_caller(tokens, new))
    assert len(asked) == 1
    now[0] = 29.9
    assert "is unknown" in refusal(find_token_caller(tokens, new))
    now[0] = 30.0
    assert isinstance(find_token_caller(tokens, new), Caller)
    for number in range(50):
        assert "is unknown" in refusal(find_token_caller(tokens, sign_token("ES256", EC, kid=f"no {number}")))
    assert len(asked) == 2


def test_old_keys_are_fetched_again_and_kept_if_that_fails() -> None:
    now = [0.0]
    gone = Problem(kind=Kind.UNREACHABLE, message="gone")
    fetch, asked = build_key_fetch(key_set(RSA), gone, key_set(EC))
    keyrings = IssuerKeys(fetch, clock=lambda: now[0])
    tokens = SignedTokenCallers(keyrings, HERE, clock=lambda: NOW)
    assert isinstance(find_token_caller(tokens, sign_token("RS256", RSA, kid="rsa")), Caller)
    now[0] = 3_700.0
    assert isinstance(find_token_caller(tokens, sign_token("RS256", RSA, {**CLAIMS, "sub": "b"}, kid="rsa")), Caller)
    now[0] = 3_800.0
    assert "is unknown" in refusal(
        find_token_caller(tokens, sign_token("RS256", RSA, {**CLAIMS, "sub": "c"}, kid="rsa"))
    )
    assert len(asked) == 3


@pytest.mark.parametrize("data", [Problem(kind=Kind.UNREACHABLE, message="gone"), b"{}", b"<html>"])
def test_callers_are_told_to_retry_if_no_keys_can_be_fetched(data: bytes | Problem) -> None:
    fetch, asked = build_key_fetch(data)
    tokens = SignedTokenCallers(IssuerKeys(fetch, clock=lambda: 0.0), HERE, clock=lambda: NOW)
    for _ in range(3):
        found = find_token_caller(tokens, sign_token("RS256", RSA, kid="rsa"))
        assert isinstance(found, Problem)
        assert (found.kind, found.can_retry) == (Kind.OVERLOADED, True)
    assert len(asked) == 1


def test_concurrent_callers_fetch_the_keys_once() -> None:
    fetch, asked = build_key_fetch(key_set(RSA))

    async def slowly() -> bytes | Problem:
        await asyncio.sleep(0)
        return await fetch()

    async def within() -> list[Caller | Problem]:
        tokens = SignedTokenCallers(IssuerKeys(slowly, clock=lambda: 0.0), HERE, clock=lambda: NOW)
        made = [sign_token("RS256", RSA, {**CLAIMS, "sub": str(number)}, kid="rsa") for number in range(8)]
        return await asyncio.gather(*(tokens.verify({b"authorization": b"Bearer " + each}) for each in made))

    assert all(isinstance(each, Caller) for each in asyncio.run(within()))
    assert len(asked) == 1


@pytest.mark.requirement("S-7")
def test_api_keys_and_tokens_can_be_combined() -> None:
    both = CombinedCallers(ApiKeyCallers(["K1"]), hs256())
    assert both.needs_credentials

    def ask(value: bytes) -> Caller | Problem:
        fields = {b"authorization": b"Bearer " + value} if value else {}
        known = both.find_caller(fields)
        return asyncio.run(both.verify(fields)) if known is None else known

    assert isinstance(ask(b"K1"), Caller)
    assert ask(sign_with_secret()) == Caller("jwt:ada", frozenset({"mail.read", "mail.send"}))
    assert ask(sign_with_secret()) == Caller("jwt:ada", frozenset({"mail.read", "mail.send"}))
    for wrong in (b"", b"K2", b"a.b.c"):
        refusal(ask(wrong))


@pytest.mark.requirement("OXP-012")
def test_server_without_credentials_treats_every_caller_as_anonymous() -> None:
    everybody = AnonymousCallers()
    assert not everybody.needs_credentials
    assert everybody.find_caller({b"authorization": b"Bearer \xff"}) is ANONYMOUS_CALLER
    assert asyncio.run(everybody.verify({})) is ANONYMOUS_CALLER


def test_a_key_may_have_a_name_and_scopes() -> None:
    keys = ApiKeyCallers(["K0", ApiKey(key=Secret("K1"), name="billing", scopes=frozenset({"a"}))])
    assert keys.find_caller({b"x-api-key": b"K1"}) == Caller("key:billing", frozenset({"a"}))
    plain = keys.find_caller({b"x-api-key": b"K0"})
    assert isinstance(plain, Caller)
    assert plain.scopes is None


@pytest.mark.requirement("S-7", "OTC-042")
def test_missing_or_invalid_token_gets_a_bearer_challenge(
    ask: Callable[..., Response], build_served_app: Callable[..., App]
) -> None:
    app = build_served_app(callers=SignedTokenCallers(read_secret(SECRET), ExpectedClaims()))
    challenges = {
        sent: get_header(
            ask(app, "GET", "/tools", {"authorization": sent} if sent else {}).headers, b"www-authenticate"
        )
        for sent in ("", "Bearer a.b.c", "Bearer nonsense")
    }
    assert challenges == {
        "": "Bearer",
        "Bearer a.b.c": 'Bearer error="invalid_token"',
        "Bearer nonsense": 'Bearer error="invalid_token"',
    }
    good = {"authorization": f"bearer {sign_with_secret({'sub': 'ada'}).decode()}"}
    assert [ask(app, "GET", "/tools", good).status for _ in range(2)] == [200, 200]


@pytest.mark.requirement("AS-14", "AS-15")
def test_server_that_takes_tokens_of_an_issuer_says_where_they_come_from(
    ask: Callable[..., Response], build_served_app: Callable[..., App]
) -> None:
    here = ExpectedClaims(issuer="https://login.example/realms/a/", audience="https://tools.example/mcp")
    app = build_served_app(callers=SignedTokenCallers(read_secret(SECRET), here))
    paths = ("/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-protected-resource")
    for path in paths:
        data = json.loads(ask(app, "GET", path, {}).body)
        assert (data["resource"], data["authorization_servers"]) == (here.audience, [here.issuer])
    hint = f'resource_metadata="https://tools.example{paths[0]}"'
    challenges = [
        get_header(ask(app, "GET", "/tools", {"authorization": sent} if sent else {}).headers, b"www-authenticate")
        for sent in ("", "Bearer a.b.c")
    ]
    assert challenges == [f"Bearer {hint}", f'Bearer error="invalid_token", {hint}']


@pytest.mark.requirement("AS-14")
@pytest.mark.parametrize("is_private", [False, True])
def test_metadata_of_a_server_lists_its_scopes_unless_it_is_private(
    is_private: bool, ask: Callable[..., Response]
) -> None:
    kit = Toolkit("Mail")

    @kit.tool(scopes=["mail.read"])
    def read() -> str:
        """Read the mail."""
        return ""

    app = asgi(kit, callers=SignedTokenCallers(read_secret(SECRET), HERE), private=is_private)
    data = json.loads(ask(app, "GET", "/.well-known/oauth-protected-resource", {}).body)
    assert data["scopes_supported"] == ([] if is_private else ["mail.read"])
    assert data["resource_name"] == "Mail"


@pytest.mark.requirement("AS-14")
@pytest.mark.parametrize(
    ("audience", "issuer", "is_published"),
    [
        ("https://tools.example", "https://login.example", True),
        ("http://127.0.0.1:9627/mcp", "http://localhost:8080", True),
        ("http://tools.example", "https://login.example", False),
        ("https://tools.example", "http://login.example", False),
        ("https://tools.example?a=1", "https://login.example", False),
        ("https://tools.example", 'https://login.example/"', False),
        ("https://tools.example", "https://user:pw@login.example", False),
        ("office", "https://login.example", False),
        ("", "", False),
    ],
)
def test_only_claims_that_are_urls_are_published(audience: str, issuer: str, is_published: bool) -> None:
    callers = SignedTokenCallers(read_secret(SECRET), ExpectedClaims(issuer=issuer, audience=audience))
    assert (callers.protected_resource is not None) is is_published
