"""The model of an MCP host reads a long result in parts, and only its own caller can."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.types import Implementation

from toolwire import DefinitionError, Secret, Toolkit, asgi, connect, connect_sync
from toolwire.gateway import UpstreamLimits, merge_toolboxes
from toolwire.server.access.api_keys import ApiKey
from toolwire.server.run.long_results import MAX_BYTES, STORED_S, MemoryResults
from toolwire.stores.sessions.session_rows import open_results
from toolwire.testing import background

pytestmark = pytest.mark.requirement("QF-10")

LIMIT = 2_000
ROWS = [{"id": number, "name": f"row {number}"} for number in range(500)]
MODERN = "2026-07-28"


def build_archive(*, has_reader: bool = False) -> Toolkit:
    kit = Toolkit("Archive")

    @kit.tool(approval="auto")
    def list_rows(count: int = 500) -> list[dict[str, Any]]:
        """List rows."""
        return ROWS[:count]

    @kit.tool(approval="auto")
    def count_rows() -> int:
        """Count the rows."""
        return len(ROWS)

    if has_reader:

        @kit.tool(approval="auto")
        def read_result(race: str) -> str:
            """Read the result of a race."""
            return f"{race}: first"

    return kit


def call(url: str, name: str, arguments: dict[str, Any], key: str = "") -> Any:
    """Return the result of a call by a program that is no client of toolwire."""
    headers = {"mcp-protocol-version": "2025-11-25", "accept": "application/json, text/event-stream"}
    headers |= {"authorization": f"Bearer {key}"} if key else {}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, "arguments": arguments}}
    sent = httpx2.post(f"{url}/mcp", json=body, headers=headers, timeout=60)
    return sent.json()["result"]


def read(result: Any) -> Any:
    assert result["isError"] is False, result
    assert "structuredContent" not in result
    (block,) = result["content"]
    return json.loads(block["text"])


async def read_all_rows(url: str, mode: Any) -> tuple[dict[str, Any], list[Any], Any]:
    """Return the tools by name, all rows as a host reads them, and a result that fits."""
    async with Client(f"{url}/mcp", mode=mode) as client:
        tools = {one.name: one for one in (await client.list_tools()).tools}
        first: Any = json.loads((await client.call_tool("list_rows", {})).content[0].text)  # type: ignore[union-attr]  # a text
        rows, start = first["result"], first["notes"]["next"]
        while start is not None:
            given = {"handle": first["notes"]["handle"], "from": start}
            done: Any = await client.call_tool("read_result", given)
            part = json.loads(done.content[0].text)
            rows, start = rows + part["result"], part["notes"].get("next")
        few: Any = await client.call_tool("list_rows", {"count": 1})
        return tools, rows, few.structured_content


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_a_host_reads_a_long_result_to_its_end(mode: Any) -> None:
    with background(asgi(build_archive(), result_limit=LIMIT)) as url:
        tools, rows, few = asyncio.run(read_all_rows(url, mode))
    assert tools.keys() == {"list_rows", "count_rows", "read_result"}
    assert rows == ROWS
    assert few == {"result": ROWS[:1]}, "what fits is as it was"
    assert tools["list_rows"].output_schema is None, "a part keeps no promise about the whole"
    assert tools["count_rows"].output_schema is not None
    assert tools["read_result"].annotations.read_only_hint is True
    assert tools["read_result"].annotations.open_world_hint is True


@pytest.mark.parametrize("protocol", ["mcp", "opentool", "otc", "openapi"])
def test_programs_get_the_whole_on_every_protocol(protocol: str) -> None:
    with (
        background(asgi(build_archive(), result_limit=LIMIT)) as url,
        connect_sync(url, protocol=protocol, approve=lambda _: True) as remote,
    ):
        assert {tool.name for tool in remote.tools} == {"list_rows", "count_rows"}
        assert remote.call("list_rows").unwrap() == ROWS


def test_a_handle_of_one_caller_is_useless_to_another() -> None:
    keys = [ApiKey(key=Secret("a" * 40), name="ann"), ApiKey(key=Secret("b" * 40), name="bob")]
    with background(asgi(build_archive(), result_limit=LIMIT, api_keys=keys)) as url:
        notes = read(call(url, "list_rows", {}, "a" * 40))["notes"]
        given = {"handle": notes["handle"], "path": "/*/name", "count": 1}
        assert read(call(url, "read_result", given, "a" * 40))["result"] == ["row 0"]
        refused = call(url, "read_result", given, "b" * 40)
        assert refused["isError"] is True
        assert "No result with this handle" in refused["content"][0]["text"]
        assert notes["handle"] not in json.dumps(refused)


@pytest.mark.parametrize("name", ["list_many", "write_many"])
def test_a_large_result_is_read_from_its_store_once_and_by_its_caller_alone(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kit, found = Toolkit("Many"), list[bytes]()

    @kit.tool(approval="auto")
    def list_many() -> list[int]:
        """List many."""
        return list(range(300_000))

    @kit.tool(approval="auto")
    def write_many() -> str:
        """Write many."""
        return "\n".join(map(str, range(300_000)))

    def find(self: MemoryResults, key: bytes, find: Any = MemoryResults.find) -> bytes | None:
        found.append(key)
        body: bytes | None = find(self, key)
        return body

    monkeypatch.setattr(MemoryResults, "find", find)
    keys = [ApiKey(key=Secret(letter * 40), name=letter) for letter in "ab"]
    with background(asgi(kit, result_limit=LIMIT, api_keys=keys)) as url:
        handle = read(call(url, name, {}, "a" * 40))["notes"]["handle"]
        parts = [
            read(call(url, "read_result", {"handle": handle, "from": start, "count": 1}, "a" * 40))["result"]
            for start in (0, 150_000, 299_999)
        ]
        wanted: list[Any] = [[0], [150_000], [299_999]] if name == "list_many" else ["0\n", "150000\n", "299999"]
        assert parts == wanted
        assert len(found) == 1, "it stays open for the next part"
        assert call(url, "read_result", {"handle": handle}, "b" * 40)["isError"], "but not for another caller"
        assert len(found) == 2


def test_replicas_without_a_shared_state_say_where_a_result_is(caplog: pytest.LogCaptureFixture) -> None:
    with (
        background(asgi(build_archive(), result_limit=LIMIT)) as one,
        background(asgi(build_archive(), result_limit=LIMIT)) as other,
    ):
        given = {"handle": read(call(one, "list_rows", {}))["notes"]["handle"], "path": "/*/name", "count": 1}
        assert read(call(one, "read_result", given))["result"] == ["row 0"]
        for url, handle, said in (
            (other, given["handle"], "in the memory of another process"),
            (one, f"{given['handle']}x", "No result with this handle is stored"),
            (one, "result:invented", "No result with this handle is stored"),
        ):
            refused = call(url, "read_result", {**given, "handle": handle})
            assert refused["isError"] is True
            assert said in refused["content"][0]["text"]
            assert ("--result-limit 0" in refused["content"][0]["text"]) == (url == other)
    (warning,) = [one.getMessage() for one in caplog.records if "another process" in one.getMessage()]
    assert "a shared --state" in warning
    assert given["handle"] not in warning


def test_a_gateway_keeps_the_long_results_of_its_upstreams() -> None:
    async def use(upstream: str) -> tuple[Any, Any]:
        async with connect(upstream, approve=lambda _: True) as remote:
            with background(asgi(merge_toolboxes([remote]), result_limit=LIMIT)) as url:
                first = await asyncio.to_thread(call, url, "list_rows", {})
                given = {"handle": read(first)["notes"]["handle"], "from": 499}
                return first, await asyncio.to_thread(call, url, "read_result", given)

    with background(asgi(build_archive())) as upstream:
        first, last = asyncio.run(use(upstream))
    assert read(first)["notes"]["total"] == 500
    assert read(last)["result"] == ROWS[499:]


@pytest.mark.parametrize("upstream_limit", [0, LIMIT])
@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_a_host_reads_a_long_result_through_a_gateway_to_its_end(mode: Any, upstream_limit: int) -> None:
    async def use(upstream: str) -> tuple[dict[str, Any], list[Any], Any]:
        async with connect(upstream, approve=lambda _: True) as remote:
            gateway = merge_toolboxes([remote], limits={0: UpstreamLimits()})
            with background(asgi(gateway, result_limit=LIMIT, find="auto")) as url:
                return await asyncio.to_thread(lambda: asyncio.run(read_all_rows(url, mode)))

    with background(asgi(build_archive(), result_limit=upstream_limit)) as upstream:
        tools, rows, _ = asyncio.run(use(upstream))
    assert tools.keys() == {"list_rows", "count_rows", "read_result"}
    assert rows == ROWS


def test_a_tool_of_the_user_keeps_its_name() -> None:
    with background(asgi(build_archive(has_reader=True), result_limit=LIMIT)) as url:
        assert "race 7: first" in json.dumps(call(url, "read_result", {"race": "race 7"}))
        notes = read(call(url, "list_rows", {}))["notes"]
        assert "with toolwire_read_result" in notes["advice"]
        part = read(call(url, "toolwire_read_result", {"handle": notes["handle"], "from": 499}))
        assert part["result"] == ROWS[499:]


def test_another_process_reads_what_one_has_kept(tmp_path: Path) -> None:
    options: Any = {"result_limit": LIMIT, "state": str(tmp_path / "state")}
    with background(asgi(build_archive(), **options)) as url:
        handle = read(call(url, "list_rows", {}))["notes"]["handle"]
    with background(asgi(build_archive(), **options)) as url:
        assert read(call(url, "read_result", {"handle": handle, "from": 499}))["result"] == ROWS[499:]


@pytest.mark.parametrize("shared", [True, False])
def test_results_are_bounded_in_bytes_and_in_time(shared: bool, tmp_path: Path) -> None:
    now = 1_000.0
    if shared:
        store: Any = open_results(str(tmp_path / "results.sqlite3"), stored_s=STORED_S, most_bytes=MAX_BYTES)
        store._rows.clock = lambda: now
    else:
        store = MemoryResults(lambda: now)
    part = bytes(MAX_BYTES // 4)
    for number in range(5):
        now += 1
        store.store(bytes([number]), part)
    assert store.find(b"\0") is None
    assert store.find(b"\4") == part
    now += STORED_S + 0.5
    assert store.find(b"\4") is None
    store.store(b"new", b"x")
    assert store.find(b"new") == b"x"


@pytest.mark.parametrize("limit", [999, -1, True, "2000"])
def test_a_limit_that_cannot_be_kept_is_refused(limit: Any) -> None:
    with pytest.raises(DefinitionError, match="result_limit"):
        asgi(build_archive(), result_limit=limit)


def build_reports() -> Toolkit:
    kit = Toolkit("Reports")

    @kit.tool(approval="auto")
    def read_log() -> dict[str, str]:
        """Read the log."""
        return {"text": "line\n" * 20_000}

    @kit.tool(blanket_allowed=True)
    def write_report() -> dict[str, str]:
        """Write a report."""
        return {"text": "line\n" * 20_000}

    return kit


async def call_as(url: str, client: str, mode: Any, name: str) -> tuple[dict[str, Any], str]:
    """Return the tools by name and the text of a result, as the official SDK gets them for a host of that name."""
    about = Implementation(name=client, version="1")
    async with Client(f"{url}/mcp", mode=mode, client_info=about) as sdk:
        tools = {one.name: one for one in (await sdk.list_tools()).tools}
        done: Any = await sdk.call_tool(name, {})
        return tools, done.content[0].text


@pytest.mark.parametrize("mode", ["auto", "legacy"])
@pytest.mark.parametrize(("client", "characters"), [("Zed", 20_000), ("claude-code", 50_000)])
def test_known_host_gets_what_its_profile_says_by_default(client: str, characters: int, mode: Any) -> None:
    with background(asgi(build_reports(), consent="hints")) as url:
        tools, text = asyncio.run(call_as(url, client, mode, "read_log"))
        _, written = asyncio.run(call_as(url, client, mode, "write_report"))
    assert tools.keys() == {"read_log", "write_report", "read_result"}
    assert tools["read_log"].output_schema is None
    assert tools["write_report"].output_schema is not None
    assert characters * 0.7 < len(text) <= characters
    assert json.loads(text)["notes"]["handle"]
    assert len(written) > 100_000, "what cannot be read again is whole"


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_result_of_a_write_is_cut_where_it_is_kept_until_it_was_read(mode: Any, tmp_path: Path) -> None:
    options: Any = {"consent": "hints", "state": str(tmp_path / "state")}
    with background(asgi(build_reports(), **options)) as url:
        tools, text = asyncio.run(call_as(url, "Zed", mode, "write_report"))
        _, whole = asyncio.run(call_as(url, "my-program", mode, "write_report"))
        assert tools["write_report"].output_schema is None
        assert (len(text) <= 20_000, len(whole) > 100_000) == (True, True)
        notes = json.loads(text)["notes"]
    with background(asgi(build_reports(), **options)) as url:  # another process, after a restart
        given = {"handle": notes["handle"], "path": "/text", "from": 19_999}
        assert json.dumps(read(call(url, "read_result", given))["result"]).count("line") == 1


def test_result_of_a_write_is_kept_as_long_as_a_recorded_call_and_no_other_replaces_it(tmp_path: Path) -> None:
    now, day, part = 1_000.0, 86_400.0, bytes(MAX_BYTES // 4)
    store = open_results(str(tmp_path / "results.sqlite3"), stored_s=STORED_S, most_bytes=MAX_BYTES)
    store._rows.clock = lambda: now  # type: ignore[method-assign]
    assert store.store(b"write 1", part, day)
    assert store.store(b"write 2", part, day)
    assert not store.store(b"write 3", b"x", day), "without room, its caller gets it whole"
    for number in range(9):
        now += 1
        assert store.store(b"read %d" % number, part)
    now = 1_000.0 + day
    assert store.find(b"read 8") is None
    assert [store.find(b"write 1"), store.find(b"write 2")] == [part, part]
    now += STORED_S + 1
    assert store.store(b"write 3", part, day)
    assert store.find(b"write 1") is None


def test_write_whose_result_finds_no_room_is_given_whole(tmp_path: Path) -> None:
    state = tmp_path / "state"
    with background(asgi(build_reports(), consent="hints", state=str(state))) as url:
        first = asyncio.run(call_as(url, "Zed", "auto", "write_report"))[1]
        assert len(first) <= 20_000
        (file,) = [one for one in state.rglob("*.sqlite3") if "session" in one.name]
        with closing(sqlite3.connect(file)) as rows:
            rows.execute("UPDATE kept_results SET size = ?", (MAX_BYTES,))
            rows.commit()
        assert len(asyncio.run(call_as(url, "Zed", "auto", "write_report"))[1]) > 100_000


@pytest.mark.parametrize("mode", ["auto", "legacy"])
@pytest.mark.parametrize(
    ("client", "options"),
    [
        ("my-program", {}),
        ("mcp", {}),
        ("openai-mcp", {}),
        ("Zed", {"result_limit": 0}),
        ("Zed", {"sessions": "none"}),
    ],
)
def test_no_program_gets_a_part_by_default(client: str, options: dict[str, Any], mode: Any) -> None:
    with background(asgi(build_reports(), **options)) as url:
        tools, text = asyncio.run(call_as(url, client, mode, "read_log"))
    assert tools.keys() == {"read_log", "write_report"}
    assert tools["read_log"].output_schema is not None
    assert len(text) > 100_000


def test_a_limit_overrides_the_profile() -> None:
    with background(asgi(build_reports(), result_limit=LIMIT, consent="hints")) as url:
        for client, name in (("claude-code", "read_log"), ("my-program", "read_log"), ("Zed", "write_report")):
            assert len(asyncio.run(call_as(url, client, "auto", name))[1]) <= LIMIT


def test_a_host_that_starts_the_server_is_known_by_its_name(tmp_path: Path) -> None:
    file = tmp_path / "reports.py"
    file.write_text(
        "from toolwire import Toolkit\nkit = Toolkit('Reports')\n@kit.tool(approval='auto')\n"
        "def read_log() -> str:\n    return 'line\\n' * 20_000\n",
        "utf-8",
    )
    command = StdioServerParameters(command=sys.executable, args=["-m", "toolwire", "serve", "--stdio", str(file)])

    async def use(client: str, mode: Any) -> int:
        about = Implementation(name=client, version="1")
        async with Client(stdio_client(command), mode=mode, client_info=about) as sdk:
            done: Any = await sdk.call_tool("read_log", {})
            return len(done.content[0].text)

    assert asyncio.run(use("Zed", "legacy")) <= 20_000
    assert asyncio.run(use("my-program", "legacy")) == 100_000
    assert asyncio.run(use("Zed", "auto")) <= 20_000
