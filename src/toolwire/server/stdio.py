"""Serve MCP on standard input and output: one JSON-RPC message in a line, as hosts start a program for it.

Each message becomes a request of the application to ``/mcp``, so that all checks and limits are those of HTTP.

Rules:
- Only messages of the protocol are written to the output. What tools print goes to the error output.
- A host that declares forms is asked for consent: since 2026-07-28 by the answer itself, before that by a request of
  the server, which the host answers while the call waits.
- A host learns when the lists change: since 2026-07-28 if it listens, before that in any case.
- The end of the input ends the program, after running calls got their time.
"""
# MC-01

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from typing import Any, BinaryIO, Final

from toolwire.core.catalog import Catalog
from toolwire.core.model import Json, Problem
from toolwire.framing import jsontext, sse
from toolwire.framing.jsontext import get_object
from toolwire.protocols.mcp import change_notices
from toolwire.protocols.mcp import headers as header_text
from toolwire.protocols.mcp.header_arguments import find_tool_mirror
from toolwire.protocols.mcp.revision import (
    CAPABILITIES_META,
    METHOD_HEADER,
    NAME_HEADER,
    NAMED_BY,
    VERSION_HEADER,
    VERSION_META,
)

from .app import STDIO_EXTENSION, App
from .run.change_stream import LOOK_S

MAX_LINE: Final = 16 * 1024 * 1024
"""The longest message that is read, in bytes."""

GRACE_S: Final = 5.0
"""How long running calls may take after the input has ended, in seconds."""

_MAX_CALLS: Final = 1_000
_MAX_ROUNDS: Final = 12
"""The questions of a tool, at most ten, and that for consent, which may come twice if its answer came too late."""
_CANCELLED: Final = "notifications/cancelled"


async def serve_stdio(app: App, reader: asyncio.StreamReader, output: BinaryIO) -> None:
    """Answer the messages of ``reader`` on ``output`` until the input ends."""
    await app.begin()
    connection = _Connection(app, output)
    try:
        async for line in _read_lines(reader):
            await connection.take(line)
        await connection.finish()
    finally:
        await app.end()


def run_stdio(app: App) -> None:
    """Serve the standard input and output of this process until the input ends, SIGTERM or Ctrl-C."""
    # The output is kept for the protocol: what a tool or its child process prints goes to the error output.
    output = os.fdopen(os.dup(sys.stdout.fileno()), "wb", buffering=0)
    sys.stdout.flush()
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    with output, suppress(KeyboardInterrupt):
        asyncio.run(_serve_process(app, output))


async def _serve_process(app: App, output: BinaryIO) -> None:
    loop, reader = asyncio.get_running_loop(), asyncio.StreamReader(limit=MAX_LINE)
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin.buffer)
    for number in (signal.SIGTERM, signal.SIGINT):
        # A signal ends the input, so that running calls get the same time as at its usual end.
        loop.add_signal_handler(number, reader.feed_eof)
    try:
        await serve_stdio(app, reader, output)
    finally:
        transport.close()


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


class _Connection:
    """One host: its running calls, what it can show its user, and the questions that wait for its answer."""

    def __init__(self, app: App, output: BinaryIO) -> None:
        self._app, self._output = app, output
        self._running: dict[bytes, asyncio.Task[None]] = {}
        self._capabilities: Mapping[str, Json] = {}
        self._asked: dict[str, asyncio.Future[Mapping[str, Json]]] = {}
        self._number = 0
        self._subscriptions: set[asyncio.Task[None]] = set()
        self._watching: list[asyncio.Task[None]] = []
        self._room = asyncio.Semaphore(_MAX_CALLS)

    async def take(self, line: bytes) -> None:
        """Handle one message: a request, a notification, or the host's answer to a question."""
        data = jsontext.read(line)
        message = data if isinstance(data, dict) else {}
        if "method" not in message and ("result" in message or "error" in message):
            waiting = self._asked.pop(str(message.get("id")), None)
            if waiting is not None and not waiting.done():
                waiting.set_result(get_object(message, "result"))
            return
        params = get_object(message, "params")
        if message.get("method") == _CANCELLED:
            running = self._running.pop(jsontext.write(params.get("requestId")), None)
            if running is not None:
                running.cancel()
            return
        if message.get("method") == "initialize":
            self._capabilities = get_object(params, "capabilities")
        await self._room.acquire()  # a host that floods waits; nothing is lost
        # As JSON text, because 1 and "1" are different ids.
        key = jsontext.write(message.get("id"))
        task = asyncio.ensure_future(self._answer(line, message))
        self._running[key] = task
        if message.get("method") == change_notices.METHOD:
            self._subscriptions.add(task)
            task.add_done_callback(self._subscriptions.discard)
        task.add_done_callback(lambda done: self._end(key, done))

    async def finish(self) -> None:
        """Give running calls their time, then cancel them."""
        for waiting in self._asked.values():
            waiting.cancel()
        for task in (*self._subscriptions, *self._watching):
            task.cancel()
        running = list(self._running.values())
        if running:
            _, late = await asyncio.wait(running, timeout=GRACE_S)
            for task in late:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    def _end(self, key: bytes, done: asyncio.Task[None]) -> None:
        self._room.release()
        if self._running.get(key) is done:
            del self._running[key]
        if not done.cancelled():
            done.exception()  # a bug of the application is in its log; the host has an answer

    async def _answer(self, line: bytes, message: Mapping[str, Json]) -> None:
        params = get_object(message, "params")
        if message.get("method") == "tools/call" and VERSION_META not in get_object(params, "_meta"):
            line, params = self._declare_capabilities(message, params)
        result = await self._post(line, message, params)
        for _ in range(_MAX_ROUNDS):
            asked = get_object(get_object(result, "result"), "inputRequests")
            if not asked or VERSION_META in get_object(params, "_meta"):
                break
            responses = {name: await self._ask(one) for name, one in asked.items()}
            state = get_object(result, "result").get("requestState")
            again = {**params, "requestState": state, "inputResponses": responses}
            result = await self._post(jsontext.write({**message, "params": again}), message, again)
        if message.get("method") == "initialize" and isinstance(result, dict):
            self._declare_notices(result)
        if result is not None:
            self._write(jsontext.write(result))

    def _declare_notices(self, answer: dict[str, Json]) -> None:
        """Declare in the ``answer`` to ``initialize`` that this connection tells of changes, and begin to watch.

        Up to 2025-11-25 a server sends notices unasked, for which only a connection that stays open has room.
        """
        # MC-06
        result = answer.get("result")
        declared = result.get("capabilities") if isinstance(result, dict) else None
        if not isinstance(declared, dict):
            return
        for name in ("tools", "resources", "prompts"):
            if name in declared:
                declared[name] = {"listChanged": True}
        if not self._watching:
            self._watching = [asyncio.ensure_future(self._watch_catalog())]

    async def _watch_catalog(self) -> None:
        seen = self._app.catalog()
        while True:
            await asyncio.sleep(LOOK_S)
            if (now := self._app.catalog()) is not seen:
                changed = change_notices.find_changed(seen, now)
                seen = now
                for name in change_notices.NOTICES:
                    if name in changed:
                        self._write(jsontext.write({"jsonrpc": "2.0", "method": change_notices.NOTICES[name]}))

    def _declare_capabilities(
        self, message: Mapping[str, Json], params: Mapping[str, Json]
    ) -> tuple[bytes, Mapping[str, Json]]:
        """Return the call with the capabilities from ``initialize``, which newer hosts send with each call."""
        # Only forms: the server uses no other capability of a host.
        forms = {name: value for name, value in self._capabilities.items() if name == "elicitation"}
        meta = {**get_object(params, "_meta"), CAPABILITIES_META: forms}
        declared = {**params, "_meta": meta}
        return jsontext.write({**message, "params": declared}), declared

    async def _ask(self, request: Json) -> Mapping[str, Json]:
        """Send a question to the host as a request of its own, and return its answer; empty if it gives none."""
        self._number += 1
        id_ = f"toolwire-{self._number}"
        waiting: asyncio.Future[Mapping[str, Json]] = asyncio.get_running_loop().create_future()
        self._asked[id_] = waiting
        asked = request if isinstance(request, dict) else {}
        self._write(jsontext.write({"jsonrpc": "2.0", "id": id_, **asked}))
        try:
            return await waiting
        finally:
            self._asked.pop(id_, None)

    async def _post(self, body: bytes, message: Mapping[str, Json], params: Mapping[str, Json]) -> Json:
        """Send a message to the application; write what it streams, and return its answer, or None."""
        exchange = _Exchange(body, _build_headers(message, params, self._app.catalog()), self._write)
        await self._app(exchange.scope, exchange.receive, exchange.send)
        last = exchange.get_last()
        # A request that is refused before it is read gets a response without its id. Here the id is known.
        if isinstance(last, dict) and last.get("id", "") is None and "id" in message and "method" in message:
            last["id"] = message["id"]
        return last

    def _write(self, message: bytes) -> None:
        # The host has gone; the end of its input follows and ends the program.
        with suppress(BrokenPipeError):
            self._output.write(message + b"\n")


def _build_headers(
    message: Mapping[str, Json], params: Mapping[str, Json], catalog: Catalog
) -> list[tuple[bytes, bytes]]:
    """Return the header fields that a client of HTTP would send with this message."""
    fields = [
        # The scope below says that the socket is on this machine, so the Host must be too (D-24).
        (b"host", b"127.0.0.1"),
        (b"content-type", b"application/json"),
        (b"accept", b"application/json, text/event-stream"),
    ]
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


class _Exchange:
    """One request to the application, and the messages of its response."""

    def __init__(self, body: bytes, headers: list[tuple[bytes, bytes]], write: Any) -> None:
        self._body, self._write = body, write
        self._pieces: list[bytes] = []
        self._decoder: sse.Decoder | None = None
        self._last: bytes = b""
        self._sent = False
        self._ended = asyncio.Event()
        self.scope: dict[str, Any] = {
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

    async def receive(self) -> dict[str, Any]:
        """Return the message, and after the response the end of the exchange."""
        if not self._sent:
            self._sent = True
            return {"type": "http.request", "body": self._body, "more_body": False}
        await self._ended.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Mapping[str, Any]) -> None:
        """Take a part of the response; notices in a stream are written as they come, its answer is kept."""
        if message["type"] == "http.response.start":
            kinds = [value for name, value in message.get("headers", ()) if name.lower() == b"content-type"]
            self._decoder = sse.Decoder() if kinds and kinds[0].startswith(b"text/event-stream") else None
            return
        piece = message.get("body", b"")
        if self._decoder is None:
            self._pieces.append(piece)
        else:
            for event in self._decoder.feed(piece):
                self._take_event(event.data.encode())
        if not message.get("more_body", False):
            self._ended.set()

    def get_last(self) -> Json:
        """Return the answer in the response, or None if there is none."""
        text = self._last or b"".join(self._pieces)
        data = jsontext.read(text) if text else None
        return None if isinstance(data, Problem) else data

    def _take_event(self, data: bytes) -> None:
        message = jsontext.read(data)
        if isinstance(message, dict) and "method" in message:
            self._write(data)  # at once: the next event may come much later
        else:
            self._last = data  # the result: _answer() may have to ask the host before it is sent
