"""Long calls of our own server over each protocol: waited for, started, read elsewhere, cancelled, asked about."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.long_work import Work
from toolwire import (
    Kind,
    LongCallState,
    Problem,
    Progress,
    Question,
    Value,
    connect,
    connect_sync,
)
from toolwire.client.connection.handle import SyncHandle
from toolwire.core.model import Secret
from toolwire.server.access.api_keys import ApiKey
from toolwire.testing.loopback import background

PROTOCOLS = ["openapi", "otc", "opentool", "mcp"]
KEYS = tuple(ApiKey(key=Secret(f"{name}-key-of-a-caller"), name=name) for name in ("ada", "bob"))


@pytest.fixture
def work() -> Work:
    return Work()


@pytest.fixture
def url(work: Work) -> Iterator[str]:
    with background(work.serve(api_keys=KEYS)) as found:
        yield found


def open_remote(url: str, protocol: str = "openapi", *, key: str = "ada", **options: Any) -> Any:
    options = {"approve": lambda _: True, "agree": lambda _: True, **options}
    return connect_sync(url, protocol=protocol, api_key=f"{key}-key-of-a-caller", **options)


@pytest.fixture(params=PROTOCOLS)
def protocol(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.requirement("LC-05", "LC-02")
def test_call_of_a_long_tool_is_its_result_and_shows_progress(work: Work, url: str, protocol: str) -> None:
    received: list[Any] = []

    def hear(progress: Progress) -> None:
        received.append(progress.value)
        work.gate.set()

    asked: list[Question] = []

    def approve(question: Question) -> bool:
        asked.append(question)
        return True

    with open_remote(url, protocol, approve=approve) as remote:
        assert remote.call("add", {"a": 1, "b": 2}) == Value(3)
        assert remote.call("build", {"rows": 3}, notify=hear) == Value({"rows": 3})
    assert received
    assert received[0]["message"] == "reading"
    assert len(asked) == 1
    assert work.did == ["began", "ended"]


@pytest.mark.requirement("LC-05", "LC-02")
@pytest.mark.parametrize("elsewhere", PROTOCOLS)
def test_call_started_over_one_protocol_is_read_over_another(
    work: Work, url: str, protocol: str, elsewhere: str
) -> None:
    with open_remote(url, protocol) as remote:
        handle = remote.start("build", {"rows": 3})
        assert isinstance(handle, SyncHandle), handle
        call_id = handle.id
    work.started.wait(10)
    with open_remote(url, elsewhere, approve=None) as remote:
        again = remote.handle(call_id)
        status = again.status()
        assert not isinstance(status, Problem)
        assert (status.id, status.state, status.tool) == (call_id, LongCallState.RUNNING, "Reports.build@1.0.0")
        late = again.result(timeout_s=0.5)
        assert isinstance(late, Problem)
        assert (late.kind, late.details["call"]["id"]) == (Kind.ACCEPTED, call_id)
        work.gate.set()
        assert again.result() == Value({"rows": 3})
        assert [status.state for status in remote.handle(call_id)] == [LongCallState.ENDED]
        page = remote.list_calls()
        assert not isinstance(page, Problem)
        assert [(one.id, one.state) for one in page.calls] == [(call_id, LongCallState.ENDED)]
    assert work.did == ["began", "ended"]


@pytest.mark.requirement("LC-05", "LC-04")
def test_handle_cancels_the_tool(work: Work, url: str, protocol: str) -> None:
    with open_remote(url, protocol) as remote:
        handle = remote.start("build", {"rows": 3})
        assert isinstance(handle, SyncHandle), handle
        work.started.wait(10)
        asked = handle.cancel()
        assert not isinstance(asked, Problem)
        result = handle.result()
        assert isinstance(result, Problem)
        assert result.kind is Kind.CANCELLED
        over = handle.cancel()
        assert not isinstance(over, Problem)
        assert over.state is LongCallState.CANCELLED
    assert work.did == ["began", "cancelled"]


@pytest.mark.requirement("LC-05", "LC-02")
def test_call_of_another_caller_is_not_there(work: Work, url: str, protocol: str) -> None:
    with open_remote(url, protocol) as remote:
        handle = remote.start("build", {"rows": 3})
        assert isinstance(handle, SyncHandle), handle
    with open_remote(url, protocol, key="bob") as other:
        for found in (other.handle(handle.id).status(), other.handle(handle.id).cancel(), other.handle("x").status()):
            assert isinstance(found, Problem)
            assert found.kind is Kind.NOT_FOUND
        assert other.list_calls() == ((), "")
    work.gate.set()


@pytest.mark.requirement("LC-05")
def test_denied_or_limited_call_is_not_started(work: Work, url: str, protocol: str) -> None:
    with open_remote(url, protocol, approve=lambda _: False) as remote:
        refused = remote.start("build", {"rows": 3})
        assert isinstance(refused, Problem)
        assert refused.kind is Kind.DENIED
        wrong = remote.start("build", {"rows": "many"})
        assert isinstance(wrong, Problem)
        assert wrong.kind is Kind.INVALID_ARGUMENTS
    assert work.did == []


@pytest.mark.requirement("LC-05")
def test_several_calls_can_be_started_at_once(work: Work, url: str, protocol: str) -> None:
    with open_remote(url, protocol) as remote:
        handles = [remote.start("build", {"rows": number}) for number in range(3)]
        assert all(isinstance(one, SyncHandle) for one in handles), handles
        work.gate.set()
        assert [one.result() for one in handles] == [Value({"rows": number}) for number in range(3)]
        assert len({one.id for one in handles}) == 3


@pytest.mark.requirement("LC-05")
def test_asynchronous_handles_wait_beside_each_other(work: Work, url: str, protocol: str) -> None:
    async def talk() -> list[Any]:
        key = {"api_key": "ada-key-of-a-caller", "approve": lambda _: True}
        async with connect(url, protocol=protocol, **key) as remote:
            first, second = [await remote.start("build", {"rows": number}) for number in (1, 2)]
            waiting = [asyncio.ensure_future(one.result()) for one in (first, second)]
            work.gate.set()
            results = await asyncio.gather(*waiting)
            states = [status.state.value async for status in remote.handle(first.id)]
            return [*results, states]

    assert asyncio.run(talk()) == [Value({"rows": 1}), Value({"rows": 2}), ["ended"]]


@pytest.mark.requirement("LC-05", "LC-03")
def test_question_of_a_long_call_reaches_the_user_of_the_client_that_waits(url: str, protocol: str) -> None:
    asked: list[tuple[str, str]] = []

    def provide(request: Any) -> dict[str, int]:
        asked.append((request.message, request.tool))
        return {"size": 3}

    with open_remote(url, "mcp", provide_input=lambda _: None) as remote:
        handle = remote.start("choose")
        assert isinstance(handle, SyncHandle), handle
    with open_remote(url, protocol) as remote:
        waiting = remote.handle(handle.id).result(timeout_s=3.0)
        assert isinstance(waiting, Problem), waiting
        assert waiting.details["call"]["state"] == "waiting"
    with open_remote(url, protocol, provide_input=provide) as remote:
        assert remote.handle(handle.id).result() == Value("size 3")
    assert asked == [("How large?", "choose")]
