"""A server that does not answer is not asked for a while: calls fail at once, and the server is tried again by one."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator

import pytest
from opentelemetry import metrics
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from uvicorn import Config

from tests.client.faulty_proxy import start_proxy, swallow
from tests.programs import find_free_port
from tests.support.clock import Clock
from tests.support.waiting import wait_until
from toolwire import Problem, Toolkit, Value, asgi, connect, connect_sync
from toolwire.client.transport.circuit_breaker import CALLER, CircuitBreaker
from toolwire.client.transport.failures import bad_response, forbidden_target, timeout, unreachable
from toolwire.client.transport.limits import TransportLimits
from toolwire.client.transport.network import SyncNetwork
from toolwire.core.http import Request, Response
from toolwire.core.model import Kind
from toolwire.server.http.prompt_server import PromptServer
from toolwire.telemetry import names
from toolwire.testing.loopback import background

pytestmark = pytest.mark.requirement("R12")
SITE = "https://shop.example"
LOST = timeout(SITE, sent=True)
FINE = Response(200, (), b"")


@pytest.fixture
def clock() -> Clock:
    return Clock(100.0)


@pytest.fixture
def breaker(clock: Clock) -> CircuitBreaker:
    return CircuitBreaker(3, clock)


def test_breaker_opens_after_consecutive_failures_and_admits_one_trial(breaker: CircuitBreaker, clock: Clock) -> None:
    for _ in range(3):
        assert breaker.refuse(SITE) is None
        breaker.record(SITE, LOST)
    problem = breaker.refuse(SITE)
    assert problem is not None
    assert (problem.kind, problem.can_retry, problem.retry_after_ms) == (Kind.UNREACHABLE, True, 5_000)
    assert problem.message == f"{SITE} failed 3 times in a row. It is called again in 5 s; nothing was sent."
    assert problem.details == {"reason": "breaker", "breaker_of": "all", "sent": False}
    clock.now += 5
    assert [breaker.refuse(SITE) is None for _ in range(3)] == [True, False, False]
    breaker.record(SITE, FINE)
    assert [breaker.refuse(SITE) is None for _ in range(3)] == [True, True, True]


def test_each_failed_trial_doubles_the_pause_up_to_a_minute(breaker: CircuitBreaker, clock: Clock) -> None:
    for _ in range(3):
        breaker.record(SITE, LOST)
    for pause in (5, 10, 20, 40, 60, 60):
        breaker.record(SITE, LOST)  # one that was sent before it opened
        clock.now += pause - 0.5
        assert breaker.refuse(SITE) is not None
        clock.now += 0.5
        assert breaker.refuse(SITE) is None
        breaker.record(SITE, LOST)


def test_abandoned_trial_is_followed_by_another(breaker: CircuitBreaker, clock: Clock) -> None:
    for _ in range(3):
        breaker.record(SITE, LOST)
    for _ in range(3):
        clock.now += 5
        assert breaker.refuse(SITE) is None  # and then its caller leaves
        assert breaker.refuse(SITE) is not None


@pytest.mark.parametrize(
    ("outcome", "counts"),
    [
        (LOST, True),
        (unreachable("It is gone.", "refused", sent=False), True),
        (unreachable("It closed.", "closed", sent=True), True),
        (bad_response("It is no HTTP.", "not_http"), True),
        (bad_response("It is too large.", "too_large"), False),
        (forbidden_target("It is private."), False),
        (Response(500, (), b""), False),
    ],
)
def test_only_an_unresponsive_server_counts_as_a_failure(
    breaker: CircuitBreaker, outcome: Response | Problem, counts: bool
) -> None:
    for _ in range(6):
        breaker.record(SITE, outcome)
    assert (breaker.refuse(SITE) is not None) is counts
    assert breaker.refuse("https://other.example") is None


def test_failures_that_are_not_consecutive_keep_the_breaker_closed(breaker: CircuitBreaker) -> None:
    for _ in range(10):
        breaker.record(SITE, LOST)
        breaker.record(SITE, LOST)
        breaker.record(SITE, FINE)
    assert breaker.refuse(SITE) is None


def record(breaker: CircuitBreaker, caller: str, outcome: Response | Problem) -> None:
    """Record an outcome of a request that was sent for ``caller``."""
    token = CALLER.set(caller)
    breaker.record(SITE, outcome)
    CALLER.reset(token)


def is_refused(breaker: CircuitBreaker, caller: str) -> bool:
    token = CALLER.set(caller)
    try:
        return breaker.refuse(SITE) is not None
    finally:
        CALLER.reset(token)


def test_requests_of_one_caller_that_get_no_answer_stop_this_caller_alone(
    breaker: CircuitBreaker, clock: Clock
) -> None:
    for _ in range(20):
        record(breaker, "mallory", LOST)
    assert is_refused(breaker, "mallory")
    assert not is_refused(breaker, "ann")
    clock.now += 5
    assert not is_refused(breaker, "mallory")  # the trial of this caller
    record(breaker, "mallory", LOST)
    clock.now += 9
    assert is_refused(breaker, "mallory")
    record(breaker, "ann", FINE)
    assert not is_refused(breaker, "mallory")


def test_requests_of_two_callers_that_get_no_answer_stop_all(breaker: CircuitBreaker) -> None:
    for _ in range(3):
        record(breaker, "mallory", LOST)
    record(breaker, "ann", LOST)
    assert is_refused(breaker, "bob")


def test_server_that_takes_no_connection_is_asked_by_no_caller(breaker: CircuitBreaker) -> None:
    for _ in range(3):
        record(breaker, "ann", unreachable("It is gone.", "refused", sent=False))
    assert is_refused(breaker, "bob")


def kit() -> Toolkit:
    kit = Toolkit("Shop")

    @kit.tool(approval="auto", safe=True)
    def greet(name: str) -> str:
        """Greet somebody."""
        return f"Hello, {name}."

    return kit


@pytest.fixture
def gauges() -> Iterator[Callable[[], list[tuple[str, int]]]]:
    """The values of the gauge by origin."""
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader])
    patch = pytest.MonkeyPatch()
    patch.setattr(metrics, "get_meter_provider", lambda: provider)

    def read() -> list[tuple[str, int]]:
        data = reader.get_metrics_data()
        found = [] if data is None else [m for r in data.resource_metrics for s in r.scope_metrics for m in s.metrics]
        points = [point for one in found if one.name == names.BREAKER_STATE for point in one.data.data_points]
        return [(str((point.attributes or {})[names.UPSTREAM]), int(point.value)) for point in points]

    yield read
    patch.undo()
    provider.shutdown()


@pytest.mark.parametrize("protocol", ["openapi", "opentool", "otc", "mcp"])
def test_calls_to_a_hanging_server_fail_at_once_without_sending(
    protocol: str, gauges: Callable[[], list[tuple[str, int]]]
) -> None:
    async def story(upstream: str) -> None:
        async with start_proxy(upstream) as (url, proxy):
            async with connect(url, protocol=protocol, timeout_s=0.1, retries=0, approve=lambda _: True) as remote:
                assert await remote.call("greet", {"name": "Ada"}) == Value("Hello, Ada.")
                proxy.fault = swallow
                for _ in range(5):
                    found = await remote.call("greet", {"name": "Ada"})
                    assert isinstance(found, Problem)
                    assert found.details["reason"] == "timeout"
                asked = proxy.asked
                for _ in range(3):
                    found = await remote.call("greet", {"name": "Ada"})
                    assert isinstance(found, Problem)
                    assert (found.kind, found.details["reason"]) == (Kind.UNREACHABLE, "breaker")
                    assert "failed 5 times in a row" in found.message
                assert proxy.asked == asked, "nothing was sent"
                assert gauges() == [(url, 1)]
            await proxy.end()

    with background(asgi(kit())) as upstream:
        asyncio.run(story(upstream))


def test_blocking_client_has_a_circuit_breaker() -> None:
    with background(asgi(kit())) as url:
        pending = connect_sync(url, protocol="otc", timeout_s=5, retries=0, approve=lambda _: True)
        remote = pending.__enter__()
    found = [remote.call("greet", {"name": "Ada"}) for _ in range(7)]  # the server has stopped
    pending.__exit__(None, None, None)
    reasons = [one.details["reason"] for one in found if isinstance(one, Problem)]
    assert len(reasons) == 7
    assert (reasons[4] != "breaker", reasons[5:]) == (True, ["breaker"] * 2)


def test_recovered_server_is_used_again(clock: Clock) -> None:
    port = find_free_port()
    network = SyncNetwork(limits=TransportLimits(breaker_failures=2), clock=clock)
    request = Request("GET", f"http://127.0.0.1:{port}/health")
    found = [network.send(request) for _ in range(3)]
    assert [one.details["reason"] for one in found if isinstance(one, Problem)] == ["refused", "refused", "breaker"]
    server = PromptServer(Config(asgi(kit()), port=port, log_config=None, timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    wait_until(lambda: server.started)
    assert isinstance(network.send(request), Problem)
    clock.now += 5
    assert isinstance(network.send(request), Response)
    assert isinstance(network.send(request), Response)
    network.close()
    server.should_exit = True
    thread.join(10)
