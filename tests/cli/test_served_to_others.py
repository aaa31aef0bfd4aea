"""``toolwire serve`` as others meet it: its log, its warning, and what each path wants from a caller."""

from __future__ import annotations

import http.client
import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.support.serve_process import start_serve, url_in
from toolwire.auth.caller_token import ExpectedClaims, read_secret
from toolwire.server import asgi
from toolwire.server.access.signed_tokens import SignedTokenCallers
from toolwire.testing.loopback import background

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
CALL = {"request": {"tool_id": "Desk.add", "input": {"a": 1, "b": 2}}}


def ask(url: str, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=30)
    text = None if body is None else json.dumps(body)
    connection.request(method, path, text, {"content-type": "application/json", **headers})
    answer = connection.getresponse()
    found = answer.status, answer.read()
    connection.close()
    return found


@pytest.mark.requirement("OTC-020")
@pytest.mark.parametrize("path", ["/call", "/tools/call"])
def test_the_trace_id_of_a_call_is_in_the_log_of_the_server(desk: Path, path: str) -> None:
    with start_serve(desk, "--log", "json") as (process, reply):
        for trace_id in (TRACE, "mine-1"):
            call = {"request": {**CALL["request"], "trace_id": trace_id}}
            assert ask(url_in(reply), "POST", path, call)[0] == 200
        process.send_signal(signal.SIGTERM)
        _, log = process.communicate(timeout=30)
    lines = [json.loads(line) for line in log.splitlines() if line.startswith("{")]
    calls = [line for line in lines if line["logger"] == "toolwire.calls"]
    assert [(line["tool"], line["trace_id"]) for line in calls] == [
        ("Desk.add@1.2.0", TRACE),
        ("Desk.add@1.2.0", "mine-1"),
    ]


@pytest.mark.requirement("OTC-035")
@pytest.mark.parametrize(
    ("options", "warned"),
    [
        (["--host", "0.0.0.0"], True),
        (["--host", "0.0.0.0", "--api-key", "k"], False),
        (["--host", "127.0.0.1"], False),
    ],
)
def test_public_server_warns_at_start_unless_it_requires_keys(options: list[str], warned: bool, desk: Path) -> None:
    with start_serve(desk, *options) as (process, _):
        process.send_signal(signal.SIGTERM)
        _, log = process.communicate(timeout=30)
    assert ("Anyone who can reach 0.0.0.0 can call these tools. Require a key" in log) is warned


@pytest.mark.requirement("OXP-010", "OTC-035", "OTC-042", "A-40")
@pytest.mark.parametrize("credentials", ["keys", "tokens"])
def test_only_health_needs_no_credentials_and_wrong_ones_are_a_401(
    credentials: str, desk: Path, write: Callable[..., Path]
) -> None:
    from toolwire.hosting.targets.load_code import open_code
    from toolwire.hosting.targets.target import FileTarget

    kit = open_code(FileTarget(desk))
    callers = SignedTokenCallers(read_secret(b"a secret of the server, long enough"), ExpectedClaims())
    app = asgi(kit, api_keys=["K1"]) if credentials == "keys" else asgi(kit, callers=callers)
    wrong = ["Bearer K2", "Bearer", "Basic a2V5", "Bearer e30.e30.e30"]
    with background(app) as url:
        asked = [("GET", "/tools", None), ("POST", "/call", CALL), ("POST", "/tools/call", CALL)]
        for method, path, body in asked:
            assert ask(url, method, path, body)[0] == 401
            for header in wrong:
                status, answer = ask(url, method, path, body, authorization=header)
                assert status == 401
                assert json.loads(answer)["message"]
            if credentials == "keys":
                assert ask(url, method, path, body, authorization="Bearer K1")[0] == 200
        assert ask(url, "GET", "/health")[0] == 200
        assert ask(url, "GET", "/health", authorization="Bearer K2")[0] == 200
        app.drain()
        assert ask(url, "GET", "/health")[0] == 503


@pytest.mark.requirement("A-36")
def test_deprecated_members_of_the_rfc_example_are_never_written(site: str) -> None:
    listed = json.loads(ask(site, "GET", "/tools")[1])
    assert listed["tools"]
    for tool in (*listed["tools"], *listed["items"]):
        assert {"id", "name", "description", "version", "input_schema", "output_schema"} <= tool.keys()
        assert not {"toolkit", "input", "output", "available_modes"} & tool.keys()
    assert all("parameters" in tool["input_schema"] for tool in listed["tools"])


@pytest.mark.requirement("OQ-9")
def test_the_package_needs_no_sdk_and_each_sdk_is_an_extra() -> None:
    code = (
        "import json\nfrom importlib.metadata import metadata\nfound = metadata('toolwire')\n"
        "print(json.dumps([found.get_all('Requires-Dist'), found.get_all('Provides-Extra')]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    required, extras = json.loads(done.stdout)
    always = {line.split(";")[0].split("[")[0].split(">")[0].strip() for line in required if "extra ==" not in line}
    sdks = {"openai", "anthropic", "gemini", "langchain", "pydantic-ai"}
    assert sdks <= set(extras)
    assert always.isdisjoint({"openai", "anthropic", "google-genai", "langchain-core", "pydantic-ai-slim", "fastapi"})
