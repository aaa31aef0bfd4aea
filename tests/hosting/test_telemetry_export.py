"""What is measured leaves the process: by OTLP as real protobuf, and as Prometheus text that is a sum over workers."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.programs import find_free_port
from tests.support.waiting import wait_until
from tests.telemetry.sdk import Sdk
from toolwire import Toolkit, asgi
from toolwire.testing.loopback import background

pytestmark = pytest.mark.requirement("PL-04")
KIT = '''
    import os
    from toolwire import Toolkit

    kit = Toolkit("Desk")

    @kit.tool(safe=True, approval="auto")
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    @kit.tool(safe=True, approval="auto")
    def process() -> int:
        """Return the process."""
        return os.getpid()

'''


@pytest.fixture
def kit(tmp_path: Path) -> Path:
    from textwrap import dedent

    file = tmp_path / "desk.py"
    file.write_text(dedent(KIT))
    return file


@contextmanager
def serve(*argv: object, **environment: str) -> Generator[tuple[str, subprocess.Popen[str]]]:
    """Start ``toolwire serve`` and give its URL and its process."""
    with subprocess.Popen(
        [sys.executable, "-m", "toolwire", "serve", "--port", "0", *map(str, argv)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    ) as process:
        try:
            assert process.stdout is not None
            reply = ""
            for line in process.stdout:
                reply += line
                if "Ctrl-C" in line:
                    break
            found = re.search(r"http://\S+", reply)
            assert found is not None, process.stderr.read() if process.stderr else ""
            yield found[0], process
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=60)


class Collector:
    """A receiver of OTLP that decodes what it gets with the classes of OpenTelemetry."""

    def __init__(self) -> None:
        pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason="pip install 'toolwire[metrics]'")
        from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

        self.spans: list[tuple[dict[str, str], Any]] = []
        self.sums: dict[tuple[str, str, tuple[tuple[str, str], ...]], float] = {}
        self.headers: list[str] = []
        self._lock = threading.Lock()
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                if self.headers.get("content-encoding") == "gzip":
                    import gzip

                    body = gzip.decompress(body)
                with collector._lock:
                    collector.headers.append(self.headers.get("x-key", ""))
                    if self.path == "/v1/traces":
                        collector._add_spans(ExportTraceServiceRequest.FromString(body))
                    elif self.path == "/v1/metrics":
                        collector._add_metrics(ExportMetricsServiceRequest.FromString(body))
                self.send_response(200)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def count(self, name: str, **labels: str) -> float:
        """Return the sum of a counter over all instances of the service."""
        wanted = {key.replace("__", "."): text for key, text in labels.items()}
        with self._lock:
            return sum(
                value
                for (_, metric, found), value in self.sums.items()
                if metric == name and wanted.items() <= dict(found).items()
            )

    def _add_spans(self, request: Any) -> None:
        for resource in request.resource_spans:
            known = read_attributes(resource.resource.attributes)
            self.spans += [(known, span) for scope in resource.scope_spans for span in scope.spans]

    def _add_metrics(self, request: Any) -> None:
        for resource in request.resource_metrics:
            instance = read_attributes(resource.resource.attributes)["service.instance.id"]
            for metric in (one for scope in resource.scope_metrics for one in scope.metrics):
                for point in metric.sum.data_points:
                    key = instance, metric.name, tuple(sorted(read_attributes(point.attributes).items()))
                    self.sums[key] = point.as_int or point.as_double
                for point in metric.histogram.data_points:
                    key = instance, metric.name, tuple(sorted(read_attributes(point.attributes).items()))
                    self.sums[key] = point.count


def read_attributes(attributes: Any) -> dict[str, str]:
    return {one.key: str(one.value.string_value or one.value.int_value) for one in attributes}


@pytest.fixture
def collector() -> Iterator[Collector]:
    found = Collector()
    yield found
    found.close()


def call(url: str, tool: str, **arguments: Any) -> httpx2.Response:
    """Call a tool on a connection of its own, so that any worker can get it."""
    return httpx2.get(f"{url}/api/{tool}", params=arguments, timeout=60)


def call_all(url: str) -> Counter[int]:
    """Call a tool until both workers have run it, and return how often each has."""
    found = Counter[int]()
    with ThreadPoolExecutor(8) as pool:
        while len(found) < 2:
            found.update(answer.json() for answer in pool.map(lambda _: call(url, "process"), range(8)))
    return found


@pytest.mark.parametrize("way", ["option", "environment"])
def test_a_collector_gets_spans_and_metrics_of_all_workers(way: str, collector: Collector, kit: Path) -> None:
    given = ["--otlp", collector.url] if way == "option" else []
    environment = {
        "OTEL_METRIC_EXPORT_INTERVAL": "300",
        "OTEL_BSP_SCHEDULE_DELAY": "300",
        "OTEL_EXPORTER_OTLP_HEADERS": "x-key=of-collector",
        **({} if way == "option" else {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url, "OTEL_SERVICE_NAME": "desk"}),
    }
    with serve(kit, *given, "--workers", "2", **environment) as (url, _):
        calls = call_all(url).total()
        assert call(url, "add", a=1, b=2).json() == 3
    # Stopped: what was left has been sent.
    assert collector.count("gen_ai.execute_tool.duration", gen_ai__tool__name="process") == calls
    names = [span.name for _, span in collector.spans]
    assert names.count("execute_tool process") == calls
    assert names.count("execute_tool add") == 1
    assert {known["service.name"] for known, _ in collector.spans} == {"toolwire" if way == "option" else "desk"}
    assert len({known["service.instance.id"] for known, _ in collector.spans}) == 2
    assert set(collector.headers) == {"of-collector"}


def test_figures_of_prometheus_are_sums_that_never_go_back(kit: Path) -> None:
    port = find_free_port()

    def read() -> dict[str, float]:
        text = httpx2.get(f"http://127.0.0.1:{port}/metrics", timeout=60).text
        assert not re.search(r"^# TYPE (\S+) .*^# TYPE \1 ", text, re.M | re.S), "each family is there once"
        lines = [line for line in text.splitlines() if not line.startswith("#")]
        found: dict[str, float] = {}
        for line in lines:
            name, _, value = line.rpartition(" ")
            name = re.sub(r'otel_scope_\w+="[^"]*",?', "", name).replace(",}", "}")
            assert name not in found, "a series is there once"
            found[name] = float(value)
        return found

    def count(found: dict[str, float]) -> float:
        return sum(
            value
            for name, value in found.items()
            if name.startswith("gen_ai_execute_tool_duration_seconds_count") and 'name="process"' in name
        )

    with serve(kit, "--workers", "2", "--metrics-address", f"127.0.0.1:{port}") as (url, _):
        processes = call_all(url)
        total = processes.total()
        wait_until(lambda: count(read()) == total)
        found = read()
        assert [value for name, value in found.items() if name.startswith("toolwire_build_info")] == [1.0]
        os.kill(next(iter(processes)), signal.SIGKILL)

        def is_replaced() -> bool:
            try:
                return call(url, "process").json() not in processes and answers(read)
            except httpx2.HTTPError:
                return False

        wait_until(is_replaced)
        assert count(read()) >= total, "what the dead worker counted stays"


def answers(read: Callable[[], object]) -> bool:
    try:
        read()
    except httpx2.HTTPError:  # the worker that had the address is gone, and another one takes it
        return False
    return True


def test_a_question_that_waits_is_not_counted_as_a_denial() -> None:
    sdk = Sdk()
    kit = Toolkit("Desk")

    @kit.tool(safe=False)
    def shred(page: int) -> str:
        """Shred a page."""
        return f"shredded {page}"

    app = asgi(kit, telemetry=sdk.telemetry, require_confirmation=lambda _: "Shred it?")
    with background(app) as url:
        assert httpx2.post(f"{url}/api/shred", json={"page": 1}).status_code == 428
    assert [dict(point.attributes) for point in sdk.points("toolwire.approvals")] == [{"decision": "asked"}]
    assert sdk.span.attributes is not None
    assert sdk.span.attributes["toolwire.approval"] == "asked"
    assert sdk.span.attributes["error.type"] == "approval_required"


def test_a_dead_collector_stops_no_call_and_delays_no_end(kit: Path) -> None:
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason="pip install 'toolwire[metrics]'")
    with serve(kit, "--otlp", f"http://127.0.0.1:{find_free_port()}", OTEL_METRIC_EXPORT_INTERVAL="200") as (
        url,
        process,
    ):
        assert call(url, "add", a=1, b=2).json() == 3
        process.send_signal(signal.SIGTERM)
        reply = process.communicate(timeout=60)[1]
    assert "did not accept the last spans" in reply, "it ended before the exporter gave up"
