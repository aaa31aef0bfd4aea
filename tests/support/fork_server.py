"""A process that has imported what the command line imports, and forks for each program that a test starts.

``forked_programs`` starts it and says what the forks are like. It has one thread, and runs until its socket closes.
"""

from __future__ import annotations

import gc
import io
import os
import pickle
import pkgutil
import runpy
import socket
import sys
import threading
import time
import traceback
from importlib import import_module
from typing import Any, TypedDict

MAX_MESSAGE_BYTES = 1 << 20
"""Bytes of a message."""
_LAZY = (
    *("pydantic.dataclasses", "pydantic.type_adapter", "docstring_parser", "toolwire.define.adapter"),
    *("anyio._backends._asyncio", "multiprocessing.popen_spawn_posix", "stringprep"),
    *("toolwire.protocols.openapi.client", "toolwire.server.http.connection"),
    *("toolwire.oauth.factory", "toolwire.stores.oauth.accounts", "toolwire.server.oauth.protected_app"),
    *("toolwire.stores.ledger.sqlite", "toolwire.stores.limits.sqlite_windows", "toolwire.stores.sessions"),
    *("argon2", "cryptography.hazmat.primitives.serialization", "joserfc.jwt", "joserfc.jwk", "publicsuffixlist"),
    *("uvicorn.lifespan.on", "uvicorn.loops.uvloop", "uvloop"),
    *("rich.console", "rich.table", "rich.text", "yaml"),
)
"""What commands import when they need it, as far as it is installed."""


class Program(TypedDict):
    """What a process runs: ``python -m module words``."""

    module: str
    words: list[bytes]
    environment: list[bytes]
    folder: bytes
    umask: int
    new_session: bool
    group: int
    """-1 is that of the server."""


def import_commands() -> None:
    """Import what the commands import, but nothing that they look for in ``sys.modules``."""
    commands = import_module("toolwire.cli.commands")
    import_module("toolwire.cli.program")
    for module in pkgutil.iter_modules(commands.__path__):
        import_module(f"toolwire.cli.commands.{module.name}")
    for name in _LAZY:
        try:
            import_module(name)
        except ModuleNotFoundError:
            continue
    parser = import_module("toolwire.cli.parser")
    parser._build_parser(import_module("toolwire").__version__)
    parser._build_parser_without_defaults(import_module("toolwire").__version__)
    import_module("pydantic").TypeAdapter(int)  # looks for plugins in all packages, once
    assert threading.active_count() == 1, threading.enumerate()
    assert not any(name.startswith("opentelemetry") for name in sys.modules), "commands measure where it is imported"


def serve(connection: socket.socket) -> Program | None:
    """Fork for each message; return in the fork what it is to run, and ``None`` here when the socket closes."""
    while True:
        message, files, _, _ = socket.recv_fds(connection, MAX_MESSAGE_BYTES, 3)
        if not message:
            return None
        program: Program = pickle.loads(message)
        may_run, let_run = os.pipe()
        between = os.fork()
        if between == 0:
            # The fork of a process that ends is a child of whoever wants it: see forked_programs.
            child = os.fork()
            if child != 0:
                connection.send(str(child).encode())
                os._exit(0)
            connection.close()
            os.close(let_run)
            os.read(may_run, 1)
            os.close(may_run)
            enter(program, files)
            return program
        for file in (*files, may_run):
            os.close(file)
        os.waitpid(between, 0)
        connection.send(b"is a child of yours")
        os.write(let_run, b"!")
        os.close(let_run)


def enter(program: Program, files: list[int]) -> None:
    """Make this process what a started one is: its session, folder, environment and streams."""
    if program["group"] != -1:
        os.setpgid(0, program["group"])
    if program["new_session"]:
        os.setsid()
    os.umask(program["umask"])
    os.chdir(program["folder"])
    os.environb.clear()
    for pair in program["environment"]:
        name, _, value = pair.partition(b"=")
        os.environb[name] = value
    time.tzset()
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    open_streams()
    sys.path[0] = os.getcwd()
    words = [os.fsdecode(word) for word in program["words"]]
    sys.argv = ["-m", *words]
    sys.orig_argv = [sys.executable, "-m", program["module"], *words]


def open_streams() -> None:
    """Open the standard streams as an interpreter does that starts."""
    stdout: Any = sys.__stdout__
    has_buffers = hasattr(stdout.buffer, "raw")  # no PYTHONUNBUFFERED
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        first = getattr(sys, f"__{name}__")
        is_buffered = has_buffers or number == 0
        binary: Any = open(number, "wb" if number else "rb", -1 if is_buffered else 0, closefd=False)  # noqa: SIM115 - it stays open
        (binary.raw if is_buffered else binary).name = f"<{name}>"
        stream: Any = io.TextIOWrapper(
            binary,
            first.encoding,
            first.errors,
            newline="\n",
            line_buffering=has_buffers and (number == 2 or binary.isatty()),
            write_through=first.write_through,
        )
        stream.mode = "w" if number else "r"
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def main() -> None:
    """Serve on the socket of the one argument; in a fork, run its program."""
    connection = socket.socket(fileno=int(sys.argv[1]))
    try:
        import_commands()
    except BaseException:
        connection.send(traceback.format_exc().encode())
        raise
    gc.freeze()  # else each fork looks at all objects of the modules when it ends, which takes 300 ms
    connection.send(b"ready")
    if (program := serve(connection)) is not None:
        runpy.run_module(program["module"], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
