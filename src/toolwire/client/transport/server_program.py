"""Run an MCP server as a program, and exchange its messages: one JSON-RPC message in a line.

Rules:
- The program runs in a process group and session of its own, which end with it: nothing that it started is left.
- A program that ends is started again for the next request: at once, then after 1 s, 2 s, and so on up to a minute.
- A program that speaks 2026-07-28 is run a second time for a session of an earlier version: many lock each run to one.
- Everything that it writes has a limit: a line, messages that no request waits for, lines that are no JSON, and the
  error output.
- Threads read and write, so the blocking and the asynchronous client share one implementation.
"""
# MC-02

from __future__ import annotations

import atexit
import logging
import os
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from io import FileIO
from queue import SimpleQueue
from typing import Final, NamedTuple, cast
from weakref import WeakSet

from toolwire.core.http import Request, Response, get_header
from toolwire.core.model import Json, Problem
from toolwire.framing import jsontext
from toolwire.framing.text_cleaning import clean
from toolwire.protocols.mcp.revision import DISCOVER, SESSION_HEADER, STATELESS, VERSION_HEADER
from toolwire.telemetry.redaction import redact_text

from .failures import bad_response, unreachable
from .message_exchange import (
    ACCEPTED,
    MIB,
    NO_SESSION,
    NO_STREAM,
    Deliver,
    ExchangeEnd,
    ExchangeTable,
    MessageExchange,
    build_cancellation,
)
from .program_limits import NO_LIMITS, ProgramLimits
from .server_command import ServerCommand

MAX_LINE: Final = 16 * MIB
"""The longest line that is read, in bytes."""
MAX_UNWRITTEN: Final = 32 * MIB
"""How many bytes of messages wait for the program to read them."""
MAX_ERRORS: Final = 8 * 1024
"""How much of the end of the error output is kept, in bytes."""
GRACE_S: Final = 2.0
"""How long a program may take to end after its input or output is closed, and again after SIGTERM, in seconds."""
MAX_BACK_OFF_S: Final = 60.0
_STEADY_S: Final = 60.0
"""A program that ran for so long is started again at once."""
_CHUNK: Final = 65_536
_SHOWN: Final = 300

_log = logging.getLogger("toolwire")
# Weak, so that the list for the exit of the process keeps no program alive.
_running: WeakSet[ServerProgram] = WeakSet()


class ServerProgram:
    """An MCP server that ``command`` runs: started by the first request, and again after it ended."""

    def __init__(
        self,
        command: ServerCommand,
        *,
        limits: ProgramLimits = NO_LIMITS,
        name: str = "",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.command = command
        # PL-04: what a gateway calls it, whose callers are told neither its command nor what it writes of its errors.
        self.given_name: str = name
        self._limits = limits
        self._clock = clock
        # Reentrant: a delivery under this lock can cancel its own exchange.
        self.lock = threading.RLock()
        self._process: _Process | None = None
        self._generation = 0
        self._failures = 0
        self._not_before = 0.0
        self._closed = False
        self._is_stateless = False
        self._for_sessions: ServerProgram | None = None
        _running.add(self)

    def begin(self, request: Request, deliver: Deliver) -> MessageExchange | Response | Problem:  # noqa: PLR0911
        """Write ``request`` to the program. Return its exchange, or the response where none is awaited."""
        message = jsontext.read(request.body) if request.method == "POST" else None
        session = get_header(request.headers, SESSION_HEADER)
        with self.lock:
            method = message.get("method") if isinstance(message, dict) else None
            if method == DISCOVER and self._find_process() is None:
                self._is_stateless = False  # the program may be another one than before
            if get_header(request.headers, VERSION_HEADER) == STATELESS:
                self._is_stateless = self._is_stateless or method != DISCOVER
            elif self._is_stateless and (session or method == "initialize") and not self._closed:
                return self._run_for_sessions().begin(request, deliver)
            if self._closed:
                return unreachable(f"{self.name} was ended.", "closed", sent=False)
            if request.method == "GET":
                return self._listen(session, deliver)
            if not isinstance(message, dict):
                return NO_STREAM
            if not isinstance(method, str) or "id" not in message:
                return self._notify(message)
            if session and (session != str(self._generation) or self._find_process() is None):
                return NO_SESSION
            process = self._find_process() or self._start()
            if isinstance(process, Problem):
                return process
            return self._ask(process, message, method, deliver)

    def cancel(self, exchange: MessageExchange) -> None:
        """Stop waiting for the answer of ``exchange``, and tell the program."""
        with self.lock:
            if not exchange.table.remove(exchange):
                return
            for process in (one._process for one in self._list_programs()):
                if process is not None and process.exchanges is exchange.table:
                    process.write(build_cancellation(exchange))

    def close(self) -> None:
        """End the program and everything that it started; this takes up to a few seconds."""
        _close(self._list_programs())

    def stop(self) -> None:
        """End the program as ``close`` does; the next request starts it again."""
        _end([process for one in self._list_programs() if (process := one.take_process()) is not None])

    def take_process(self, *, close: bool = False) -> _Process | None:
        """Return the process, for the caller to end, or None if none runs; with ``close``, no other is started."""
        # Under the lock no new request begins. The process ends outside of it, because its threads need the lock to
        # end.
        with self.lock:
            self._closed = self._closed or close
            process, self._process = self._process, None
        return process

    @property
    def name(self) -> str:
        """What messages call the program: its command, shortened."""
        text = self.given_name or self.command.name
        return text if len(text) <= 100 else f"{text[:100]}..."

    def _list_programs(self) -> list[ServerProgram]:
        return [self] if self._for_sessions is None else [self, self._for_sessions]

    def _run_for_sessions(self) -> ServerProgram:
        """Return the same program, in another process, for a session beside the requests without one."""
        if self._for_sessions is None:
            self._for_sessions = ServerProgram(
                self.command, limits=self._limits, name=self.given_name, clock=self._clock
            )
            self._for_sessions.lock = self.lock
        return self._for_sessions

    def _find_process(self) -> _Process | None:
        process = self._process
        return process if process is not None and not process.has_ended else None

    def _start(self) -> _Process | Problem:
        wait = self._not_before - self._clock()
        if wait > 0:
            problem = unreachable(f"{self.name} exited. It restarts in {wait:.0f} s.", "ended", sent=False)
            return _allow_retry(problem, max(1, int(wait * 1000)))
        command = self.command
        if change := command.find_change():  # AT-45: a link may lead elsewhere since the user agreed
            return self._refuse_start(change)
        try:
            popen = subprocess.Popen(  # noqa: S603 - the user agreed to this command
                self._limits.wrap((command.program, *command.words[1:])),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=command.build_environment(),
                cwd=command.folder or None,
                # A session and process group of its own, so that everything it starts ends with it.
                start_new_session=True,
                bufsize=0,
            )
        except OSError as error:
            why = "there is no such program" if isinstance(error, FileNotFoundError) else error.strerror
            return self._refuse_start(str(why))
        except ValueError:
            return self._refuse_start("the command is invalid")
        self._generation += 1
        pipes = _Pipes(cast("FileIO", popen.stdin), cast("FileIO", popen.stdout), cast("FileIO", popen.stderr))
        self._process = _Process(popen, pipes, self, self._clock(), ExchangeTable(self.name, self._generation, "lines"))
        return self._process

    def _refuse_start(self, why: str) -> Problem:
        return unreachable(f"{self.name} cannot be started: {why}.", "refused", sent=False)

    def _ask(
        self, process: _Process, message: dict[str, Json], method: str, deliver: Deliver
    ) -> MessageExchange | Response | Problem:
        exchange = process.exchanges.begin(message, method, deliver)
        if not isinstance(exchange, MessageExchange):
            return exchange
        if not process.write({**message, "id": exchange.number}):
            process.exchanges.remove(exchange)
            return _allow_retry(unreachable(f"{self.name} is not reading its input.", "blocked", sent=False), 1_000)
        return exchange

    def _listen(self, session: str, deliver: Deliver) -> MessageExchange | Response:
        process = self._find_process()
        if process is None or session != str(self._generation):
            return NO_SESSION
        return process.exchanges.listen(deliver)

    def _notify(self, message: dict[str, Json]) -> Response:
        """Write a notification, or an answer to a request of the program."""
        process = self._find_process()
        if process is None:
            return ACCEPTED
        cancelled = process.exchanges.find_cancelled(message)
        for exchange in cancelled or ():
            self.cancel(exchange)
        if cancelled is None:
            process.write(message)
        return ACCEPTED

    def count_end(self, process: _Process) -> None:
        """Decide when the program may be started again after ``process`` ended."""
        with self.lock:
            if self._process is not process:
                return
            # A program that ran for a while is no program that fails at its start, so its pauses begin again.
            self._failures = 0 if self._clock() - process.started >= _STEADY_S else self._failures + 1
            delay = 0.0 if self._failures <= 1 else min(2.0 ** (self._failures - 2), MAX_BACK_OFF_S)
            self._not_before = self._clock() + delay


class _Pipes(NamedTuple):
    """The pipes of a process, without buffers."""

    input: FileIO
    output: FileIO
    errors: FileIO


@dataclass(slots=True)
class _ErrorOutput:
    """The end of the error output of a process."""

    chunks: deque[bytes] = field(default_factory=deque)
    size: int = 0

    def add(self, chunk: bytes) -> None:
        self.chunks.append(chunk)
        self.size += len(chunk)
        while self.size - len(self.chunks[0]) >= MAX_ERRORS:
            self.size -= len(self.chunks.popleft())

    def get_last_line(self) -> str:
        lines = b"".join(self.chunks)[-MAX_ERRORS:].decode("utf-8", "replace").strip().splitlines()
        return clean(lines[-1]).text.strip()[-_SHOWN:] if lines else ""


class _Process:
    """One run of the program, with the threads that read, write and wait for it."""

    def __init__(
        self,
        popen: subprocess.Popen[bytes],
        pipes: _Pipes,
        program: ServerProgram,
        started: float,
        exchanges: ExchangeTable,
    ) -> None:
        self.started, self.exchanges = started, exchanges
        self.has_ended = False
        self._popen, self._pipes, self._program = popen, pipes, program
        self._errors = _ErrorOutput()
        self._lines: SimpleQueue[bytes | None] = SimpleQueue()
        self._unwritten = 0
        self._fault = ""
        self._has_closed_output = False
        self._is_asked_to_end = False
        self._died = threading.Event()
        self._exited = threading.Event()
        self._threads = [
            threading.Thread(target=run, name=f"toolwire-stdio-{run.__name__}", daemon=True)
            for run in (self._read_output, self._read_errors, self._write_input, self._wait)
        ]
        for thread in self._threads:
            thread.start()

    def write(self, message: Json) -> bool:
        """Queue ``message`` for the program; return False if the program has left too much unread."""
        line = jsontext.write(message) + b"\n"
        if self._unwritten + len(line) > MAX_UNWRITTEN:
            return False
        self._unwritten += len(line)
        self._lines.put(line)
        return True

    def end_input(self) -> None:
        """End the input of the process, which asks it to exit."""
        self._is_asked_to_end = True
        self._lines.put(None)

    def wait(self, seconds: float) -> bool:
        """Return whether the process has exited within ``seconds``."""
        return self._exited.wait(max(0.0, seconds))

    def signal(self, number: int) -> None:
        """Send the signal ``number`` to the process and everything that it started."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._popen.pid, number)

    # Threads

    def _write_input(self) -> None:
        with suppress(OSError), self._pipes.input as stdin:
            while (line := self._lines.get()) is not None:
                view = memoryview(line)
                while view:
                    # A pipe without a buffer may take only a part of a line.
                    view = view[stdin.write(view) :]
                with self._program.lock:
                    self._unwritten -= len(line)

    def _read_errors(self) -> None:
        with suppress(OSError, ValueError):
            # Read all the time: a program stops when the pipe of its error output is full.
            while chunk := os.read(self._pipes.errors.fileno(), _CHUNK):
                self._errors.add(chunk)

    def _read_output(self) -> None:
        buffer = bytearray()
        with suppress(OSError, ValueError):
            while chunk := os.read(self._pipes.output.fileno(), _CHUNK):
                start = len(buffer)
                buffer += chunk
                end = buffer.rfind(b"\n", start)  # what was there before has no line break
                if end >= 0:
                    lines = bytes(buffer[:end]).split(b"\n")
                    del buffer[: end + 1]
                    for line in lines:
                        self._take_line(line)
                if len(buffer) > MAX_LINE:
                    self._stop(f"wrote a line longer than {MAX_LINE:,} bytes")
                if self._fault:
                    return
        # It answers nothing any more, so it ends, and the next request starts it again.
        for number in (signal.SIGTERM, signal.SIGKILL):
            if self._died.wait(GRACE_S):
                break
            self._has_closed_output = True
            self.signal(number)

    def _wait(self) -> None:
        pid = self._popen.pid
        if hasattr(os, "waitid"):
            # Not reaped yet: until the group is ended, no other process can get its number.
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
            self.signal(signal.SIGKILL)
        code = self._popen.wait()
        self._died.set()
        for thread in self._threads[:2]:
            thread.join(GRACE_S)  # what the program wrote before its end is still read
        self._lines.put(None)
        with self._program.lock:
            self.has_ended = True
            pending = self.exchanges.clear()
            self._program.count_end(self)
        problem = self._describe_end(code)
        for exchange in pending:
            exchange.deliver(ExchangeEnd(problem))
        self._pipes.output.close()
        self._pipes.errors.close()
        self._exited.set()

    def _describe_end(self, code: int) -> Problem:
        name = self._program.name
        if self._fault:
            return bad_response(f"{name} was ended: it {self._fault}.", "too_large")
        if self._has_closed_output:
            return unreachable(f"{name} was ended: it closed its output.", "closed", sent=True)
        how = f"with code {code}" if code >= 0 else f"by signal {-code}"
        last = self._errors.get_last_line()
        if last and self._program.given_name:
            # After an end as asked, the line is about some earlier call, and can contain its arguments.
            if code or not self._is_asked_to_end:
                _log.warning("%s ended %s. Its last line of error output: %s", name, how, redact_text(last))
            last = ""
        error_line = f" Its last line of error output: {last}" if last else ""
        return unreachable(f"{name} ended {how} before its answer.{error_line}", "closed", sent=True)

    # Messages

    def _take_line(self, line: bytes) -> None:
        if not line.strip() or self._fault:
            return
        if len(line) > MAX_LINE:
            self._stop(f"wrote a line longer than {MAX_LINE:,} bytes")
            return
        data = jsontext.read(line)
        try:
            with self._program.lock:
                for reply in self.exchanges.receive(data, len(line)):
                    self.write(reply)
        except ValueError as error:
            self._stop(f"wrote {error}")

    def _stop(self, fault: str) -> None:
        self._fault = self._fault or fault
        self.signal(signal.SIGKILL)


def _allow_retry(problem: Problem, after_ms: int) -> Problem:
    return replace(problem, can_retry=True, retry_after_ms=after_ms)


def end_programs() -> None:
    """End every program that still runs; this takes up to a few seconds, however many there are."""
    _close(list(_running))


def _close(programs: Sequence[ServerProgram]) -> None:
    processes = [program.take_process(close=True) for program in programs]
    _end([process for process in processes if process is not None])
    for program in programs:
        _running.discard(program)


def _end(processes: Sequence[_Process]) -> None:
    """End ``processes`` and their groups together: by the end of their input, then by signals."""
    for process in processes:
        process.end_input()
    for number in (signal.SIGTERM, signal.SIGKILL):
        until = time.monotonic() + GRACE_S
        processes = [process for process in processes if not process.wait(until - time.monotonic())]
        for process in processes:
            process.signal(number)
    for process in processes:
        process.wait(GRACE_S)


# A program whose connection was never closed must not outlive this process.
atexit.register(end_programs)
