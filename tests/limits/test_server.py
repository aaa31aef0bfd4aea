"""The server holds its callers to the limits it declares, in every protocol and however many workers it has."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from joserfc import jwt
from joserfc.jwk import OctKey

import toolwire
from tests.limits.limited_shop import build_call, kit
from tests.support.wire import AppTransport
from toolwire import Kind, Problem
from toolwire.auth.caller_token import ExpectedClaims, read_secret
from toolwire.client.calls.session import Session
from toolwire.core.http import Response, get_header
from toolwire.limits import ClientRateLimits
from toolwire.limits.throttle import read_pause_s
from toolwire.protocols import BUILTIN
from toolwire.server.access.signed_tokens import SignedTokenCallers
from toolwire.testing.loopback import background

UNLIMITED = ClientRateLimits(tool=None, connection=None)


async def statuses(apps: list[toolwire.App], calls: int, name: str = "look") -> list[Response]:
    doors = [AppTransport(app) for app in apps]
    answers = await asyncio.gather(*(doors[number % len(doors)].send(build_call(name)) for number in range(calls)))
    return [answer for answer in answers if isinstance(answer, Response)]


@pytest.mark.requirement("XL-066", "D-34")
def test_exactly_30_of_50_concurrent_calls_run() -> None:
    answers = asyncio.run(statuses([toolwire.asgi(kit())], 50))
    refused = [answer for answer in answers if answer.status != 200]
    assert (len(answers), len(refused)) == (50, 20)
    assert all(answer.status == 429 and int(get_header(answer.headers, b"retry-after")) > 3_000 for answer in refused)


@pytest.mark.requirement("XL-066", "XL-065")
def test_rate_limit_refusal_has_standard_retry_and_ratelimit_headers() -> None:
    answers = asyncio.run(statuses([toolwire.asgi(kit())], 31))
    (refused,) = [answer for answer in answers if answer.status != 200]
    wait = int(get_header(refused.headers, b"retry-after"))
    assert get_header(refused.headers, b"ratelimit-policy") == '"tool";q=30;w=3600'
    assert get_header(refused.headers, b"ratelimit") == f'"tool";r=0;t={wait}'
    without = tuple(field for field in refused.headers if field[0] != b"retry-after")
    assert read_pause_s(refused._replace(headers=without), lambda: 0.0) == wait
    assert not any(get_header(answer.headers, b"ratelimit") for answer in answers if answer.status == 200)


@pytest.mark.requirement("XL-066")
def test_several_apps_with_one_store_share_a_limit(tmp_path: Path) -> None:
    apps = [toolwire.asgi(kit(), rates=str(tmp_path)) for _ in range(4)]
    answers = asyncio.run(statuses(apps, 50))
    assert sum(answer.status == 200 for answer in answers) == 30


def test_a_tool_without_a_limit_is_not_counted() -> None:
    answers = asyncio.run(statuses([toolwire.asgi(kit())], 50, "free"))
    assert all(answer.status == 200 for answer in answers)


@pytest.fixture(scope="module")
def keyed_server() -> Iterator[str]:
    with background(toolwire.asgi(kit(), api_keys=["ada", "bob"])) as url:
        yield url


@pytest.mark.requirement("XL-062", "XL-066")
def test_each_caller_has_its_own_limit_and_client_reads_retry_time(keyed_server: str) -> None:
    for key in ("ada", "bob"):
        session = Session(limits=ClientRateLimits(tool=None, connection=None))
        with toolwire.connect_sync(
            keyed_server, api_key=key, protocol="otc", agree=lambda _: True, retries=0, session=session
        ) as remote:
            results = [remote.call("look") for _ in range(31)]
            assert [result.ok for result in results] == [True] * 30 + [False]
            last = results[-1]
            assert isinstance(last, Problem)
            assert last.kind is Kind.RATE_LIMITED
            assert last.retry_after_ms is not None
            assert last.retry_after_ms > 3_000_000
            again = remote.call("look")
            assert isinstance(again, Problem)
            assert again.details["rate_limited"] is True


SECRET = b"a secret of the server, long enough"


def sign_token(subject: str, client: str) -> str:
    claims = {"sub": subject, "exp": time.time() + 600, **({"client_id": client} if client else {})}
    return jwt.encode({"alg": "HS256"}, claims, OctKey.import_key(SECRET))


@pytest.mark.requirement("XL-066", "XL-062")
@pytest.mark.parametrize("protocol", [codec.name for codec in BUILTIN])
def test_a_limit_counts_for_each_user_and_oauth_client(protocol: str) -> None:
    callers = SignedTokenCallers(read_secret(SECRET), ExpectedClaims())
    with background(toolwire.asgi(kit(), callers=callers)) as url:

        def run_all(subject: str, client: str, calls: int) -> list[bool]:
            with toolwire.connect_sync(
                url,
                api_key=sign_token(subject, client),
                protocol=protocol,
                agree=lambda _: True,
                retries=0,
                session=Session(limits=UNLIMITED),
            ) as remote:
                return [remote.call("look").ok for _ in range(calls)]

        assert run_all("ada", "mail", 31) == [True] * 30 + [False]
        assert run_all("ada", "mail", 1) == [False]  # another token of the same client
        assert run_all("ada", "notes", 1) == [True]
        assert run_all("bob", "mail", 1) == [True]
        assert run_all("ada", "", 1) == [True]


@pytest.mark.requirement("XL-066", "A-42")
def test_replayed_call_is_not_counted_and_refused_call_is_not_recorded() -> None:
    async def story() -> tuple[list[int], list[int]]:
        transport = AppTransport(toolwire.asgi(kit()))

        async def sent(key: str) -> int:
            answer = await transport.send(build_call("look")._replace(headers=((b"idempotency-key", key.encode()),)))
            assert isinstance(answer, Response)
            return answer.status

        first = [await sent("a") for _ in range(60)] + [await sent(f"b{number}") for number in range(29)]
        return first, [await sent("c"), await sent("c"), await sent("a")]

    counted, beyond = asyncio.run(story())
    assert counted == [200] * 89  # a key that came sixty times counted once
    assert beyond == [429, 429, 200]  # what is kept is told even beyond the limit
