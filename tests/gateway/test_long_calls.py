"""A gateway passes a long call through: its progress, its result, its cancelling, and none of its upstream's ids."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import httpx2
import pytest

from tests.support.accepted_calls import RUNNING, Site
from tests.support.long_work import Work
from tests.support.upstreams import connect_without_user
from toolwire import (
    Kind,
    LongCallState,
    Problem,
    Progress,
    Question,
    Selection,
    Session,
    Value,
    asgi,
    connect_sync,
    merge_toolboxes,
)
from toolwire.client.connection.handle import SyncHandle
from toolwire.gateway import CallerConsent
from toolwire.testing.loopback import background


@pytest.fixture
def work() -> Work:
    return Work()


@pytest.fixture(params=["openapi", "mcp", "otc"])
def gateway(request: pytest.FixtureRequest, work: Work) -> Iterator[str]:
    """The URL of a gateway to a server with long tools, which it calls over each protocol."""
    with ExitStack() as opened:
        upstream = opened.enter_context(background(work.serve()))
        session = Session(principal="gateway")
        remote = connect_without_user(
            upstream, session, approve=lambda _: True, agree=lambda _: True, protocol=request.param
        )
        yield opened.enter_context(background(asgi(merge_toolboxes([remote]))))


def open_remote(url: str) -> Any:
    return connect_sync(url, protocol="openapi", approve=lambda _: True, agree=lambda _: True)


@pytest.mark.requirement("LC-05", "LC-02")
def test_long_call_through_a_gateway_has_its_progress_and_result(work: Work, gateway: str) -> None:
    received: list[Any] = []

    def hear(progress: Progress) -> None:
        received.append(progress.value)
        work.gate.set()

    with open_remote(gateway) as remote:
        handle = remote.start("build", {"rows": 3})
        assert isinstance(handle, SyncHandle), handle
        assert handle.result(notify=hear) == Value({"rows": 3})
    assert received
    assert received[0]["message"] == "reading"
    assert work.did == ["began", "ended"]


@pytest.mark.requirement("CR-01", "LC-05", "XL-053")
@pytest.mark.parametrize("protocol", ["openapi", "opentool", "otc", "mcp"])
@pytest.mark.parametrize("waits", [False, True])
def test_a_long_call_is_asked_about_before_it_is_accepted_and_runs_once(protocol: str, waits: bool) -> None:
    work, consent, asked = Work(), CallerConsent(), list[str]()
    work.gate.set()

    def approve(question: Question) -> bool:
        asked.append(question.call.tool.name)
        return True

    with ExitStack() as opened:
        upstream = opened.enter_context(background(work.serve()))
        remote = connect_without_user(upstream, Session(principal="gateway"), approve=consent)
        gateway = opened.enter_context(background(asgi(merge_toolboxes([remote]))))
        refused = httpx2.post(f"{gateway}/api/build", json={"rows": 3})  # a client that knows nothing of confirmations
        assert (refused.status_code, work.did) == (428, [])
        caller = opened.enter_context(connect_sync(gateway, protocol=protocol, approve=approve))
        if waits:
            result = caller.call("build", {"rows": 3})
        else:
            handle = caller.start("build", {"rows": 3})
            assert isinstance(handle, SyncHandle), handle
            result = handle.result()
    assert result == Value({"rows": 3})
    # over OTC the client cannot know that the gateway would repeat the call, which is then a reason of its own
    assert (asked, work.did) == (["build"] * (2 if protocol == "otc" else 1), ["began", "ended"])


@pytest.mark.requirement("LC-05", "LC-04")
def test_cancel_at_a_gateway_reaches_the_tool_of_the_upstream(work: Work, gateway: str) -> None:
    with open_remote(gateway) as remote:
        handle = remote.start("build", {"rows": 3})
        assert isinstance(handle, SyncHandle), handle
        assert work.started.wait(10)
        handle.cancel()
        ended = handle.result()
        assert isinstance(ended, Problem)
        assert ended.kind is Kind.CANCELLED
        status = handle.status()
        assert not isinstance(status, Problem)
        assert status.state is LongCallState.CANCELLED
    assert work.cancelled.wait(10)
    assert work.did == ["began", "cancelled"]


@pytest.mark.requirement("LC-05")
def test_call_of_an_upstream_that_goes_on_too_long_is_a_timeout_without_its_id() -> None:
    site = Site(RUNNING)
    with background(site) as url:
        session = Session(principal="gateway")
        selection = Selection(include="all")
        document = f"{url}/openapi.json"
        remote = connect_without_user(document, session, approve=lambda _: True, selection=selection, timeout_s=1.0)
        with background(asgi(merge_toolboxes([remote]))) as gateway, open_remote(gateway) as other:
            ended = other.call("build_report")
    assert isinstance(ended, Problem)
    assert ended.kind is Kind.TIMEOUT
    assert "/jobs/7" not in f"{ended.message}{ended.details}"
