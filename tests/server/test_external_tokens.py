"""Tokens of one external issuer, for one audience, work over each protocol, and each account has its own rights."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import httpx2
import pytest
from joserfc import jwt
from joserfc.jwk import ECKey

from toolwire import Context, Problem, Toolkit, Value, asgi, connect_sync
from toolwire.auth.caller_token import ExpectedClaims, read_jwks
from toolwire.protocols import BUILTIN
from toolwire.server.access.signed_tokens import SignedTokenCallers
from toolwire.testing.loopback import background

ISSUER, AUDIENCE = "https://login.example/realms/staff", "https://tools.example"
KEY = ECKey.generate_key("P-256", {"kid": "one", "alg": "ES256", "use": "sig"})
PROTOCOLS = [codec.name for codec in BUILTIN]
CALLS = {
    "/api/read": None,
    "/call": {"request": {"tool_id": "read", "input": {}}},
    "/opentool/call": {"jsonrpc": "2.0", "id": "1", "method": "read", "params": {}},
    "/mcp": {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "read", "arguments": {}}},
}


def sign(subject: str, scope: str = "", audience: str = AUDIENCE) -> str:
    claims = {"iss": ISSUER, "aud": audience, "sub": subject, "scope": scope, "exp": int(time.time()) + 600}
    return jwt.encode({"alg": "ES256", "kid": "one"}, claims, KEY)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """The URL of a server that takes the tokens of the issuer for its audience."""
    kit = Toolkit("Desk", description="It knows its callers.")

    @kit.tool(approval="auto", safe=True)
    def read(context: Context) -> str:
        """Return who calls."""
        return context.principal

    @kit.tool(approval="auto", safe=True, scopes=("write",))
    def write(context: Context) -> str:
        """Return who writes."""
        return f"{context.principal} writes"

    keyring = read_jwks(json.dumps({"keys": [KEY.as_dict(private=False)]}).encode())
    callers = SignedTokenCallers(keyring, ExpectedClaims(issuer=ISSUER, audience=AUDIENCE))
    with background(asgi(kit, callers=callers)) as served:
        yield served


def call(url: str, protocol: str, token: str, tool: str) -> Value | Problem:
    with connect_sync(url, protocol=protocol, api_key=token, agree=lambda _: True) as remote:
        return remote.call(tool)


@pytest.mark.requirement("AO-02")
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_several_accounts_of_one_issuer_have_their_own_rights(url: str, protocol: str) -> None:
    ann, bob = sign("ann"), sign("bob", "write")
    assert [call(url, protocol, token, "read") for token in (ann, bob)] == [Value("jwt:ann"), Value("jwt:bob")]
    assert call(url, protocol, bob, "write") == Value("jwt:bob writes")
    assert isinstance(call(url, protocol, ann, "write"), Problem)


@pytest.mark.requirement("AO-02")
def test_token_for_another_audience_is_refused_over_each_protocol(url: str) -> None:
    for path, body in CALLS.items():
        for token, status in ((sign("ann"), 200), (sign("ann", audience="https://mail.example"), 401)):
            headers = {"authorization": f"Bearer {token}", "accept": "application/json, text/event-stream"}
            method = "GET" if body is None else "POST"
            answer = httpx2.request(method, f"{url}{path}", json=body, headers=headers)
            assert answer.status_code == status, (path, answer.text)
            assert ("www-authenticate" in answer.headers) is (status == 401)
