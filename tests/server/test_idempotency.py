"""A call with its caller's key, on every wire: it runs once, and the same answer comes again."""

import asyncio
import json
from typing import Any

import pytest

from tests.interleaving import answer_request, interrupt_each_await
from tests.support.wire import HERE, AppTransport
from toolwire import Context, ServerLimits, ToolError, Toolkit, asgi
from toolwire.core.http import Request, Response
from toolwire.core.ledger import FULL, CallEnding, Claim, ClaimOutcome, InFlight, Ticket
from toolwire.core.model import ANONYMOUS, Call, Kind, Problem, Result, Secret, Tool, Value
from toolwire.core.toolbox import Notify, ignore_progress
from toolwire.server import App
from toolwire.server.run.idempotency import IdempotencyRunner
from toolwire.stores.ledger.memory import MemoryLedger

JSON = (b"content-type", b"application/json")
MCP = ((b"accept", b"application/json, text/event-stream"), (b"mcp-protocol-version", b"2025-11-25"))
WIRES = ("rfc", "oxp", "uts", "opentool", "openapi", "mcp")


def shop() -> tuple[Toolkit, list[str]]:
    ran: list[str] = []
    kit = Toolkit("Shop")

    @kit.tool(safe=False)
    async def buy(what: str) -> str:
        ran.append(what)
        return f"{what} {len(ran)}"

    @kit.tool(safe=False)
    async def fail(what: str) -> str:
        ran.append(what)
        raise ToolError(f"no {what}", can_retry=what == "later")

    @kit.tool(safe=True)
    async def look(what: str) -> str:
        ran.append(what)
        return f"{what} {len(ran)}"

    @kit.tool(safe=False)
    async def scan(what: str) -> Any:
        ran.append(what)
        yield "a"
        yield "b"

    return kit, ran


def request(wire: str, tool: str, what: str, key: str = "", *headers: tuple[bytes, bytes]) -> Request:
    """A call under ``key``, where the protocol has a place for one; ``headers`` are more fields."""
    if wire == "openapi":
        safe = tool == "look"
        url = f"/api/{tool}?what={what}" if safe else f"/api/{tool}"
        body = b"" if safe else json.dumps({"what": what}).encode()
        return Request("GET" if safe else "POST", HERE + url, (JSON, *headers), body)
    if wire in ("opentool", "mcp"):
        params = {"what": what} if wire == "opentool" else {"name": tool, "arguments": {"what": what}}
        method = tool if wire == "opentool" else "tools/call"
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
        return Request(
            "POST", f"{HERE}/mcp" if wire == "mcp" else f"{HERE}/opentool/call", (JSON, *MCP, *headers), body
        )
    path = {"rfc": "/call", "oxp": "/tools/call", "uts": "/uts/tools/call"}[wire]
    reply: dict[str, Any] = {"tool_id": f"Shop.{tool}", "input": {"what": what}}
    body = json.dumps({"request": {**reply, "call_id": key} if key else reply}).encode()
    return Request("POST", HERE + path, (JSON, *headers), body)


def build_keyed_request(wire: str, tool: str, what: str, key: str) -> Request:
    """A call under ``key``: by the header, or by the call id of a protocol that has one."""
    if wire in ("rfc", "oxp", "uts"):
        return request(wire, tool, what, key)
    return request(wire, tool, what, "", (b"idempotency-key", key.encode()))


def talk(app: App, *requests: Request) -> list[Response]:
    async def within() -> list[Response]:
        async with asyncio.timeout(10):
            return [await AppTransport(app).send(one) for one in requests]

    return asyncio.run(within())


def is_replayed(response: Response) -> bool:
    return (b"idempotent-replayed", b"true") in response.headers


def read_meaning(response: Response) -> Any:
    """What a response says, without how long it took."""
    data = json.loads(response.body)
    for place in (data, data.get("result")) if isinstance(data, dict) else ():
        if isinstance(place, dict):
            place.pop("duration", None)
    return data


@pytest.mark.requirement("OTC-019", "A-42", "OB-2")
@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("tool", ["buy", "look"])
def test_repeated_call_with_one_key_is_replayed_without_running(wire: str, tool: str) -> None:
    kit, ran = shop()
    first, again = talk(asgi(kit), *[build_keyed_request(wire, tool, "tea", "k1")] * 2)
    assert read_meaning(first) == read_meaning(again)
    assert (first.status, again.status, ran) == (200, 200, ["tea"])
    assert (is_replayed(first), is_replayed(again)) == (False, True)


CONFLICTS = {"rfc": 400, "oxp": 400, "uts": 400, "opentool": 200, "openapi": 409, "mcp": 200}


@pytest.mark.requirement("A-42", "OB-2")
@pytest.mark.parametrize("wire", WIRES)
def test_different_body_under_one_key_is_refused_without_running(wire: str) -> None:
    kit, ran = shop()
    app = asgi(kit)
    _, other, again = talk(app, *(build_keyed_request(wire, "buy", what, "k1") for what in ("tea", "milk", "tea")))
    assert (other.status, ran, is_replayed(other), is_replayed(again)) == (CONFLICTS[wire], ["tea"], False, True)
    if wire in ("opentool", "mcp"):
        assert json.loads(other.body)["error"]["code"] == -32602
    assert b"This idempotency key was already used" in other.body


@pytest.mark.requirement("A-42", "OB-2")
def test_idempotency_key_is_scoped_to_caller_and_tool() -> None:
    kit, ran = shop()
    app = asgi(kit, api_keys=["one", "two"])

    def of(key: str, tool: str = "buy") -> Request:
        return request("rfc", tool, "tea", "k1", (b"x-api-key", key.encode()))

    answers = talk(app, of("one"), of("two"), of("one", "fail"), of("one"), of("two"))
    assert [is_replayed(answer) for answer in answers] == [False, False, False, True, True]
    assert len(ran) == 3


@pytest.mark.requirement("OTC-019", "OTC-024")
@pytest.mark.parametrize("wire", WIRES)
def test_a_call_without_a_key_runs_each_time(wire: str) -> None:
    kit, ran = shop()
    first, again = talk(asgi(kit), *[request(wire, "buy", "tea")] * 2)
    assert (len(ran), is_replayed(first), is_replayed(again)) == (2, False, False)
    if wire == "rfc":
        assert json.loads(first.body)["call_id"] != json.loads(again.body)["call_id"]


@pytest.mark.requirement("A-15")
def test_the_id_of_a_jsonrpc_message_is_no_key() -> None:
    kit, ran = shop()
    talk(asgi(kit), *[request("opentool", "buy", "tea")] * 2, *[request("mcp", "buy", "tea")] * 2)
    assert len(ran) == 4


@pytest.mark.requirement("A-42", "OB-2")
def test_failure_is_recorded_unless_the_tool_marks_it_retryable() -> None:
    kit, ran = shop()
    app = asgi(kit)
    final = talk(app, *[request("rfc", "fail", "now", "k1")] * 2)
    later = talk(app, *[request("rfc", "fail", "later", "k2")] * 3)
    assert [is_replayed(answer) for answer in (*final, *later)] == [False, True, False, False, False]
    assert ran == ["now", "later", "later", "later"]


@pytest.mark.requirement("A-42", "A-41", "OB-2")
def test_call_refused_before_running_is_not_recorded() -> None:
    kit, ran = shop()
    app = asgi(kit, api_keys=["one"])
    with_key = (b"x-api-key", b"one")
    wrong = Request("POST", f"{HERE}/call", (JSON, with_key), b'{"request":{"tool_id":"Shop.buy","call_id":"k"}}')
    answers = talk(app, wrong, request("rfc", "buy", "tea", "k"), request("rfc", "buy", "tea", "k", with_key))
    busy = asgi(kit, limits=ServerLimits(running=0))
    answers += talk(busy, request("rfc", "buy", "tea", "k"))
    assert [answer.status for answer in answers] == [422, 401, 200, 503]
    assert (ran, any(map(is_replayed, answers))) == (["tea"], False)


@pytest.mark.requirement("A-42", "OB-2")
@pytest.mark.parametrize("key", [b"", b'""', b"a" * 256, b"two words", b"caf\xc3\xa9", b'"half'])
@pytest.mark.parametrize("wire", WIRES)
def test_invalid_idempotency_key_is_refused(wire: str, key: bytes) -> None:
    kit, ran = shop()
    (answer,) = talk(asgi(kit), request(wire, "buy", "tea", "", (b"idempotency-key", key)))
    assert (answer.status, ran) == (400, [])
    assert b"1 to 255 ASCII characters" in answer.body


@pytest.mark.requirement("A-42")
def test_idempotency_header_works_in_every_protocol_after_the_protocol_id() -> None:
    kit, ran = shop()
    app = asgi(kit)
    header = (b"idempotency-key", b'"k1"')
    wires = talk(app, *(request(wire, "buy", "tea", "", header) for wire in WIRES))
    own = talk(app, request("rfc", "buy", "tea", "mine", header), build_keyed_request("openapi", "buy", "tea", "k1"))
    assert [is_replayed(answer) for answer in wires] == [False, True, True, True, True, True]
    assert [is_replayed(answer) for answer in own] == [False, True]
    assert len(ran) == 2


@pytest.mark.requirement("A-42")
def test_replayed_stream_has_the_same_pieces() -> None:
    kit, ran = shop()
    app = asgi(kit)
    call = request("opentool", "scan", "all", "", (b"idempotency-key", b"s1"))
    first, again = talk(app, *[call._replace(url=f"{HERE}/opentool/streamCall")] * 2)
    assert first.body == again.body
    assert first.body.count(b"event:data") + first.body.count(b"event: data") == 2
    assert ran == ["all"]


def test_tool_sees_the_idempotency_key_as_its_call_id() -> None:
    kit = Toolkit("Kit")

    @kit.tool(safe=False)
    async def mine(context: Context) -> str:
        return context.call_id

    app = asgi(kit)
    post = Request("POST", f"{HERE}/api/mine", ((b"idempotency-key", b"mine-1"),))
    (answer,) = talk(app, post)
    assert json.loads(answer.body) == "mine-1"


# The step itself, with ledgers and tools that do as they are told

WRITES = Tool(name="write", toolkit="Kit")
READS = Tool(name="read", toolkit="Kit", safe=True)


class Unwritable:
    """A ledger on a disk that is full."""

    async def claim(self, claim: Claim) -> ClaimOutcome:
        return FULL

    async def settle(self, ticket: Ticket, ending: CallEnding | None) -> None:
        raise AssertionError("nothing was claimed")


class Busy:
    """A ledger in which another process runs every call, for ever."""

    def __init__(self) -> None:
        self.waited: list[int] = []

    async def claim(self, claim: Claim) -> ClaimOutcome:
        self.waited.append(claim.awaited_attempt)
        return InFlight(3)

    async def settle(self, ticket: Ticket, ending: CallEnding | None) -> None:
        raise AssertionError("nothing was claimed")


async def one(call: Call, notify: Notify) -> Result:
    return Value(1)


@pytest.mark.requirement("R13")
def test_only_safe_tools_run_if_the_ledger_cannot_be_written() -> None:
    once = IdempotencyRunner(Unwritable(), Unwritable(), wait_s=1)
    written = asyncio.run(once.run(Call(WRITES, {}, "k", ANONYMOUS, "k"), ignore_progress, one))
    read = asyncio.run(once.run(Call(READS, {}, "k", ANONYMOUS, "k"), ignore_progress, one))
    assert isinstance(written, Problem)
    assert (written.kind, written.can_retry, read) == (Kind.OVERLOADED, True, Value(1))


@pytest.mark.requirement("A-42", "OB-2")
def test_repeated_call_waits_a_limited_time_for_the_first() -> None:
    paused: list[float] = []
    busy = Busy()

    async def pause(seconds: float) -> None:
        paused.append(seconds)

    once = IdempotencyRunner(busy, busy, wait_s=2.0, pause=pause)
    answer = asyncio.run(once.run(Call(WRITES, {}, "k", ANONYMOUS, "k"), ignore_progress, one))
    assert isinstance(answer, Problem)
    assert (answer.kind, answer.can_retry, answer.retry_after_ms) == (Kind.OVERLOADED, True, 1_000)
    assert 2.0 <= sum(paused) < 2.2
    assert busy.waited == [0] + [3] * len(paused)


@pytest.mark.requirement("A-42", "OTC-019")
@pytest.mark.parametrize("can_retry", [False, True])
def test_all_concurrent_repeats_receive_the_result_of_the_first(can_retry: bool) -> None:
    async def story() -> tuple[list[Result], int]:
        ran, go = 0, asyncio.Event()

        async def slow(call: Call, notify: Notify) -> Result:
            nonlocal ran
            ran += 1
            await go.wait()
            return Problem(kind=Kind.TOOL_FAILED, message="No.", can_retry=can_retry)

        once = IdempotencyRunner(MemoryLedger(), MemoryLedger(), wait_s=10, pause=lambda _: asyncio.sleep(0))
        call = Call(WRITES, {}, "k", ANONYMOUS, "k")
        tasks = [asyncio.create_task(once.run(call, ignore_progress, slow)) for _ in range(5)]
        for _ in range(10):
            await asyncio.sleep(0)
        go.set()
        return await asyncio.gather(*tasks), ran

    results, ran = asyncio.run(story())
    assert ran == 1
    assert {(result.kind, result.message) for result in results if isinstance(result, Problem)} == {
        (Kind.TOOL_FAILED, "No.")
    }


@pytest.mark.requirement("A-42")
@pytest.mark.parametrize("idempotent", [False, True])
def test_cancelled_call_runs_again_only_if_idempotent(idempotent: bool) -> None:
    async def story() -> Result:
        once = IdempotencyRunner(MemoryLedger(), MemoryLedger(), wait_s=1)
        call = Call(Tool(name="slow", toolkit="Kit", idempotent=idempotent), {}, "k", ANONYMOUS, "k")

        async def slow(call: Call, notify: Notify) -> Result:
            return await asyncio.Future()

        task = asyncio.create_task(once.run(call, ignore_progress, slow))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return await once.run(call, ignore_progress, one)

    answer = asyncio.run(story())
    if idempotent:
        assert answer == Value(1)
    else:
        assert isinstance(answer, Problem)
        assert (answer.kind, answer.can_retry) == (Kind.CANCELLED, False)
        assert "unknown" in answer.message


@pytest.mark.requirement("A-42", "D-26")
def test_fingerprint_covers_tool_and_arguments_but_no_secret() -> None:
    claims: list[Claim] = []

    class Noting(MemoryLedger):
        async def claim(self, claim: Claim) -> ClaimOutcome:
            claims.append(claim)
            return await super().claim(claim)

    once = IdempotencyRunner(Noting(), Noting(), wait_s=1.0)

    def of(tool: Tool = WRITES, context: Context = ANONYMOUS, **arguments: Any) -> bytes:
        asyncio.run(once.run(Call(tool, arguments, context=context, key="k"), ignore_progress, one))
        return claims[-1].fingerprint

    same = of(a=1, b=2)
    assert of(b=2, a=1) == same
    assert of(context=Context(tokens={"g": Secret("t")}, secrets={"s": Secret("s")}), a=1, b=2) == same
    others = [
        of(a=1, b=3),
        of(Tool(name="write", toolkit="Kit", version="2.0.0"), a=1, b=2),
        of(context=Context(user_id="ada"), a=1, b=2),
        of(a=10**30, b="\ud800"),
    ]
    assert len({same, *others}) == 5


@pytest.mark.requirement("AT-58", "TE-02", "OTC-019")
@pytest.mark.parametrize("wire", WIRES)
def test_call_that_comes_again_at_any_await_of_the_first_runs_once(wire: str) -> None:
    kit, ran = shop()
    app, number = asgi(kit), 0
    again: list[Response | Problem] = []

    def make() -> Any:
        nonlocal number
        number += 1
        ran.clear()
        again.clear()
        keyed = build_keyed_request(wire, "buy", "tea", f"k{number}")

        async def repeat() -> None:
            again.append(await answer_request(app, keyed))

        return answer_request(app, keyed), repeat

    def check(first: Response) -> None:
        assert ran == ["tea"]
        for second in again:
            assert isinstance(second, Response)
            # It comes before the first call has ended, so that it waits, or is told that the first one runs.
            assert second.status == 409 or read_meaning(second) == read_meaning(first) or b"running" in second.body

    asyncio.run(interrupt_each_await(make, check))
    assert number > 1
