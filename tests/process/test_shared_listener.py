"""Processes that share a socket share its connections, on each event loop, and over TLS."""

from __future__ import annotations

import asyncio
import multiprocessing
import ssl
from collections import Counter
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from tests.certificates import write_certificate
from toolwire.server.http.process import open_listener
from toolwire.server.http.shared_listener import WorkerLoad

from .peer import HANG
from .shared_listener_worker import LOOPS, work

CONNECTIONS = 48


@contextmanager
def share(loop_name: str, files: tuple[str, str] | None, workers: int = 3) -> Iterator[int]:
    """Yield the port on which that many processes accept."""
    spawn = multiprocessing.get_context("spawn")
    with open_listener("127.0.0.1", 0) as listener:
        load = WorkerLoad(workers)
        ready = [spawn.Event() for _ in range(workers)]
        processes = [spawn.Process(target=work, args=(loop_name, listener, load, files, each)) for each in ready]
        try:
            for process in processes:
                process.start()
            assert all(each.wait(HANG) for each in ready)
            yield listener.getsockname()[1]
        finally:
            for process in processes:
                process.kill()
                process.join()


async def find_owner(stack: AsyncExitStack, port: int, tls: ssl.SSLContext | None) -> int:
    """Open a connection that is kept, and return the process that accepted it."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=tls)
    stack.push_async_callback(close, writer)
    return int(await reader.readline())


async def close(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with suppress(OSError):  # a TLS server may end before the client has
        await writer.wait_closed()


@pytest.mark.requirement("P-06")
@pytest.mark.parametrize("secure", [False, True], ids=["plain", "tls"])
@pytest.mark.parametrize("loop_name", LOOPS)
def test_each_process_gets_its_part(loop_name: str, secure: bool, tmp_path: Path) -> None:
    files, tls = None, None
    if secure:
        cert, key = write_certificate(tmp_path, "localhost", "127.0.0.1")
        files, tls = (str(cert), str(key)), ssl.create_default_context(cafile=str(cert))

    async def story(port: int) -> None:
        for _ in range(2):  # the second time, nothing is left of the connections that were closed
            async with AsyncExitStack() as stack, asyncio.timeout(HANG):
                owners = Counter(await asyncio.gather(*(find_owner(stack, port, tls) for _ in range(CONNECTIONS))))
            assert len(owners) == 3
            assert min(owners.values()) >= CONNECTIONS // 3 // 2, owners

    with share(loop_name, files) as port:
        asyncio.run(story(port))


@pytest.mark.parametrize("loop_name", LOOPS)
def test_a_client_that_speaks_no_tls_is_not_counted(
    loop_name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    cert, key = write_certificate(tmp_path, "localhost", "127.0.0.1")
    tls = ssl.create_default_context(cafile=str(cert))

    async def story(port: int) -> None:
        async with asyncio.timeout(HANG):
            for _ in range(2 * CONNECTIONS):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(b"GET / HTTP/1.1\r\n\r\n")
                await reader.read()
                await close(writer)
            async with AsyncExitStack() as stack:
                owners = Counter(await asyncio.gather(*(find_owner(stack, port, tls) for _ in range(CONNECTIONS))))
                assert min(owners.values()) >= CONNECTIONS // 3 // 2, owners
                assert len(owners) == 3

    with share(loop_name, (str(cert), str(key))) as port:
        asyncio.run(story(port))
    assert capfd.readouterr().err == ""
