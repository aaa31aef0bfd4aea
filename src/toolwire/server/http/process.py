"""Run an ASGI application as a server process, or several, on uvicorn with our own HTTP protocol."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import gc
import logging
import os
import resource
import signal
import socket
import ssl
import sys
import threading
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from multiprocessing.connection import wait
from pathlib import Path
from time import monotonic
from typing import Any, Final, NamedTuple
from weakref import WeakSet

from toolwire.core.lazy_import import explain_missing_module

try:
    # here, because a worker without it would be started again for ever
    import uvloop
    from uvicorn import Config
    from uvicorn.config import STARTUP_FAILURE
    from uvicorn.supervisors import ChangeReload, Multiprocess
    from uvicorn.supervisors.multiprocess import Process
except ModuleNotFoundError as _error:
    raise explain_missing_module(_error, "server") from _error

from toolwire.core.errors import DefinitionError, ToolwireError
from toolwire.telemetry.logs import is_json_log, log_json

from .connection import HttpConnection
from .deadlines import DEADLINES, Deadlines
from .graceful_shutdown import FLUSH_S, GracefulShutdown, StoppableApp, list_stop_signals
from .prompt_server import PromptServer
from .shared_listener import SharedListener, WorkerLoad
from .trusted_proxies import UNIX_PREFIX, TrustedProxies

HOST = "127.0.0.1"
PORT = 9627
BACKLOG = 2048
COLLECT_AFTER = 10_000
"""The number of new objects after which the garbage collector looks for cycles; Python's own is 700 or 2,000."""
START_S = 30
"""How long a worker has to start. A gateway already waits five seconds for upstreams that do not answer."""

_HANG_S = 5.0
"""A worker that answers no more for this long is replaced."""
_RESTART_S = 2.0
"""How long after a worker could not start it is started again, if others serve."""

_log = logging.getLogger("toolwire.server")


class TlsFiles(NamedTuple):
    """The certificate of a server with its chain, and its private key: files in PEM, the key without a password."""

    cert: str
    key: str

    def check(self) -> None:
        """Check that the files can be read and belong together.

        Raises:
            DefinitionError: they cannot be used; the text names the file and the reason.
        """
        for path in self:
            try:
                Path(path).read_bytes()
            except OSError as error:
                raise DefinitionError(f"{path} cannot be read: {error.strerror}.") from error
        try:
            # Without the function, OpenSSL would ask for the password of a key at the terminal.
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(self.cert, self.key, password=_refuse_password)
        except ssl.SSLError as error:
            reason = _TLS_FAULTS.get(error.reason, "one of them is not a PEM file of its kind")
            raise DefinitionError(f"Cannot use {self.cert} and {self.key} for TLS: {reason}.") from error
        except _KeyLockedError as error:
            raise DefinitionError(f"{self.key} is password-protected. Use a key without a password.") from error


class _KeyLockedError(Exception):
    """The private key asks for a password."""


def _refuse_password() -> str:
    raise _KeyLockedError


_TLS_FAULTS = {"KEY_VALUES_MISMATCH": "the key is not that of the certificate"}


class ServerConfig(Config):
    """The settings of uvicorn for ``toolwire serve``: our own connections and shutdown, no WebSockets, a quiet log.

    ``app`` is an application, or the ``module:name`` of a function that returns one, for processes that must create
    their own. With ``access_log``, each request is written to standard output as one line, without its query.
    """

    def __init__(
        self,
        app: StoppableApp | str,
        *,
        deadlines: Deadlines = DEADLINES,
        access_log: bool = False,
        tls: TlsFiles | None = None,
        load_of_workers: WorkerLoad | None = None,
        trusted_proxies: Iterable[str] = (),
        **more: Any,
    ) -> None:
        """Create the settings; ``more`` are further options of ``uvicorn.Config``.

        With ``load_of_workers``, the server is one of several workers, which share their socket fairly.
        ``trusted_proxies`` are addresses and networks of proxies, which name the address of a client.

        Raises:
            DefinitionError: one of them is no address.
        """
        self.deadlines = deadlines
        self.load_of_workers = load_of_workers
        self.trusted_proxies: TrustedProxies | None = TrustedProxies(trusted_proxies) if trusted_proxies else None
        super().__init__(
            app,
            factory=isinstance(app, str),
            interface="asgi3",
            http=HttpConnection,
            loop="uvloop",
            # No protocol here uses WebSockets (docs/decisions/0061).
            ws="none",
            # With "auto", an exception at the start would count as an application without a lifespan.
            lifespan="on",
            log_config=_ACCESS_LOG if access_log else None,
            log_level=None if access_log else "error",
            access_log=access_log,
            # Any client can send the headers of a proxy: trusted_proxies says from which addresses they count.
            proxy_headers=False,
            # The name and version of the program would only help attackers.
            server_header=False,
            backlog=BACKLOG,
            timeout_keep_alive=deadlines.idle_s,
            # GracefulShutdown has waited for the running calls before uvicorn stops.
            timeout_graceful_shutdown=FLUSH_S,
            timeout_worker_healthcheck=START_S,
            ssl_certfile=None if tls is None else tls.cert,
            ssl_keyfile=None if tls is None else tls.key,
            **more,
        )

    def configure_logging(self) -> None:
        """Configure the loggers of uvicorn; uvicorn calls this in each process."""
        json = is_json_log()
        super().configure_logging()
        if json:  # uvicorn has just replaced the handlers of its loggers
            log_json()

    def get_loop_factory(self) -> Callable[[], asyncio.AbstractEventLoop]:
        """Return a function that creates the event loop; that of a worker accepts its part of the connections."""
        load = self.load_of_workers

        def create_loop() -> asyncio.AbstractEventLoop:
            loop = uvloop.new_event_loop()
            create_server = loop.create_server

            async def listen(factory: Any, *, sock: Any, ssl: Any, **more: Any) -> Any:
                if load is not None:
                    return SharedListener(loop, factory, sock, load, ssl)
                # uvicorn gives each socket to create_server, where uvloop takes those of TCP alone.
                listens = loop.create_unix_server if sock.family == socket.AF_UNIX else create_server
                return await listens(factory, sock=sock, ssl=ssl, **more)

            loop.create_server = listen  # type: ignore[method-assign, assignment]  # uvicorn has no other place for it
            return loop

        return create_loop

    def load(self) -> None:
        """Create the application with its graceful shutdown; end the process if that fails."""
        if isinstance(self.app, str):  # a process of its own, which belongs to the server alone
            _collect_less_often()
        try:
            super().load()
        except ToolwireError as error:
            _log.error("%s", error)
            sys.exit(STARTUP_FAILURE)
        except Exception:  # noqa: BLE001 - a new process would fail in the same way
            _log.exception("The application could not be created.")
            sys.exit(STARTUP_FAILURE)
        self.loaded_app: Any = GracefulShutdown(
            self.loaded_app,
            self.deadlines,
            supervised=isinstance(self.app, str),
            load=self.load_of_workers,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenSettings:
    """Where and how to listen, whatever serves. ``announce`` gets the URL as soon as the socket listens.

    Port 0 chooses a free port. ``root_path`` is the path below which clients call, if a proxy takes it off;
    ``trusted_proxies`` are those whose fields name the clients.
    """

    host: str = HOST
    port: int = PORT
    announce: Callable[[str], object] = print
    deadlines: Deadlines = DEADLINES
    access_log: bool = False
    tls: TlsFiles | None = None
    root_path: str = ""
    trusted_proxies: Sequence[str] = ()

    def build_config(self, app: StoppableApp | str, **more: Any) -> ServerConfig:
        """Return the settings of uvicorn for ``app``; ``more`` are those of ``ServerConfig``."""
        return ServerConfig(
            app,
            deadlines=self.deadlines,
            access_log=self.access_log,
            tls=self.tls,
            root_path=self.root_path,
            trusted_proxies=self.trusted_proxies,
            **more,
        )

    @contextlib.contextmanager
    def open(self) -> Generator[socket.socket, None, None]:
        """Open a socket as ``open_listener`` does; at the end, close it, and remove the file of a Unix socket."""
        with open_listener(self.host, self.port) as listener:
            _raise_socket_limit()
            try:
                yield listener
            finally:
                if listener.family == socket.AF_UNIX:
                    Path(self.host.removeprefix(UNIX_PREFIX)).unlink(missing_ok=True)

    def announce_url(self, listener: socket.socket) -> None:
        """Say where ``listener`` is reached."""
        self.announce(build_url(self.host, listener, secure=self.tls is not None))


LISTEN: Final = ListenSettings()


def _collect_less_often() -> None:
    """Let the garbage collector wait for more objects, unless the program itself lets it wait longer or stopped it."""
    # A call makes no cycles, but calls that wait together hold thousands of objects: with Python's threshold an eighth
    # of the CPU time of a recorded call goes into looking at them.
    first, *older = gc.get_threshold()
    if 0 < first < COLLECT_AFTER:
        gc.set_threshold(COLLECT_AFTER, *older)


def serve(app: StoppableApp, listen: ListenSettings = LISTEN) -> None:
    """Serve ``app`` in this process until SIGINT, SIGTERM or SIGHUP, then let running calls finish and return.

    After a signal the process ends within ``deadlines.grace_s`` plus two seconds, even if a tool does not return.

    Raises:
        DefinitionError: the socket cannot listen at its host and port.
        ToolwireError: a tool could not begin; the reason has been printed.
    """
    # R15
    with listen.open() as listener:
        _collect_less_often()
        server = PromptServer(listen.build_config(app))
        with contextlib.suppress(KeyboardInterrupt), _stop_on_signals(server):
            # Only now: before the server takes the signals, one of them would end this process at once.
            listen.announce_url(listener)
            try:
                server.run(sockets=[listener])
            except SystemExit as end:
                raise ToolwireError("The server could not start. The line above says why.") from end


@contextlib.contextmanager
def _stop_on_signals(server: PromptServer) -> Generator[None, None, None]:
    """Let a signal that comes while ``server`` does not take signals itself stop it as soon as it runs."""
    if threading.current_thread() is not threading.main_thread():  # signals are of the main thread
        yield
        return
    before = {number: signal.signal(number, server.handle_exit) for number in list_stop_signals()}
    try:
        yield  # uvicorn takes them from here, and raises at its end again what it got
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def serve_workers(
    factory: str,
    listen: ListenSettings = LISTEN,
    *,
    workers: int,
    may_renew: Callable[[], bool] | None = None,
    received: Iterable[int] = (),
) -> None:
    """Serve the application that ``factory`` (``module:function``) returns, in each of ``workers`` processes.

    A worker that dies is replaced. A signal stops all workers as it stops ``serve``. SIGHUP replaces each worker by a
    new one, which begins before the old one finishes its calls and ends; not if ``may_renew``, asked before, says no.
    ``received`` are the signals that came while the caller prepared this; they count as if they came now.

    Raises:
        DefinitionError: the socket cannot listen at its host and port.
        ToolwireError: a worker could not create the application; it has printed the reason.
    """
    load = WorkerLoad(workers) if sys.platform == "linux" else None
    config = listen.build_config(factory, workers=workers, load_of_workers=load)
    with listen.open() as listener:
        # R4: one socket for all workers, so a connection that a killed worker did not accept is not lost.
        supervisor = _Workers(config, sockets=[listener])
        supervisor.may_renew = may_renew or supervisor.may_renew
        supervisor.signal_queue.extend(received)
        # Only now: before it takes the signals, SIGHUP ends this process.
        listen.announce_url(listener)
        supervisor.run()
    if not supervisor.has_started and any(process.exitcode == STARTUP_FAILURE for process in supervisor.processes):
        raise ToolwireError("A worker could not start. The line above says why.")


def serve_reloading(
    factory: str,
    listen: ListenSettings = LISTEN,
    *,
    directories: Iterable[Path],
    announce_reload: Callable[[str], object] = print,
) -> None:
    """Serve the application that ``factory`` returns; restart when a Python file below ``directories`` changes.

    ``announce_reload`` gets a sentence with the names of the changed files each time.

    Raises:
        DefinitionError: the socket cannot listen at its host and port.
    """
    watched = [str(directory) for directory in directories]
    config = listen.build_config(factory, reload=True, reload_dirs=watched)
    with listen.open() as listener:
        reload = _AnnouncingReload(config, target=PromptServer(config).run, sockets=[listener])
        reload.announce_reload = announce_reload
        for number in list_stop_signals():
            signal.signal(number, reload.signal_handler)
        # Only now: before it takes the signals, one of them would end this process at once.
        listen.announce_url(listener)
        with contextlib.suppress(StopIteration):  # it is to stop already
            reload.should_restart()  # records the files now, so that a change during the start is noticed
        reload.run()


class _Workers(Multiprocess):
    """Worker processes that are replaced when they die, and after SIGHUP if ``may_renew`` returns True.

    ``has_started`` says whether one of them has served. Before that, a worker that cannot start ends the server.
    """

    may_renew: Callable[[], bool] = staticmethod(lambda: True)
    has_started = False
    _next_start = 0.0

    def __init__(self, config: Config, sockets: list[socket.socket]) -> None:
        super().__init__(config, sockets)
        self._answering: WeakSet[Process] = WeakSet()
        self._leaving: list[Process] = []

    def restart_all(self) -> None:
        # PL-08: uvicorn would wait until an old worker has finished its calls before it replaces the next one.
        for number, old in enumerate(self.processes):
            new = Process(self.config, self.sockets)
            new.start()
            if not new.wait_until_ready(START_S, self.should_exit):
                new.kill()
                new.join()
                _log.error("A new process could not start. The old processes continue, with their old settings.")
                return
            self.processes[number] = new
            old.terminate()
            self._leaving.append(old)

    def join_all(self) -> None:
        super().join_all()
        for process in self._leaving:
            process.join()

    def keep_subprocess_alive(self) -> None:
        # R11: uvicorn would stop all workers when one cannot start, as if each start failed in the same way. But a
        # database that is away for a moment must not end those that serve; the one that failed is started again.
        self._leaving = [process for process in self._leaving if process.process.is_alive()]
        for number, process in enumerate(self.processes):
            if self.should_exit.is_set():
                return
            is_serving = _ask_worker(process, _HANG_S if process in self._answering else START_S)
            if is_serving is not None:
                self._answering.add(process)
                self.has_started = self.has_started or is_serving
                continue
            process.kill()
            process.join()
            if process.exitcode == STARTUP_FAILURE:
                if not self.has_started:
                    self.should_exit.set()
                    return
                if monotonic() < self._next_start:
                    continue
                self._next_start = monotonic() + _RESTART_S
            self.processes[number] = Process(self.config, self.sockets)
            self.processes[number].start()

    def terminate_all(self) -> None:
        # CR-03: the workers have copies of the listener, which is closed once the last of them closes its own.
        for listener in self.sockets:
            listener.close()
        super().terminate_all()

    def handle_hup(self) -> None:
        if self.may_renew():
            super().handle_hup()


def _ask_worker(worker: Process, seconds: float) -> bool | None:
    """Return whether ``worker`` serves already; None if it has ended, or gives no answer for so long."""
    # R4: uvicorn waits for the answer of a worker that ends meanwhile, as long as for one that hangs.
    with contextlib.suppress(OSError, EOFError):
        worker.parent_conn.send(b"ping")
        if worker.parent_conn in wait([worker.parent_conn, worker.process.sentinel], seconds):
            return bool(worker.parent_conn.recv())
    return None


class _AnnouncingReload(ChangeReload):  # type: ignore[misc,valid-type]  # uvicorn chooses the class when it is imported
    """Restarts the server after a change, and says which files changed."""

    announce_reload: Callable[[str], object] = staticmethod(print)

    def should_restart(self) -> list[Path] | None:
        changed: list[Path] | None = super().should_restart()
        if changed:
            self.announce_reload(f"Reloaded: {', '.join(sorted(path.name for path in changed))} changed.")
        return changed


def open_listener(host: str, port: int) -> socket.socket:
    """Return a socket that listens at ``host`` and ``port``; port 0 chooses a free port.

    ``unix:PATH`` is a Unix socket, for programs of this user and group, and has no port.

    Raises:
        DefinitionError: it cannot listen; the text says why and what to do.
    """
    if host.startswith(UNIX_PREFIX):
        return _open_unix_listener(Path(host.removeprefix(UNIX_PREFIX)))
    try:
        # Resolved here and not by uvicorn, so that a host name and an IPv6 address fail with our sentence.
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, _, _, _, address = found[0]
        # As other servers do, :: listens to IPv4 too.
        is_both = address[0] == "::" and socket.has_dualstack_ipv6()
        return socket.create_server(address[:2], family=family, backlog=BACKLOG, dualstack_ipv6=is_both)
    except OSError as error:
        raise DefinitionError(f"Cannot listen on {host}:{port}: {_explain_error(error)}.") from error


def _open_unix_listener(path: Path) -> socket.socket:
    # CR-02: a proxy of this machine needs no port, and the system says who may connect.
    listener = socket.socket(socket.AF_UNIX)
    try:
        with contextlib.suppress(ConnectionRefusedError, FileNotFoundError):
            listener.connect(str(path))
            raise OSError(errno.EADDRINUSE, "")
        if path.is_socket():
            path.unlink()  # of a server that was killed
        before = os.umask(0o117)  # this user and group
        try:
            listener.bind(str(path))
        finally:
            os.umask(before)
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        is_used = error.errno == errno.EADDRINUSE
        reason = "another program listens there, or it is a file" if is_used else error.strerror or str(error)
        raise DefinitionError(f"Cannot listen on {UNIX_PREFIX}{path}: {reason}.") from error
    return listener


def build_url(host: str, listener: socket.socket, *, secure: bool = False) -> str:
    """Return the URL by which ``listener`` is reached from this machine; it is https if ``secure``.

    A Unix socket has no URL: it is named as its user wrote it.
    """
    if host.startswith(UNIX_PREFIX):
        return host
    port = listener.getsockname()[1]
    host = host or HOST
    with contextlib.suppress(ValueError):  # a host name
        if (address := ip_address(host)).is_unspecified:  # all addresses of this machine
            host = "::1" if address.version == 6 else "127.0.0.1"
    scheme = "https" if secure else "http"
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def _explain_error(error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return "another program listens there; stop it, or choose another port (0 chooses a free one)"
    if error.errno == errno.EACCES:
        return "this user may not use ports below 1024; choose a higher port (0 chooses a free one)"
    if error.errno == errno.EADDRNOTAVAIL:
        return "this machine does not have that address; choose one of its own, or 0.0.0.0 for all of them"
    if isinstance(error, socket.gaierror):
        return (
            "there is no such address; 127.0.0.1 is this machine only, 0.0.0.0 all its networks, :: also those of IPv6"
        )
    return os.strerror(error.errno) if error.errno else str(error)  # its own text repeats the address


def _raise_socket_limit() -> None:
    """Raise the limit of open sockets of this process to the hard limit."""
    # R9: each connection is an open file, and the usual soft limit is 1,024.
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


class AccessLogHandler(logging.StreamHandler[Any]):
    """Write the access log; drop lines that cannot be written, so that a closed pipe does not disturb the server."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - logging's own name
        """Ignore a stream that cannot be written; report other errors as usual."""
        if not isinstance(sys.exception(), OSError):
            super().handleError(record)


_ACCESS_LOG: dict[str, Any] = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "%(asctime)s %(message)s"}},
    "handlers": {
        "access": {
            "class": f"{__name__}.{AccessLogHandler.__name__}",
            "stream": "ext://sys.stdout",
            "formatter": "line",
        }
    },
    "loggers": {
        "uvicorn.error": {"level": "ERROR"},
        "uvicorn.access": {"handlers": ["access"], "level": "INFO", "propagate": False},
    },
}
