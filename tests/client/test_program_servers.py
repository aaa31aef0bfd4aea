"""MCP servers that are programs: what runs is agreed to, gets no secrets, and can neither stay nor flood."""

from __future__ import annotations

import asyncio
import json
import os
import select
import shlex
import shutil
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from toolwire import Kind, Problem, connect, connect_sync
from toolwire.client.connection.connection_factory import ConnectionFactory
from toolwire.client.connection.options import ConnectOptions
from toolwire.client.transport.limits import TransportLimits
from toolwire.client.transport.message_network import SyncMessageNetwork
from toolwire.client.transport.server_command import ServerCommand, read_server_command
from toolwire.client.transport.server_program import ServerProgram
from toolwire.core.codec import ConnectError
from toolwire.core.errors import DefinitionError
from toolwire.core.http import Request, Response
from toolwire.core.model import Progress
from toolwire.core.resources import COMPLETE_RESULTS
from toolwire.testing.loopback import background

WAIT_S = 30.0
SERVER = """
import json, os, signal, subprocess, sys, time

def write(message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\\n")
    sys.stdout.flush()

def answer(asked, result):
    write({"id": asked["id"], "result": result})

TOOLS = [{"name": name, "inputSchema": {"type": "object"}} for name in ("run", "environment", "die", "other")]

def handle(asked):
    method, params = asked.get("method"), asked.get("params", {})
    if method == "initialize":
        answer(asked, {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "Box"}})
    elif method == "tools/list":
        answer(asked, {"tools": TOOLS})
    elif method == "tools/call" and params["name"] == "environment":
        answer(asked, {"content": [{"type": "text", "text": json.dumps([dict(os.environ), os.getcwd()])}]})
    elif method == "tools/call" and params["name"] == "die":
        print("out of paper", file=sys.stderr)
        os._exit(3)
    elif method == "tools/call":
        run(asked)
    elif "id" in asked and method:
        write({"id": asked["id"], "error": {"code": -32601, "message": "unknown"}})

def run(asked):
    answer(asked, {"content": [{"type": "text", "text": str(os.getpid())}]})

BEHAVIOUR

for line in sys.stdin:
    handle(json.loads(line))
"""
Write = Callable[..., str]


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Write a server that behaves as the given code says, and return its target."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))

    def write(behaviour: str = "") -> str:
        file = tmp_path / "server.py"
        file.write_text(SERVER.replace("BEHAVIOUR", behaviour))
        return f"stdio:{shlex.join([sys.executable, str(file)])}"

    return write


def agree(_: ServerCommand) -> bool:
    return True


def has_ended(pid: int) -> bool:
    """Return whether a process ends within a bound: a signal that was sent takes a moment to arrive."""
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([process], [], [], 10)[0])
    finally:
        os.close(process)


def call(target: str, name: str = "run", **options: Any) -> Any:
    with connect_sync(target, approve=lambda _: True, approve_command=agree, **options) as remote:
        return remote.call(name)


# What may run


@pytest.mark.requirement("MC-02")
def test_program_runs_only_after_the_user_agreed_to_its_command_once(program: Write) -> None:
    target = program()
    with pytest.raises(ConnectError, match="you have not agreed to this command yet"), connect_sync(target):
        pass
    seen: list[str] = []

    def note(command: ServerCommand) -> bool:
        seen.append(str(command))
        return len(seen) > 1

    with pytest.raises(ConnectError, match="it was not approved"), connect_sync(target, approve_command=note):
        pass
    with connect_sync(target, approve_command=note) as remote:
        assert {tool.name for tool in remote.tools} == {"run", "environment", "die", "other"}
    assert seen == [f"PWD={Path.cwd()} {target.removeprefix('stdio:')}"] * 2
    with connect_sync(target) as remote:  # now and later, without a question
        assert remote.tools
    with pytest.raises(ConnectError, match="you have not agreed"), connect_sync(f"{target} --other"):
        pass


@pytest.mark.requirement("MC-02")
def test_command_digest_covers_command_arguments_folder_and_variables_as_they_are_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("KEY", "1")
    monkeypatch.setenv("FILLED_IN", "a-key-from-a-shell")

    def digest(text: str) -> str:
        command = read_server_command(f"stdio:{text}")
        assert command is not None
        return command.digest

    first = digest("A=x server 'a b'")
    others = ["A=x server a b", "server 'a b'", "B=x server 'a b'", "A=x B=x server 'a b'", "A=x other 'a b'"]
    others += ["A=y server 'a b'", "A=$KEY server 'a b'", "PWD=/ A=x server 'a b'"]
    assert len({first, *map(digest, others)}) == 9
    by_reference = digest("A=$KEY server")
    monkeypatch.setenv("KEY", "2")
    assert digest("A=$KEY server") == by_reference
    assert digest("A=a-key-from-a-shell server") == digest("A=$FILLED_IN server")
    assert digest("PATH=a-key-from-a-shell server") != digest("PATH=$FILLED_IN server")
    assert digest("sh -c x") == digest(f"PWD={Path.cwd()} {shutil.which('sh')} -c x")


@pytest.mark.requirement("MC-02")
def test_program_gets_only_its_configured_environment_variables(
    program: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "ours")
    monkeypatch.setenv("TOOLWIRE_API_KEYS", "ours")
    monkeypatch.setenv("SHOP_TOKEN", "theirs")
    words = shlex.split(program().removeprefix("stdio:"))
    entry = {"command": words[0], "args": words[1:], "env": {"TOKEN": "${env:SHOP_TOKEN}"}, "cwd": str(tmp_path)}
    file = tmp_path / "mcp.json"
    file.write_text(json.dumps({"mcpServers": {"shop": entry}}))
    for target in (f"{file}:shop", f"stdio:TOKEN=$SHOP_TOKEN {shlex.join(words)}"):
        environment, folder = json.loads(call(target, "environment").unwrap())
        assert environment["TOKEN"] == "theirs"
        assert environment["PATH"] == os.environ["PATH"]
        assert "ours" not in environment.values()
        assert "SHOP_TOKEN" not in environment
        assert folder == (str(tmp_path) if "mcp.json" in target else os.getcwd())


@pytest.mark.requirement("MC-02", "D-29")
def test_web_page_or_document_cannot_start_a_program(program: Write, tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    command = f"stdio:touch {marker}"
    pages = {
        "/llm.json": {"openapi": command, "mcp": command, "url": command},
        "/openapi.json": {
            "openapi": "3.1.0",
            "info": {"title": "a", "version": "1"},
            "servers": [{"url": command}],
            "paths": {"/a": {"get": {"operationId": "a", "x-llm": {}, "responses": {}}}},
        },
    }

    async def app(scope: Any, _: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        page = pages.get(scope["path"])
        headers = [(b"content-type", b"application/json")] if page else [(b"location", command.encode())]
        await send({"type": "http.response.start", "status": 200 if page else 307, "headers": headers})
        await send({"type": "http.response.body", "body": json.dumps(page).encode()})

    with background(app) as url:
        asked: list[object] = []

        def note(command: ServerCommand) -> bool:
            asked.append(command)
            return True

        try:
            with connect_sync(url, approve=lambda _: True, approve_command=note) as remote:
                assert isinstance(remote.call("a"), Problem)
        except ConnectError:
            pass
        assert asked == []
        assert not marker.exists()


@pytest.mark.parametrize(
    ("target", "sentence"),
    [
        ("stdio:", ": the command is missing. Write stdio:COMMAND ARGS"),
        ("stdio:'a", "Cannot read the command after stdio:"),
        ("stdio:A=$TOOLWIRE_NOT_THERE server", "variable TOOLWIRE_NOT_THERE"),
        (
            "stdio:A=${input:key} server",
            r"A refers to \$\{input:...\}, which only its MCP host can resolve\. Write \$\{env:NAME\}",
        ),
    ],
)
def test_invalid_program_target_is_refused_in_one_sentence(target: str, sentence: str) -> None:
    with pytest.raises(DefinitionError, match=sentence):
        connect_sync(target)


def test_missing_program_is_reported(program: Write) -> None:
    program()
    with pytest.raises(ConnectError, match="there is no such program"):
        call("stdio:no-such-program-anywhere --stdio")


# Calls


@pytest.mark.requirement("MC-02")
def test_program_and_its_children_end_with_the_connection(program: Write, tmp_path: Path) -> None:
    target = program(
        f"child = subprocess.Popen(['sleep', '1000'])\n"
        f"open({str(tmp_path / 'child')!r}, 'w').write(str(child.pid))\n"
        f"signal.signal(signal.SIGTERM, signal.SIG_IGN)"
    )
    pids = [int(call(target).unwrap())]
    children = [int((tmp_path / "child").read_text())]

    async def story() -> list[int]:
        async with connect(target, approve=lambda _: True) as remote:
            results = await asyncio.gather(*(remote.call("run") for _ in range(5)))
            return [int(result.unwrap()) for result in results]

    several = asyncio.run(story())
    children.append(int((tmp_path / "child").read_text()))
    assert len(set(several)) == 1
    assert all(map(has_ended, [*pids, *several, *children]))


@pytest.mark.requirement("MC-02")
def test_crashed_program_is_restarted_without_repeating_a_call(program: Write) -> None:
    with connect_sync(program(), approve=lambda _: True, approve_command=agree) as remote:
        first = remote.call("run").unwrap()
        died = remote.call("die")
        assert isinstance(died, Problem)
        assert died.kind == Kind.UNREACHABLE
        assert "ended with code 3 before its answer. Its last line of error output: out of paper" in died.message
        assert remote.call("run").unwrap() != first


@pytest.mark.requirement("MC-02")
def test_restarts_of_a_crashing_program_are_delayed_increasingly(program: Write) -> None:
    command = read_server_command(program("os._exit(1)"))
    assert command is not None
    now = [0.0]
    started = ServerProgram(command, clock=lambda: now[0])
    waits: list[int] = []
    starts_between_waits = [0]
    try:
        while len(waits) < 8:
            problem = _initialize(started)
            if problem.retry_after_ms is None:
                assert "ended with code 1" in problem.message
                starts_between_waits[-1] += 1
                continue
            waits.append(problem.retry_after_ms)
            starts_between_waits.append(0)
            now[0] += problem.retry_after_ms / 1000
    finally:
        started.close()
    assert waits == [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000]
    assert starts_between_waits == [2, 1, 1, 1, 1, 1, 1, 1, 0], "the first start after a death is at once"


def _initialize(program: ServerProgram) -> Problem:
    ended = SyncMessageNetwork(program, TransportLimits()).send(_build_request("initialize"))
    assert isinstance(ended, Problem)
    return ended


def _build_request(method: str) -> Request:
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": {}}).encode()
    return Request("POST", "https://program.invalid/mcp", (), body)


@pytest.mark.requirement("MC-02")
def test_a_call_that_is_left_is_cancelled_at_the_program(program: Write, tmp_path: Path) -> None:
    marker = tmp_path / "cancelled"
    target = program(f"""
def run(asked):
    write({{"method": "notifications/progress", "params": {{
        "progressToken": asked["params"]["_meta"]["progressToken"], "progress": 1}}}})
    told = json.loads(sys.stdin.readline())
    assert told["method"] == "notifications/cancelled" and told["params"]["requestId"] == asked["id"], told
    open({str(marker)!r}, "w").close()
""")

    async def story() -> None:
        async with connect(target, approve=lambda _: True, approve_command=agree) as remote:
            begun = asyncio.Event()

            async def notify(_: Progress) -> None:
                begun.set()

            running = asyncio.ensure_future(remote.call("run", notify=notify))
            await asyncio.wait_for(begun.wait(), WAIT_S)
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running

    asyncio.run(story())
    assert marker.exists()


# Hostile programs


@pytest.mark.requirement("MC-02")
@pytest.mark.parametrize(
    ("behaviour", "sentence"),
    [
        ("def run(asked):\n  while True: sys.stdout.write('x' * 65536)", "a line longer than 16,777,216 bytes"),
        (
            "def run(asked):\n  while True: sys.stdout.write('not JSON\\n')",
            "more than 1,000 lines that are not messages",
        ),
        (
            "def run(asked):\n  while True: write({'method': 'notifications/x', 'params': {'a': 'x' * 65536}})",
            "more than 16,777,216 bytes that answer no request",
        ),
        ("def run(asked):\n  while True: write({'id': 'x', 'method': 'sampling/createMessage'})", "questions"),
    ],
    ids=["a line without end", "no JSON", "a flood of messages", "asks back without end"],
)
def test_program_that_sends_too_much_is_ended_and_reported(program: Write, behaviour: str, sentence: str) -> None:
    failed = call(program(behaviour))
    assert isinstance(failed, Problem)
    assert sentence in failed.message


@pytest.mark.requirement("MC-02")
def test_error_output_is_read_completely_and_only_its_end_kept(program: Write) -> None:
    target = program("""
def run(asked):
    for _ in range(1_000):
        sys.stderr.write("x" * 65_536)
    sys.stderr.write("\\n\\033[31m" + "the end" + "\\n")
    sys.stderr.flush()
    os._exit(1)
""")
    failed = call(target)
    assert isinstance(failed, Problem)
    assert failed.message.endswith("Its last line of error output: the end")


@pytest.mark.requirement("MC-02", "C-11")
def test_log_of_an_orderly_end_contains_nothing_of_an_earlier_call(
    program: Write, caplog: pytest.LogCaptureFixture
) -> None:
    command = read_server_command(program('sys.stderr.write("ValueError: the PIN 4711 is wrong\\n")'))
    assert command is not None
    started = ServerProgram(command, name="printer")
    answered = SyncMessageNetwork(started, TransportLimits()).send(_build_request("initialize"))
    assert isinstance(answered, Response)
    started.close()
    assert "4711" not in caplog.text


@pytest.mark.requirement("MC-02")
@pytest.mark.parametrize("sync", [True, False])
def test_unresponsive_program_is_abandoned_at_the_call_deadline(program: Write, sync: bool) -> None:
    target = program("def run(asked): pass")
    if sync:
        failed = call(target, timeout_s=0.2)
    else:

        async def story() -> Any:
            async with connect(target, approve=lambda _: True, approve_command=agree, timeout_s=0.2) as remote:
                return await remote.call("run")

        failed = asyncio.run(story())
    assert isinstance(failed, Problem)
    assert failed.message.endswith("did not answer in time.")


@pytest.mark.requirement("MC-02")
def test_program_that_does_not_read_cannot_fill_the_memory(program: Write) -> None:
    target = program("def run(asked): time.sleep(1000)")
    with connect_sync(target, approve=lambda _: True, approve_command=agree, timeout_s=0.2, retries=0) as remote:
        problems = [remote.call("run", {"text": "x" * 12_000_000}) for _ in range(4)]
    assert [isinstance(one, Problem) for one in problems] == [True] * 4
    assert "is not reading its input" in problems[3].message  # type: ignore[union-attr]  # each is a problem


@pytest.mark.requirement("MC-02")
def test_program_request_to_the_client_is_refused_and_the_call_completes(program: Write) -> None:
    target = program("""
def run(asked):
    write({"id": 7, "method": "ping"})
    pong = json.loads(sys.stdin.readline())
    write({"id": 8, "method": "sampling/createMessage", "params": {}})
    refused = json.loads(sys.stdin.readline())
    answer(asked, {"content": [{"type": "text", "text": json.dumps([pong, refused["error"]["code"]])}]})
""")
    assert json.loads(call(target).unwrap()) == [{"jsonrpc": "2.0", "id": 7, "result": {}}, -32601]


@pytest.mark.requirement("MC-09")
def test_program_that_asks_while_several_calls_run_learns_what_to_do(program: Write) -> None:
    target = program(
        """
calls = []

def run(asked):
    calls.append(asked)
    if len(calls) == 2:
        write({"id": "q", "method": "elicitation/create", "params": {"message": "Sure?", "requestedSchema": {}}})
        while (said := json.loads(sys.stdin.readline())).get("id") != "q":
            handle(said)
        for one in calls:
            answer(one, {"content": [{"type": "text", "text": said["error"]["message"]}]})
"""
    )

    async def call_both() -> list[Any]:
        options: dict[str, Any] = {"approve": lambda _: True, "provide_input": lambda _: {}, "approve_command": agree}
        async with connect(target, **options) as remote:
            return await asyncio.gather(remote.call("run"), remote.call("run"))

    text = "Several calls are running, so it is unknown whose user to ask. Make this call again, by itself."
    assert [one.unwrap() for one in asyncio.run(call_both())] == [text, text]


def test_an_answer_of_megabytes_arrives(program: Write) -> None:
    target = program("""
def run(asked):
    answer(asked, {"content": [{"type": "text", "text": "x" * 5_000_000}]})
""")
    assert call(target, caps=COMPLETE_RESULTS).unwrap() == "x" * 5_000_000


def test_older_program_that_exits_at_discovery_is_opened_by_the_handshake(program: Write) -> None:
    target = program("""
known = handle

def handle(asked):
    if asked.get("method") == "server/discover":
        os._exit(1)
    known(asked)
""")
    assert int(call(target).unwrap()) > 0


def test_program_that_was_replaced_by_an_older_one_runs_once(program: Write, tmp_path: Path) -> None:
    newer = """
known = handle

def handle(asked):
    if asked.get("method") == "server/discover":
        answer(asked, {"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}})
    elif asked.get("method") == "initialize":
        os._exit(1)
    else:
        known(asked)
"""
    command = read_server_command(program(newer))
    assert command is not None
    started = ServerProgram(command)
    network = SyncMessageNetwork(started, TransportLimits(total_s=WAIT_S))
    of_2026 = (b"mcp-protocol-version", b"2026-07-28")

    def ask(method: str, *headers: tuple[bytes, bytes]) -> Any:
        asked = _build_request(method)
        response = network.send(asked._replace(headers=(*asked.headers, *headers)))
        assert isinstance(response, Response)
        return json.loads(response.body)

    try:
        ask("server/discover", of_2026)
        assert "result" in ask("tools/list", of_2026)
        started.stop()
        starts = tmp_path / "starts"
        program(f"open({str(starts)!r}, 'a').write('.')")
        assert "error" in ask("server/discover", of_2026)
        assert "result" in ask("initialize")
        assert starts.read_text() == "."
    finally:
        started.close()


def test_program_without_an_answer_to_discovery_counts_as_older(program: Write) -> None:
    command = read_server_command(program("def handle(asked): pass"))
    assert command is not None
    started = ServerProgram(command)
    try:
        response = SyncMessageNetwork(started, TransportLimits(total_s=0.2)).send(_build_request("server/discover"))
    finally:
        started.close()
    assert isinstance(response, Response)
    assert (response.status, json.loads(response.body)["error"]["code"]) == (400, -32601)


def test_threads_end_with_the_program(program: Write) -> None:
    before = set(threading.enumerate())
    call(program())
    new = set(threading.enumerate()) - before
    for thread in new:
        thread.join(30)
    assert not [thread for thread in new if thread.is_alive()]


@pytest.mark.requirement("MC-02")
def test_the_start_of_a_program_may_take_a_minute_unless_the_user_lowers_the_limit() -> None:
    def read_limit(target: str, **options: Any) -> float:
        return ConnectionFactory(ConnectOptions(target, **options)).discovery_network()["limits"].total_s

    target = f"stdio:{sys.executable} server.py"
    assert (read_limit(target), read_limit(target, discovery_s=5), read_limit(target, discovery_s=90)) == (60, 5, 90)
    assert read_limit("https://desk.example") == 15


def test_program_that_never_answers_is_given_up_within_the_time_of_discovery() -> None:
    target = f"stdio:{sys.executable} -c 'import sys; [0 for _ in sys.stdin]'"
    with (
        pytest.raises(ConnectError, match="Discovery did not finish in time"),
        connect_sync(target, discovery_s=0.5, approve_command=lambda _: True),
    ):
        pass
