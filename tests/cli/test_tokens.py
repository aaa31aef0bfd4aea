"""Signed tokens of ``toolwire serve``: a secret, a key set in a file, and one on a real server that rotates."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, OctKey

from toolwire import Problem, Value, connect_sync
from toolwire.core.errors import DefinitionError, UsageError
from toolwire.core.model import Kind
from toolwire.hosting.open_upstreams import open_toolboxes
from toolwire.hosting.options import TokenOptions
from toolwire.hosting.serve_app import build_app
from toolwire.hosting.serve_settings import ServeSettings, read_settings
from toolwire.hosting.token_options import build_callers
from toolwire.server.access.callers import Caller, Callers
from toolwire.testing.loopback import background

SECRET = "a secret of the server, long enough"
OLD, NEW = (ECKey.generate_key("P-256", parameters={"kid": kid}) for kid in ("old", "new"))


def token(key: Any, algorithm: str = "ES256", **claims: Any) -> str:
    reply = {"sub": "ada", "aud": "here", "exp": time.time() + 60, **claims}
    return jwt.encode({"alg": algorithm, "kid": key.kid} if key.kid else {"alg": algorithm}, reply, key)


def key_set(*keys: Any) -> bytes:
    return json.dumps({"keys": [key.as_dict(private=False) for key in keys]}).encode()


@contextmanager
def publish_keys(answers: list[tuple[int, bytes]]) -> Generator[tuple[str, list[str]]]:
    """Serve the first answer, then the next, the last one for ever."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            status, body = answers[min(len(asked), len(answers)) - 1]
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/jwks.json", asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)


def ask(callers: Callers | None, credential: str) -> Caller | Problem:
    assert callers is not None
    return asyncio.run(callers.verify({b"authorization": f"Bearer {credential}".encode()}))


@pytest.mark.requirement("OTC-035", "OXP-012", "OTC-042")
def test_server_with_a_secret_accepts_tokens_signed_with_it(tmp_path: Path, desk: Path) -> None:
    (tmp_path / "secret").write_text(SECRET + "\n")
    tokens = TokenOptions(jwt_secret_file=str(tmp_path / "secret"), jwt_audience="here")
    settings = read_settings(ServeSettings(targets=[str(desk)], tokens=tokens).to_json())
    assert SECRET not in settings.to_json()
    with background(build_app(settings, open_toolboxes(settings))) as url:
        good, wrong = OctKey.import_key(SECRET), OctKey.import_key(SECRET[::-1])
        with connect_sync(url, api_key=token(good, "HS256"), protocol="otc", agree=lambda _: True) as remote:
            result = remote.call("add", {"a": 1, "b": 2})
        with connect_sync(url, api_key=token(wrong, "HS256"), protocol="openapi") as remote:
            refused = remote.call("add", {"a": 1, "b": 2})
    assert isinstance(result, Value)
    assert result.value == 3
    assert isinstance(refused, Problem)
    assert refused.kind is Kind.UNAUTHORIZED


@pytest.mark.requirement("OTC-035")
def test_keys_are_fetched_from_a_url_once_for_many_tokens() -> None:
    with publish_keys([(200, key_set(OLD))]) as (url, asked):
        callers = build_callers(TokenOptions(jwks=url, jwt_audience="here"))
        for number in range(5):
            assert ask(callers, token(OLD, sub=f"user {number}")) == Caller(f"jwt:user {number}", frozenset())
        refused = ask(callers, token(NEW))
    assert isinstance(refused, Problem)
    assert "is unknown" in refused.message
    assert asked == ["/jwks.json"]


@pytest.mark.parametrize("answer", [(500, b""), (200, b"<html>"), (302, b"")])
def test_issuer_without_keys_gives_a_retryable_problem(answer: tuple[int, bytes]) -> None:
    with publish_keys([answer]) as (url, _):
        found = ask(build_callers(TokenOptions(jwks=url, jwt_audience="here")), token(OLD))
    assert isinstance(found, Problem)
    assert (found.kind, found.can_retry) == (Kind.OVERLOADED, True)


def test_keys_can_be_read_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "jwks.json"
    file.write_bytes(key_set(OLD))
    assert isinstance(ask(build_callers(TokenOptions(jwks=str(file), jwt_audience="here")), token(OLD)), Caller)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"jwt_issuer": "x"}, "need --jwt-secret-file or --jwks"),
        ({"jwks": "http://keys.example/jwks", "jwt_audience": "a"}, "does not use https"),
        ({"jwks": "/nowhere/jwks.json", "jwt_audience": "a"}, "annot"),
        ({"jwks": "https://keys.example/jwks"}, "--jwt-audience"),
        ({"jwt_secret_file": "/nowhere/secret"}, "annot"),
        ({"jwt_secret_file": "x", "jwks": "y"}, "give --jwt-secret-file or --jwks"),
    ],
)
def test_conflicting_token_options_are_refused(options: dict[str, str], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        build_callers(TokenOptions(**options))


def test_a_short_secret_is_refused(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("short\n")
    with pytest.raises(DefinitionError, match="at least 32 bytes"):
        build_callers(TokenOptions(jwt_secret_file=str(tmp_path / "secret")))


def test_server_without_token_options_checks_no_tokens() -> None:
    assert build_callers(TokenOptions()) is None
