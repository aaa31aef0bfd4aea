"""Long calls of a served toolkit from the command line: over a restart of the server, over stdio, with its list."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.serve_process import start_serve, url_in
from toolwire import Kind, Problem, Value, connect_sync
from toolwire.client.connection.handle import SyncHandle

REPORTS = '''
    import anyio
    from pathlib import Path
    from toolwire import Context, Toolkit

    reports = Toolkit("Reports")
    GATE = Path(__file__).with_name("gate")

    async def work(rows: int, context: Context) -> dict[str, int]:
        await context.progress({"progress": 1, "total": 4, "message": "reading"})
        with Path(__file__).with_name("runs").open("a") as runs:
            runs.write("run\\n")
        while not GATE.exists():
            await anyio.sleep(0.02)
        return {"rows": rows}

    @reports.tool(approval="per-call", blanket_allowed=True, long=True, idempotent=True)
    async def build(rows: int, context: Context) -> dict[str, int]:
        """Build a report."""
        return await work(rows, context)

    @reports.tool(approval="per-call", blanket_allowed=True, long=True)
    async def send(rows: int, context: Context) -> dict[str, int]:
        """Send a report."""
        return await work(rows, context)
'''
KEY = "ada-key-of-a-caller"


class Desk:
    """A file with long tools, the ledger of its server, and the gate that its calls wait for."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.keys = file.with_name("keys.txt")
        self.keys.write_text(f"{KEY} ada\n", encoding="utf-8")

    @contextmanager
    def serve(self, *, kill: bool = False) -> Iterator[str]:
        argv = [self.file, "--ledger", self.file.with_name("ledger.db"), "--api-key-file", self.keys]
        with start_serve(*argv) as (process, reply):
            yield url_in(reply)
            if kill:
                process.kill()

    def open(self) -> None:
        self.file.with_name("gate").touch()

    def count_runs(self) -> int:
        return len(self.file.with_name("runs").read_text(encoding="utf-8").splitlines())


@pytest.fixture
def desk(write: Callable[..., Path]) -> Desk:
    return Desk(write("reports.py", REPORTS))


def start(toolwire: Callable[..., Any], url: str, tool: str = "build", *options: str) -> str:
    outcome = toolwire("call", url, tool, "rows=3", "--yes", "--key", KEY, "--start", *options)
    assert (outcome.code, outcome.err) == (0, ""), outcome
    return str(outcome.out.strip())


@pytest.mark.requirement("LC-05", "LC-04")
def test_call_outlives_its_client_and_its_server(desk: Desk, toolwire: Callable[..., Any]) -> None:
    with desk.serve(kill=True) as url:
        id_ = start(toolwire, url)
        unsafe = start(toolwire, url, "send")
        waited = toolwire("calls", "wait", url, id_, "--key", KEY, "--timeout", "3")
        assert (waited.code, waited.out) == (5, "")
        assert waited.err.startswith("25%  reading\n")
        assert f"toolwire calls wait {url} {id_}" in waited.err
    with desk.serve() as url:
        desk.open()
        again = toolwire("calls", "wait", url, id_, "--key", KEY)
        assert (again.code, json.loads(again.out)) == (0, {"rows": 3})
        cut = toolwire("calls", "wait", url, unsafe, "--key", KEY, "--json")
        assert (cut.code, json.loads(cut.out)["kind"]) == (1, "interrupted")
        listed = toolwire("calls", "list", url, "--key", KEY)
        assert [line.split()[:3] for line in listed.out.splitlines()[1:]] == [
            [unsafe, "Reports.send@1.0.0", "interrupted"],
            [id_, "Reports.build@1.0.0", "ended"],
        ]
        one = toolwire("calls", "list", url, "--key", KEY, "--limit", "1")
        assert "--limit 2" in one.out
        data = json.loads(toolwire("calls", "list", url, "--key", KEY, "--json").out)
        assert [call["id"] for call in data["calls"]] == [unsafe, id_]
        assert data["has_more"] is False
    assert desk.count_runs() == 3, "the one that may run twice did, the other one did not"


@pytest.mark.requirement("LC-05")
@pytest.mark.parametrize("protocol", ["openapi", "otc", "opentool", "mcp"])
def test_call_is_cancelled_by_the_command(desk: Desk, protocol: str, toolwire: Callable[..., Any]) -> None:
    with desk.serve() as url:
        id_ = start(toolwire, url, "send", "--protocol", protocol)
        cancelled = toolwire("calls", "cancel", url, id_, "--key", KEY, "--protocol", protocol)
        assert cancelled.code == 0
        ended = toolwire("calls", "wait", url, id_, "--key", KEY, "--json")
        assert (ended.code, json.loads(ended.out)["kind"]) == (1, "cancelled")
        other = toolwire("calls", "show", url, "0" * 40, "--key", KEY, "--protocol", protocol)
        assert (other.code, other.out) == (1, "")


@pytest.mark.requirement("LC-05", "MC-02")
def test_long_call_over_standard_input_and_output(desk: Desk) -> None:
    command = f"stdio:{sys.executable} -m toolwire serve {desk.file} --stdio"
    received: list[Any] = []
    options: dict[str, Any] = {"approve": lambda _: True, "approve_command": lambda _: True}

    def hear(progress: Any) -> None:
        received.append(progress.value)
        desk.open()

    with connect_sync(command, **options) as remote:
        handle = remote.start("build", {"rows": 3})
        assert isinstance(handle, SyncHandle), handle
        assert handle.result(notify=hear) == Value({"rows": 3})
        assert remote.call("build", {"rows": 4}) == Value({"rows": 4})
        page = remote.list_calls()
        assert isinstance(page, Problem)
        assert page.kind is Kind.NOT_FOUND
        assert "MCP cannot list tasks" in page.message
    assert received
    assert received[0]["message"] == "reading"


@pytest.mark.requirement("LC-05")
def test_a_call_of_code_cannot_be_left_to_go_on(desk: Desk, toolwire: Callable[..., Any]) -> None:
    outcome = toolwire("call", desk.file, "build", "rows=3", "--start")
    sentence = "toolwire: --start needs a URL: a call of local code ends with this program.\n"
    assert (outcome.code, outcome.err) == (2, sentence)
