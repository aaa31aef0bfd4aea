"""A gateway whose upstream is a program, where there is no terminal: the file holds the agreement and the limits."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.cli.conftest import Outcome
from tests.support.gateway_folder import folder
from tests.support.gateway_process import run_gateway, wait_for_line
from tests.support.waiting import wait_until
from toolwire import Problem, Value, connect_sync
from toolwire.hosting import open_gateway
from toolwire.testing import background

__all__ = ["folder"]  # a fixture

pytestmark = pytest.mark.requirement("PL-06")
DESK = '''
import os
import resource
import subprocess
import sys

from toolwire import Toolkit

kit = Toolkit("Desk")


@kit.tool(approval="auto", safe=True)
def limits() -> list[int]:
    """Return the limits of this process."""
    return [
        resource.getrlimit(resource.RLIMIT_AS)[1] >> 20,
        resource.getrlimit(resource.RLIMIT_NOFILE)[1],
        len(os.sched_getaffinity(0)),
    ]


@kit.tool(approval="auto", safe=True)
def child() -> int:
    """Return the limit of open files of a process that this one starts."""
    code = "import resource; print(resource.getrlimit(resource.RLIMIT_NOFILE)[1])"
    return int(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)


@kit.tool(approval="per-call")
def close(number: int) -> str:
    """Close the desk."""
    return f"closed {number}"
'''

OWN = '''
import os

from toolwire import Toolkit

own = Toolkit("Own")


@own.tool(approval="auto", safe=True)
def processors() -> int:
    """Return how many processors this process may use."""
    return len(os.sched_getaffinity(0))
'''


def write_file(folder: Path, more: str = "", words: str = "") -> Path:
    (folder / "desk.py").write_text(DESK)
    (folder / "own.py").write_text(OWN)
    file = folder / "toolwire.toml"
    file.write_text(
        "# The team's gateway.\nport = 0\n\n"
        f'[upstreams.desk] # a program\ntarget = "stdio:{sys.executable} -m toolwire serve desk.py --stdio{words}"\n'
        f'agree = true\n{more}\n[upstreams.other]\ntarget = "own.py"\n'
    )
    return file


@pytest.fixture
def no_home(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user without a folder to write to, as in a container."""
    monkeypatch.setenv("HOME", "/proc/nowhere")
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)


@pytest.mark.usefixtures("no_home")
def test_an_agreement_in_the_file_needs_no_terminal_and_no_home(folder: Path, toolwire: Callable[..., Outcome]) -> None:
    file = write_file(folder)
    agreed = toolwire("gateway", "agree", "desk")
    assert agreed.code == 0, agreed.err
    text = file.read_text()
    assert re.search(r'\[upstreams\.desk\] # a program\nagreed-command = "[0-9a-f]{64}"\ntarget', text)
    assert toolwire("gateway", "agree", "desk").code == 0
    assert file.read_text() == text, "once"
    with run_gateway() as (_, url), connect_sync(url, protocol="otc", agree=lambda _: True) as remote:
        found = remote.call("limits")
        assert isinstance(found, Value)
    file.write_text(text.replace("--stdio", "--stdio --limit running=9"))
    refused = toolwire("gateway", "check", "desk")
    assert refused.code == 4
    assert "it is not the command that the file agrees to" in " ".join(refused.out.split())


@pytest.mark.usefixtures("no_home")
def test_limits_hold_for_the_program_and_for_what_it_starts(folder: Path, toolwire: Callable[..., Outcome]) -> None:
    write_file(folder, "program-limits = {memory-mb = 4096, processors = 1, files = 99}\n")
    assert toolwire("gateway", "agree", "desk").code == 0
    with run_gateway() as (_, url), connect_sync(url, protocol="otc", agree=lambda _: True) as remote:
        assert remote.call("limits") == Value([4096, 99, 1])
        assert remote.call("child") == Value(99)
        other = remote.call("processors")
        assert isinstance(other, Value)
        assert other.value == len(os.sched_getaffinity(0)), "the gateway itself has no such limit"


def call_as_host(url: str, tool: str, arguments: dict[str, Any]) -> str:
    """Return the answer to a call by an MCP host that can show nothing to its user."""
    with httpx2.Client(base_url=url, headers={"accept": "application/json, text/event-stream"}) as host:
        about = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "host", "version": "1"}}
        opened = host.post("/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": about})
        fields = {"mcp-protocol-version": "2025-11-25", "mcp-session-id": opened.headers.get("mcp-session-id", "")}
        params = {"name": tool, "arguments": arguments}
        call = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params}
        return host.post("/mcp", json=call, headers={name: value for name, value in fields.items() if value}).text


@pytest.mark.requirement("QF-04", "FU-58")
@pytest.mark.parametrize("consent", ["refuse", "inbox"])
def test_question_names_the_upstream_and_not_the_address_that_stands_for_its_program(
    folder: Path, toolwire: Callable[..., Outcome], consent: str
) -> None:
    file = write_file(folder)
    file.write_text(f'consent = "{consent}"\nstate = "kept"\n{file.read_text()}')
    assert toolwire("gateway", "agree", "desk").code == 0
    with run_gateway() as (_, url):
        if consent == "refuse":
            answer = httpx2.post(f"{url}/api/close", json={"number": 1})
            shown = answer.json()["details"]["confirmation"]["question"]
            assert shown.startswith("close is a tool of desk, a program that this server runs.")
        else:
            refused = call_as_host(url, "close", {"number": 1})
            command = re.search(r"toolwire (approvals \S+ \S+)", refused)
            assert command is not None, refused
            shown = toolwire(*command[1].split()).out
            assert "close at desk (" in shown
    assert "stdio.invalid" not in shown


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ("agreed-command = 'all'", "agreed-command must be what `toolwire gateway agree NAME` writes"),
        ("program-limits = {memory = 1}", "memory"),
        ("program-limits = {files = 0}", "files is 1 to 1,048,576, not 0"),
        ("program-limits = 5", "program-limits is a table"),
    ],
)
def test_a_wrong_agreement_or_limit_is_one_sentence(
    folder: Path, toolwire: Callable[..., Outcome], more: str, sentence: str
) -> None:
    write_file(folder, f"{more}\n")
    outcome = toolwire("gateway", "list")
    assert outcome.code == 2
    assert sentence in outcome.err


def test_only_a_program_of_a_trusted_file_can_be_agreed_to(
    folder: Path, toolwire: Callable[..., Outcome], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write_file(folder)
    before = file.read_text()
    outcome = toolwire("gateway", "agree", "other")
    assert (outcome.code, "other is not a program: its target is own.py." in outcome.err) == (2, True)
    assert toolwire("gateway", "agree", "desc").code == 2
    monkeypatch.delenv("TOOLWIRE_SETTINGS")
    assert toolwire("gateway", "agree", "desk").code == 2, "the file of a stranger is no order"
    assert file.read_text() == before


SILENT = """
import sys

print("ready", file=sys.stderr, flush=True)
for _ in sys.stdin:
    pass
"""


@pytest.mark.requirement("GW-01")
def test_program_that_never_answers_does_not_keep_the_gateway_from_serving(
    folder: Path, toolwire: Callable[..., Outcome], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOOLWIRE_SETTINGS", "trust")
    (folder / "desk.py").write_text(DESK)
    (folder / "silent.py").write_text(SILENT)
    serve = f"{sys.executable} -P -m toolwire serve {folder / 'desk.py'} --stdio"
    (folder / "toolwire.toml").write_text(
        f"""
port = 0

[upstreams.silent]
target = "stdio:{sys.executable} -P {folder / "silent.py"}"

[upstreams.desk]
target = "stdio:{serve}"
"""
    )
    for name in ("silent", "desk"):
        assert toolwire("gateway", "agree", name).code == 0
    with run_gateway() as (process, url):
        assert "The upstream silent has not answered yet" in wait_for_line(process, "tried again")
        rows = {one["name"]: one["state"] for one in httpx2.get(f"{url}/health?full").json()["upstreams"]}
        assert rows["silent"] == "waiting"
        with connect_sync(url, protocol="mcp") as remote:
            assert {tool.name for tool in remote.tools} >= {"limits", "child", "close"}


STUBBORN = """
import json, os, pathlib, sys, time

folder, answers = pathlib.Path(sys.argv[1]), sys.argv[2] == "answers"
(folder / f"{os.getpid()}.pid").touch()
for line in sys.stdin:
    asked = json.loads(line)
    if not answers or "id" not in asked:
        continue
    name, served = asked["method"], {"protocolVersion": "2025-11-25", "serverInfo": {"name": "s", "version": "1"}}
    tool = {"name": "tell", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}}
    known = {
        "initialize": {**served, "capabilities": {"tools": {}}},
        "tools/list": {"tools": [tool]},
        "tools/call": {"content": [{"type": "text", "text": str(os.getpid())}]},
    }
    answer = {"result": known[name]} if name in known else {"error": {"code": -32601, "message": "no"}}
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **answer}), flush=True)
(folder / f"{os.getpid()}.pid").rename(folder / f"{os.getpid()}.eof")
while True:  # the end of its input does not end it
    time.sleep(60)
"""


def write_stubborn(folder: Path, *kinds: str) -> None:
    """Write the file of a gateway to programs that outlive their input: one ``answers``, one is ``silent``."""
    (folder / "stubborn.py").write_text(STUBBORN)
    (folder / "desk.py").write_text(DESK)
    tables = ['[upstreams.desk]\ntarget = "desk.py"\n']
    for kind in kinds:
        (folder / kind).mkdir()
        words = f"{sys.executable} -P {folder / 'stubborn.py'} {folder / kind} {kind}"
        tables.append(f'[upstreams.{kind}]\ntarget = "stdio:{words}"\nagree = true\n')
    (folder / "toolwire.toml").write_text("port = 0\n\n" + "\n".join(tables))


def list_running(folder: Path) -> list[int]:
    """Return the programs that have written their numbers to ``folder`` and still run."""
    return [number for one in folder.iterdir() if Path(f"/proc/{(number := int(one.stem))}").exists()]


@pytest.mark.requirement("MC-02", "GW-01")
def test_each_program_runs_once_and_none_outlives_the_gateway(folder: Path, toolwire: Callable[..., Outcome]) -> None:
    write_stubborn(folder, "answers", "silent")
    for name in ("answers", "silent"):
        assert toolwire("gateway", "agree", name).code == 0
    with run_gateway() as (process, url):
        # The process that checks the file ends its own programs, and only that which serves has one of each.
        wait_until(lambda: len(list_running(folder / "answers")) == len(list_running(folder / "silent")) == 1)
        (first,) = list_running(folder / "answers")
        assert httpx2.get(f"{url}/api/tell").json() == str(first)
        process.send_signal(signal.SIGHUP)
        wait_for_line(process, "Reloaded")
        wait_until(lambda: first not in list_running(folder / "answers"))
        wait_until(lambda: len(list_running(folder / "answers")) == len(list_running(folder / "silent")) == 1)
        assert [httpx2.get(f"{url}/api/tell").json()] == [str(one) for one in list_running(folder / "answers")]
    assert not list_running(folder / "answers")
    assert not list_running(folder / "silent")


@pytest.mark.requirement("MC-02", "GW-01")
def test_lifespan_of_an_application_ends_its_programs_and_can_begin_again(
    folder: Path, toolwire: Callable[..., Outcome]
) -> None:
    write_stubborn(folder, "answers", "silent")
    for name in ("answers", "silent"):
        assert toolwire("gateway", "agree", name).code == 0
    app = open_gateway("toolwire.toml")
    for _ in range(2):
        with background(app) as url:
            wait_until(lambda: list_running(folder / "silent"))
            assert httpx2.get(f"{url}/api/tell").status_code == 200
            assert len(list_running(folder / "answers")) == 1
        assert not list_running(folder / "answers")
        assert not list_running(folder / "silent")


BREAKING = """
import json, os, pathlib, signal, sys, time

calls = pathlib.Path(sys.argv[1])
tools = [{"name": name, "inputSchema": {"type": "object"}} for name in ("tell", "die", "mute", "fail")]
tools[0]["annotations"] = {"readOnlyHint": True}
for line in sys.stdin:
    asked = json.loads(line)
    known = {
        "initialize": {
            "protocolVersion": "2025-11-25",
            "serverInfo": {"name": "s", "version": "1"},
            "capabilities": {"tools": {"listChanged": True}},
        },
        "tools/list": {"tools": tools},
        "tools/call": {"content": [{"type": "text", "text": str(os.getpid())}]},
    }
    if "id" not in asked:
        continue
    called = asked["params"].get("name") if asked["method"] == "tools/call" else ""
    if called:
        with calls.open("a") as file:
            file.write(called + "\\n")
    if called == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if called == "mute":
        os.close(1)
        while True:
            time.sleep(60)
    if called == "fail":
        sys.exit("no printer at lp://user:canary-of-printer@example.com")
    result = known.get(asked["method"])
    answer = {"result": result} if result else {"error": {"code": -32601, "message": "no"}}
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **answer}), flush=True)
"""


@pytest.mark.requirement("MC-02", "PL-04", "C-11")
@pytest.mark.parametrize("protocol", ["mcp", "openapi", "opentool", "otc"])
def test_callers_learn_how_a_program_ended_and_never_its_command(
    folder: Path, toolwire: Callable[..., Outcome], protocol: str
) -> None:
    (folder / "breaking.py").write_text(BREAKING)
    calls = folder / "calls"
    (folder / "toolwire.toml").write_text(
        f'port = 0\n[upstreams.printer]\ntarget = "stdio:{sys.executable} -P {folder / "breaking.py"} {calls}"\n'
        "agree = true\n"
    )
    assert toolwire("gateway", "agree", "printer").code == 0
    ends = {
        "die": "The upstream printer ended by signal 9 before its answer.",
        "mute": "The upstream printer was ended: it closed its output.",
        "fail": "The upstream printer ended with code 1 before its answer.",
    }
    with (
        run_gateway() as (_, url),
        connect_sync(url, protocol=protocol, agree=lambda _: True, approve=lambda _: True, retries=3) as remote,
        connect_sync(url, protocol=protocol, agree=lambda _: True, retries=0) as impatient,
    ):
        seen: list[str] = []
        for tool, sentence in ends.items():
            failed = remote.call(tool)
            assert isinstance(failed, Problem)
            assert sentence in failed.message
            seen.append(repr(failed))
            # Meanwhile a call says when it starts again; none is said to be withdrawn, or to need another connection.
            if tool != "die":  # the first time, that is at once
                refused = impatient.call("tell")
                assert isinstance(refused, Problem)
                assert "The upstream printer exited. It restarts in" in refused.message
                assert refused.retry_after_ms
                seen.append(repr(refused))
            assert isinstance(remote.call("tell"), Value), "the client waits so long"
        assert not any(str(folder) in one or "canary" in one or "invalid" in one for one in seen)
    made = calls.read_text().split()
    assert [made.count(tool) for tool in ends] == [1, 1, 1], "what may change something is not repeated"


@pytest.mark.requirement("MC-02", "GW-01")
def test_programs_end_with_a_killed_gateway_and_a_crashing_one_delays_no_other(
    folder: Path, toolwire: Callable[..., Outcome]
) -> None:
    (folder / "breaking.py").write_text(BREAKING)
    command = f"stdio:{sys.executable} -P {folder / 'breaking.py'} {folder / 'calls'}"
    tables = "".join(f'[upstreams.{name}]\ntarget = "{command}"\nagree = true\n' for name in ("printer", "scanner"))
    (folder / "toolwire.toml").write_text(f"port = 0\nworkers = 2\n{tables}")
    for name in ("printer", "scanner"):
        assert toolwire("gateway", "agree", name).code == 0

    def find_programs() -> list[str]:
        found = [path for path in Path("/proc").iterdir() if path.name.isdigit()]
        return [path.name for path in found if _runs(path, str(folder / "breaking.py"))]

    with run_gateway() as (process, url):
        with connect_sync(url, agree=lambda _: True, approve=lambda _: True, retries=0) as remote:
            names = [tool.id for tool in remote.tools]
            die = next(name for name in names if "die" in name and "printer" in name)
            tell_other = next(name for name in names if "tell" in name and "scanner" in name)
            for _ in range(6):
                assert isinstance(remote.call(die), Problem)
                assert isinstance(remote.call(tell_other), Value)
        assert find_programs()
        os.killpg(process.pid, signal.SIGKILL)
        # No process of the gateway could end them: each reads the end of its input, which no other process holds open.
        wait_until(lambda: not find_programs())


def _runs(process: Path, file: str) -> bool:
    with contextlib.suppress(OSError):  # it has just ended
        return file.encode() in (process / "cmdline").read_bytes()
    return False
