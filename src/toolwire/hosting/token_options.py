"""Read the options of ``toolwire serve`` about signed tokens: the keys that verify them, and where keys come from."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio.to_thread

from toolwire.client.transport.network import Network
from toolwire.core.errors import UsageError
from toolwire.core.http import Request
from toolwire.core.model import Kind, Problem
from toolwire.core.url_origin import get_host, read_origin
from toolwire.server.access.callers import Callers

from .options import TokenOptions


def build_callers(tokens: TokenOptions) -> Callers | None:
    """Return what recognizes callers by their tokens, or None where no tokens are accepted.

    Raises:
        DefinitionError: the secret is too short.
        UsageError: a file cannot be read or has no key in it, or the options do not go together.
    """
    if not tokens:
        if tokens.jwt_issuer or tokens.jwt_audience:
            raise UsageError("--jwt-issuer and --jwt-audience need --jwt-secret-file or --jwks.")
        return None
    if tokens.jwt_secret_file is not None and tokens.jwks is not None:
        raise UsageError("To verify tokens, give --jwt-secret-file or --jwks.")
    try:
        from toolwire.auth import caller_token  # an extra, and most servers do without
        from toolwire.server.access import signed_tokens  # as above
    except ModuleNotFoundError as error:
        raise UsageError(f"{error}.") from error
    expected = caller_token.ExpectedClaims(issuer=tokens.jwt_issuer, audience=tokens.jwt_audience)
    if tokens.jwt_secret_file is not None:
        return signed_tokens.SignedTokenCallers(
            caller_token.read_secret(_read_file(Path(tokens.jwt_secret_file)).rstrip(b"\r\n")), expected
        )
    if not tokens.jwt_audience:
        raise UsageError("--jwks needs --jwt-audience, because its issuer signs tokens for other servers too.")
    return signed_tokens.SignedTokenCallers(signed_tokens.IssuerKeys(_build_key_fetcher(tokens.jwks or "")), expected)


def _build_key_fetcher(source: str) -> Callable[[], Awaitable[bytes | Problem]]:
    """Return a function that fetches the keys from ``source``, a URL or a file that exists."""
    if "://" not in source:
        file = Path(source)
        _read_file(file)
        return lambda: anyio.to_thread.run_sync(_read_keys, file)
    origin = read_origin(source)
    if origin is None or (origin.scheme != "https" and get_host(source) not in ("localhost", "127.0.0.1", "::1")):
        raise UsageError(f"{source} does not use https, so an attacker on the network could replace the keys.")
    network = Network(allow_private=(str(origin),))

    async def fetch() -> bytes | Problem:
        answer = await network.send(Request("GET", source, ((b"accept", b"application/json"),)))
        if isinstance(answer, Problem) or answer.status == 200:
            return answer if isinstance(answer, Problem) else answer.body
        return Problem(
            kind=Kind.BAD_ANSWER, message=f"Cannot fetch the keys: the server answered with status {answer.status}."
        )

    return fetch


def _read_keys(file: Path) -> bytes | Problem:
    try:
        return file.read_bytes()
    except OSError as error:
        return Problem(kind=Kind.UNREACHABLE, message=f"Cannot read the keys: {error.strerror}.")


def _read_file(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}.") from error
