"""Accept connections on a socket that several workers share, so that each worker gets its part of them.

The kernel wakes every worker for a new connection, and the first one that runs takes it. Without these rules, a worker
that is awake anyway takes all connections of a client that opens many at once, and keeps them.

**Rules**
- A worker that has more connections than another one leaves a new connection to it for a moment.
- It takes the connection itself if that moment passes. All connections wait in one queue of the kernel, so a worker
  that is busy, hangs or was killed takes none with it, and delays none for long.
- A worker that stops accepts only what no other worker accepts.
- A call costs nothing: only a new connection and its end do.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import logging
import mmap
import os
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import reduction
from time import monotonic_ns
from typing import Any

from .listener_filter import let_in_connections

PATIENCE_S = 0.01
"""How long a worker leaves a new connection to one that has fewer, in seconds."""

_POLL_INTERVAL_S = 0.001
"""How often it looks meanwhile whether it is its turn again, in seconds."""

_TURNS = 4
"""After how many turns of patience in a row a worker takes one connection more in each."""

_SIGN_S = 0.1
"""How often a worker shows that it runs, in seconds."""

_HANGS_NS = 500_000_000
"""After how many nanoseconds without a sign the others stop waiting for a worker."""

_NEW_SIGNS = 20
"""After how many signs a connection counts as old: between once and twice as many."""

_RETRY_S = 1.0
"""How long a worker accepts nothing when the system has no more files or memory, in seconds."""

_EXHAUSTED = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM))
_NEW = 1 << 32
_LEAVES = -1
"""The sign of a worker that stops: it accepts what nobody else does."""

_log = logging.getLogger("toolwire.server")


class Cohort:
    """Counts the open connections that were accepted at about the same time."""

    __slots__ = ("_load", "count")

    def __init__(self, load: WorkerLoad) -> None:
        self.count: int = 0
        self._load = load

    def enter(self) -> None:
        """Count one more."""
        self.count += 1
        self._load.change(1)

    def leave(self) -> None:
        """Count one fewer."""
        self.count -= 1
        self._load.change(-1)


class WorkerLoad:
    """How many connections each worker of a server has, in memory that its processes share.

    The supervisor creates it; it goes to each worker as an argument of the new process. Workers are compared by their
    new connections first and by all of them then: an old connection is often one that only waits, and one worker
    may have many of them while another has just started.
    """

    def __init__(self, workers: int) -> None:
        """Create it for ``workers`` processes. There may be more of them while they are replaced."""
        self._places = 2 * workers + 16
        self._file = os.memfd_create("toolwire-workers")
        os.ftruncate(self._file, self._size)
        self._start_at_zero()

    @property
    def _size(self) -> int:
        return 8 * (2 + 2 * self._places)

    def __getstate__(self) -> dict[str, Any]:
        """Return what a new process needs; only possible while it starts."""
        return {"places": self._places, "file": reduction.DupFd(self._file)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._places = state["places"]
        self._file = state["file"].detach()
        os.set_inheritable(self._file, False)
        self._start_at_zero()

    def _start_at_zero(self) -> None:
        # The version of the list of workers; then by place the last sign of each; then the connections of each; and
        # when somebody checked the health of the server last.
        self._cells = memoryview(mmap.mmap(self._file, self._size)).cast("q")
        self._version = -1
        self._own: int | None = None
        self._others: list[int] = []
        self._total = 0
        self._signs = 0
        self._older = Cohort(self)
        self.newest: Cohort = Cohort(self)
        self._leaves = False

    def join(self) -> None:
        """Take a place among the workers. It is free again when this process ends, however it ends."""
        for place in range(1, 1 + self._places):
            with suppress(OSError):
                fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
                self._own = place
                self.change(0)
                self.give_sign()
                self._cells[0] += 1
                return

    def leave(self) -> None:
        """Let the other workers accept everything from now on, as long as there are any."""
        self._leaves = True
        if self._own is not None and self._cells[self._own]:
            self._cells[self._own] = _LEAVES
            self._cells[0] += 1

    def stop_listening(self) -> bool:
        """Say that this worker accepts nothing more; return whether no other worker accepts either."""
        if self._own is not None:
            self._cells[self._own] = 0
            self._cells[0] += 1
        signs = self._cells[1 : 1 + self._places].tolist()
        now = monotonic_ns()
        return not any(sign == _LEAVES or now - sign < _HANGS_NS for sign in signs if sign)

    def note_probe(self) -> None:
        """Note that somebody checks the health of the server now."""
        self._cells[-1] = monotonic_ns()

    def find_probe(self) -> float:
        """Return when somebody checked the health of the server last, in seconds of the monotonic clock."""
        return self._cells[-1] / 1e9

    def give_sign(self) -> None:
        """Show that this worker runs, and find out which others do."""
        now = monotonic_ns()
        if self._own is not None and not self._leaves:
            self._cells[self._own] = now
        self._version = self._cells[0]
        signs = self._cells[1 : 1 + self._places].tolist()
        self._others = [
            place + self._places for place, sign in enumerate(signs, 1) if now - sign < _HANGS_NS and place != self._own
        ]
        self._signs += 1
        if self._signs % _NEW_SIGNS == 0:
            self._older, self.newest = self.newest, Cohort(self)
        self.change(0)

    def change(self, number: int) -> None:
        """Count ``number`` more connections of this worker."""
        self._total += number
        if self._own is not None:
            self._cells[self._own + self._places] = (self.newest.count + self._older.count) * _NEW + self._total

    def is_leaving(self) -> bool:
        """Return whether this worker stops and another one can accept."""
        if self._cells[0] != self._version:
            self.give_sign()
        return self._leaves and bool(self._others)

    def is_ahead(self) -> bool:
        """Return whether another worker that runs has fewer connections and should accept the next one."""
        cells = self._cells
        if cells[0] != self._version:
            self.give_sign()
        if not self._others or self._own is None:
            return False
        new, total = divmod(cells[self._own + self._places], _NEW)
        least_new, least_total = divmod(min([cells[place] for place in self._others]), _NEW)
        return new > least_new + (least_new + 4) // 8 or (new == least_new and total > least_total)


class SharedListener:
    """Accepts connections of ``listener``, from which other workers accept too, and opens them on ``loop``.

    It has the methods of ``asyncio.Server`` that a stopping server calls.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        protocol_factory: Callable[[], Any],
        listener: socket.socket,
        load: WorkerLoad,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """Begin to accept. A protocol calls its attribute ``on_lost`` when its connection is lost."""
        self._loop = loop
        self._protocol_factory = protocol_factory
        self._listener = listener
        self._load = load
        self._tls = tls
        self._opening: set[asyncio.Task[Any]] = set()
        self._patient_turns = 0
        self._listens = False
        self._pause: asyncio.TimerHandle | None = None
        self._until = 0.0
        listener.setblocking(False)
        let_in_connections(listener)
        load.join()
        self._sign = loop.call_later(_SIGN_S, self._give_sign)
        self._listen()

    def close(self) -> None:
        """Accept nothing more; the connections that wait are for the other workers."""
        self._sign.cancel()
        self._load.leave()
        self._load.stop_listening()
        self._ignore()
        if self._pause is not None:
            self._pause.cancel()
        self._listener.close()

    @property
    def sockets(self) -> tuple[socket.socket, ...]:
        """The listener, until it is closed."""
        return () if self._listener.fileno() < 0 else (self._listener,)

    async def wait_closed(self) -> None:
        """Return once each accepted connection is open or has failed."""
        await asyncio.gather(*self._opening, return_exceptions=True)

    def _give_sign(self) -> None:
        self._load.give_sign()
        self._sign = self._loop.call_later(_SIGN_S, self._give_sign)

    def _listen(self) -> None:
        self._listens = True
        self._loop.add_reader(self._listener, self._accept_in_turn)

    def _ignore(self) -> None:
        if self._listens:
            self._listens = False
            self._loop.remove_reader(self._listener)

    def _wait(self, seconds: float) -> None:
        self._ignore()
        self._until = self._loop.time() + seconds
        self._pause = self._loop.call_later(_POLL_INTERVAL_S, self._poll)

    def _accept_in_turn(self) -> None:
        # One connection in each turn of the event loop: the next one may be for another worker.
        if self._load.is_leaving() or self._load.is_ahead():
            self._wait(PATIENCE_S)
        else:
            self._accept()

    def _poll(self) -> None:
        """Accept again once it is this worker's turn, or take what the others left for too long."""
        is_late = self._loop.time() >= self._until
        is_leaving = self._load.is_leaving()
        if is_leaving or (self._load.is_ahead() and not is_late):
            self._pause = self._loop.call_later(PATIENCE_S if is_leaving else _POLL_INTERVAL_S, self._poll)
            return
        self._pause = None
        if is_late:
            self._accept_more()
        if self._pause is None:
            self._listen()

    def _accept_more(self) -> None:
        # More each time, so that workers without a moment do not limit this one for long.
        for _ in range(1 + self._patient_turns // _TURNS):
            if not self._accept():
                self._patient_turns //= 2
                return
        self._patient_turns += 1
        self._wait(PATIENCE_S)

    def _accept(self) -> bool:
        """Accept one connection and begin to open it; return whether there was one."""
        try:
            connection, _ = self._listener.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return False
        except OSError as error:
            if error.errno not in _EXHAUSTED:
                raise
            _log.error("Connections cannot be accepted for a second: %s.", error.strerror)
            self._wait(_RETRY_S)
            return False
        cohort = self._load.newest
        cohort.enter()
        opening = self._loop.create_task(self._open(connection, cohort))
        self._opening.add(opening)
        opening.add_done_callback(self._opening.discard)
        return True

    async def _open(self, connection: socket.socket, cohort: Cohort) -> None:
        protocol = self._protocol_factory()
        protocol.on_lost = cohort.leave
        try:
            await self._loop.connect_accepted_socket(lambda: protocol, connection, ssl=self._tls)
        except BaseException as error:
            cohort.leave()
            if not isinstance(error, OSError):  # a client that is gone, or that speaks no TLS
                raise
