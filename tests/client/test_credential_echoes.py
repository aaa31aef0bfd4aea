"""A server that sends our credentials back: no model, no log and no person reads them."""

from __future__ import annotations

import asyncio
import base64
import html
import json
import urllib.parse
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from toolwire import Context, Problem, Secret, Value, connect, connect_sync
from toolwire.auth.credential import Credential
from toolwire.client.transport.credential_echoes import find_echoes
from toolwire.stores.credentials.files import CredentialStore
from toolwire.testing.loopback import background

KEY = 'zebra-7f"<é&>+ 1'
PLAIN = "zebra-7f0091"

Asgi = Callable[[Any, Any, Any], Any]

LIST = {"items": [{"id": "Site.look", "name": "look", "version": "1.0.0", "input_schema": {"type": "object"}}]}
DOCUMENT = {
    "openapi": "3.1.0",
    "info": {"title": "Site", "version": "1"},
    "components": {
        "securitySchemes": {
            "head": {"type": "apiKey", "in": "header", "name": "X-Key"},
            "query": {"type": "apiKey", "in": "query", "name": "key"},
            "cookie": {"type": "apiKey", "in": "cookie", "name": "key"},
            "basic": {"type": "http", "scheme": "basic"},
            "bearer": {"type": "http", "scheme": "bearer"},
        }
    },
    "paths": {
        f"/{name}": {
            "get": {
                "operationId": name,
                "security": [{name: []}],
                "x-llm": {"approval": "auto"},
                "responses": {"200": {"description": "What came.", "content": {"application/json": {}}}},
            }
        }
        for name in ("head", "query", "cookie", "basic", "bearer")
    },
}


def echo(status: int, media: str, ways: Callable[[str], list[str]] = lambda text: [text]) -> Asgi:
    """A site that answers with all that it was sent, in several forms."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        fixed = {"/openapi.json": DOCUMENT, "/tools": LIST, "/health": {"status": "OK"}}.get(scope["path"])
        if fixed is not None:
            await answer(send, 200, "application/json", json.dumps(fixed).encode())
            return
        received = [value.decode("latin-1") for _, value in scope["headers"]]
        received += [scope["query_string"].decode("latin-1"), body.decode()]
        replies = [form for text in received for form in ways(text)]
        data = {
            "message": " ".join(replies),
            "error": {"message": replies, "code": "x"},
            "detail": replies,
            "said": replies,
        }
        data |= {"success": True, "output": {"value": replies}, "result": {"value": replies}}
        await answer(send, status, media, json.dumps(data, ensure_ascii=status % 2 == 0).encode())

    return app


async def answer(send: Any, status: int, media: str, body: bytes) -> None:
    headers = [(b"content-type", media.encode()), (b"x-said", b"nothing")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


@pytest.fixture(params=[200, 400, 401, 500])
def site(request: pytest.FixtureRequest) -> Iterator[str]:
    with background(echo(request.param, "application/json")) as url:
        yield url


def readable(result: Value | Problem) -> str:
    """All of a result that a model, a log or a person could read."""
    return repr(result) + str(result)


@pytest.mark.requirement("D-26", "R20", "AT-11")
@pytest.mark.parametrize("scheme", ["head", "query", "cookie", "basic", "bearer"])
def test_key_echoed_by_a_site_is_removed(site: str, scheme: str) -> None:
    keys = {scheme: PLAIN if scheme != "basic" else f"user:{PLAIN}"}
    with connect_sync(f"{site}/openapi.json", keys=keys, agree=lambda _: True, approve=lambda _: True) as remote:
        result = remote.call(scheme, {})
    text = readable(result)
    assert PLAIN not in text
    assert base64.b64encode(f"user:{PLAIN}".encode()).decode() not in text
    assert "***" in text


@pytest.mark.requirement("D-26", "R20")
@pytest.mark.parametrize("blocking", [True, False])
def test_global_api_key_is_removed_from_responses(site: str, blocking: bool) -> None:
    options: dict[str, Any] = {"api_key": PLAIN, "protocol": "otc", "agree": lambda _: True, "approve": lambda _: True}

    async def call() -> Value | Problem:
        async with connect(site, **options) as remote:
            return await remote.call("look", {})

    if blocking:
        with connect_sync(site, **options) as remote:
            result = remote.call("look", {})
    else:
        result = asyncio.run(call())
    assert PLAIN not in readable(result)


@pytest.mark.requirement("D-26", "R20")
def test_sign_in_token_is_removed_from_responses(site: str, tmp_path: Path) -> None:
    credentials = CredentialStore(tmp_path)
    credentials.put(Credential(kind="key", resource=site, access=Secret(PLAIN)))
    with connect_sync(
        site, protocol="otc", credential_store=credentials, agree=lambda _: True, approve=lambda _: True
    ) as remote:
        result = remote.call("look", {})
    assert PLAIN not in readable(result)
    assert isinstance(result, Problem) or "***" in readable(result)


@pytest.mark.requirement("D-26", "R20", "A-45")
def test_secrets_passed_to_a_tool_are_removed_from_responses(site: str) -> None:
    context = Context(tokens={"google": Secret(PLAIN)}, secrets={"KEY": Secret(KEY)})
    with connect_sync(site, protocol="otc", context=context, agree=lambda _: True, approve=lambda _: True) as remote:
        result = remote.call("look", {})
    assert "zebra" not in readable(result)


WAYS: dict[str, Callable[[str], str]] = {
    "plain": str,
    "json": json.dumps,
    "json, not ascii": lambda text: json.dumps(text, ensure_ascii=False),
    "url": urllib.parse.quote,
    "form": urllib.parse.quote_plus,
    "html": html.escape,
    "base64": lambda text: base64.b64encode(text.encode()).decode(),
}


@pytest.mark.requirement("D-26", "AT-11")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("field", ["{}", "Bearer {}"])
def test_every_usual_way_to_write_a_key_is_found(way: str, field: str) -> None:
    written = WAYS[way](KEY)
    body = f"before {written} after".encode()
    assert written.encode() not in find_echoes([Secret(field.format(KEY))]).remove_from(body, 200)


@pytest.mark.requirement("D-26", "TE-03")
@pytest.mark.parametrize("status", [200, 400])
def test_no_end_of_a_key_stays_where_it_begins_with_another_key(status: int) -> None:
    echoes = find_echoes(
        [Secret("zebra-7f0091"), Secret("zebra-7f0091-tail42"), Secret("Bearer zebra-7f0091-tail42-x9")]
    )
    text = b"zebra-7f0091-tail42-x9, zebra-7f0091-tail42, zebra-7f0091"
    assert echoes.remove_from(text, status) == b"***, ***, ***"
    assert echoes.join(find_echoes([Secret("none-of-these-1")])).remove_from(text, status) == b"***, ***, ***"


@pytest.mark.requirement("D-26", "TE-03")
def test_keys_of_a_request_and_of_its_origin_are_removed_longest_first() -> None:
    joined = find_echoes([Secret("zebra-7f0091")]).join(find_echoes([Secret("zebra-7f0091-tail42")]))
    assert joined.remove_from(b"zebra-7f0091-tail42", 200) == b"***"


@pytest.mark.requirement("D-26")
def test_key_that_is_an_ordinary_word_is_removed_only_from_errors() -> None:
    echoes = find_echoes([Secret("password")])
    assert echoes.remove_from(b'{"password": 1}', 200) == b'{"password": 1}'
    assert echoes.remove_from(b"wrong: password", 401) == b"wrong: ***"
    assert find_echoes([Secret("abc")]).remove_from(b"abc", 500) == b"abc", "it would be in every other word"
    assert (
        find_echoes([Secret("only-letters-of-some-length")]).remove_from(b"only-letters-of-some-length", 200) == b"***"
    )
