"""Upstreams of a gateway fail apart: one that hangs, floods or lies costs the others nothing; health tells of it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx2
import pytest

from tests.support.upstreams import connect_without_user
from toolwire import ClientRateLimits, Kind, Problem, ServerLimits, Toolkit, Value, asgi, connect_sync, merge_toolboxes
from toolwire.client.calls.session import Session
from toolwire.core.model import RateLimit, Secret
from toolwire.core.toolbox import Toolbox
from toolwire.gateway import CallerConsent, UpstreamLimits
from toolwire.server.access.api_keys import ApiKey
from toolwire.testing import background

ANN = ApiKey(key=Secret("key-of-ann"), name="ann", scopes=frozenset({"good"}))
BOB = ApiKey(key=Secret("key-of-bob"), name="bob")
TIMEOUT_S = 1.0


def build_good() -> Toolkit:
    kit = Toolkit("Good")

    @kit.tool(safe=True, approval="auto")
    def double(number: int) -> int:
        """Double a number."""
        return 2 * number

    return kit


class HostileServer(ThreadingHTTPServer):
    """A server whose document names one tool, ``hang``, ``flood`` or ``lie``, whose calls do that."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, name: str) -> None:
        super().__init__(("127.0.0.1", 0), HostileHandler)
        self.name = name
        self.asked = 0
        self.running = self.most_running = 0
        self.lock = threading.Lock()
        self.done = threading.Event()
        schema = {"type": "object", "properties": {"sum": {"type": "integer"}}, "required": ["sum"]}
        answer = {"description": "done", "content": {"application/json": {"schema": schema}}}
        operation = {"operationId": name, "x-llm": {"approval": "auto"}, "responses": {"200": answer}}
        info = {"title": name, "version": "1.0.0"}
        self.document = json.dumps({"openapi": "3.1.0", "info": info, "paths": {f"/{name}": {"get": operation}}})


class HostileHandler(BaseHTTPRequestHandler):
    server: HostileServer

    def do_GET(self) -> None:
        is_call = self.path == f"/{self.server.name}"
        self.send_response(200 if is_call or self.path == "/openapi.json" else 404)
        self.send_header("content-type", "application/json")
        self.send_header("connection", "close")
        if is_call and self.server.name == "lie":
            self.send_header("content-length", "1000")  # far more than comes
        self.end_headers()
        if not is_call:
            self.wfile.write(self.server.document.encode())
            return
        self.server.asked += 1
        with self.server.lock:
            self.server.running += 1
            self.server.most_running = max(self.server.most_running, self.server.running)
        if self.server.name == "hang":
            # A client that has left is noticed here by the end of its connection, as by any server.
            self.connection.settimeout(0.02)
            while not self.server.done.is_set() and self._is_waited_for():
                pass
        with self.server.lock:
            self.server.running -= 1
        while self.server.name == "flood" and not self.server.done.is_set():
            try:
                self.wfile.write(b" " * 65_536)
            except OSError:
                return
        self.wfile.write(b'{"sum": "no number"')

    def _is_waited_for(self) -> bool:
        try:
            return self.connection.recv(1) != b""
        except TimeoutError:
            return True
        except OSError:
            return False

    def log_message(self, *_: Any) -> None:
        """Write no line for a request."""


@contextmanager
def serve_hostile(name: str) -> Iterator[tuple[HostileServer, str]]:
    with HostileServer(name) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield server, f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.done.set()
            server.shutdown()
            thread.join()


def open_site(url: str) -> Toolbox:
    return connect_without_user(
        url,
        Session(limits=ClientRateLimits(tool=None, connection=None)),
        approve=CallerConsent(),
        agree=lambda _: True,
        timeout_s=TIMEOUT_S,
        retries=0,
    )


@contextmanager
def serve_gateway(hostile: str, limits: UpstreamLimits) -> Iterator[tuple[str, HostileServer]]:
    """Serve a gateway to a good upstream and to a hostile one with ``limits``."""
    with ExitStack() as opened:
        good = opened.enter_context(background(asgi(build_good())))
        server, bad = opened.enter_context(serve_hostile(hostile))
        merged = merge_toolboxes(
            [open_site(good), open_site(f"{bad}/openapi.json")],
            names={0: "good", 1: "bad"},
            scopes={0: ["good"], 1: ["bad"]},
            limits={0: UpstreamLimits(), 1: limits},
        )
        yield opened.enter_context(background(asgi(merged, api_keys=["key-of-all", ANN, BOB]))), server


def call(url: str, tool: str, *, key: str = "key-of-all", **arguments: Any) -> Any:
    with connect_sync(url, protocol="otc", api_key=key, agree=lambda _: True, retries=0) as remote:
        return remote.call(tool, arguments)


def fetch_health(url: str, key: str = "key-of-all") -> Any:
    return httpx2.get(f"{url}/health?full", headers={"x-api-key": key} if key else {})


@pytest.mark.requirement("GW-05")
def test_hung_upstream_takes_only_its_own_places_and_is_paused_by_its_breaker() -> None:
    with serve_gateway("hang", UpstreamLimits(running=2)) as (url, server):
        results: list[Any] = []
        callers = [threading.Thread(target=lambda: results.append(call(url, "hang"))) for _ in range(6)]
        for caller in callers:
            caller.start()
        assert [call(url, "double", number=number) for number in range(20)] == [Value(2 * n) for n in range(20)]
        for caller in callers:
            caller.join()
        kinds = [result.kind for result in results if isinstance(result, Problem)]
        assert len(kinds) == 6
        assert set(kinds) <= {Kind.TOOL_FAILED, Kind.TIMEOUT, Kind.OVERLOADED}
        while "your last 5 calls" not in (refused := call(url, "hang")).message:
            assert isinstance(refused, Problem)
        while "times in a row" not in (refused := call(url, "hang", key="key-of-bob")).message:
            assert isinstance(refused, Problem)  # only now it is not what one caller sends
        before = server.asked
        assert isinstance(call(url, "hang"), Problem)
        assert server.asked == before  # nothing is sent while the breaker is open
        good, bad = fetch_health(url).json()["upstreams"]
        assert (good["name"], good["state"], good["calls"], good["failures"]) == ("good", "ok", 20, 0)
        assert (bad["name"], bad["state"]) == ("bad", "paused")
        assert bad["failures_in_row"] >= 5
        assert "did not answer" in bad["last_failure"] or "time" in bad["last_failure"]
        assert call(url, "double", number=4) == Value(8)


@pytest.mark.requirement("GW-05", "D-34", "R12")
def test_caller_whose_calls_get_no_answer_leaves_the_upstream_to_the_others() -> None:
    kit = build_good()
    released = threading.Event()

    @kit.tool(safe=True, approval="auto")
    def nap() -> None:
        """Do nothing for longer than anybody waits."""
        released.wait()

    with background(asgi(kit, limits=ServerLimits(threads=20))) as site:
        merged = merge_toolboxes([open_site(site)], limits={0: UpstreamLimits(running=8)})
        with background(asgi(merged, api_keys=["key-of-all", BOB])) as url:
            try:
                for _ in range(5):
                    assert isinstance(call(url, "nap"), Problem)
                assert "your last 5 calls" in call(url, "double", number=1).message
                assert call(url, "double", key="key-of-bob", number=21) == Value(42)
                assert fetch_health(url).json()["upstreams"][0]["state"] == "ok"
                # The answer to the other caller has ended the row: six of the eight places are for one caller.
                outcomes: list[Any] = []
                callers = [threading.Thread(target=lambda: outcomes.append(call(url, "nap"))) for _ in range(12)]
                for caller in callers:
                    caller.start()
                while all("of your calls are already running at" not in outcome.message for outcome in outcomes):
                    assert call(url, "double", key="key-of-bob", number=21) == Value(42)
                for caller in callers:
                    caller.join()
            finally:
                released.set()


@pytest.mark.requirement("GW-01", "GW-05")
def test_upstream_runs_no_more_calls_at_a_time_than_its_limit() -> None:
    with serve_gateway("hang", UpstreamLimits(running=2)) as (url, server):
        results: list[Any] = []
        start = threading.Barrier(6)

        def run() -> None:
            with connect_sync(url, protocol="otc", api_key="key-of-all", agree=lambda _: True, retries=0) as remote:
                start.wait()
                results.append(remote.call("hang"))

        callers = [threading.Thread(target=run) for _ in range(6)]
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join()
        assert server.most_running <= 2
        refused = [one for one in results if isinstance(one, Problem) and one.kind is Kind.OVERLOADED]
        assert refused
        assert all(one.can_retry and "is already running its maximum of 2 calls" in one.message for one in refused)


@pytest.mark.requirement("GW-05")
@pytest.mark.parametrize("hostile", ["flood", "lie"])
def test_upstream_that_floods_or_lies_is_failing_and_the_others_answer(hostile: str) -> None:
    with serve_gateway(hostile, UpstreamLimits(running=4)) as (url, _):
        refused = call(url, hostile)
        assert isinstance(refused, Problem)
        assert refused.kind in (Kind.TOOL_FAILED, Kind.UNREACHABLE, Kind.TIMEOUT)
        assert call(url, "double", number=21) == Value(42)
        report = fetch_health(url).json()
        good, bad = report["upstreams"]
        assert (report["status"], good["state"], bad["state"]) == ("DEGRADED", "ok", "failing")
        assert (bad["failures"], bad["running"], bool(bad["last_failure"])) == (1, 0, True)


@pytest.mark.requirement("GW-05")
def test_health_of_upstreams_is_shown_to_known_callers_each_of_their_own() -> None:
    with serve_gateway("lie", UpstreamLimits()) as (url, _):
        assert (httpx2.get(f"{url}/health").status_code, fetch_health(url, "").status_code) == (200, 401)
        assert "www-authenticate" in fetch_health(url, "wrong").headers
        assert [one["name"] for one in fetch_health(url).json()["upstreams"]] == ["good", "bad"]
        of_ann = fetch_health(url, "key-of-ann")
        assert [one["name"] for one in of_ann.json()["upstreams"]] == ["good"]
        assert of_ann.json()["tools"] == 1
        assert (of_ann.json()["status"], of_ann.headers["cache-control"]) == ("OK", "private")


@pytest.mark.requirement("GW-01")
def test_rate_of_an_upstream_holds_without_a_shared_store() -> None:
    with serve_gateway("lie", UpstreamLimits(rate=RateLimit(max=1, window="1h"))) as (url, server):
        assert isinstance(call(url, "lie"), Problem)
        refused = call(url, "lie")
        assert isinstance(refused, Problem)
        assert (refused.kind, server.asked) == (Kind.RATE_LIMITED, 1)
