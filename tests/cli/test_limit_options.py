"""``--limit``: the limits of a server, from the command line, from a file, and for each kind of code that is served."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx2
import pytest

from tests.cli.conftest import Outcome
from tests.support.gateway_process import run_gateway
from tests.support.serve_process import start_serve, url_in
from toolwire.core.model import Json
from toolwire.server.limit_options import check_limit

pytestmark = pytest.mark.requirement("D-34")

PROBE = """
    import threading

    from toolwire import Toolkit

    kit = Toolkit("Probe")

    @kit.tool(approval="auto", safe=False)
    def say(text: str) -> str:
        \"\"\"Say it.\"\"\"
        return text

    @kit.tool(approval="auto", safe=False)
    def wait() -> str:
        \"\"\"Wait for ever.\"\"\"
        threading.Event().wait()
        return ""
"""


@pytest.fixture
def probe(write: Callable[..., Path]) -> Path:
    """A file with tools that meet limits."""
    return write("probe.py", PROBE)


def call(
    url: str, name: str, arguments: Mapping[str, Json], key: str = "", more: Mapping[str, str] | None = None
) -> httpx2.Response:
    """Call a tool by its operation."""
    headers = {**({"idempotency-key": key} if key else {}), **(more or {})}
    return httpx2.post(f"{url}/api/{name}", json=dict(arguments), headers=headers, timeout=30)


@pytest.mark.parametrize("more", [(), ("--workers", "2")])
def test_limits_of_calls_and_connections_hold_in_each_process(probe: Path, more: tuple[str, ...]) -> None:
    limits = ("--limit", "body_bytes=200", "--limit", "tool-s=0.3", "--limit", "head_fields=12")
    with start_serve(probe, *limits, *more) as (_, reply):
        url = url_in(reply)
        assert call(url, "say", {"text": "a" * 100}).json() == "a" * 100
        assert call(url, "say", {"text": "a" * 300}).status_code == 413
        assert call(url, "wait", {}).status_code == 504
        assert call(url, "say", {"text": "a"}, more={f"x-{number}": "1" for number in range(20)}).status_code == 431


def test_later_of_two_values_for_one_limit_holds(probe: Path) -> None:
    with start_serve(probe, "--limit", "body_bytes=20", "--limit", "body_bytes=200") as (_, reply):
        assert call(url_in(reply), "say", {"text": "a" * 100}).status_code == 200


@pytest.mark.requirement("A-42")
@pytest.mark.parametrize("state", [(), ("--state", "state")])
def test_server_remembers_as_many_calls_as_its_limit_says(
    probe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    with start_serve(probe, "--limit", "recorded_calls=8", *state) as (_, reply):
        url = url_in(reply)

        def is_replayed(number: int) -> bool:
            response = call(url, "say", {"text": "a"}, key=f"key-{number}")
            assert response.status_code == 200
            return response.headers.get("idempotent-replayed") == "true"

        assert [is_replayed(number) for number in range(12)] == [False] * 12
        assert is_replayed(11)
        assert not is_replayed(0), "it made room for newer ones"


def test_threads_of_plain_functions_are_as_many_as_the_limit_says(write: Callable[..., Path]) -> None:
    count = """
        import threading
        from toolwire import Toolkit
        kit = Toolkit("Probe")
        seen = threading.Barrier(2)

        @kit.tool(approval="auto", safe=True, timeout_s=5)
        def meet() -> bool:
            \"\"\"Say whether another thread came at the same time.\"\"\"
            try:
                seen.wait(1)
            except threading.BrokenBarrierError:
                seen.reset()
                return False
            return True
    """
    names = write("meet.py", count)
    met = {}
    for threads in ("1", "8"):
        with start_serve(names, "--limit", f"threads={threads}") as (_, reply):
            url = url_in(reply)
            with httpx2.Client() as client:
                body = [{"jsonrpc": "2.0", "method": "meet", "params": {}, "id": str(number)} for number in range(2)]
                met[threads] = _call_together(client, f"{url}/opentool/call", body)
    assert met == {"1": [False, False], "8": [True, True]}


def _call_together(client: httpx2.Client, url: str, bodies: list[dict[str, Json]]) -> list[Json]:
    with ThreadPoolExecutor(len(bodies)) as pool:
        responses = list(pool.map(lambda body: client.post(url, json=body, timeout=30).json(), bodies))
    return [response["result"]["result"] for response in responses]


def test_gateway_file_has_limits_and_names_the_line_of_a_fault(
    probe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, toolwire: Callable[..., Outcome]
) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "toolwire.toml"
    upstream = '[upstreams.probe]\ntarget = "probe.py"\n'
    file.write_text(f'port = 0\nlimit = ["body_bytes=200"]\n{upstream}')
    with run_gateway() as (_, url):
        assert call(url, "say", {"text": "a" * 100}).status_code == 200
        assert call(url, "say", {"text": "a" * 300}).status_code == 413
    file.write_text(f'port = 0\nlimit = ["body_byte=200"]\n{upstream}')
    for action in ("run", "check", "list"):
        outcome = toolwire("gateway", action)
        assert (outcome.code, outcome.out) == (2, "")
        fault = "unknown limit 'body_byte'; did you mean body_bytes?"
        assert outcome.err == f"toolwire: toolwire.toml:2:1: limit: {fault}\n"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("tool_s", "'tool_s' is not valid. Write NAME=VALUE, such as tool_s=300"),
        ("tool_seconds=3", "unknown limit 'tool_seconds'; did you mean tool_s?"),
        ("tool_s=0", "tool_s must be a number of seconds above 0, at most 31,622,400, not '0'"),
        ("tool_s=inf", "tool_s must be a number of seconds above 0, at most 31,622,400, not 'inf'"),
        ("tool_s=5m", "tool_s must be a number of seconds above 0, at most 31,622,400, not '5m'"),
        ("idle_s=0.5", "idle_s must be an integer from 1 to 31,622,400, not '0.5'"),
        ("running=-1", "running must be an integer from 1 to 1,000,000,000, not '-1'"),
        ("body_bytes=1e6", "body_bytes must be an integer from 1 to 1,099,511,627,776, not '1e6'"),
        ("body_bytes=" + "9" * 5_000, "body_bytes must be an integer from 1 to 1,099,511,627,776, not '" + "9" * 40),
    ],
)
def test_limit_that_cannot_be_is_refused_in_one_sentence(
    desk: Path, toolwire: Callable[..., Outcome], text: str, sentence: str
) -> None:
    with pytest.raises(ValueError, match=re.escape(sentence)):
        check_limit(text)
    for command in ("serve", "work"):
        outcome = toolwire(command, str(desk), "--limit", text)
        assert outcome.code == 2
        assert f"--limit: {sentence}" in outcome.err


def test_worker_has_no_limits_of_connections(desk: Path, tmp_path: Path, toolwire: Callable[..., Outcome]) -> None:
    outcome = toolwire("work", str(desk), "--state", str(tmp_path / "state"), "--limit", "head_s=1")
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err == "toolwire: A worker accepts no connections. Give connection limits to `toolwire serve`.\n"


def test_settings_have_limits_that_the_user_must_trust(
    probe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, toolwire: Callable[..., Outcome]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "own"))
    (tmp_path / "toolwire.toml").write_text('[defaults.serve]\nlimit = ["body_bytes=99999999"]\n')
    [setting] = json.loads(toolwire("settings", "--json").out)
    assert (setting["option"], setting["value"]) == ("limit", ["body_bytes=99999999"])
    assert setting["state"] == "needs trust", "a project's file alone loosens no limit"
