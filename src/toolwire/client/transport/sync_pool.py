"""Pool the connections of the blocking transport: to checked addresses, reused, by one thread at a time."""

from __future__ import annotations

import select
import socket
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from toolwire.core.model import Problem

from .failures import connection_refusal, local_close, timeout, tls_failure
from .http1 import ResponseReader
from .proxies import Proxy, connect_end, read_connect_reply, write_connect
from .tls import find_tls_context

if TYPE_CHECKING:
    from .request_rules import SendRequest

_READ_BYTES = 64 * 1024
MAX_IDLE = 64
IDLE_S = 60.0


class PoolKey(NamedTuple):
    """The origin, address and proxy of a connection: only requests to all three may reuse it."""

    origin: str
    address: str
    proxy: Proxy | None = None


def open_socket(address: str) -> socket.socket:
    """Return a socket of the family of ``address``, not yet connected."""
    return socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)


def server_name(hop: SendRequest) -> str:
    """Return the name that the certificate must have: the host of the URL, not the address."""
    return hop.target.address or hop.target.host.removesuffix(".")


def has_input(connection: socket.socket) -> bool:
    """Return whether an idle connection has something to read: its end, or unexpected data."""
    descriptor = connection.fileno()
    if descriptor < 0:
        return True
    if not hasattr(select, "poll"):  # Windows, where select() takes any descriptor
        return bool(select.select([descriptor], [], [], 0)[0])
    # poll() and not select(), which fails for descriptors above 1,023.
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(0))


class SyncPooledConnection:
    """One connection, which carries one request at a time."""

    __slots__ = ("_interrupted", "idle_since", "key", "socket")

    def __init__(self, key: PoolKey, connected: socket.socket) -> None:
        self.key: PoolKey = key
        self.socket: socket.socket = connected
        self._interrupted = False
        self.idle_since: float = 0.0

    def send(self, request: bytes, reader: ResponseReader, until: float) -> None:
        """Send ``request``. A server that closes the connection meanwhile may have answered before."""
        try:
            # Zero would mean "do not block" to a socket.
            self.socket.settimeout(max(until - time.monotonic(), 0.001))
            self.socket.sendall(request)
        except TimeoutError:
            reader.fail(timeout(self.key.origin, sent=True))
        except OSError:
            pass  # a server may refuse a large body before it has read all of it; its response is still to be read

    def receive(self, reader: ResponseReader, until: float) -> None:
        """Give the next bytes to ``reader``."""
        try:
            left = until - time.monotonic()
            if left <= 0:  # also of a server that sends without a pause
                raise TimeoutError
            self.socket.settimeout(left)
            data = self.socket.recv(_READ_BYTES)
        except TimeoutError:
            reader.fail(timeout(self.key.origin, sent=True))
        except OSError:
            self._end(reader, orderly=False)
        else:
            if data:
                reader.feed(data)
            else:
                self._end(reader, orderly=True)

    def close(self) -> None:
        """Close the connection now, without waiting."""
        self.socket.close()

    def interrupt(self) -> None:
        """End the exchange of another thread; that thread closes the socket."""
        self._interrupted = True
        with suppress(OSError):
            # A close from another thread would not wake up a blocked recv().
            self.socket.shutdown(socket.SHUT_RDWR)

    def _end(self, reader: ResponseReader, *, orderly: bool) -> None:
        if self._interrupted:
            reader.fail(local_close(self.key.origin))
        else:
            reader.end(orderly=orderly)


def open_sync_connection(
    hop: SendRequest, key: PoolKey, within_s: float, ca_file: str = ""
) -> SyncPooledConnection | Problem:
    """Return a new connection to the address of ``hop``, or why there is none. Nothing is sent yet."""
    until = time.monotonic() + within_s
    plain = open_socket(key.address)
    try:
        plain.settimeout(within_s)
        # To the checked address, never to the name: a second lookup could give another answer.
        plain.connect((key.address, hop.port))
        # A request is written at once, so nothing is gained by waiting for more of it.
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        problem = None
        if hop.proxy is not None and hop.target.url.scheme == "https":
            problem = _open_tunnel(plain, hop, hop.proxy, until)
    except TimeoutError:
        plain.close()
        return timeout(hop.peer, sent=False)
    except OSError:
        plain.close()
        return connection_refusal(hop.peer)
    except BaseException:
        plain.close()
        raise
    if problem is not None:
        plain.close()
    if problem is not None or hop.target.url.scheme == "http":
        return problem or SyncPooledConnection(key, plain)
    try:
        # One limit for all steps; zero would mean "do not block" to a socket.
        plain.settimeout(max(until - time.monotonic(), 0.001))
        secure = find_tls_context(ca_file).wrap_socket(plain, server_hostname=server_name(hop))
        return SyncPooledConnection(key, secure)
    except TimeoutError:
        plain.close()
        return timeout(hop.peer, sent=False)
    except OSError as error:
        plain.close()
        return tls_failure(hop.target.origin, error)
    except BaseException:
        plain.close()
        raise


def _open_tunnel(plain: socket.socket, hop: SendRequest, proxy: Proxy, until: float) -> Problem | None:
    """Make ``proxy`` pass on what is sent to ``plain``, or return why it does not."""
    data = b""
    reply: Problem | bool = False
    try:
        plain.settimeout(max(until - time.monotonic(), 0.001))
        plain.sendall(write_connect(hop.target, proxy))
        while reply is False:
            plain.settimeout(max(until - time.monotonic(), 0.001))
            if not (more := plain.recv(_READ_BYTES)):
                return connect_end(proxy)
            data += more
            reply = read_connect_reply(data, hop.target, proxy)
    except TimeoutError:
        raise
    except OSError:
        return connect_end(proxy)
    return reply if isinstance(reply, Problem) else None


class SyncConnectionPool:
    """The connections of one network: the busy ones, and the idle ones, oldest first. Threads may share it."""

    __slots__ = ("_busy", "_idle", "_lock")

    def __init__(self) -> None:
        self._busy: set[SyncPooledConnection] = set()
        self._idle: dict[SyncPooledConnection, None] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._idle)

    def take(self, key: PoolKey, now: float) -> SyncPooledConnection | None:
        """Return an idle connection for ``key``, the one used last, or None."""
        with self._lock:
            # The one used last first: it is the least likely to have been closed by the server meanwhile.
            for found in reversed(self._idle):
                if found.key == key:
                    break
            else:
                return None
            del self._idle[found]
            self._busy.add(found)
        if now - found.idle_since < IDLE_S and not has_input(found.socket):
            return found
        self.release(found, now, is_reusable=False)
        self.drop(key)  # the server closed it, so it has closed those that were idle longer
        return None

    def add(self, connection: SyncPooledConnection) -> None:
        """Add a new connection, which is busy."""
        with self._lock:
            self._busy.add(connection)

    def release(self, connection: SyncPooledConnection, now: float, *, is_reusable: bool) -> None:
        """Keep ``connection`` for a later request, or close it."""
        closed: SyncPooledConnection | None = connection
        with self._lock:
            # close() may have taken it meanwhile: then it must not come back.
            known = connection in self._busy
            self._busy.discard(connection)
            if is_reusable and known:
                connection.idle_since = now
                self._idle[connection] = None
                closed = next(iter(self._idle)) if len(self._idle) > MAX_IDLE else None
                if closed is not None:
                    del self._idle[closed]
        if closed is not None:
            closed.close()

    def drop(self, key: PoolKey) -> None:
        """Close the idle connections for ``key``."""
        with self._lock:
            dropped = [connection for connection in self._idle if connection.key == key]
            for connection in dropped:
                del self._idle[connection]
        for connection in dropped:
            connection.close()

    def close(self) -> None:
        """Close every connection, and end the running calls of other threads."""
        with self._lock:
            busy, idle = self._busy, self._idle
            self._busy, self._idle = set(), {}
        for connection in busy:
            connection.interrupt()
        for connection in idle:
            connection.close()
