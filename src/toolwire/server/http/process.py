"""The server as a process: an ASGI app on a socket, on uvicorn with uvloop and httptools, until a signal ends it."""

from __future__ import annotations

import contextlib
import errno
import logging
import resource
import socket
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from uvicorn import Config, Server
from uvicorn.config import STARTUP_FAILURE
from uvicorn.supervisors import ChangeReload, Multiprocess

from toolwire.core.errors import DefinitionError, ToolwireError
from toolwire.telemetry.logs import is_json_log, log_json

from .connection import Connection
from .deadlines import DEADLINES, Deadlines
from .graceful_shutdown import FLUSH_S, GracefulShutdown, StoppableApp

HOST = "127.0.0.1"
PORT = 9627
BACKLOG = 2048

_log = logging.getLogger("toolwire.server")


class ServerConfig(Config):
    """uvicorn's settings as toolwire serves: nothing printed but errors, no websockets, our connection and our end.

    ``app`` is a :class:`Served` app, or the ``module:name`` of a function that returns one (for processes that must
    make their own). With ``access_log`` each request is a line on standard output, without its query.
    """

    def __init__(
        self, app: StoppableApp | str, *, deadlines: Deadlines = DEADLINES, access_log: bool = False, **more: Any
    ) -> None:
        self.deadlines = deadlines
        super().__init__(
            app,
            factory=isinstance(app, str),
            interface="asgi3",
            http=Connection,
            loop="uvloop",
            ws="none",
            lifespan="on",
            log_config=_ACCESS_LOG if access_log else None,
            log_level=None if access_log else "error",
            access_log=access_log,
            proxy_headers=False,
            server_header=False,
            backlog=BACKLOG,
            timeout_keep_alive=deadlines.idle_s,
            timeout_graceful_shutdown=FLUSH_S,
            **more,
        )

    def configure_logging(self) -> None:
        """Set uvicorn's loggers up, here and in each process started from here."""
        json = is_json_log()
        super().configure_logging()
        if json:  # uvicorn has set up its own again
            log_json()

    def load(self) -> None:
        """Make the app and give it its graceful end; a process whose app cannot be made ends with one line."""
        try:
            super().load()
        except ToolwireError as error:
            _log.error("%s", error)
            sys.exit(STARTUP_FAILURE)
        except Exception:  # noqa: BLE001 - whatever it is, a new process would fail alike
            _log.exception("The app could not be made.")
            sys.exit(STARTUP_FAILURE)
        self.loaded_app: Any = GracefulShutdown(self.loaded_app, self.deadlines, supervised=isinstance(self.app, str))


def serve(
    app: StoppableApp,
    *,
    host: str = HOST,
    port: int = PORT,
    announce: Callable[[str], object] = print,
    deadlines: Deadlines = DEADLINES,
    access_log: bool = False,
) -> None:
    """Serve ``app`` in this process until SIGINT or SIGTERM, then let running calls finish and return.

    Port 0 takes a free one. ``announce`` is given the URL as soon as the socket listens. After a signal the process
    ends within ``deadlines.grace_s`` and two seconds, even if a tool will not return. [R15]

    Raises:
        DefinitionError: nothing can listen at ``host`` and ``port``.
        ToolwireError: a tool could not begin; why has been printed.
    """
    config = ServerConfig(app, deadlines=deadlines, access_log=access_log)
    with open_listener(host, port) as listener:
        announce(build_url(host, listener))
        _raise_socket_limit()
        with contextlib.suppress(KeyboardInterrupt):  # the way uvicorn leaves after a signal
            try:
                Server(config).run(sockets=[listener])
            except SystemExit as end:
                raise ToolwireError("The server could not start; the line above says why.") from end


def serve_workers(
    factory: str,
    *,
    workers: int,
    host: str = HOST,
    port: int = PORT,
    announce: Callable[[str], object] = print,
    deadlines: Deadlines = DEADLINES,
    access_log: bool = False,
) -> None:
    """Serve the app that ``factory`` (``module:function``) makes, in each of ``workers`` processes.

    A worker that dies is replaced.
    Signals are those of ``serve``, for all workers at once.

    Raises:
        DefinitionError: nothing can listen at ``host`` and ``port``.
        ToolwireError: a worker could not make the app; it has printed why.
    """
    config = ServerConfig(factory, deadlines=deadlines, access_log=access_log, workers=workers)
    with open_listener(host, port) as listener:
        announce(build_url(host, listener))
        _raise_socket_limit()
        supervisor = Multiprocess(config, sockets=[listener])
        supervisor.run()
    if any(process.exitcode == STARTUP_FAILURE for process in supervisor.processes):
        raise ToolwireError("A worker could not start; the line above says why.")


def serve_reloading(
    factory: str,
    *,
    directories: Iterable[Path],
    host: str = HOST,
    port: int = PORT,
    announce: Callable[[str], object] = print,
    deadlines: Deadlines = DEADLINES,
    access_log: bool = False,
) -> None:
    """Serve the app that ``factory`` makes, and make it anew whenever a Python file below ``directories`` changes.

    Raises:
        DefinitionError: nothing can listen at ``host`` and ``port``.
    """
    watched = [str(directory) for directory in directories]
    config = ServerConfig(factory, deadlines=deadlines, access_log=access_log, reload=True, reload_dirs=watched)
    with open_listener(host, port) as listener:
        announce(build_url(host, listener))
        reload = ChangeReload(config, target=Server(config).run, sockets=[listener])
        reload.should_restart()  # notes how the files are, before anything is served that a change could be noticed by
        reload.run()


def open_listener(host: str, port: int) -> socket.socket:
    """Return a socket that listens at ``host`` and ``port``; port 0 takes a free one.

    Raises:
        DefinitionError: it cannot, and the text says why and what to do.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, _, _, _, address = found[0]
        return socket.create_server(address[:2], family=family, backlog=BACKLOG)
    except OSError as error:
        raise DefinitionError(f"Cannot listen on {host}:{port}: {_explain_error(error)}.") from error


def build_url(host: str, listener: socket.socket) -> str:
    """Return the URL at which ``listener`` is reached from this machine."""
    port = listener.getsockname()[1]
    name = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(host, host)  # noqa: S104 - read, not bound
    return f"http://[{name}]:{port}" if ":" in name else f"http://{name}:{port}"


def _explain_error(error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return "something else listens there; stop it, or choose another port (0 takes a free one)"
    if error.errno == errno.EACCES:
        return "ports below 1024 are not for everybody; choose a higher one (0 takes a free one)"
    if isinstance(error, socket.gaierror):
        return "there is no such address; 127.0.0.1 is this machine alone, 0.0.0.0 all its networks"
    return error.strerror or type(error).__name__


def _raise_socket_limit() -> None:
    """Raise this process's limit of open sockets as far as it may by itself. [R9]"""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


class AccessLogHandler(logging.StreamHandler[Any]):
    """Writes the access log. What cannot be written is dropped: a server goes on when nobody reads its log."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - logging's own name
        """Say nothing of a stream that cannot be written; anything else as ever."""
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
