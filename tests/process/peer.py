"""A server that runs as a process, and the plainest HTTP client there is to talk to it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from tests.support.waiting import wait_until_async

HANG = 30.0
"""Seconds after which whoever waits for a server has failed."""


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Gone(Exception):
    """The connection ended before the first byte of an answer."""


class Running:
    """A server process. ``url`` waits until it listens."""

    def __init__(self, process: subprocess.Popen[bytes], errors: Path) -> None:
        self.process = process
        self._errors = errors
        self._url = ""

    @property
    def url(self) -> str:
        if not self._url:
            assert self.process.stdout is not None
            self._url = self.process.stdout.readline().decode().strip()
            assert self._url.startswith("http://"), self.errors
        return self._url

    @property
    def port(self) -> int:
        return int(urlsplit(self.url).port or 0)

    @property
    def errors(self) -> str:
        """What the process has said on standard error so far."""
        return self._errors.read_text()

    @property
    def memory(self) -> int:
        """The resident memory of the process, in KiB."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0])

    @property
    def cpu_s(self) -> float:
        """The seconds of processor time that all threads of the process have used."""
        tasks = Path(f"/proc/{self.process.pid}/task").iterdir()
        return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9

    @property
    def files(self) -> int:
        """How many files and sockets the process has open."""
        return sum(1 for _ in Path(f"/proc/{self.process.pid}/fd").iterdir())

    def signal(self, number: int = signal.SIGTERM) -> None:
        self.process.send_signal(number)

    def signal_group(self, number: int) -> None:
        os.killpg(self.process.pid, number)

    async def ended(self) -> int:
        """Return the exit code, once there is one."""
        return await asyncio.to_thread(self.process.wait, HANG)

    def end(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.communicate(timeout=HANG)


class Peer:
    """One connection that is kept."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def get(self, path: str) -> Answer:
        return await self.ask(message("GET", path))

    async def post(self, path: str, body: Any) -> Answer:
        return await self.ask(message("POST", path, json.dumps(body).encode()))

    async def ask(self, data: bytes) -> Answer:
        """Send ``data`` and return the answer.

        Raises:
            Gone: the server closed without one.
        """
        with contextlib.suppress(ConnectionError):  # an answer may have come before the last byte was sent
            self.writer.write(data)
            await self.writer.drain()
        return await self.answer()

    async def answer(self) -> Answer:
        status, headers = await self.head()
        return Answer(status, headers, await self.body(headers))

    async def head(self) -> tuple[int, dict[str, str]]:
        async with asyncio.timeout(HANG):
            try:
                head = await self.reader.readuntil(b"\r\n\r\n")
            except (asyncio.IncompleteReadError, ConnectionError) as error:
                if getattr(error, "partial", b""):
                    raise
                raise Gone from error
        first, *fields = head.decode("latin-1").split("\r\n")[:-2]
        return int(first.split()[1]), {name.lower(): value for name, _, value in (f.partition(": ") for f in fields)}

    async def body(self, headers: dict[str, str]) -> bytes:
        async with asyncio.timeout(HANG):
            return await self._body(headers)

    async def _body(self, headers: dict[str, str]) -> bytes:
        if headers.get("transfer-encoding") != "chunked":
            return await self.reader.readexactly(int(headers.get("content-length", 0)))
        body = b""
        while size := int(await self.reader.readline(), 16):
            body += (await self.reader.readexactly(size + 2))[:-2]
        await self.reader.readline()
        return body

    async def closed(self) -> bool:
        """Return True once the server has closed."""
        async with asyncio.timeout(HANG):
            try:
                while await self.reader.read(65_536):
                    pass
            except ConnectionError:
                pass
        return True


@contextlib.asynccontextmanager
async def dial(running: Running) -> AsyncIterator[Peer]:
    """Give a connection to ``running``; a server that is gone raises ConnectionError or Gone."""
    async with asyncio.timeout(HANG):
        reader, writer = await asyncio.open_connection("127.0.0.1", running.port, limit=1 << 24)
    try:
        yield Peer(reader, writer)
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError, TimeoutError):
            async with asyncio.timeout(1):
                await writer.wait_closed()


async def get(running: Running, path: str) -> Answer:
    async with dial(running) as peer:
        return await peer.get(path)


async def post(running: Running, path: str, body: Any) -> Answer:
    async with dial(running) as peer:
        return await peer.post(path, body)


def message(method: str, path: str, body: bytes = b"", *fields: bytes) -> bytes:
    """Return a whole HTTP request."""
    head = [f"{method} {path} HTTP/1.1".encode(), b"host: 127.0.0.1", *fields]
    if body:
        head += [b"content-type: application/json", b"content-length: %d" % len(body)]
    return b"\r\n".join(head) + b"\r\n\r\n" + body


async def until(there: Callable[[], bool], seconds: float = HANG) -> None:
    """Return once another process has come so far."""
    await wait_until_async(there, within=seconds)
