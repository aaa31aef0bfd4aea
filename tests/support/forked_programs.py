"""Start the command line as a fork of a process that has imported it: 30 milliseconds instead of 500.

Once planted, each ``subprocess`` of this process that is ``[sys.executable, "-m", "toolwire", ...]`` starts so, also
where asyncio or the code under test starts it; and so do uvicorn and the examples. It is a process as any other: a
child of this one, with its own files, folder, environment, session, signals and exit code. What differs: what modules
draw at random when they are imported (such as the seed of hashes) is the same in all, and no code is read from files.

A real start is made of everything else, so of other options of Python (``-P``), of another file than
``sys.executable``, with variables that Python reads before any code, in a test with the mark ``real_start``, and while
coverage is measured.
"""
# TE-05

from __future__ import annotations

import atexit
import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.fork_server import MAX_MESSAGE_BYTES, Program, be_subreaper

MODULES = (b"toolwire", b"uvicorn", b"examples.")
"""What the names of the modules begin with that are forked: they all import much of toolwire."""
_SERVER = Path(__file__).with_name("fork_server.py")
_OWN = (b"PYTHON", b"LD_")
_BEFORE_CODE = (*_OWN, b"LC_", b"LANG")
"""What variables begin with that an interpreter reads before it runs code."""


class ForkServer:
    """One process that has imported the command line, in an environment as far as that matters before any code."""

    def __init__(self, before_code: frozenset[bytes]) -> None:
        own = [name + b"=" + value for name, value in os.environb.items() if not name.startswith(_BEFORE_CODE)]
        self._environment = dict(pair.split(b"=", 1) for pair in (*own, *before_code))
        self._connection: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()

    def start(self, program: Program, files: list[int]) -> int:
        """Start ``program`` with ``files`` as its standard streams; return its process id."""
        with self._lock:
            connection = self._connection or self._open()
            try:
                be_subreaper(1)
                socket.send_fds(connection, [pickle.dumps(program)], files)
                number = int(_receive(connection))
                _receive(connection)  # its parent is this process from here on
            except BaseException:
                self.close()
                raise
            finally:
                be_subreaper(0)
            return number

    def close(self) -> None:
        """End the server; the next start opens another one."""
        if self._connection is not None and self._process is not None:
            self._connection.close()
            self._process.wait(60)
            self._connection = self._process = None

    def _open(self) -> socket.socket:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, _SERVER, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=self._environment,
                pass_fds=[theirs.fileno()],
            )
        self._connection = ours
        if (reply := _receive(ours)) != b"ready":
            self.close()
            raise RuntimeError(reply.decode())
        return ours


class Starts:
    """What starts programs in this process: a fork server for each sort of environment that comes again."""

    def __init__(self, start_really: Callable[..., int]) -> None:
        self._start_really = start_really
        self._known = _select_before_code(name + b"=" + value for name, value in os.environb.items())
        self._servers: dict[tuple[frozenset[bytes], frozenset[int]], ForkServer | None] = {}

    def start(self, *arguments: Any) -> int:
        """Start a program, with the arguments of ``subprocess._fork_exec``; return its process id."""
        request = None if _is_real_start else _read_request(arguments)
        server = None if request is None else self._find_server(request[0]["environment"])
        if request is None or server is None:
            return self._start_really(*arguments)
        return server.start(*request)

    def close(self) -> None:
        """End the servers."""
        for server in self._servers.values():
            if server is not None:
                server.close()

    def _find_server(self, environment: Iterable[bytes]) -> ForkServer | None:
        """Return the server whose forks are like a process with this environment; ``None`` for the first of them."""
        before_code = _select_before_code(environment)
        if not all(pair in self._known for pair in before_code if pair.startswith(_OWN)):
            return None  # such as a folder of modules that a test has written
        sort = (before_code, _read_ignored())
        if sort not in self._servers:
            self._servers[sort] = None
        elif self._servers[sort] is None:
            self._servers[sort] = ForkServer(before_code)
        return self._servers[sort]


def plant() -> None:
    """Let this process start the command line so from now on. It does nothing on other systems than Linux."""
    if sys.platform != "linux" or any(name.startswith("COVERAGE_PROCESS") for name in os.environ):
        return
    starts = Starts(subprocess._fork_exec)  # type: ignore[attr-defined]  # what Popen calls for each start
    atexit.register(starts.close)
    subprocess._fork_exec = starts.start  # type: ignore[attr-defined]  # likewise


_is_real_start = False


def start_really(*, really: bool) -> None:
    """Make real starts of all from now on, or no longer."""
    global _is_real_start  # noqa: PLW0603 - one test at a time runs in this process
    _is_real_start = really


@contextmanager
def listen_for_forks(file: Path, folder: Path, *modules: str) -> Generator[list[str], None, None]:
    """Give the beginning of a command that runs ``file`` as a fork of a process that has imported ``modules``.

    It is for programs that another program starts, and of which only the work matters: see ``fork_listener.py``.
    """
    path = folder / "forks"
    argv = [sys.executable, str(_SERVER.with_name("fork_listener.py")), str(path), str(file), *modules]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as listener:
        try:
            assert listener.stdout is not None
            assert listener.stdout.readline() == b"listens\n"
            yield [sys.executable, "-I", "-S", str(_SERVER.with_name("fork_request.py")), str(path)]
        finally:
            listener.kill()


def _read_request(arguments: Sequence[Any]) -> tuple[Program, list[int]] | None:
    """Return what a start asks of the server; ``None`` for a start of which no fork can be the same."""
    argv, executables, close_fds, stored, folder, environment, *rest = arguments
    to_input, _, _, from_output, _, from_error, _, failures, _, new_session, group, *owner, prepare, _ = rest
    words = [os.fsencode(word) for word in argv]
    is_ours = words[:2] == [os.fsencode(sys.executable), b"-m"] and len(words) > 2 and words[2].startswith(MODULES)
    if not is_ours or tuple(executables) != (words[0],) or prepare is not None:
        return None
    if not close_fds or tuple(stored) != (failures,) or owner != [None, None, None, -1]:
        return None
    files = [given if given != -1 else own for own, given in enumerate((to_input, from_output, from_error))]
    here = os.getcwdb()
    folder = here if folder is None else os.path.join(here, os.fsencode(folder))
    if not os.path.isdir(folder) or not all(map(_is_open, files)):
        return None
    if environment is None:
        environment = [name + b"=" + value for name, value in os.environb.items()]
    program = Program(
        module=os.fsdecode(words[2]),
        words=words[3:],
        environment=list(environment),
        folder=folder,
        umask=_read_umask(),
        new_session=bool(new_session),
        group=group,
    )
    return program, files


def _select_before_code(pairs: Iterable[bytes]) -> frozenset[bytes]:
    return frozenset(pair for pair in pairs if pair.startswith(_BEFORE_CODE))


def _read_ignored() -> frozenset[int]:
    """Return the signals that this process ignores, and so do those that it starts."""
    # Python itself ignores these two, and Popen sets them back for what it starts.
    numbers = signal.valid_signals() - {signal.SIGPIPE, signal.SIGXFSZ}
    return frozenset(number for number in numbers if signal.getsignal(number) is signal.SIG_IGN)


def _read_umask() -> int:
    status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
    return int(status.partition("Umask:")[2].split(maxsplit=1)[0], 8)


def _is_open(file: int) -> bool:
    try:
        os.fstat(file)
    except OSError:
        return False
    return True


def _receive(connection: socket.socket) -> bytes:
    reply = connection.recv(MAX_MESSAGE_BYTES)
    if not reply:
        raise RuntimeError("The process that starts programs has ended.")
    return reply
