"""Several toolboxes as one."""

import asyncio

import pytest

from toolwire import DefinitionError, Tool, Toolbox, Toolkit, merge_toolboxes
from toolwire.core.catalog import Catalog
from toolwire.core.model import Call, Kind, Problem, Result, Value
from toolwire.core.toolbox import Notify, ignore_progress
from toolwire.server.run.function_toolbox import FunctionToolbox


class Box:
    """A toolbox whose catalog can change; it answers with its own name."""

    def __init__(self, name: str, *tools: str) -> None:
        self.name = name
        self.now = Catalog(tools=tuple(Tool(name=tool, toolkit=name) for tool in tools))

    def catalog(self) -> Catalog:
        return self.now

    async def run(self, call: Call, notify: Notify = ignore_progress) -> Result:
        return Value(f"{self.name} ran {call.tool.name}")


def hello() -> str:
    """Say hello."""
    return "hello"


def run(toolbox: Toolbox, tool: Tool | Problem) -> Result:
    assert isinstance(tool, Tool)
    return asyncio.run(toolbox.run(Call(tool, {})))


def test_merged_call_runs_in_the_toolbox_of_its_tool() -> None:
    both = merge_toolboxes([Box("One", "a", "b"), Box("Two", "a")], title="Both")
    assert both.catalog().title == "Both"
    assert run(both, both.catalog().find("One_a")) == Value("One ran a")
    assert run(both, both.catalog().find("Two_a")) == Value("Two ran a")
    assert run(both, both.catalog().find("b")) == Value("One ran b")


def test_merging_one_toolbox_returns_it_unchanged() -> None:
    box = Box("One", "a")
    assert merge_toolboxes([box]) is box


def test_local_toolkit_can_be_merged_with_any_toolbox() -> None:
    kit = Toolkit("Here")

    @kit.tool
    def hello() -> str:
        """Say hello."""
        return "hello"

    both = merge_toolboxes([FunctionToolbox(kit), Box("There", "a")])
    assert run(both, both.catalog().find("hello")) == Value("hello")


def test_merged_catalog_is_the_same_object_until_a_member_changes() -> None:
    one = Box("One", "a")
    both = merge_toolboxes([one, Box("Two", "b")])
    before = both.catalog()
    assert both.catalog() is before
    one.now = Catalog(tools=(Tool(name="c", toolkit="One"),))
    assert both.catalog() is not before
    assert run(both, both.catalog().find("c")) == Value("One ran c")


def test_a_tool_that_left_is_not_run() -> None:
    both = merge_toolboxes([Box("One", "a"), Box("Two", "b")])
    problem = run(both, Tool(name="gone", toolkit="One"))
    assert isinstance(problem, Problem)
    assert problem.kind is Kind.UNKNOWN_TOOL


@pytest.mark.requirement("OTC-002")
def test_two_tools_with_one_id_cannot_be_merged() -> None:
    kit = Toolkit("One")
    kit.tool(hello)
    with pytest.raises(DefinitionError, match=r"two tools have the ID 'One\.hello@1\.0\.0'"):
        merge_toolboxes([FunctionToolbox(kit), FunctionToolbox(kit)])


@pytest.mark.requirement("D-32")
def test_two_toolboxes_with_a_toolkit_of_one_name_cannot_be_served_together() -> None:
    with pytest.raises(DefinitionError, match="Cannot serve these together: two of them contain a toolkit named 'One'"):
        merge_toolboxes([Box("One", "a"), Box("One", "b")])


class Living(Box):
    """A toolbox that notes its beginning and its end, and may be unable to begin."""

    def __init__(self, name: str, seen: list[str], *, able: bool = True) -> None:
        super().__init__(name)
        self.seen, self.able = seen, able

    async def begin(self) -> None:
        if not self.able:
            raise RuntimeError("no disk")
        self.seen.append(f"{self.name} began")

    async def end(self) -> None:
        self.seen.append(f"{self.name} ended")


def test_started_toolboxes_are_stopped_if_another_fails_to_start() -> None:
    seen: list[str] = []
    both = merge_toolboxes(
        [Living("One", seen), Living("Two", seen), Living("Three", seen, able=False), Living("Four", seen)]
    )
    with pytest.raises(RuntimeError, match="no disk"):
        asyncio.run(both.begin())
    assert seen == ["One began", "Two began", "Two ended", "One ended"]
