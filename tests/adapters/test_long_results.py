"""A model of any SDK gets a long result in parts, whatever the protocol, and reads the rest with read_result."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from toolwire import Preferences, Question, ResultLimits, Toolkit, connect, connect_sync
from toolwire.adapters import anthropic, openai
from toolwire.adapters.dialects import Provider
from toolwire.adapters.tool_declarations import declare_toolbox
from toolwire.core.catalog import Catalog
from toolwire.core.model import Tool, Value

pytestmark = pytest.mark.requirement("QF-10")

WIRES = ["opentool", "otc", "openapi", "mcp"]
ROWS: list[dict[str, Any]] = [{"id": number, "name": f"row {number}", "text": "x" * 40} for number in range(3_000)]


def build_kit() -> Toolkit:
    kit = Toolkit("Archive")

    @kit.tool(approval="auto")
    def list_rows() -> list[dict[str, Any]]:
        """List all rows."""
        return ROWS

    @kit.tool(approval="auto")
    def read_log() -> str:
        """Read the log."""
        return "one line of the log\n" * 9_000

    @kit.tool(approval="auto")
    def count_rows() -> int:
        """Count the rows."""
        return len(ROWS)

    return kit


def ask(box: Any, name: str, /, **arguments: Any) -> Any:
    call = {"id": "c1", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
    text = str(openai.run_tool_call_sync(box, call)["content"])
    assert len(text) < 21_000
    return json.loads(text)


@pytest.mark.requirement("GR-06", "XL-103")
@pytest.mark.parametrize("wire", WIRES)
def test_a_model_reads_a_long_result_in_parts_on_every_protocol(wire: str) -> None:
    asked: list[Question] = []

    def approve(question: Question) -> bool:
        asked.append(question)
        return True

    with connect_sync(build_kit(), protocol=wire, approve=approve) as remote:
        assert [one["function"]["name"] for one in openai.build_tools(remote)][-1] == "read_result"
        whole = remote.call("list_rows")
        assert (whole.ok, whole.unwrap()) == (True, ROWS)  # a program gets the whole, on every protocol
        message = ask(remote, "list_rows")
        notes = message["notes"]
        assert (notes["total"], notes["shape"]) == (3_000, "3,000 of {id, name, text}")
        rows, start = message["result"], notes["next"]
        while start is not None:
            part = ask(remote, "read_result", handle=notes["handle"], **{"from": start})
            assert part["source"] == message["source"]  # whose data it is stands before each part
            rows, start = rows + part["result"], part["notes"].get("next")
        assert rows == ROWS
        names = ask(remote, "read_result", handle=notes["handle"], path="/*/name", count=2)
        assert names["result"] == ["row 0", "row 1"]
        log = ask(remote, "read_log")
        lines = ask(remote, "read_result", handle=log["notes"]["handle"], **{"from": 8_999})
        assert lines["result"] == "one line of the log\n"
        assert len(asked) <= 3, "reading asks nobody"


def test_a_handle_means_nothing_to_another_connection() -> None:
    with connect_sync(build_kit(), approve=lambda _: True) as one, connect_sync(build_kit()) as other:
        handle = ask(one, "read_log")["notes"]["handle"]
        assert "result" in ask(one, "read_result", handle=handle)
        refused = ask(other, "read_result", handle=handle)
        assert refused["error"]["message"].startswith("No result with this handle")
        assert "error" in ask(one, "read_result", handle="resource:" + "0" * 32)
        assert "error" in ask(one, "read_result")


def test_reading_is_asynchronous_too_and_the_limit_is_the_callers() -> None:
    async def use() -> tuple[Any, Any, Any]:
        limits = ResultLimits(characters=1_000)
        async with connect(build_kit(), approve=lambda _: True, caps=limits) as remote:
            call = {"type": "tool_use", "id": "1", "name": "read_log", "input": {}}
            first = json.loads(str((await anthropic.run_tool_call(remote, call))["content"]))  # type: ignore[typeddict-item]  # it is there
            read = {"handle": first["notes"]["handle"], "from": first["notes"]["next"], "count": 1}
            call = {"type": "tool_use", "id": "2", "name": "read_result", "input": read}
            again = await anthropic.run_tool_call(remote, call)
            return first, json.loads(str(again["content"])), again["is_error"]  # type: ignore[typeddict-item]  # as above

    first, second, is_error = asyncio.run(use())
    assert len(first["result"]) < 1_000
    assert (second["result"], is_error) == ("one line of the log\n", False)


def test_a_tool_of_the_user_keeps_its_name() -> None:
    kit = build_kit()

    @kit.tool(approval="auto")
    def read_result(handle: str) -> str:
        """Read the result of a race."""
        return f"{handle}: first"

    with connect_sync(kit, approve=lambda _: True) as remote:
        names = [one["function"]["name"] for one in openai.build_tools(remote)]
        assert names[-2:] == ["read_result", "toolwire_read_result"]
        assert ask(remote, "read_result", handle="race 7")["result"] == "race 7: first"
        notes = ask(remote, "read_log")["notes"]
        assert "with toolwire_read_result" in notes["advice"]
        assert ask(remote, "toolwire_read_result", handle=notes["handle"], count=1)["notes"]["total"] == 9_000


def test_nothing_is_added_where_no_result_is_long_or_no_tool_fits() -> None:
    class Box:
        def __init__(self, *tools: Tool) -> None:
            self._catalog = Catalog(title="Site", tools=tools)

        def catalog(self) -> Catalog:
            return self._catalog

        def call(self, _name: str, _arguments: Any, /) -> Value:
            return Value("x" * 30_000)

    small = Box(Tool(name="count", output_schema={"type": "integer"}), Tool(name="stop", output_schema=None))
    assert [one.name for one in declare_toolbox(small, Provider.OPENAI)] == ["count", "stop"]
    full = Box(*(Tool(name=f"t{number}") for number in range(128)))
    assert len(declare_toolbox(full, Provider.OPENAI)) == 128
    assert len(declare_toolbox(full, Provider.ANTHROPIC)) == 129


@pytest.mark.requirement("QF-06")
def test_what_was_read_in_parts_counts_as_read() -> None:
    kit = build_kit()

    @kit.tool(approval="auto", destructive=False)
    def post(url: str) -> str:
        """Post something."""
        return url

    asked: list[Question] = []

    def approve(question: Question) -> bool:
        asked.append(question)
        return True

    marks = Preferences(untrusted=frozenset({"read_log"}), private=frozenset({"list_rows"}))
    with connect_sync(kit, approve=approve, preferences=marks, agree=lambda _: True) as remote:
        handle = ask(remote, "read_log")["notes"]["handle"]
        ask(remote, "list_rows")
        ask(remote, "read_result", handle=handle, count=1)
        ask(remote, "post", url="https://a.example")
    reasons = " ".join(asked[-1].reasons)
    assert "read_log" in reasons
    assert "list_rows" in reasons
