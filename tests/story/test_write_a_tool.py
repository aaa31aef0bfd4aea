"""A tool is a typed function: its schema, its description and its policy come from what is written there."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta
from typing import Annotated, Any, Literal

import anyio
import pytest
from mcp import Client
from pydantic import Field

from toolwire import Approval, DefinitionError, Toolkit, Value, asgi, connect_sync
from toolwire.testing import background


@dataclass
class Room:
    number: int
    beds: Literal["one", "two"]


def hotel() -> Toolkit:
    toolkit = Toolkit("Hotel", version="2.0.0", description="Rooms for a night.")

    @toolkit.tool(approval="auto")
    def free_rooms(day: date, beds: Literal["one", "two"] = "one") -> list[Room]:
        """Say which rooms are free.

        Args:
            day: The first night.
            beds: How many beds.
        """
        return [Room(number=12, beds=beds)]

    @toolkit.tool(approval="per-call", destructive=True, cost="paid")
    async def cancel(number: Annotated[int, Field(ge=1)]) -> None:
        """Cancel a room."""

    return toolkit


def tool(name: str) -> Any:
    return hotel().catalog().find(name)


@pytest.mark.requirement("FU-13")
def test_method_as_a_tool_is_refused_with_advice() -> None:
    kit = Toolkit("Desk")
    with pytest.raises(DefinitionError, match=r"Desk\.open\(\) accepts self, .* kit\.add\(Desk\(\)\.open\)\."):

        class Desk:
            @kit.tool
            def open(self, drawer: int) -> int:
                """Open a drawer."""
                return drawer

    with pytest.raises(DefinitionError, match=r"class method, .* with kit\.add\(Shelf\.count\)"):

        class Shelf:
            @kit.tool  # type: ignore[type-var]  # it is refused
            @classmethod
            def count(cls) -> int:
                """Count the shelves."""
                return 1

    assert kit.catalog().tools == ()


@pytest.mark.requirement("FU-13")
def test_methods_of_an_object_can_be_added_after_its_class() -> None:
    class Counter:
        def __init__(self, start: int) -> None:
            self.count = start

        def increment(self, by: int = 1) -> int:
            """Increment the counter."""
            self.count += by
            return self.count

    kit = Toolkit("Counters")
    kit.add(Counter(40).increment, approval="auto", safe=True)
    assert list(kit.catalog().find("increment").parameters) == ["by"]  # type: ignore[union-attr]
    with connect_sync(kit, agree=lambda _: True) as remote:
        assert remote.call("increment", {"by": 2}).unwrap() == 42


@pytest.mark.requirement("OTC-001", "OTC-011")
def test_schema_comes_from_types_and_description_from_the_docstring() -> None:
    free = tool("free_rooms")
    assert (free.id, free.description) == ("Hotel.free_rooms@2.0.0", "Say which rooms are free.")
    assert free.parameters["day"] == {"type": "string", "format": "date", "description": "The first night."}
    assert free.parameters["beds"]["enum"] == ["one", "two"]
    assert free.parameters["beds"]["default"] == "one"
    assert free.required_parameters == ("day",)
    assert free.output_schema["type"] == "array"


def test_decorator_options_define_the_policy() -> None:
    assert (tool("free_rooms").approval, tool("free_rooms").safe) == (Approval.AUTO, True)
    assert (tool("cancel").approval, tool("cancel").destructive) == (Approval.PER_CALL, True)
    assert tool("cancel").output_schema is None


def test_decorator_returns_the_original_function() -> None:
    toolkit = Toolkit("Kit")

    @toolkit.tool
    def double(number: int) -> int:
        """Double a number."""
        return 2 * number

    assert double(21) == 42


@pytest.mark.requirement("OTC-002", "OTC-003")
def test_invalid_tool_function_is_refused_by_name() -> None:
    toolkit = Toolkit("Kit")

    def greet(*names: str) -> str:
        return " ".join(names)

    def connect(socket: Ellipsis) -> None:  # type: ignore[valid-type]  # that is the point
        pass

    def add(a: int, b: int) -> int:
        return a + b

    with pytest.raises(DefinitionError, match=r"greet\(\).*names"):
        toolkit.add(greet)
    with pytest.raises(DefinitionError, match=r"connect\(\).*socket"):
        toolkit.add(connect)
    with pytest.raises(DefinitionError, match="not a name"):
        toolkit.add(add, name="not a name")
    toolkit.add(add)
    with pytest.raises(DefinitionError, match=r"Kit\.add@1\.0\.0"):
        toolkit.add(add)
    assert [function.tool.name for function in toolkit.functions] == ["add"]


@pytest.mark.requirement("FU-06", "I-05")
def test_duration_result_matches_its_schema_in_every_protocol() -> None:
    kit = Toolkit("Kitchen")

    @kit.tool(approval="auto")
    def cook(eggs: int) -> timedelta:
        return timedelta(seconds=-90 * eggs)  # pydantic's text of it is no duration of RFC 3339

    async def list_with_the_official_client(url: str) -> tuple[Any, Any]:
        async with Client(f"{url}/mcp") as client:
            (tool,) = (await client.list_tools()).tools
            return tool, await client.call_tool("cook", {"eggs": 2})

    with background(asgi(kit)) as url:
        for protocol in ("openapi", "opentool", "otc", "mcp"):
            with connect_sync(url, protocol=protocol, agree=lambda _: True) as remote:
                assert remote.call("cook", {"eggs": 2}) == Value("-PT3M")
                assert remote.tools[0].output_schema == {"type": "string"}
        tool, result = anyio.run(list_with_the_official_client, url)
    # In MCP a text goes once, as text, and nothing is listed that a client would check it against.
    assert ([block.text for block in result.content], result.is_error) == (["-PT3M"], False)
    assert (tool.output_schema, result.structured_content) == (None, None)
    assert not tool.description
    assert "description" not in str(tool.input_schema)
