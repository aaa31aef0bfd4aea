"""What was found on one protocol is served again on another, for every pair."""

import asyncio
from collections.abc import Mapping

import pytest

from tests.support.conformance import build_kit
from tests.support.wire import HERE, AppTransport
from toolwire import Preferences, Toolbox, asgi
from toolwire.client.calls.retry import RetryLimits
from toolwire.client.connection.connection import open_connection
from toolwire.client.connection.remote import Remote
from toolwire.client.discovery.discover import discover
from toolwire.client.transport.drivers import arun
from toolwire.core.codec import Codec
from toolwire.core.model import Json, Kind, Problem, Progress, Result, Value
from toolwire.protocols import BUILTIN
from toolwire.server.run.function_toolbox import FunctionToolbox

CALLS: tuple[tuple[str, Mapping[str, Json], Json], ...] = (
    ("add", {"a": 2, "b": 2**53 + 1}, 2**53 + 3),
    ("greet", {"name": "日本 😀"}, {"greeting": "Hello 日本 😀."}),
    ("echo", {"value": {"a": [None, 1.5, {}]}}, {"a": [None, 1.5, {}]}),
    ("echo", {"value": None}, None),
    ("forget", {}, None),
    ("count", {"to": 3}, [1, 2, 3]),
)

ONCE = RetryLimits(retries=0)
"""A failure is what is looked at here, not what comes of trying again."""


@pytest.fixture(params=BUILTIN, ids=lambda codec: f"found-on-{codec.name}")
def inner(request: pytest.FixtureRequest) -> Codec:
    found: Codec = request.param
    return found


@pytest.fixture(params=BUILTIN, ids=lambda codec: f"served-on-{codec.name}")
def outer(request: pytest.FixtureRequest) -> Codec:
    found: Codec = request.param
    return found


async def open_remote(toolbox: Toolbox, codec: Codec) -> Remote:
    transport = AppTransport(asgi(toolbox))
    found = await arun(discover(HERE, protocol=codec.name), transport, None)
    connection = open_connection(found, Preferences(), retries=ONCE)
    return Remote(connection.agree(connection.pipeline.find_unapproved()), transport, None)


async def gateway(inner: Codec, outer: Codec) -> tuple[Remote, Remote]:
    near = await open_remote(FunctionToolbox(build_kit()), inner)
    return near, await open_remote(near, outer)


def test_remote_is_a_toolbox(inner: Codec) -> None:
    remote = asyncio.run(open_remote(FunctionToolbox(build_kit()), inner))
    assert isinstance(remote, Toolbox)
    assert remote.protocol == inner.name
    assert any(probe.accepted for probe in remote.probes)


def test_gateway_offers_every_tool_with_its_consent_policy(inner: Codec, outer: Codec) -> None:
    near, far = asyncio.run(gateway(inner, outer))
    assert len(far.tools) == len(build_kit().catalog().tools)
    for name, tool in near.catalog().names.items():
        again = far.catalog().names[name]
        assert (again.approval, again.safe, again.destructive) == (tool.approval, tool.safe, tool.destructive)
        assert set(again.parameters) == set(tool.parameters)


def test_calls_go_through_both_protocols(inner: Codec, outer: Codec) -> None:
    async def calls() -> list[Result]:
        _, far = await gateway(inner, outer)
        return [await far.call(name, arguments) for name, arguments, _ in CALLS]

    assert asyncio.run(calls()) == [Value(expected) for _, _, expected in CALLS]


@pytest.mark.requirement("CR-01")
def test_items_of_a_stream_pass_through_if_both_protocols_have_streams(inner: Codec, outer: Codec) -> None:
    received: list[Json] = []

    async def notify(progress: Progress) -> None:
        received.append(progress.value)

    async def count() -> Result:
        _, far = await gateway(inner, outer)
        return await far.call("count", {"to": 3}, notify=notify)

    assert asyncio.run(count()) == Value([1, 2, 3])
    if {inner.name, outer.name} <= {"opentool", "mcp"}:
        assert received == [1, 2, 3]


def test_failure_message_passes_through_both_protocols_unchanged(inner: Codec, outer: Codec) -> None:
    async def fail() -> Result:
        _, far = await gateway(inner, outer)
        return await far.call("refuse")

    problem = asyncio.run(fail())
    assert isinstance(problem, Problem)
    assert problem.kind is Kind.TOOL_FAILED
    assert "The oven is cold." in problem.message


@pytest.mark.requirement("XL-053")
def test_gateway_without_an_approver_denies_with_a_reason(inner: Codec) -> None:
    async def erase() -> Result:
        near = await open_remote(FunctionToolbox(build_kit()), inner)
        return await near.call("erase", {"what": "all"})

    problem = asyncio.run(erase())
    assert isinstance(problem, Problem)
    assert problem.kind is Kind.DENIED
