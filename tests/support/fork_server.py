"""A process that has imported what the command line imports, and forks for each program that a test starts.

``forked_programs`` starts it and says what the forks are like. It has one thread, and runs until its socket closes.
A program that may have workers gets such a process of its own, from which they are forked.
"""

from __future__ import annotations

import ctypes
import fcntl
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
from collections.abc import Sequence
from importlib import import_module
from multiprocessing import util
from typing import Any, TypedDict

MAX_MESSAGE_BYTES = 1 << 20
"""Bytes of a message."""
MAX_FILES = 64
"""How many files a worker gets at most."""
WITH_WORKERS = (b"serve", b"gateway")
"""The commands that may have workers."""
_SET_SUBREAPER = 36
"""PR_SET_CHILD_SUBREAPER of Linux: who has it becomes the parent of a process whose own parent ends."""
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


class Worker(TypedDict):
    """What multiprocessing starts: ``python -c code --multiprocessing-fork``, with files of these numbers."""

    argv: list[str]
    numbers: list[int]
    environment: list[bytes]
    folder: bytes
    umask: int


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
        if fork_orphan(connection, files):
            program: Program = pickle.loads(message)
            enter(program, files)
            return program


def fork_orphan(connection: socket.socket, files: Sequence[int]) -> bool:
    """Fork, and close ``files`` here; return whether this is the fork, which is a child of whoever asked by then."""
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
        return True
    for file in (*files, may_run):
        os.close(file)
    os.waitpid(between, 0)
    connection.send(b"is a child of yours")
    os.write(let_run, b"!")
    os.close(let_run)
    return False


def be_subreaper(value: int) -> None:
    """Become the parent of processes whose parent ends, or no longer."""
    ctypes.CDLL(None).prctl(_SET_SUBREAPER, value, 0, 0, 0)


def fork_workers() -> Worker | None:
    """Let multiprocessing fork the workers of this process from a copy of it as it is now; return in a worker its work.

    The copy ends with this process.
    """
    connection, others = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if os.fork() == 0:
        connection.close()
        with open(os.devnull, "r+b", buffering=0) as nothing:
            for number in range(3):  # who reads what the program writes waits until nobody has it
                os.dup2(nothing.fileno(), number)
        while True:
            message, files, _, _ = socket.recv_fds(others, MAX_MESSAGE_BYTES, MAX_FILES)
            if not message:
                os._exit(0)
            if fork_orphan(others, files):
                worker: Worker = pickle.loads(message)
                enter_worker(worker, files)
                return worker
    others.close()
    start_really = util.spawnv_passfds

    def start(path: bytes, argv: Sequence[str], numbers: Sequence[int]) -> int:
        if argv[-1] != "--multiprocessing-fork":
            return start_really(path, argv, numbers)
        os.umask(umask := os.umask(0))
        passed = [0, 1, 2, *map(int, numbers)]
        pairs = [name + b"=" + value for name, value in os.environb.items()]
        worker = Worker(argv=list(argv), numbers=passed, environment=pairs, folder=os.getcwdb(), umask=umask)
        be_subreaper(1)
        try:
            socket.send_fds(connection, [pickle.dumps(worker)], passed)
            number = int(connection.recv(MAX_MESSAGE_BYTES))
            connection.recv(MAX_MESSAGE_BYTES)  # its parent is this process from here on
        except (OSError, ValueError):  # a signal to all of the group has ended the copy
            return start_really(path, argv, numbers)
        finally:
            be_subreaper(0)
        return number

    util.spawnv_passfds = start
    return None


def enter_worker(worker: Worker, files: Sequence[int]) -> None:
    """Make this process what a worker is that multiprocessing has started."""
    after = max((*worker["numbers"], *files)) + 1
    moved = [fcntl.fcntl(file, fcntl.F_DUPFD, after) for file in files]
    for file in files:
        os.close(file)
    for file, number in zip(moved, worker["numbers"], strict=True):
        os.dup2(file, number)
        os.close(file)
    enter_place(worker)
    sys.orig_argv = [sys.executable, *worker["argv"][1:]]
    sys.argv = ["-c", worker["argv"][-1]]


def enter_place(place: Program | Worker) -> None:
    """Take the folder and the environment of a program."""
    os.umask(place["umask"])
    os.chdir(place["folder"])
    os.environb.clear()
    for pair in place["environment"]:
        name, _, value = pair.partition(b"=")
        os.environb[name] = value
    time.tzset()


def enter(program: Program, files: list[int]) -> None:
    """Make this process what a started one is: its session, folder, environment and streams."""
    if program["group"] != -1:
        os.setpgid(0, program["group"])
    if program["new_session"]:
        os.setsid()
    enter_place(program)
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
        has_workers = program["module"] == "uvicorn" or program["words"][:1] in ([one] for one in WITH_WORKERS)
        if has_workers and (worker := fork_workers()) is not None:
            exec(worker["argv"][-2], {"__name__": "__main__"})
            return
        runpy.run_module(program["module"], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
