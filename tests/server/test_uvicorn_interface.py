"""Our connection is no class of uvicorn's, and uvicorn still has every attribute that we use of its objects."""

from __future__ import annotations

import ast
import asyncio
import gc
import inspect
import socket
import textwrap
import threading
from pathlib import Path
from typing import Any

import pytest
import uvicorn
import uvicorn.config
import uvicorn.supervisors

import toolwire.server.http
from toolwire.server.http.connection import HttpConnection
from toolwire.server.http.flow_control import FlowControl
from toolwire.server.http.process import ServerConfig
from toolwire.server.http.request_cycle import RequestCycle
from toolwire.server.http.uvicorn_interface import UvicornConfig, UvicornState

HANG_S = 30.0


async def app(_scope: Any, _receive: Any, _send: Any) -> None: ...


def build_app() -> Any:
    return app


def attributes_of(interface: type) -> list[str]:
    return sorted(interface.__annotations__)


@pytest.mark.parametrize("ours", [HttpConnection, RequestCycle, FlowControl])
def test_no_class_of_a_connection_inherits_from_uvicorn(ours: type) -> None:
    theirs = [base for base in ours.__mro__ if base.__module__.startswith("uvicorn")]
    assert not theirs, f"{ours.__name__} inherits from {theirs}, which uvicorn may change in any release."


def test_only_the_process_and_its_server_import_uvicorn() -> None:
    importers = set()
    for path in Path(toolwire.server.http.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            importers |= {path.name for name in names if name.split(".")[0] == "uvicorn"}
    assert importers == {"process.py", "prompt_server.py"}


@pytest.mark.parametrize("name", attributes_of(UvicornConfig))
def test_uvicorn_config_has_the_attributes_a_connection_reads(name: str) -> None:
    config = uvicorn.Config(app, log_config=None)
    config.load()
    assert hasattr(config, name), f"uvicorn.Config has no {name!r} any more, which server/http/connection.py reads."


@pytest.mark.parametrize("name", attributes_of(UvicornState))
def test_uvicorn_server_state_has_the_attributes_a_connection_uses(name: str) -> None:
    state = uvicorn.Server(uvicorn.Config(app, log_config=None)).server_state
    assert hasattr(state, name), f"uvicorn's server_state has no {name!r} any more, which server/http uses."


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (uvicorn.Config, "load"),
        (uvicorn.Config, "configure_logging"),
        (uvicorn.Config, "get_loop_factory"),
        (uvicorn.Server, "run"),
        (uvicorn.Server, "serve"),
        (uvicorn.Server, "main_loop"),
        (uvicorn.Server, "on_tick"),
        (uvicorn.Server, "shutdown"),
        (uvicorn.config, "STARTUP_FAILURE"),
        (uvicorn.supervisors, "Multiprocess"),
        (uvicorn.supervisors.Multiprocess, "run"),
        (uvicorn.supervisors.Multiprocess, "keep_subprocess_alive"),
        *(
            (uvicorn.supervisors.multiprocess.Process, name)
            for name in ("kill", "join", "start", "terminate", "wait_until_ready")
        ),
        (uvicorn.supervisors, "ChangeReload"),
        (uvicorn.supervisors.ChangeReload, "run"),
        (uvicorn.supervisors.ChangeReload, "should_restart"),
    ],
)
def test_uvicorn_has_the_functions_the_process_calls(owner: Any, name: str) -> None:
    assert hasattr(owner, name), f"{owner.__name__} has no {name!r} any more, which server/http/process.py uses."


def test_uvicorn_still_has_the_options_that_we_set() -> None:
    options = set(inspect.signature(uvicorn.Config).parameters)
    call = next(
        node
        for node in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(ServerConfig))))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "super().__init__"
    )
    ours = {keyword.arg for keyword in call.keywords if keyword.arg}
    assert "http" in ours
    assert ours <= options, f"uvicorn.Config has no options {sorted(ours - options)} any more."


class Recorder(asyncio.Protocol):
    """A protocol class as ``http=`` takes one: it notes what it is given, and whether it is asked to end."""

    given: dict[str, Any]
    was_shut_down = False

    def __init__(self, **given: Any) -> None:
        type(self).given = given

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.given["server_state"].connections.add(self)
        transport.write(b"made")

    def connection_lost(self, _exc: Exception | None) -> None:
        self.given["server_state"].connections.discard(self)

    def shutdown(self) -> None:
        type(self).was_shut_down = True
        self.transport.close()


def test_uvicorn_creates_our_protocol_and_calls_its_shutdown() -> None:
    server = uvicorn.Server(uvicorn.Config(app, http=Recorder, lifespan="off", log_config=None))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        with socket.create_connection(listener.getsockname(), timeout=HANG_S) as peer:
            assert peer.recv(4) == b"made"
            server.should_exit = True
            assert peer.recv(1) == b"", "uvicorn did not call shutdown() of an open connection."
        thread.join(HANG_S)
    assert not thread.is_alive()
    assert Recorder.was_shut_down
    taken = inspect.signature(HttpConnection).parameters
    required = {
        name for name, each in taken.items() if each.default is each.empty and each.kind is not each.VAR_KEYWORD
    }
    missing = sorted(required - set(Recorder.given))
    assert not missing, (
        f"uvicorn does not give {missing} to a protocol any more, which server/http/connection.py needs."
    )


def test_a_keyword_that_a_later_uvicorn_adds_is_ignored() -> None:
    async def build() -> HttpConnection:
        config = ServerConfig(app)  # type: ignore[arg-type]  # it is not served
        config.load()
        return HttpConnection(config, uvicorn.Server(config).server_state, {}, something_new=1)

    assert isinstance(asyncio.run(build()), asyncio.Protocol)


@pytest.mark.parametrize(
    ("before", "after"),
    [((700, 10, 10), (10_000, 10, 10)), ((50_000, 5, 5), (50_000, 5, 5)), ((0, 10, 10), (0, 10, 10))],
)
def test_server_raises_the_gc_threshold_unless_the_program_set_one(
    before: tuple[int, int, int], after: tuple[int, int, int]
) -> None:
    own = gc.get_threshold()
    try:
        gc.set_threshold(*before)
        ServerConfig(f"{__name__}:build_app").load()
        assert gc.get_threshold() == after
    finally:
        gc.set_threshold(*own)


def test_server_inside_another_process_keeps_its_gc_threshold() -> None:
    before = gc.get_threshold()
    ServerConfig(app).load()
    assert gc.get_threshold() == before
