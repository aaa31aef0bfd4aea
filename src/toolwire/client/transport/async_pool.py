"""Pool the connections of the asynchronous transport: to checked addresses, reused, closed with their event loop."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING

from toolwire.core.model import Problem

from .failures import connection_refusal, local_close, timeout, tls_failure
from .http1 import ResponseReader
from .proxies import Proxy, connect_end, read_connect_reply, write_connect
from .sync_pool import IDLE_S, MAX_IDLE, PoolKey, has_input, open_socket, server_name
from .tls import find_tls_context

if TYPE_CHECKING:
    from .request_rules import SendRequest

_UNREAD_BYTES = 256 * 1024
"""How much unread data of a stream is held before reading from the connection pauses."""


class PooledConnection(asyncio.Protocol):
    """One connection, which carries one request at a time."""

    __slots__ = (
        "_deadline",
        "_loop",
        "_paused",
        "_reader",
        "_socket",
        "_transport",
        "_waiter",
        "idle_since",
        "is_lost",
        "key",
    )

    def __init__(self, key: PoolKey, plain: socket.socket) -> None:
        self.key: PoolKey = key
        self._socket = plain
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._reader: ResponseReader | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._paused = False
        self.is_lost: bool = False
        self.idle_since: float = 0.0

    def start(self, request: bytes, reader: ResponseReader, within_s: float) -> None:
        """Send ``request``, and give what arrives within ``within_s`` seconds to ``reader``."""
        if self._transport is None:
            raise RuntimeError("the connection is not open yet")
        self._reader = reader
        # One timer for the whole exchange, which costs less than a timeout around each wait.
        self._deadline = self._loop.call_later(within_s, self._end_at_deadline)
        self._transport.write(request)

    async def wait(self) -> None:
        """Wait until more of the response has been read."""
        if self._paused and self._transport is not None:
            self._paused = False
            self._transport.resume_reading()
        reader = self._reader
        if reader is None or reader.is_done or reader.has_pieces:
            return
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def finish(self, *, now: float) -> bool:
        """End the exchange, and return whether the connection can be reused. If not, it is closed."""
        reader, self._reader = self._reader, None
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        transport = self._transport
        if (
            reader is not None
            and reader.is_done
            and reader.is_reusable
            and not self.is_lost
            and transport is not None
            and not transport.is_closing()
            # A server may answer before it has read the whole request; what is left would be taken for the next one.
            and not transport.get_write_buffer_size()
        ):
            if self._paused:
                self._paused = False
                transport.resume_reading()
            self.idle_since = now
            return True
        self.abort()
        return False

    def is_usable(self, now: float) -> bool:
        """Return whether an idle connection can be used, as far as the client can know."""
        return not self.is_lost and now - self.idle_since < IDLE_S and not has_input(self._socket)

    def interrupt(self) -> None:
        """Close the connection now; its running call ends with a Problem."""
        if self._reader is not None:
            self._reader.fail(local_close(self.key.origin))
        self.abort()
        self._wake()

    def abort(self) -> None:
        """Close the connection now, without waiting."""
        self.is_lost = True
        if self._transport is None:
            self._socket.close()
        elif self._loop.is_closed():
            # Its transport no longer works. Closing the socket still tells the server.
            if self._socket.fileno() >= 0:
                self._socket.close()
        else:
            self._transport.abort()

    # The event loop calls these methods.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the transport: the connection is ready for a request."""
        self._transport = transport  # type: ignore[assignment]  # a stream socket has a whole Transport

    def data_received(self, data: bytes) -> None:
        """Take data from the server."""
        reader = self._reader
        if reader is None:
            self.abort()  # a server that sends before a request would confuse the next response
            return
        reader.feed(data)
        if reader.is_done:
            self._wake()
        elif reader.has_pieces:
            # The server sends faster than the caller reads: TCP then makes it wait.
            if reader.unread_bytes > _UNREAD_BYTES and not self._paused and self._transport is not None:
                self._paused = True
                self._transport.pause_reading()
            self._wake()

    def eof_received(self) -> bool:
        """Take the end of the server's data, and close the connection."""
        self._end(orderly=True)
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Take the end of the connection; ``exc`` is set if it broke."""
        self._end(orderly=exc is None)

    def _end(self, *, orderly: bool) -> None:
        self.is_lost = True
        if self._reader is not None:
            self._reader.end(orderly=orderly)
            self._wake()

    def _end_at_deadline(self) -> None:
        if self._reader is not None:
            self._reader.fail(timeout(self.key.origin, sent=True))
        self.abort()
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


async def open_connection(
    hop: SendRequest, key: PoolKey, within_s: float, ca_file: str = ""
) -> PooledConnection | Problem:
    """Return a new connection to the address of ``hop``, or why there is none. Nothing is sent yet."""
    loop = asyncio.get_running_loop()
    plain = open_socket(key.address)
    connection = PooledConnection(key, plain)
    secure = hop.target.url.scheme == "https"
    try:
        async with asyncio.timeout(within_s):
            plain.setblocking(False)
            try:
                # Connected to the checked address, never to the name: a second lookup could give another answer.
                await loop.sock_connect(plain, (key.address, hop.port))
            except TimeoutError:  # the system's own: the deadline cancels instead
                raise
            except OSError:
                connection.abort()
                return connection_refusal(hop.peer)
            if hop.proxy is not None and secure:
                problem = await _open_tunnel(plain, hop, hop.proxy)
                if problem is not None:
                    connection.abort()
                    return problem
            context = find_tls_context(ca_file) if secure else None
            await loop.create_connection(
                lambda: connection, sock=plain, ssl=context, server_hostname=server_name(hop) if secure else None
            )
    except TimeoutError:
        connection.abort()
        return timeout(hop.peer, sent=False)
    except (OSError, EOFError) as error:
        connection.abort()
        return tls_failure(hop.target.origin, error)
    # Also after a cancellation: an open socket would stay.
    except BaseException:
        connection.abort()
        raise
    return connection


async def _open_tunnel(plain: socket.socket, hop: SendRequest, proxy: Proxy) -> Problem | None:
    """Make ``proxy`` pass on what is sent to ``plain``, or return why it does not."""
    loop, data = asyncio.get_running_loop(), b""
    reply: Problem | bool = False
    try:
        await loop.sock_sendall(plain, write_connect(hop.target, proxy))
        while reply is False:
            if not (more := await loop.sock_recv(plain, _UNREAD_BYTES)):
                return connect_end(proxy)
            data += more
            reply = read_connect_reply(data, hop.target, proxy)
    except TimeoutError:  # the system's own: the deadline cancels instead
        raise
    except OSError:
        return connect_end(proxy)
    return reply if isinstance(reply, Problem) else None


class ConnectionPool:
    """The connections of one network in one event loop: the busy ones, and the idle ones, oldest first."""

    __slots__ = ("_busy", "_idle", "_watch", "closed")

    def __init__(self) -> None:
        self._busy: set[PooledConnection] = set()
        # A dict as an ordered set: the oldest comes first.
        self._idle: dict[PooledConnection, None] = {}
        self._watch: AsyncGenerator[None, None] | None = None
        self.closed: bool = False

    async def watch_loop(self) -> None:
        """Close all connections when the event loop ends."""
        # An event loop closes its asynchronous generators before it ends. It has no other hook for that.
        self._watch = _close_at_end(self)
        await anext(self._watch)

    def __len__(self) -> int:
        return len(self._idle)

    def take(self, key: PoolKey, now: float) -> PooledConnection | None:
        """Return an idle connection for ``key``, the one used last, or None."""
        # The one used last first: it is the least likely to have been closed by the server meanwhile.
        for connection in reversed(self._idle):
            if connection.key == key:
                del self._idle[connection]
                if connection.is_usable(now):
                    self._busy.add(connection)
                    return connection
                connection.abort()
                self.drop(key)  # the server closed it, so it has closed those that were idle longer
                return None
        return None

    def add(self, connection: PooledConnection) -> None:
        """Add a new connection, which is busy."""
        self._busy.add(connection)

    def release(self, connection: PooledConnection, *, now: float, is_reusable: bool) -> None:
        """Keep ``connection`` for a later request if it can be reused, or close it."""
        self._busy.discard(connection)
        if not connection.finish(now=now):
            return
        if not is_reusable or self.closed:
            connection.abort()
            return
        self._idle[connection] = None
        if len(self._idle) > MAX_IDLE:
            oldest = next(iter(self._idle))
            del self._idle[oldest]
            oldest.abort()

    def drop(self, key: PoolKey) -> None:
        """Close the idle connections for ``key``."""
        for connection in [connection for connection in self._idle if connection.key == key]:
            del self._idle[connection]
            connection.abort()

    def close(self) -> None:
        """Close every connection, and end the running calls."""
        self.closed = True
        while self._busy:
            self._busy.pop().interrupt()
        while self._idle:
            self._idle.popitem()[0].abort()

    async def aclose(self) -> None:
        """Close every connection, and give the event loop the turn in which it closes sockets."""
        self.close()
        if self._watch is not None:
            await self._watch.aclose()


async def _close_at_end(pool: ConnectionPool) -> AsyncGenerator[None, None]:
    try:
        yield
    finally:
        pool.close()
        await asyncio.sleep(0)  # transports end in the next turn of the loop
