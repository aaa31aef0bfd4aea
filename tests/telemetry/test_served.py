"""What a server learns of a call besides: the message it came in, and from where; what the ledger made of it."""

from __future__ import annotations

import asyncio
import io
import json
import logging
from typing import Any

import pytest

from toolwire.core.catalog import Catalog
from toolwire.core.codec import Pending, Site
from toolwire.core.http import JSON_HEADERS, Request
from toolwire.core.ledger import FULL
from toolwire.core.model import Call, Context, Kind, Problem, RateLimit, Result, Tool, Value
from toolwire.core.toolbox import Notify, ignore_progress
from toolwire.protocols import BUILTIN
from toolwire.server.run.idempotency import IdempotencyRunner
from toolwire.stores.ledger.memory import MemoryLedger
from toolwire.telemetry.attributes import rpc_code
from toolwire.telemetry.calls import LOG, Observer
from toolwire.telemetry.counts import count_token
from toolwire.telemetry.current_call import Arrival
from toolwire.telemetry.logs import JsonLines

from .sdk import TOOL, Sdk, attributes

SESSION = "session-2f8c"
MESSAGE: dict[str, dict[str, Any]] = {
    "mcp": {"jsonrpc": "2.0", "id": "m-7", "method": "tools/call", "params": {"name": "add", "arguments": {}}},
    "opentool": {"jsonrpc": "2.0", "id": 7, "method": "add", "params": {}},
}
PATHS = {"mcp": "/mcp", "opentool": "/opentool/call"}


def arrival(protocol: str, body: bytes | None = None) -> Arrival:
    headers = (*JSON_HEADERS, (b"mcp-protocol-version", b"2025-11-25"), (b"mcp-session-id", SESSION.encode()))
    data = json.dumps(MESSAGE[protocol]).encode() if body is None else body
    return Arrival(Request("POST", PATHS[protocol], headers, data, "r1"), "192.0.2.7", "1.1")


@pytest.mark.parametrize(("protocol", "id_"), [("mcp", "m-7"), ("opentool", "7")])
def test_server_span_contains_the_request_id_and_protocol_version(protocol: str, id_: str) -> None:
    sdk = Sdk()
    sdk.run(protocol=protocol, arrival=arrival(protocol))
    reply = attributes(sdk.span)
    assert (reply["jsonrpc.request.id"], reply["network.protocol.version"]) == (id_, "1.1")
    assert (reply["network.transport"], reply["network.protocol.name"]) == ("tcp", "http")
    assert reply.get("mcp.protocol.version") == ("2025-11-25" if protocol == "mcp" else None)
    assert len(reply.get("mcp.session.id", "")) == (16 if protocol == "mcp" else 0)
    assert SESSION not in sdk.span.to_json()


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'{"id": {}}', b'{"id": 1e999, "params": 7}', b"\xff"])
def test_unreadable_request_message_adds_no_span_attributes(body: bytes) -> None:
    sdk = Sdk()
    assert sdk.run(protocol="mcp", arrival=arrival("mcp", body)) == Value(1)
    assert "jsonrpc.request.id" not in attributes(sdk.span)


@pytest.mark.parametrize("protocol", ["mcp", "opentool"])
@pytest.mark.parametrize("kind", list(Kind))
def test_recorded_error_code_equals_the_answered_code(protocol: str, kind: Kind) -> None:
    (codec,) = (codec for codec in BUILTIN if codec.name == protocol)
    read = codec.routes(Catalog(title="Calc", tools=(TOOL,)), Site())["POST", PATHS[protocol]].read
    pending = read(arrival(protocol).request)
    assert isinstance(pending, Pending)
    answer = json.loads(pending.reply(Problem(kind=kind, message="No."), 1.0).body)
    assert rpc_code(protocol, Problem(kind=kind, message="No.")) == (answer.get("error") or {}).get("code")


def test_ledger_outcomes_are_recorded_and_timed() -> None:
    sdk = Sdk()
    once = IdempotencyRunner(sdk.observer.observe_ledger(MemoryLedger()), MemoryLedger(), wait_s=10.0)

    async def story() -> None:
        begun, go = asyncio.Event(), asyncio.Event()
        results: list[Result] = [Problem(kind=Kind.TOOL_FAILED, message="Later.", can_retry=True), Value(5)]

        async def tool(call: Call, notify: Notify) -> Result:
            begun.set()
            await go.wait()
            return results.pop(0)

        async def running(call: Call, notify: Notify) -> tuple[Result, float]:
            return await once.run(call, notify, tool), 1.0

        async def send() -> Result:
            call = Call(TOOL, {"a": 1}, "k", Context(principal="ada"), "k")
            return (await sdk.observer.run_call(running, call, ignore_progress, "otc"))[0]

        go.set()
        assert isinstance(await send(), Problem)
        begun.clear()
        go.clear()
        first = asyncio.ensure_future(send())
        await begun.wait()
        second = asyncio.ensure_future(send())
        await asyncio.sleep(0)
        go.set()
        assert (await first, await second, await send()) == (Value(5),) * 3

    asyncio.run(story())
    replies = [attributes(span) for span in sdk.spans.get_finished_spans()]
    assert sorted((each["toolwire.idempotency"], each.get("toolwire.attempt")) for each in replies) == [
        ("attached", None),
        ("new", 1),
        ("new", 2),
        ("replay", None),
    ]
    timed = {
        each.attributes["op"]: (each.attributes["backend"], each.count) for each in sdk.points("toolwire.ledger_op")
    }
    assert timed["settle"] == ("memory", 2)
    assert timed["claim"][1] >= 5, "the one that waited asked again"


def test_ledger_is_not_wrapped_without_telemetry() -> None:
    ledger = MemoryLedger()
    assert Observer(None, None).observe_ledger(ledger) is ledger


@pytest.mark.parametrize(
    ("confirmation", "result", "approval"),
    [
        ("", Value(1), "auto"),
        ("word", Value(1), "per_call"),
        ("", Problem(kind=Kind.UNCONFIRMED, message=""), "asked"),
        ("", Problem(kind=Kind.DENIED, message=""), "denied"),
    ],
)
def test_span_contains_the_consent_that_the_server_saw(confirmation: str, result: Result, approval: str) -> None:
    sdk = Sdk()
    sdk.run(Context(confirmation=confirmation), result)
    assert attributes(sdk.span)["toolwire.approval"] == approval


@pytest.mark.parametrize(
    ("problem", "reason"),
    [(FULL, "ledger"), (Problem(kind=Kind.OVERLOADED, message="", details={"uncounted": True}), "rates")],
)
def test_lost_store_has_its_own_reason_for_refused_calls(problem: Problem, reason: str) -> None:
    sdk = Sdk()
    sdk.run(result=problem)
    assert [dict(point.attributes) for point in sdk.points("toolwire.shed")] == [{"reason": reason}]


@pytest.mark.parametrize(
    ("result", "said"), [(Value(1), "allowed"), (Problem(kind=Kind.RATE_LIMITED, message=""), "limited")]
)
def test_rate_limit_result_is_an_attribute_of_limited_tools(result: Result, said: str) -> None:
    sdk = Sdk()
    tool = Tool(name="rare", rate_limit=RateLimit(max=1, window="1h"))

    async def running(call: Call, notify: Notify) -> tuple[Result, float]:
        return result, 1.0

    asyncio.run(sdk.observer.run_call(running, Call(tool, {}), ignore_progress, "otc"))
    assert attributes(sdk.span)["toolwire.ratelimit.result"] == said


def test_calls_by_mcp_and_the_version_that_runs_are_counted() -> None:
    sdk = Sdk()
    sdk.run(protocol="mcp")
    (point,) = sdk.points("mcp.server.operation.duration")
    assert dict(point.attributes) == {"mcp.method.name": "tools/call", "gen_ai.tool.name": "add"}
    for _ in range(2):  # as often as it is looked at
        (build,) = sdk.points("toolwire.build_info")
        assert (build.value, list(build.attributes)) == (1, ["version"])


def test_log_line_names_the_origin_of_a_call() -> None:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines())
    level = LOG.level
    LOG.addHandler(handler)
    LOG.setLevel(logging.INFO)
    try:
        Sdk().run(arrival=arrival("mcp"))
    finally:
        LOG.removeHandler(handler)
        LOG.setLevel(level)
    assert json.loads(stream.getvalue())["client_addr"] == "192.0.2.7"


def test_issued_tokens_are_counted_by_known_grants_and_results() -> None:
    sdk = Sdk()
    for grant, result in (
        ("refresh_token", "issued"),
        ("refresh_token", "issued"),
        ("x" * 50, "invalid_request"),
    ):
        count_token(grant, result, sdk.telemetry.meter_provider)
    assert sorted((point.value, *point.attributes.values()) for point in sdk.points("toolwire.oauth_tokens")) == [
        (1, "_other", "invalid_request"),
        (2, "refresh_token", "issued"),
    ]
    count_token("refresh_token", "issued")  # nobody hears of it
