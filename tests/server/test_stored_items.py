"""The items of a stream are kept only for a reply or a resume that needs them, and within bytes."""

from __future__ import annotations

import asyncio
import json
import tracemalloc
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from tests.support.wire import HERE, AppTransport, build_scope
from toolwire import Toolkit, asgi, connect, merge_toolboxes
from toolwire.core.http import Request
from toolwire.core.model import Call, Context, Kind, Problem, Progress, Value
from toolwire.opentool.serve_object import build_app, build_toolbox
from toolwire.server import App
from toolwire.server.options import ServerOptions
from toolwire.server.run.function_toolbox import FunctionToolbox
from toolwire.telemetry.calls import Telemetry
from toolwire.testing.loopback import background

pytestmark = pytest.mark.requirement("GR-02")

ITEM = 20_000
ITEMS = 1_000
ROOM = 6 * 1024 * 1024  # of 20 MB of items
JSON = (b"content-type", b"application/json")


def build_kit(runs: list[str] | None = None) -> Toolkit:
    kit = Toolkit("Feed")
    ran = [] if runs is None else runs

    @kit.tool(approval="auto", idempotent=False, safe=False)
    async def read(most: int) -> AsyncIterator[str]:
        """Read."""
        ran.append("read")
        for number in range(most):
            yield chr(97 + number % 10) * ITEM

    @kit.tool(approval="auto")
    async def read_large(most: int) -> AsyncIterator[str]:
        """Read much."""
        for number in range(most):
            yield chr(97 + number % 10) * 10 * ITEM

    @kit.tool(approval="auto")
    def read_in_thread(most: int) -> Iterator[dict[str, str]]:
        """Read in a thread."""
        for number in range(most):
            yield {"text": chr(97 + number % 10) * ITEM}

    return kit


class Feed:
    """An object of the OpenTool SDK."""

    async def call(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        return {}

    async def stream_call(self, name: str, arguments: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
        for number in range(arguments["most"]):
            yield {"text": chr(97 + number % 10) * ITEM}


def build_request(tool: str, most: int, *headers: tuple[bytes, bytes]) -> Request:
    body = json.dumps({"jsonrpc": "2.0", "method": tool, "params": {"most": most}, "id": 1}).encode()
    return Request("POST", f"{HERE}/opentool/streamCall", (JSON, *headers), body)


async def measure(app: Any, request: Request) -> tuple[int, int, int]:
    """Return the most memory that the answer to ``request`` needed, its size, and the number of its items."""
    size = items = 0
    last = b""
    asked = [{"type": "http.request", "body": request.body}]

    async def receive() -> dict[str, Any]:
        if not asked:
            await asyncio.Event().wait()
        return asked.pop(0)

    async def take(message: Any) -> None:
        nonlocal size, items, last
        data = message.get("body", b"")
        size += len(data)
        items += data.count(b"event:data")
        last = data or last

    tracemalloc.start()
    try:
        await app(build_scope(request), receive, take)
        assert b"event:done" in last, last
        return tracemalloc.get_traced_memory()[1], size, items
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("headers", [(), ((b"idempotency-key", b"k1"),)], ids=["no-key", "key"])
@pytest.mark.parametrize("tool", ["read", "read_in_thread"])
def test_stream_over_opentool_keeps_no_items(tool: str, headers: tuple[tuple[bytes, bytes], ...]) -> None:
    peak, size, items = asyncio.run(measure(asgi(build_kit()), build_request(tool, ITEMS, *headers)))
    assert (items, size > ITEMS * ITEM) == (ITEMS, True)
    assert peak < ROOM


def test_stream_of_an_object_keeps_no_items() -> None:
    app = build_app(build_toolbox(Feed()), ServerOptions())
    peak, _, items = asyncio.run(measure(app, build_request("read", ITEMS)))
    assert items == ITEMS
    assert peak < ROOM


def test_gateway_keeps_no_items_of_a_stream_of_its_upstream() -> None:
    async def run(url: str) -> tuple[int, int, int]:
        async with connect(url, protocol="opentool", agree=lambda _: True) as remote:
            return await measure(asgi(merge_toolboxes([remote])), build_request("read_large", 60))

    with background(asgi(build_kit())) as url:
        peak, size, items = asyncio.run(run(url))
    assert (items, size > 12_000_000) == (60, True)
    assert peak < ROOM


async def send(app: App, *requests: Request) -> list[bytes]:
    return [(await AppTransport(app).send(one)).body for one in requests]


def test_stream_under_a_key_is_sent_again_from_the_ledger() -> None:
    runs: list[str] = []
    request = build_request("read", 3, (b"idempotency-key", b"k1"))
    first, second = asyncio.run(send(asgi(build_kit(runs)), request, request))
    assert first.count(b"event:data") == 3
    assert second == first
    assert runs == ["read"]


def test_stream_under_a_key_too_large_to_keep_does_not_run_again() -> None:
    runs: list[str] = []
    request = build_request("read", 300, (b"idempotency-key", b"k1"))
    first, second = asyncio.run(send(asgi(build_kit(runs)), request, request))
    assert first.count(b"event:data") == 300
    assert first.endswith(b'event:done\ndata:{"done":"read"}\n\n')
    assert (
        b"The call has already run and is not run again, but its 6,000,600 bytes of items were too large to keep."
        in second
    )
    assert runs == ["read"]


@pytest.mark.parametrize("tool", ["read", "read_in_thread"])
def test_items_that_a_reply_needs_are_kept_up_to_a_limit_of_bytes(tool: str) -> None:
    box = FunctionToolbox(build_kit())

    async def run(most: int, context: Context) -> tuple[Any, int]:
        heard = 0

        async def notify(_: Progress) -> None:
            nonlocal heard
            heard += 1

        return await box.run(Call(box.catalog().names[tool], {"most": most}, "c1", context), notify), heard

    result, heard = asyncio.run(run(3, Context()))
    assert isinstance(result, Value)
    assert (len(result.value), heard) == (3, 3)
    refusal, _ = asyncio.run(run(3_400, Context()))
    assert isinstance(refusal, Problem)
    assert refusal.kind is Kind.TOOL_FAILED
    assert refusal.message == (
        f"{tool} sent more than 64 MiB of items, which is the limit for one result. "
        "Call it over OpenTool's /streamCall without an idempotency key: that has no such limit."
    )
    taken, heard = asyncio.run(run(3_400, Context(takes_items=True)))
    assert (taken, heard) == (Value([]), 3_400)


def test_long_stream_keeps_its_items_for_the_result() -> None:
    kit = Toolkit("Feed")

    @kit.tool(approval="auto", long=True)
    async def read(most: int) -> AsyncIterator[int]:
        """Read."""
        for number in range(most):
            yield number

    async def run() -> list[bytes]:
        app = asgi(kit)
        request = build_request("read", 3, (b"idempotency-key", b"k1"))
        return await send(app, request, request)

    for answer in asyncio.run(run()):
        assert answer.count(b"event:data") == 3


def test_tool_that_calls_another_with_its_own_context_gets_all_items() -> None:
    async def run(url: str) -> bytes:
        async with connect(url, protocol="opentool", agree=lambda _: True) as remote:
            kit = Toolkit("Near")

            @kit.tool(approval="auto")
            async def count(most: int, context: Context) -> AsyncIterator[int]:
                """Count."""
                result = await remote.call("read", {"most": most}, context=context)
                assert isinstance(result, Value)
                yield len(result.value)

            return (await send(asgi(kit), build_request("count", 4)))[0]

    with background(asgi(build_kit())) as url:
        assert b'"result":{"result":4}' in asyncio.run(run(url))


def test_span_with_contents_has_the_items() -> None:
    trace = pytest.importorskip("opentelemetry.sdk.trace")
    export = pytest.importorskip("opentelemetry.sdk.trace.export")
    memory = pytest.importorskip("opentelemetry.sdk.trace.export.in_memory_span_exporter")
    spans = memory.InMemorySpanExporter()
    provider = trace.TracerProvider()
    provider.add_span_processor(export.SimpleSpanProcessor(spans))
    app = asgi(build_kit(), telemetry=Telemetry(tracer_provider=provider, contents=True))
    asyncio.run(send(app, build_request("read", 1)))
    assert any("aaaa" in str(value) for span in spans.get_finished_spans() for value in span.attributes.values())
