"""Serve MCP on standard input and output: one JSON-RPC message in a line, as hosts start a program for it.

Each message becomes a request of the application to ``/mcp``, so that all checks and limits are those of HTTP.

Rules:
- Only messages of the protocol are written to the output. What tools print goes to the error output.
- A host that declares forms is asked for consent: since 2026-07-28 by the answer itself, before that by a request of
  the server, which the host answers while the call waits. The first question waits as long as one in a session.
- A host learns when the lists change: since 2026-07-28 if it listens, before that in any case; and when a resource
  changes to which it has subscribed.
- The end of the input ends the program within 1.5 seconds: hosts kill it soon after. Calls that have not ended in half
  a second are cancelled. Where the input is a file, which ends at once, running calls have five seconds.
"""
# MC-01

from __future__ import annotations

import asyncio
import os
import selectors
import shutil
import signal
import stat
import sys
import threading
from collections.abc import AsyncIterator, Callable, Generator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from typing import Any, BinaryIO, Final

from toolwire.core.catalog import Catalog
from toolwire.core.codec import NO_REMOTE_CHANGES
from toolwire.core.http import Response
from toolwire.core.model import Json
from toolwire.framing import jsontext
from toolwire.framing.jsontext import get_object
from toolwire.protocols.mcp import change_notices
from toolwire.protocols.mcp import headers as header_text
from toolwire.protocols.mcp.header_arguments import find_tool_mirror
from toolwire.protocols.mcp.revision import (
    HANDSHAKE,
    LIST_HEADER,
    LISTEN,
    METHOD_HEADER,
    NAME_HEADER,
    NAMED_BY,
    NOTICES,
    VERSION_HEADER,
    VERSION_META,
)

from .app import App
from .http.exchange import STDIO_EXTENSION
from .mcp.change_stream import POLL_S
from .mcp.host import CANCELLED, McpHost, post_message, write_updates

MAX_LINE: Final = 16 * 1024 * 1024
"""The longest message that is read, in bytes."""

GRACE_S: Final = 0.5
"""How long running calls may take after the input has ended, in seconds."""

FILE_GRACE_S: Final = 5.0
"""How long they may take where the input is a file, whose end does not mean that the host has gone."""

CLEANUP_S: Final = 0.5
"""How long cancelled calls may take to clean up, in seconds."""

EXIT_S: Final = 1.4
"""How long after the end of the input the process ends in any case, in seconds."""

MAX_ANSWER: Final = 64 * 1024 * 1024
"""The longest answer of a tool that sent progress before it, in bytes."""

_MAX_CALLS: Final = 1_000
_ID_WITHIN: Final = 100
_FIELDS: Final = (
    # The scope below says that the socket is on this machine, so the Host must be too (D-24).
    (b"host", b"127.0.0.1"),
    (b"content-type", b"application/json"),
    (b"accept", b"application/json, text/event-stream"),
)


async def serve_stdio(
    app: App,
    reader: asyncio.StreamReader,
    output: BinaryIO,
    *,
    grace_s: float = GRACE_S,
    on_end: Callable[[], object] = bool,
) -> None:
    """Answer the messages of ``reader`` on ``output`` until the input ends; then ``on_end`` is called first."""
    await app.begin()
    connection = _StdioConnection(app, output)
    try:
        async for line in _read_lines(reader):
            await connection.take(line)
        on_end()
        await connection.finish(grace_s)
    finally:
        await app.end()


@contextmanager
def take_output() -> Generator[BinaryIO, None, None]:
    """Yield the standard output for the protocol. Until the end, all else that is printed goes to the error output.

    It is taken before the code of the author is imported, which may print too.
    """
    # I-25
    sys.stdout.flush()
    with os.fdopen(os.dup(sys.stdout.fileno()), "wb", buffering=0) as output:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        try:
            yield output
        finally:
            sys.stdout.flush()
            os.dup2(output.fileno(), sys.stdout.fileno())


def run_stdio(app: App, output: BinaryIO | None = None) -> None:
    """Serve the standard input of this process until it ends, SIGTERM, SIGHUP or Ctrl-C.

    ``output`` is what ``take_output`` yields; without it, the standard output is taken now.
    """
    with take_output() if output is None else nullcontext(output) as taken, suppress(KeyboardInterrupt):
        asyncio.run(_serve_process(app, taken))


def _is_stream(mode: int) -> bool:
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or sys.stdin.isatty()


def _limit_exit() -> None:
    """End the process soon, whatever still runs: a host kills it otherwise, and then nothing is cleaned up."""
    timer = threading.Timer(EXIT_S, os._exit, (0,))
    timer.daemon = True
    timer.start()


async def _serve_process(app: App, output: BinaryIO) -> None:
    # The host of a file has not gone when it ends.
    has_host = _is_stream(os.fstat(sys.stdin.fileno()).st_mode)
    loop, reader = asyncio.get_running_loop(), asyncio.StreamReader(limit=MAX_LINE)
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), _open_input())
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_IGN:  # such as SIGHUP after nohup
            continue
        # A signal ends the input, so that running calls get the same time as at its usual end.
        loop.add_signal_handler(number, reader.feed_eof)
    try:
        if has_host:
            await serve_stdio(app, reader, output, on_end=_limit_exit)
        else:
            await serve_stdio(app, reader, output, grace_s=FILE_GRACE_S)
    finally:
        transport.close()


def _open_input() -> BinaryIO:
    """Return the standard input; or a pipe with all of it, where it is a file or a device that no loop waits on."""
    if _is_stream(os.fstat(sys.stdin.fileno()).st_mode):
        return sys.stdin.buffer
    read_end, write_end = os.pipe()

    def copy() -> None:
        with suppress(BrokenPipeError), os.fdopen(write_end, "wb") as pipe:
            shutil.copyfileobj(sys.stdin.buffer, pipe)

    threading.Thread(target=copy, daemon=True).start()
    return os.fdopen(read_end, "rb")


async def _read_lines(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """Yield each line. In place of a line that is too long, yield an empty object, which is no message."""
    while True:
        try:
            line = await reader.readuntil(b"\n")
        except asyncio.IncompleteReadError as end:
            if end.partial.strip():
                yield end.partial
            return
        except asyncio.LimitOverrunError as long:
            await _skip_line(reader, long.consumed)
            yield b"{}"
            continue
        if line.strip():
            yield line


async def _skip_line(reader: asyncio.StreamReader, consumed: int) -> None:
    while True:
        await reader.readexactly(consumed)
        try:
            await reader.readuntil(b"\n")
        except asyncio.LimitOverrunError as long:
            consumed = long.consumed
        except asyncio.IncompleteReadError:
            return
        else:
            return


class _StdioConnection:
    """One host: its running calls, what it can show its user, and the questions that wait for its answer."""

    def __init__(self, app: App, output: BinaryIO) -> None:
        self._app, self._output = app, output
        self._running: dict[bytes, asyncio.Task[None]] = {}
        self._host = McpHost(first_wait_s=app.limits.answer_s)
        self._agreed: list[tuple[bytes, bytes]] = []
        self._subscriptions: set[asyncio.Task[None]] = set()
        self._watching: list[asyncio.Task[None]] = []
        self._room = asyncio.Semaphore(_MAX_CALLS)

    async def take(self, line: bytes) -> None:
        """Handle one message: a request, a notification, or the host's answer to a question."""
        data = jsontext.read(line)
        message = data if isinstance(data, dict) else {}
        if "method" not in message and ("result" in message or "error" in message):
            self._host.take_answer(message)
            return
        params = get_object(message, "params")
        if message.get("method") == CANCELLED:
            running = self._running.pop(jsontext.write(params.get("requestId")), None)
            if running is not None:
                running.cancel()
            return
        if message.get("method") == "initialize":
            # MC-14: what the handshake agreed on holds for all later messages, which do not say it.
            version = params.get("protocolVersion")
            agreed = version if isinstance(version, str) and version in HANDSHAKE else HANDSHAKE[0]
            self._agreed = [(VERSION_HEADER, agreed.encode())]
            self._host.capabilities = get_object(params, "capabilities")
        await self._room.acquire()  # a host that floods waits; nothing is lost
        # As JSON text, because 1 and "1" are different ids.
        key = jsontext.write(message.get("id"))
        task = asyncio.ensure_future(self._answer(line, message))
        self._running[key] = task
        if message.get("method") == LISTEN:
            self._subscriptions.add(task)
            task.add_done_callback(self._subscriptions.discard)
        task.add_done_callback(lambda done: self._end(key, done))

    async def finish(self, grace_s: float) -> None:
        """Give running calls ``grace_s`` seconds, then cancel them, and give them a moment to clean up."""
        self._host.cancel_questions()
        for task in (*self._subscriptions, *self._watching):
            task.cancel()
        running = list(self._running.values())
        if running:
            _, late = await asyncio.wait(running, timeout=grace_s)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late, timeout=CLEANUP_S)

    def _end(self, key: bytes, done: asyncio.Task[None]) -> None:
        self._room.release()
        if self._running.get(key) is done:
            del self._running[key]
        if not done.cancelled():
            done.exception()  # a bug of the application is in its log; the host has an answer

    async def _answer(self, line: bytes, message: Mapping[str, Json]) -> None:
        is_older = VERSION_META not in get_object(get_object(message, "params"), "_meta")
        if is_older and isinstance(message.get("method"), str):
            response = await self._host.answer(
                message, line, self._post_older, self._send, lambda: self._app.catalog().features
            )
            if message.get("method") == "initialize" and not self._watching:
                self._watching = [asyncio.ensure_future(self._watch_catalog())]
        else:
            response = await self._post(line, _build_headers(message, self._app.catalog()))
        answer = response.body
        if b'"id":null' in answer[:_ID_WITHIN] and "id" in message and "method" in message:
            # A request that is refused before it is read gets a response without its id. Here the id is known.
            data = jsontext.read(answer)
            if isinstance(data, dict) and data.get("id", "") is None:
                answer = jsontext.write({**data, "id": message["id"]})
        if answer:
            self._write(answer)

    async def _watch_catalog(self) -> None:
        """Tell the host of changes: up to 2025-11-25 it gets notices unasked."""
        # MC-06
        seen = self._app.catalog()
        async with self._app.sessions.subscribe_to_remote_changes() as take_changes:
            while True:
                await asyncio.sleep(POLL_S)
                now, remote = self._app.catalog(), take_changes()
                if now is not seen or remote is not NO_REMOTE_CHANGES:
                    changed = change_notices.find_changed(seen, now)
                    seen = now
                    for name, method in NOTICES.items():
                        if name in changed or remote.has_list(name):
                            self._write(jsontext.write({"jsonrpc": "2.0", "method": method}))
                for update in write_updates(self._host.subscriptions, seen.features, remote):
                    self._write(update)

    async def _post_older(self, body: bytes) -> Response:
        response = await self._post(body, [*_FIELDS, *self._agreed])
        # FI-01: what was chosen at the beginning holds until the end.
        self._agreed += [field for field in response.headers if field[0] == LIST_HEADER and field[1]]
        return response

    async def _post(self, body: bytes, headers: list[tuple[bytes, bytes]]) -> Response:
        """Give a message to the application, write what it streams, and return its response."""
        return await post_message(self._app.serve, _build_scope(headers, body), body, self._send, MAX_ANSWER)

    async def _send(self, message: bytes) -> None:
        self._write(message)

    def _write(self, message: bytes) -> None:
        # The host has gone; the end of its input follows and ends the program.
        with suppress(BrokenPipeError, ConnectionResetError):
            _write_whole(self._output, message + b"\n")


def _write_whole(output: BinaryIO, data: bytes) -> None:
    """Write all of ``data``.

    A host may give one socket or terminal for both directions. The event loop reads it without blocking, so that
    writing does not block either.
    """
    rest = memoryview(data)
    while rest:
        written = output.write(rest)
        if written:
            rest = rest[written:]
        else:
            with selectors.DefaultSelector() as selector:
                selector.register(output, selectors.EVENT_WRITE)
                selector.select()


def _build_headers(message: Mapping[str, Json], catalog: Catalog) -> list[tuple[bytes, bytes]]:
    """Return the header fields that a client of HTTP would send with this message."""
    fields = list(_FIELDS)
    params = get_object(message, "params")
    version = get_object(params, "_meta").get(VERSION_META)
    if isinstance(version, str):
        method = message.get("method")
        name = params.get(NAMED_BY.get(str(method), "name"))
        fields.append((VERSION_HEADER, header_text.write(version)))
        fields.append((METHOD_HEADER, header_text.write(str(method))))
        if isinstance(name, str):
            fields.append((NAME_HEADER, header_text.write(name)))
        if method == "tools/call" and isinstance(name, str):
            mirror = find_tool_mirror(catalog, name) or ()
            fields += header_text.write_mirrored(mirror, get_object(params, "arguments"))
    return fields


def _build_scope(headers: list[tuple[bytes, bytes]], body: bytes) -> dict[str, Any]:
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": "/mcp",
        "raw_path": b"/mcp",
        "query_string": b"",
        "root_path": "",
        "headers": [*headers, (b"content-length", b"%d" % len(body))],
        "client": ("127.0.0.1", 0),
        "server": ("127.0.0.1", 80),
        "extensions": {STDIO_EXTENSION: {}},
    }
