"""Every command that takes a site takes the same options about it: its key, its protocol, and which of its tools."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client

from tests.client import conftest
from tests.support.serve_process import start_serve
from toolwire import Answer, Question, Selection, Value, connect_sync
from toolwire.cli.parser import read_command
from toolwire.protocols import BUILTIN

listen, encode_response = conftest.listen, conftest.encode_response  # fixtures
OPTIONS = {
    "key",
    "key_env",
    "protocol",
    "include",
    "tag",
    "path",
    "method",
    "match",
    "safe_only",
    "no_deprecated",
    "server",
    "overlay",
    "follow",
    "any_version",
    "document_bytes",
}
COMMANDS = {
    "tools": ["URL"],
    "call": ["URL", "name"],
    "size": ["URL"],
    "serve": ["URL"],
    "chat": ["URL", "--model", "m"],
    "lock": ["URL"],
    "diff": ["URL"],
    "convert": ["URL", "--to", "otc"],
}
PATHS = {"/things": {method: {"operationId": f"{method}_things", "responses": {}} for method in ("get", "post")}}


@pytest.fixture
def document(tmp_path: Path, listen: Callable[..., Any], encode_response: Callable[..., bytes]) -> Iterator[Path]:
    """An OpenAPI document of an API that knows nothing of models, and its server."""
    server = listen(encode_response(b'{"things": ["a"]}'))
    file = tmp_path / "plain.json"
    servers = [{"url": server.origin}]
    file.write_text(json.dumps({"openapi": "3.1.0", "info": {"title": "P"}, "servers": servers, "paths": PATHS}))
    return file


@pytest.mark.requirement("CV-25", "FU-20")
@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_with_a_site_accepts_the_selection_options(command: str) -> None:
    assert vars(read_command([command, *COMMANDS[command]], "1")).keys() >= OPTIONS


@pytest.mark.requirement("CV-25", "FU-20")
@pytest.mark.parametrize("workers", [1, 2])
def test_any_openapi_document_can_be_served_over_every_protocol(document: Path, workers: int) -> None:
    argv = (document, "--include", "all", "--match", "get_*", "--workers", workers)
    with start_serve(*argv) as (_, output):
        (line,) = [line for line in output.splitlines() if line.startswith("URL ")]
        url = line.split()[1]
        for codec in BUILTIN:
            with connect_sync(url, protocol=codec.name, approve=lambda _: True) as remote:
                assert [tool.name for tool in remote.tools] == ["get_things"]
                if workers == 1:  # a confirmation is known to the process that asked for it
                    assert remote.call("get_things", {}) == Value({"things": ["a"]}), codec.name

        async def list_names() -> list[str]:
            async with Client(f"{url}/mcp") as client:
                return [tool.name for tool in (await client.list_tools()).tools]

        assert anyio.run(list_names) == ["get_things"]


@pytest.mark.requirement("CV-25")
def test_a_lock_pins_the_selected_tools(document: Path, tmp_path: Path, toolwire: Callable[..., Any]) -> None:
    lock = ("--file", tmp_path / "a.lock", "--include", "all")
    assert "1 tool pinned" in toolwire("lock", document, *lock, "--match", "get_*").out
    assert toolwire("diff", document, *lock, "--match", "get_*").code == 0
    assert "post_things@1.0.0: added" in toolwire("diff", document, *lock).out


@pytest.mark.requirement("CV-25")
def test_the_selected_tools_of_a_document_are_converted(document: Path, toolwire: Callable[..., Any]) -> None:
    outcome = toolwire("convert", document, "--to", "mcp", "--include", "all", "--method", "GET")
    assert [tool["name"] for tool in json.loads(outcome.out)["tools"]] == ["get_things"]


@pytest.mark.requirement("CV-25")
@pytest.mark.parametrize(
    ("argv", "why"),
    [
        (("serve", "CODE", "--include", "all"), "no target is one"),
        (
            ("convert", "-", "--to", "mcp", "--include", "all"),
            (
                "--key, --protocol and the selection options need a URL or a file. They cannot be used with "
                "standard input"
            ),
        ),
        (("lock", "http://127.0.0.1:9", "http://127.0.0.1:8", "--server", "http://127.0.0.1:7"), "for one server"),
        (
            ("lock", "http://127.0.0.1:9", "http://127.0.0.1:8", "--key", "k"),
            ("A key is for one server. With several servers, sign in to each with `toolwire login` first"),
        ),
        (("chat", "http://127.0.0.1:9", "--model", "m", "--overlay", "none.json"), "none.json"),
    ],
)
def test_selection_option_for_a_wrong_target_is_refused(
    argv: tuple[str, ...], why: str, desk: Path, toolwire: Callable[..., Any]
) -> None:
    outcome = toolwire(*(desk if word == "CODE" else word for word in argv))
    assert (outcome.code, why in outcome.err) == (2, True), outcome.err


@pytest.mark.requirement("XL-028", "OQ-3")
def test_later_major_version_is_read_only_on_request_and_asks_for_each_call(
    document: Path, toolwire: Callable[..., Any]
) -> None:
    policy = {"approval": "auto", "blanketApprovalAllowed": True}
    data = json.loads(document.read_text())
    for operation in data["paths"]["/things"].values():
        operation["x-llm"] = policy
    document.write_text(json.dumps({**data, "x-llm": {"version": "1.0", "defaultApproval": "auto"}}))
    refused = toolwire("tools", document)
    assert refused.code != 0
    assert "later major version" in refused.err
    assert "--any-version" in refused.err
    outcome = toolwire("tools", document, "--any-version", "--json")
    assert {tool["name"]: (tool["consent"], tool["blanket_allowed"]) for tool in json.loads(outcome.out)} == {
        "get_things": ("per-call", False),
        "post_things": ("per-call", False),
    }
    assert "each call needs consent" in toolwire("tools", document, "--any-version", "--findings").out
    asked: list[Question] = []

    def approve(question: Question) -> Answer:
        asked.append(question)
        return Answer(allowed=True, always=True)

    with connect_sync(document, selection=Selection(any_version=True), approve=approve) as remote:
        assert [remote.call("get_things").ok, remote.call("get_things").ok] == [True, True]
    assert [question.always_allowed for question in asked] == [False, False]
