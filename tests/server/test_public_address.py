"""OpenTool's document states where its server is, if the author or the audience of its tokens says it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import OctKey

from toolwire import DefinitionError, Toolkit, asgi
from toolwire.auth.caller_token import ExpectedClaims, read_secret
from toolwire.core.http import Response
from toolwire.protocols.opentool import document
from toolwire.server.access.signed_tokens import SignedTokenCallers

pytestmark = pytest.mark.requirement("SE-02")

AUDIENCE = ExpectedClaims(issuer="https://login.example", audience="https://office.example/tools/mcp")
SECRET = b"a secret of at least thirty-two bytes"
SIGNED = SignedTokenCallers(read_secret(SECRET), AUDIENCE)


def sign_token() -> str:
    claims = {"iss": AUDIENCE.issuer, "aud": AUDIENCE.audience, "sub": "ada", "exp": int(time.time()) + 600}
    return jwt.encode({"alg": "HS256"}, claims, OctKey.import_key(SECRET), algorithms=["HS256"])


def build_kit() -> Toolkit:
    kit = Toolkit("Shop")

    @kit.tool(approval="auto")
    def tell() -> str:
        """Tell."""
        return "tea"

    return kit


@pytest.mark.parametrize(
    ("options", "url"),
    [
        ({"public_url": "https://tools.example/shop/"}, "https://tools.example/shop"),
        ({"callers": SIGNED}, "https://office.example/tools"),
        ({"callers": SIGNED, "public_url": "https://tools.example"}, "https://tools.example"),
        ({"public_url": "https://tools.example", "strict_jsonrpc": True}, "https://tools.example"),
        ({}, ""),
    ],
)
def test_document_states_the_address_that_the_author_gives(
    options: dict[str, Any], url: str, ask: Callable[..., Response]
) -> None:
    app = asgi(build_kit(), **options)
    response = ask(app, "GET", "/opentool/load", {"authorization": f"Bearer {sign_token()}"})
    data = json.loads(response.body)
    assert data.get("server") == ({"url": url, "description": "Shop"} if url else None)
    read = document.read(data)
    assert isinstance(read, document.Document)
    assert read.notes == ()


def test_address_that_is_no_url_is_refused() -> None:
    with pytest.raises(DefinitionError, match=r"public_url is the address of this server, such as https://"):
        asgi(build_kit(), public_url="tools.example")
