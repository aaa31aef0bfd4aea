"""Connect a client and a server of one codec in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from tests.support.wire import HERE, AppTransport, RecordedExchange, SyncAppTransport
from toolwire.client.calls import session as shared
from toolwire.client.calls.retry import RetryLimits
from toolwire.client.connection.connection import Connection, connection_to
from toolwire.client.connection.remote import Remote, SyncRemote
from toolwire.client.transport.drivers import Approver, arun, run
from toolwire.core.codec import Codec, Finding, Flow, Peer
from toolwire.core.model import Call, Json, Progress, Result
from toolwire.core.toolbox import Toolbox
from toolwire.define import Toolkit
from toolwire.limits import ClientRateLimits
from toolwire.server import App, ServerLimits
from toolwire.server.access.callers import AnonymousCallers
from toolwire.server.access.host_guard import HostGuard
from toolwire.server.build_app import build_app
from toolwire.server.options import ServerOptions
from toolwire.server.parts import ServerParts
from toolwire.server.run.function_toolbox import FunctionToolbox

from .kit import build_kit


@dataclass(frozen=True, slots=True, kw_only=True)
class CodecConnection:
    """A connection over ``codec`` with the same methods for blocking and async clients.

    ``call`` calls a tool with every check of the client. ``listen`` also returns the progress values. ``send`` skips
    the checks of the client. ``finding`` is the result of discovery; ``exchanges`` holds all requests and responses.
    """

    codec: Codec
    app: App
    peer: Peer
    finding: Finding
    exchanges: list[RecordedExchange]
    call: Callable[[str, Mapping[str, Json]], Result]
    listen: Callable[[str, Mapping[str, Json]], tuple[Result, list[Json]]]
    send: Callable[[Call], Result]


@contextmanager
def open_session(
    codec: Codec,
    target: Toolkit | Toolbox | None = None,
    *,
    blocking: bool = False,
    limits: ServerLimits | None = None,
    approve: Approver | None = None,
) -> Generator[CodecConnection, None, None]:
    """Yield a connection over ``codec`` to ``target``, or to the tools of ``build_kit``.

    Raises:
        LookupError: the client half of the codec does not find its server half.
    """
    target = build_kit() if target is None else target
    limits = ServerLimits() if limits is None else limits
    toolbox = FunctionToolbox(target, threads=limits.threads) if isinstance(target, Toolkit) else target
    parts = ServerParts(callers=AnonymousCallers(), guard=HostGuard(), limits=limits)
    app = build_app(toolbox, ServerOptions(), parts, codecs=(codec,))
    with _open_blocking(codec, app, approve) if blocking else _open_async(codec, app, approve) as connection:
        yield connection


@contextmanager
def _open_async(codec: Codec, app: App, approve: Approver | None) -> Generator[CodecConnection, None, None]:
    transport = AppTransport(app)
    with asyncio.Runner() as runner:
        finding = runner.run(arun(codec.find(HERE), transport, None))
        connection = _build_connection(codec, finding)
        remote = Remote(connection, transport, approve)

        def run_flow(flow: Flow[Result]) -> Result:
            return runner.run(arun(flow, transport, approve))

        async def listen(name: str, arguments: Mapping[str, Json]) -> tuple[Result, list[Json]]:
            received: list[Json] = []

            async def notify(progress: Progress) -> None:
                received.append(progress.value)

            return await remote.call(name, arguments, notify=notify), received

        yield CodecConnection(
            codec=codec,
            app=app,
            peer=connection.peer,
            finding=finding,
            exchanges=transport.exchanges,
            listen=lambda name, arguments: runner.run(listen(name, arguments)),
            call=lambda name, arguments: runner.run(remote.call(name, arguments)),
            send=lambda call: run_flow(codec.send(connection.peer, call)),
        )


@contextmanager
def _open_blocking(codec: Codec, app: App, approve: Approver | None) -> Generator[CodecConnection, None, None]:
    transport = SyncAppTransport(app)
    try:
        finding = run(codec.find(HERE), transport, None)
        connection = _build_connection(codec, finding)
        remote = SyncRemote(connection, transport, approve)

        def listen(name: str, arguments: Mapping[str, Json]) -> tuple[Result, list[Json]]:
            received: list[Progress] = []
            result = remote.call(name, arguments, notify=received.append)
            return result, [progress.value for progress in received]

        yield CodecConnection(
            codec=codec,
            app=app,
            peer=connection.peer,
            finding=finding,
            exchanges=transport.exchanges,
            listen=listen,
            call=remote.call,
            send=lambda call: run(codec.send(connection.peer, call), transport, approve),
        )
    finally:
        transport.close()


def _build_connection(codec: Codec, finding: Finding) -> Connection:
    peer = finding.peer
    if peer is None:
        looks = "; ".join(f"{probe.url}: {probe.meaning}" for probe in finding.probes)
        raise LookupError(f"the client half of {codec.name} does not find its server half ({looks})")
    unlimited = shared.Session(limits=ClientRateLimits(tool=None, connection=None))
    once = RetryLimits(retries=0)  # a retry would hide the first response
    connection = connection_to(peer, codec, probes=finding.probes, session=unlimited, retries=once)
    return connection.agree(
        connection.pipeline.find_unapproved()
    )  # the server is our own, so its definitions need no approval
