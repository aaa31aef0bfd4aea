"""What tools need is opened once and filled in: a lifespan of the toolkit, and parameters that no caller sees."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
import textwrap
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Annotated, Any

import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

import toolwire
from toolwire import Context, DefinitionError, Depends, Kind, Problem, ToolError, Toolkit, connect, connect_sync
from toolwire.protocols import BUILTIN
from toolwire.testing.loopback import background

PROTOCOLS = [codec.name for codec in BUILTIN]


class Desk:
    """A toolkit with a database that is opened once, and what happened in which order."""

    def __init__(self, *, plain: bool = False) -> None:
        self.events: list[str] = []
        desk = self

        @contextmanager
        def hold() -> Iterator[dict[str, int]]:
            desk.events.append("opened")
            try:
                yield {"tea": 2}
            finally:
                desk.events.append("closed")

        @asynccontextmanager
        async def ahold() -> AsyncIterator[dict[str, int]]:
            await asyncio.sleep(0)
            with hold() as stock:
                yield stock

        self.kit = kit = Toolkit("Desk", lifespan=hold if plain else ahold)

        def get_stock(context: Context) -> dict[str, int]:
            desk.events.append(f"stock for {context.principal}")
            return context.state

        async def begin(stock: Annotated[dict[str, int], Depends(get_stock)]) -> AsyncIterator[list[str]]:
            changes: list[str] = []
            try:
                yield changes
            except BaseException as error:
                desk.events.append(f"undone for {type(error).__name__}")
                raise
            stock["changes"] = stock.get("changes", 0) + len(changes)
            desk.events.append("committed")

        @kit.tool(approval="auto", safe=True)
        async def count(name: str, stock: Annotated[dict[str, int], Depends(get_stock)]) -> int:
            """Count the packets of a sort."""
            return stock[name]

        @kit.tool(approval="auto")
        async def sell(
            name: str,
            stock: Annotated[dict[str, int], Depends(get_stock)],
            changes: Annotated[list[str], Depends(begin)],
            how_many: int = 1,
        ) -> int:
            """Sell some packets."""
            if stock[name] < how_many:
                raise ToolError("There is not so much.")
            stock[name] -= how_many
            changes.append(name)
            return stock[name]


@pytest.mark.requirement("FU-11")
def test_injected_parameters_are_not_in_the_schema() -> None:
    tool: Any = Desk().kit.catalog().find("sell")
    assert list(tool.parameters) == ["name", "how_many"]
    assert tool.required_parameters == ("name",)
    assert "$defs" not in tool.input_schema


@pytest.mark.requirement("FU-11")
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_lifespan_is_entered_once_and_exited_in_every_protocol(protocol: str) -> None:
    desk = Desk()
    with (
        background(toolwire.asgi(desk.kit)) as url,
        connect_sync(url, protocol=protocol, agree=lambda _: True) as remote,
    ):
        assert remote.call("count", {"name": "tea"}).unwrap() == 2
        assert remote.call("sell", {"name": "tea"}).unwrap() == 1
        assert desk.events == ["opened", "stock for anonymous", "stock for anonymous", "committed"]
        refused = remote.call("sell", {"name": "tea", "stock": {}})
        assert isinstance(refused, Problem)
        assert refused.kind is Kind.INVALID_ARGUMENTS, "a caller cannot fill it"
    assert desk.events[-1] == "closed"
    assert desk.events.count("opened") == desk.events.count("closed") == 1


@pytest.mark.requirement("FU-11")
def test_dependency_is_rolled_back_if_the_tool_fails() -> None:
    desk = Desk()
    with connect_sync(desk.kit, agree=lambda _: True) as remote:
        problem = remote.call("sell", {"name": "tea", "how_many": 9})
        assert isinstance(problem, Problem)
        assert problem.message == "There is not so much."
        assert desk.events[-1] == "undone for ToolError"
        assert remote.call("count", {"name": "tea"}).unwrap() == 2


@pytest.mark.requirement("FU-11")
@pytest.mark.parametrize("plain", [True, False])
def test_mounted_application_starts_with_its_first_call(plain: bool) -> None:
    desk = Desk(plain=plain)
    outer = Starlette(routes=[Mount("/tools", toolwire.asgi(desk.kit))])
    with background(outer) as url, connect_sync(f"{url}/tools/openapi.json", agree=lambda _: True) as remote:
        assert desk.events == []
        assert remote.call("count", {"name": "tea"}).unwrap() == 2
        assert remote.call("count", {"name": "tea"}).unwrap() == 2
        assert desk.events.count("opened") == 1


@pytest.mark.requirement("FU-11")
def test_concurrent_first_calls_start_the_lifespan_once() -> None:
    desk = Desk()

    async def call_often(url: str) -> list[Any]:
        async with connect(url, agree=lambda _: True) as remote:
            return await asyncio.gather(*(remote.call("count", {"name": "tea"}) for _ in range(20)))

    with background(Starlette(routes=[Mount("/", toolwire.asgi(desk.kit))])) as url:
        results = asyncio.run(call_often(url))
    assert [result.unwrap() for result in results] == [2] * 20
    assert desk.events.count("opened") == 1


@pytest.mark.requirement("FU-11")
def test_sync_function_and_its_dependencies_run_in_one_thread(tmp_path: Path) -> None:
    file, threads = tmp_path / "desk.sqlite3", list[int]()

    def connect_database() -> Iterator[sqlite3.Connection]:
        threads.append(threading.get_ident())
        database = sqlite3.connect(file)  # it refuses to be used by another thread
        try:
            with database:
                yield database
        finally:
            database.close()
            threads.append(threading.get_ident())

    kit = Toolkit("Notes")

    @kit.tool(approval="auto")
    def add(text: str, database: Annotated[sqlite3.Connection, Depends(connect_database)]) -> int:
        """Add a note."""
        database.execute("CREATE TABLE IF NOT EXISTS notes (text TEXT)")
        database.execute("INSERT INTO notes VALUES (?)", (text,))
        if text == "wrong":
            raise ToolError("No.")
        return int(database.execute("SELECT count(*) FROM notes").fetchone()[0])

    @kit.tool(approval="auto", safe=True)
    def texts(database: Annotated[sqlite3.Connection, Depends(connect_database)]) -> Iterator[str]:
        """List the notes."""
        for row in database.execute("SELECT text FROM notes"):
            yield row[0]

    with connect_sync(kit, agree=lambda _: True) as remote:
        assert remote.call("add", {"text": "one"}).unwrap() == 1
        assert isinstance(remote.call("add", {"text": "wrong"}), Problem)
        assert remote.call("add", {"text": "two"}).unwrap() == 2, "the failed one was rolled back"
        assert remote.call("texts").unwrap() == ["one", "two"]
    assert len(threads) == 8
    assert all(one == other for one, other in zip(threads[::2], threads[1::2], strict=True))


@pytest.mark.requirement("FU-11")
def test_cancelled_call_closes_its_dependencies() -> None:
    closed = threading.Event()

    async def cancel_call() -> None:
        started = asyncio.Event()
        kit = Toolkit("Slow")

        def open_file() -> Iterator[str]:
            try:
                yield "file"
            finally:
                closed.set()

        @kit.tool(approval="auto", safe=True)
        async def wait(file: Annotated[str, Depends(open_file)]) -> str:
            """Wait for ever."""
            started.set()
            await asyncio.Event().wait()
            return file

        async with connect(kit, agree=lambda _: True) as remote:
            running = asyncio.ensure_future(remote.call("wait"))
            await started.wait()
            assert not closed.is_set()
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
            await asyncio.to_thread(closed.wait, 30)

    asyncio.run(cancel_call())
    assert closed.is_set()


@pytest.mark.requirement("FU-11")
def test_failed_lifespan_is_reported_and_retried() -> None:
    tries: list[int] = []

    @asynccontextmanager
    async def hold() -> AsyncIterator[int]:
        tries.append(1)
        if len(tries) == 1:
            raise OSError("the database does not answer")
        yield 5

    kit = Toolkit("Desk", lifespan=hold)

    @kit.tool(approval="auto", safe=True)
    async def get(context: Context) -> int:
        """Get it."""
        return int(context.state)

    outer = Starlette(routes=[Mount("/", toolwire.asgi(kit))])
    with background(outer) as url, connect_sync(url, protocol="otc", agree=lambda _: True) as remote:
        failed = remote.call("get")
        assert isinstance(failed, Problem)
        assert failed.kind is Kind.TOOL_FAILED
        assert remote.call("get").unwrap() == 5


def loop_of(function: Callable[..., Any]) -> Callable[..., Any]:
    def around(inner: Any = Depends(function)) -> Any:  # noqa: B008 - as FastAPI has it
        return inner

    return around


@pytest.mark.requirement("FU-11")
def test_invalid_dependency_is_refused_at_definition() -> None:
    kit = Toolkit("Desk")

    def needs_more(name: str) -> str:
        return name

    with pytest.raises(DefinitionError, match=r"needs_more\(\) is a dependency, but 'name' gets no value"):

        @kit.tool
        def one(got: Annotated[str, Depends(needs_more)]) -> str:
            """Get."""
            return got

    with pytest.raises(DefinitionError, match="which is not a function"):

        @kit.tool
        def two(got: Annotated[str, Depends("text")]) -> str:  # type: ignore[arg-type]
            """Get."""
            return got

    deep: Callable[..., Any] = int
    for _ in range(30):
        deep = loop_of(deep)
    with pytest.raises(DefinitionError, match="nested 20 levels deep"):
        kit.add(loop_of(deep), name="deep")
    with pytest.raises(DefinitionError, match="function that returns a context manager"):
        Toolkit("Desk", lifespan=5)  # type: ignore[arg-type]
    assert kit.catalog().tools == ()


@pytest.mark.requirement("FU-11")
def test_depends_can_be_the_parameter_default() -> None:
    kit = Toolkit("Desk")

    def get_limit(most: int = 3) -> int:
        return most

    @kit.tool(approval="auto", safe=True)
    def show(limit: int = Depends(get_limit)) -> int:  # type: ignore[assignment]
        """Show the limit."""
        return limit

    assert list(kit.catalog().find("show").parameters) == []  # type: ignore[union-attr]
    with connect_sync(kit, agree=lambda _: True) as remote:
        assert remote.call("show").unwrap() == 3


@pytest.mark.requirement("FU-11")
def test_command_line_enters_and_exits_dependencies(tmp_path: Path) -> None:
    file = tmp_path / "desk.py"
    file.write_text(
        textwrap.dedent(
            """
            import sys
            from collections.abc import Iterator
            from contextlib import contextmanager
            from toolwire import Context, Toolkit

            @contextmanager
            def hold() -> Iterator[int]:
                print("opened", file=sys.stderr)
                yield 7
                print("closed", file=sys.stderr)

            desk = Toolkit("Desk", lifespan=hold)

            @desk.tool(approval="auto", safe=True)
            def get(context: Context) -> int:
                "Get the number."
                return context.state
            """
        )
    )
    done = subprocess.run(
        [sys.executable, "-m", "toolwire", "call", str(file), "get"],
        capture_output=True, check=False, text=True, timeout=60,
    )  # fmt: skip
    assert (done.stdout, done.stderr.split()) == ("7\n", ["opened", "closed"])
