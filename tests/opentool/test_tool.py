"""Objects served as they are: sync and async, with and without a document, streaming, beginning and ending."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from toolwire.core.errors import DefinitionError, ToolError
from toolwire.core.model import Call, Kind, Problem, Progress, Tool, Value
from toolwire.core.toolbox import Toolbox
from toolwire.opentool import (
    FunctionCall,
    FunctionNotSupportedException,
    InvalidArgumentsException,
    OpenToolJsonLoader,
    OpenToolServerCallException,
    SyncOpenToolClient,
    ToolBreakException,
    build_toolbox,
)
from toolwire.opentool import Tool as ToolShape
from toolwire.opentool.options import read_options

from .conftest import DOCUMENT, Notes, Serve
from .foreign_clients import ask

VECTORS = Path(__file__).parents[1] / "vectors" / "opentool"


class Slow(Notes):
    """The same tool, async."""

    async def call(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:  # type: ignore[override]  # async
        await asyncio.sleep(0)
        return super().call(name, arguments)

    async def load(self) -> Any:
        await asyncio.sleep(0)
        return self.document


def run(box: Toolbox, name: str, arguments: dict[str, Any] | None = None) -> Any:
    tool = box.catalog().find(name)
    assert isinstance(tool, Tool), tool
    return asyncio.run(box.run(Call(tool, arguments or {}, "c1")))


@pytest.mark.parametrize("kind", [Notes, Slow])
@pytest.mark.requirement("OTRPC-020", "OTRPC-021")
def test_a_class_with_call_and_load_is_served_sync_or_async(kind: type[Notes]) -> None:
    box = build_toolbox(kind(DOCUMENT))
    assert list(box.catalog().names) == ["break", "count", "create", "fail", "read"]
    assert box.catalog().version == "2.3.4"
    assert run(box, "create", {"text": "a"}) == Value(1)
    assert run(box, "count") == Value({"count": 1})


@pytest.mark.parametrize(
    "document",
    [
        OpenToolJsonLoader().load(json.dumps(DOCUMENT)),
        DOCUMENT,
    ],
    ids=["OpenTool", "data"],
)
@pytest.mark.requirement("OTRPC-021")
def test_document_can_be_an_object_or_its_data(document: Any) -> None:
    assert len(build_toolbox(Notes(document)).catalog().tools) == 5


@pytest.mark.parametrize("path", sorted(VECTORS.glob("sdk_*.json")), ids=lambda path: path.stem)
@pytest.mark.requirement("OTRPC-013", "OT-031")
def test_the_documents_of_the_sdks_describe_a_tool(path: Path) -> None:
    assert build_toolbox(Notes(), path).catalog().tools


@pytest.mark.requirement("OTRPC-020")
def test_tool_exception_becomes_a_problem_without_internal_details(
    caplog: pytest.LogCaptureFixture,
) -> None:
    box = build_toolbox(Notes(DOCUMENT))
    assert run(box, "break") == Problem(kind=Kind.TOOL_FAILED, message="Fatal error occurred in run()")
    with caplog.at_level(logging.ERROR, "toolwire"):
        problem = run(box, "fail")
    assert problem.kind is Kind.TOOL_FAILED
    assert problem.message == "fail failed. See the server's log."
    assert "hunter2" in caplog.text


@pytest.mark.parametrize(
    ("name", "kind", "message"),
    [
        ("nope", Kind.UNKNOWN_TOOL, "Function Not Supported: nope"),
        ("refuse", Kind.INVALID_ARGUMENTS, 'Invalid Arguments: {"a":1}'),
    ],
)
def test_each_tool_exception_has_its_problem_kind(name: str, kind: Kind, message: str, serve: Serve) -> None:
    server = serve(Notes())
    with SyncOpenToolClient(server.url) as client, pytest.raises(OpenToolServerCallException) as raised:
        client.call(FunctionCall("1", name, {"a": 1}))
    assert raised.value.to_json() == {"message": message}
    assert raised.value.problem is not None
    assert raised.value.problem.kind is kind


def test_tool_error_keeps_its_message() -> None:
    class Careful(Notes):
        def call(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
            raise ToolError("come back", can_retry=True, retry_after_ms=5)

    problem = run(build_toolbox(Careful(DOCUMENT)), "count")
    assert (problem.message, problem.can_retry, problem.retry_after_ms) == ("come back", True, 5)


@pytest.mark.requirement("A-49")
def test_arguments_absent_from_the_document_do_not_reach_the_tool(serve: Serve) -> None:
    class Echo:
        def call(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
            return {"got": arguments}

    described, free = serve(Echo(), document=DOCUMENT), serve(Echo())
    call = FunctionCall("1", "create", {"text": "a", "sessionId": "s"})
    message = "create takes no `sessionId`: it takes `text`"
    with SyncOpenToolClient(described.url) as client, pytest.raises(OpenToolServerCallException, match=message):
        client.call(call)
    with SyncOpenToolClient(free.url) as client:
        assert client.call(call).result == {"got": {"text": "a", "sessionId": "s"}}


@pytest.mark.requirement("OTRPC-020", "OTRPC-021")
def test_class_can_be_a_subclass_of_tool(serve: Serve) -> None:
    class Mine(ToolShape):
        def call(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
            return {"name": name}

    assert read_options(Mine) == ()
    with SyncOpenToolClient(serve(Mine).url) as client:
        assert client.call(FunctionCall("1", "anything")).result == {"name": "anything"}
        assert client.load() is None


def test_invalid_arguments_do_not_reach_the_tool(serve: Serve) -> None:
    tool = Notes(DOCUMENT)
    with SyncOpenToolClient(serve(tool).url) as client, pytest.raises(OpenToolServerCallException, match="text"):
        client.call(FunctionCall("1", "create", {"text": 7}))
    assert tool.texts == []


@pytest.mark.requirement("OTRPC-011", "S-6", "A-20")
def test_a_result_is_an_object_with_the_names_the_tool_gave(serve: Serve) -> None:
    answers: dict[str, Any] = {"create": {"id": 1}, "count": 3, "read": None, "fail": {"a": 1, "b": {}}, "break": {}}

    class Plain:
        def call(self, name: str, arguments: dict[str, Any]) -> Any:
            return answers[name]

    with SyncOpenToolClient(serve(Plain(), document=DOCUMENT).url) as client:

        def said(name: str, **arguments: Any) -> Any:
            return client.call(FunctionCall("1", name, arguments)).result

        assert said("create", text="a") == {"id": 1}
        assert said("count") == {"result": 3}
        assert said("read", id=1) == {}
        assert said("fail") == {"a": 1, "b": {}}
        assert said("break") == {}


def test_any_name_reaches_a_tool_without_a_document_and_is_not_stored(serve: Serve) -> None:
    names: list[str] = []

    class Open:
        def call(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
            names.append(name)
            return {}

    with SyncOpenToolClient(serve(Open()).url) as client:
        for name in ("call", "a.b", "café", "x" * 500):
            client.call(FunctionCall("1", name))
    assert names == ["call", "a.b", "café", "x" * 500]


def test_init_runs_once_before_the_first_call_and_dispose_after_the_last(serve: Serve) -> None:
    class Live(Notes):
        def __init__(self) -> None:
            super().__init__()
            self.seen: list[tuple[str, int]] = []

        async def init(self) -> None:
            self.note("init")

        async def call(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:  # type: ignore[override]  # async
            self.note("call")
            return {}

        async def dispose(self) -> None:
            self.note("dispose")

        def note(self, what: str) -> None:
            self.seen.append((what, id(asyncio.get_running_loop())))

    tool = Live()
    server = serve(tool)
    with SyncOpenToolClient(server.url) as client:
        client.call(FunctionCall("1", "a"))
        client.call(FunctionCall("2", "b"))
    server.stop()
    assert [what for what, _ in tool.seen] == ["init", "call", "call", "dispose"]
    assert len({loop for _, loop in tool.seen}) == 1


def test_unstarted_toolbox_starts_with_its_first_call() -> None:
    class Lazy(Notes):
        begun = 0

        def init(self) -> None:
            self.begun += 1

    tool = Lazy(DOCUMENT)
    box = build_toolbox(tool)

    async def call_twice() -> None:
        found = box.catalog().names["count"]
        await asyncio.gather(box.run(Call(found, {})), box.run(Call(found, {})))

    assert tool.begun == 0
    asyncio.run(call_twice())
    assert tool.begun == 1


STREAMING: dict[str, Any] = {
    "opentool": "2.0.0",
    "info": {"title": "Feed", "version": "1.0.0"},
    "functions": [
        {
            "name": "follow",
            "description": "Follow.",
            "parameters": [],
            "stream": {"data": {"name": "data", "schema": {"type": "object", "properties": {}}}},
        }
    ],
}


class Feed:
    """Streams three pieces; called plainly it gives them at once."""

    threads: set[int]

    def __init__(self) -> None:
        self.threads = set()

    def call(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        return {"whole": [1, 2, 3]}

    def stream_call(self, name: str, arguments: dict[str, Any]) -> Iterator[dict[str, Any]]:
        for piece in (1, 2, 3):
            self.threads.add(threading.get_ident())
            yield {"piece": piece}

    def load(self) -> Any:
        return STREAMING


class AsyncFeed(Feed):
    """The same, async."""

    async def stream_call(self, name: str, arguments: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:  # type: ignore[override]  # async
        for piece in (1, 2, 3):
            yield {"piece": piece}


@pytest.mark.parametrize("kind", [Feed, AsyncFeed])
@pytest.mark.requirement("A-11", "A-28")
def test_generator_is_streamed_in_the_frames_that_dart_reads(kind: type[Feed], serve: Serve) -> None:
    server = serve(kind())
    body = b'{"jsonrpc":"2.0","method":"follow","params":{},"id":"c1"}'
    answer = ask(server.url, "POST", "/opentool/streamCall", body, content_type="application/json")
    frames = answer.body.decode().split("\n\n")
    assert frames == [
        'event:start\ndata:{"start":"follow"}',
        *(f'event:data\ndata:{{"jsonrpc":"2.0","result":{{"piece":{number}}},"id":"c1"}}' for number in (1, 2, 3)),
        'event:done\ndata:{"done":"follow"}',
        "",
    ]
    plain = ask(server.url, "POST", "/opentool/call", body, content_type="application/json")
    assert plain.json["result"] == {"whole": [1, 2, 3]}


@pytest.mark.parametrize("kind", [Feed, AsyncFeed])
def test_any_name_can_be_streamed_without_a_document(kind: type[Feed], serve: Serve) -> None:
    tool = kind()
    tool.load = lambda: None  # type: ignore[method-assign]  # the same tool, without its document
    body = b'{"jsonrpc":"2.0","method":"follow","params":{},"id":"c1"}'
    server = serve(tool)
    answer = ask(server.url, "POST", "/opentool/streamCall", body, content_type="application/json")
    assert answer.body.count(b'event:data\ndata:{"jsonrpc":"2.0","result":{"piece":') == 3
    plain = ask(server.url, "POST", "/opentool/call", body, content_type="application/json")
    assert plain.json["result"] == {"whole": [1, 2, 3]}


def test_named_progress_keeps_its_name() -> None:
    class Named(Feed):
        def stream_call(self, name: str, arguments: dict[str, Any]) -> Iterator[Any]:
            yield Progress({"n": 1}, "tick")

    received: list[Progress] = []

    async def notify(progress: Progress) -> None:
        received.append(progress)

    box = build_toolbox(Named())
    asyncio.run(box.run(Call(box.catalog().names["follow"], {}), notify))
    assert received == [Progress({"n": 1}, "tick")]


def test_unusable_tool_is_refused_in_one_sentence() -> None:
    class Needy(Notes):
        def __init__(self, path: str) -> None:
            super().__init__()

    class Empty:
        pass

    class Failing(Notes):
        def load(self) -> Any:
            raise OSError("no disk")

    for tool, message in [
        (Needy, "Needy cannot be created without arguments"),
        (Empty, "Empty cannot be served"),
        (Failing, "load\\(\\) of Failing failed: OSError: no disk"),
        (Notes({"opentool": "1.1.0"}), "not an OpenTool document"),
        (Notes(7), "not int"),
    ]:
        with pytest.raises(DefinitionError, match=message):
            build_toolbox(tool)
    with pytest.raises(DefinitionError, match=r"Cannot read the document .*: No such file"):
        build_toolbox(Notes(), Path("missing.json"))


@pytest.mark.requirement("A-13")
@pytest.mark.parametrize(
    ("name", "kind", "message"),
    [
        ("brk", Kind.TOOL_FAILED, "The disk is full"),
        ("inv", Kind.INVALID_ARGUMENTS, "Invalid Arguments: {}"),
        ("none", Kind.UNKNOWN_TOOL, "Function Not Supported: none"),
    ],
)
def test_tool_exceptions_mean_the_same_in_per_function_methods(name: str, kind: Kind, message: str) -> None:
    class Methods:
        def brk(self) -> None:
            raise ToolBreakException("The disk is full")

        def inv(self) -> None:
            raise InvalidArgumentsException({})

        def none(self) -> None:
            raise FunctionNotSupportedException("none")

    functions = [
        {"name": each, "description": each, "parameters": [], "return": None} for each in ("brk", "inv", "none")
    ]
    document = {"opentool": "1.1.0", "info": {"title": "T", "version": "1.0.0"}, "functions": functions}
    problem = run(build_toolbox(Methods(), document), name)
    assert (problem.kind, problem.message) == (kind, message)
