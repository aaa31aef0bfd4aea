"""What each check costs by itself: those a server runs on every call, and all that a client does before it sends."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from .apps import RAW_ANSWER, calculator
from .inprocess import scope_of
from .requests import CALLS

if TYPE_CHECKING:
    from toolwire.client.connection.connection import Connection
    from toolwire.client.transport.drivers import SyncTransport

KEY = "bench-key"


def server(token: str, secret: str) -> dict[str, Callable[[], object]]:
    """Return each check of a server as what runs it once, for a call that passes."""
    import uvloop

    from toolwire.auth.caller_token import ExpectedClaims, read_secret
    from toolwire.core.model import Call
    from toolwire.server.access.api_keys import ApiKeyCallers
    from toolwire.server.access.host_guard import HostGuard
    from toolwire.server.access.signed_tokens import SignedTokenCallers
    from toolwire.validation import build_arguments_check, check_requirements, check_scopes

    call = Call(calculator().catalog().tools[0], {"a": 1, "b": 2}, "c1")
    fields = dict(scope_of(CALLS["opentool"])["headers"])
    keyed = {**fields, b"authorization": f"Bearer {KEY}".encode()}
    signed = {**fields, b"authorization": f"Bearer {token}".encode()}
    guard, keys, fits = HostGuard(), ApiKeyCallers([KEY]), build_arguments_check()
    tokens = SignedTokenCallers(read_secret(secret.encode()), ExpectedClaims())
    uvloop.run(_verified(tokens, signed))
    return {
        "Host and Origin": lambda: guard.check_host("127.0.0.1", fields),
        "an API key": lambda: keys.find_caller(keyed),
        "a signed token seen before": lambda: tokens.find_caller(signed),
        "scopes": lambda: check_scopes(call),
        "requirements": lambda: check_requirements(call),
        "arguments": lambda: fits(call),
    }


def once_us(rows: int) -> float:
    """Return the CPU microseconds of running a call once in a ledger in memory that has ``rows`` calls in it."""
    import uvloop

    return uvloop.run(_once_us(rows))


async def _once_us(rows: int, each: int = 5_000) -> float:
    from toolwire.core.model import Call, Value
    from toolwire.core.toolbox import ignore_progress
    from toolwire.server.run.idempotency import IdempotencyRunner
    from toolwire.stores.ledger.memory import MemoryLedger

    ledger = MemoryLedger()
    once = IdempotencyRunner(ledger, ledger, wait_s=1.0)
    tool, ended = calculator().catalog().tools[0], Value(3)

    async def run(_call: Call, _notify: object) -> Value:
        return ended

    calls = [Call(tool, {"a": 1, "b": 2}, "", key=f"k{number}") for number in range(rows + each)]
    for call in calls[:rows]:
        await once.run(call, ignore_progress, run)
    started = time.process_time()
    for call in calls[rows:]:
        await once.run(call, ignore_progress, run)
    return (time.process_time() - started) / each * 1e6


async def _verified(tokens: object, fields: dict[bytes, bytes]) -> None:
    await tokens.verify(fields)  # type: ignore[attr-defined]  # toolwire is loaded in functions only


def client() -> tuple[Callable[[], object], Callable[[], object]]:
    """Return a client's call with everything before and after it, and the codec's part alone; no socket in either."""
    from toolwire.client.transport.drivers import run
    from toolwire.core.model import Call
    from toolwire.protocols.opentool import CODEC

    connection, transport = connected()
    peer = connection.peer
    call = Call(peer.catalog.tools[0], {"a": 1, "b": 2}, "c1")
    return lambda: run(connection.run(call), transport), lambda: run(CODEC.send(peer, call), transport)


def connected() -> tuple[Connection, SyncTransport]:
    """Return a connection to our server, unlimited and untraced, and the transport to it, which answers at once."""
    from toolwire.client import Session
    from toolwire.client.connection.connection import open_connection
    from toolwire.client.discovery.discover import Discovery
    from toolwire.client.transport.drivers import run
    from toolwire.core.codec import Site
    from toolwire.core.http import JSON_HEADERS, Request, Response
    from toolwire.limits import ClientRateLimits
    from toolwire.protocols.opentool import CODEC

    url = "http://127.0.0.1:9627"
    catalog = calculator().catalog()
    routes = CODEC.routes(catalog, Site())
    answer = Response(200, JSON_HEADERS, RAW_ANSWER)

    class FakeTransport:
        def send(self, request: Request) -> object:
            route = routes.get((request.method, request.url.removeprefix(url)))
            return answer if request.method == "POST" or route is None else route.read(request)

    transport = FakeTransport()
    peer = run(CODEC.find(url), transport).peer  # type: ignore[arg-type]  # it answers what a look asks for
    session = Session(limits=ClientRateLimits(tool=None, connection=None), traced=False)
    connection = open_connection(Discovery(url=url, peer=peer), session=session)
    return connection.agree(connection.pipeline.find_unapproved()), transport  # type: ignore[return-value]


def cost_us(work: Callable[[], object], *, rounds: int = 7, each: int = 5_000) -> float:
    """Return the median CPU microseconds of ``work``, less those of calling what does nothing."""
    return max(0.0, _loop(work, rounds, each) - _loop(lambda: None, rounds, each))


def _loop(work: Callable[[], object], rounds: int, each: int) -> float:
    figures = []
    for _ in range(rounds):
        started = time.process_time()
        for _ in range(each):
            work()
        figures.append((time.process_time() - started) / each * 1e6)
    return statistics.median(figures)
