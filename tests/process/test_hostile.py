"""What a hostile or broken client may send to the real process: it is refused early, in JSON, and costs no memory."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
import resource
import time
from collections.abc import Callable

import pytest

from .amounts import LONG, SILENT, SLOW, WAIT_S, quantile, report
from .calls import CALLS, PATHS
from .peer import Answer, Running, dial, message, until

Start = Callable[..., Running]

MIB = 1 << 20
DEADLINE_S = 5.0 if LONG else 1.5
MORE_KIB = 20 * 1024
"""How much more memory the server may have after everything hostile was tried, in KiB."""

MAX_CPU_S = 0.1
"""The processor time in which the server must refuse a hostile body. It takes less than a third of that."""

BODIES: dict[str, bytes] = {
    "objects 10,000 deep": b'{"a":' * 10_000 + b"1" + b"}" * 10_000,
    "arrays 10,000 deep": b"[" * 10_000 + b"]" * 10_000,
    "arrays without an end": b"[" * 500_000,
    "an integer of 10,000 digits": b'{"id":' + b"9" * 10_000 + b"}",
    "NaN": b'{"id":NaN}',
    "infinity": b'{"id":-Infinity}',
    "a number beyond all": b'{"id":1e999}',
    "a lone surrogate": b'{"id":"\\ud800"}',
    "a lone surrogate in a name": b'{"\\udfff":1}',
    "bytes that are not UTF-8": b'{"id":"\xff\xfe"}',
    "overlong UTF-8": b'{"id":"\xc0\xaf"}',
    "UTF-16": '{"id":1}'.encode("utf-16"),
    "a million names": b"{" + b",".join(b'"%d":0' % n for n in range(1_000_000)) + b"}",
    "the same name many times": b"{" + b'"id":0,' * 140_000 + b'"id":1}',
    "nothing": b" ",
    "two texts": b"{}{}",
    "a NUL": b"{}\x00",
}


def is_refused(answer: Answer, *statuses: int) -> bool:
    kind = answer.headers["content-type"].partition(";")[0]
    return answer.status in (statuses or range(400, 500)) and kind.endswith("json") and bool(json.loads(answer.body))


async def alive(server: Running) -> None:
    for call in CALLS.values():
        async with dial(server) as peer:
            assert b"42042" in (await peer.ask(call("add", {"a": 42_000, "b": 42}))).body


@pytest.mark.requirement("R10", "D-34", "D-16")
def test_hostile_bodies_are_refused_and_their_memory_freed(start: Start) -> None:
    async def story() -> None:
        server = start()

        async def refuse(path: str, name: str, body: bytes) -> float:
            """Return the processor time that the server took."""
            used = server.cpu_s
            async with dial(server) as peer:
                answer = await peer.ask(message("POST", path, body))
                assert is_refused(answer), (path, name, answer)
            return server.cpu_s - used

        await alive(server)
        before = server.memory
        for path in PATHS:
            for name, body in BODIES.items():
                assert min([await refuse(path, name, body) for _ in range(2)]) <= MAX_CPU_S, (path, name)
        await alive(server)
        assert server.memory - before <= MORE_KIB
        assert server.errors == ""

    asyncio.run(story())


@pytest.mark.requirement("R10", "D-34")
def test_memory_of_a_body_with_many_names_is_freed(start: Start) -> None:
    async def story() -> None:
        server = start()
        await alive(server)
        before = server.memory
        body = b"{" + b",".join(b'"%d":0' % n for n in range(90_000)) + b"}"
        for _ in range(20):
            async with dial(server) as peer:
                assert is_refused(await peer.ask(message("POST", "/tools/call", body)), 400)
        assert server.memory - before <= MORE_KIB

    asyncio.run(story())


@pytest.mark.requirement("R10", "D-14")
@pytest.mark.parametrize("encoding", [b"gzip", b"gzip, gzip", b"br", b"x" * 1_000])
def test_compressed_body_is_refused_without_decompression(start: Start, encoding: bytes) -> None:
    async def story() -> None:
        server = start()
        await alive(server)
        before = server.memory
        bomb = gzip.compress(bytes(64 * MIB), compresslevel=6)
        assert len(bomb) < MIB
        for path in PATHS:
            async with dial(server) as peer:
                answer = await peer.ask(message("POST", path, bomb, b"content-encoding: " + encoding))
                assert is_refused(answer), (path, answer)
        assert server.memory - before <= MORE_KIB

    asyncio.run(story())


@pytest.mark.requirement("R10")
def test_too_large_content_length_is_refused_before_the_body(start: Start) -> None:
    async def story() -> None:
        server = start()
        for path in PATHS:
            for length in (b"300000000", b"9" * 19):
                async with dial(server) as peer:
                    fields = (b"content-type: application/json", b"content-length: " + length)
                    answer = await peer.ask(message("POST", path, b"", *fields))
                    assert is_refused(answer, 413), (path, answer)

    asyncio.run(story())


@pytest.mark.requirement("R10")
@pytest.mark.parametrize("chunked", [True, False])
def test_body_of_300_megabytes_is_refused_after_the_first_megabyte(start: Start, chunked: bool) -> None:
    async def story() -> None:
        server = start()
        await alive(server)
        before = server.memory
        piece = b"10000\r\n" + bytes(65_536) + b"\r\n" if chunked else bytes(65_536)
        framing = b"transfer-encoding: chunked" if chunked else b"content-length: 314572800"
        async with dial(server) as peer:
            peer.writer.write(message("POST", "/tools/call", b"", b"content-type: application/json", framing))
            answer = asyncio.create_task(peer.answer())
            with contextlib.suppress(ConnectionError):
                for _ in range(4_800):
                    peer.writer.write(piece)
                    await peer.writer.drain()
            assert is_refused(await answer, 413)
        assert server.memory - before <= MORE_KIB
        await alive(server)

    asyncio.run(story())


@pytest.mark.requirement("R10")
def test_a_large_head_is_refused_by_the_process_as_well(start: Start) -> None:
    async def story() -> None:
        server = start()
        for field in (b"x: " + b"a" * 200_000, b"\r\n".join(b"x-%d: 1" % n for n in range(2_000))):
            async with dial(server) as peer:
                assert is_refused(await peer.ask(message("GET", "/tools", b"", field)), 431)
        await alive(server)

    asyncio.run(story())


@pytest.mark.requirement("R9", "D-34")
def test_slow_body_is_answered_with_408_and_closes_the_connection(start: Start) -> None:
    async def story() -> None:
        server = start(deadlines={"idle_s": 3_600}, limits={"body_s": 0.2})
        async with dial(server) as peer:
            answer = await peer.ask(message("POST", "/tools/call", b"{}" * 100)[:-150])
            assert is_refused(answer, 408)
            assert answer.headers["connection"] == "close"
            assert await peer.closed()

    asyncio.run(story())


@pytest.mark.requirement("R9")
def test_hundreds_of_slow_connections_do_not_block_others(start: Start) -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))

    async def story() -> None:
        server = start(deadlines={"head_s": DEADLINE_S, "idle_s": 30}, limits={"body_s": DEADLINE_S})
        done, opened, lives = asyncio.Event(), 0, list[float]()
        quiet, crowded = list[float](), list[float]()  # the seconds of each healthy call before and among the slow

        async def healthy(protocol: str) -> None:
            async with dial(server) as peer:
                while not done.is_set():
                    began = time.perf_counter()
                    assert b"42042" in (await peer.ask(CALLS[protocol]("add", {"a": 42_000, "b": 42}))).body
                    (crowded if opened == SLOW + SILENT else quiet).append(time.perf_counter() - began)
                    await asyncio.sleep(0.005)  # a pace, so that the slow ones get their turn on this loop

        async def slow(data: bytes) -> None:
            nonlocal opened
            async with dial(server) as peer:
                opened += 1
                began = time.perf_counter()
                peer.writer.write(data)
                trickle = asyncio.create_task(trickling(peer.writer if data else None))
                assert await peer.closed()
                lives.append(time.perf_counter() - began)
                trickle.cancel()

        async def trickling(writer: asyncio.StreamWriter | None) -> None:
            with contextlib.suppress(ConnectionError):
                while writer is not None:
                    await asyncio.sleep(0.2)
                    writer.write(b"x")

        body = message("POST", "/tools/call", b"{}" * 100)[:-150]
        head = message("GET", "/tools")[:-2]
        loads = [asyncio.create_task(healthy(protocol)) for protocol in CALLS]
        async with asyncio.timeout(WAIT_S):
            await until(lambda: len(quiet) >= 100 * len(CALLS), WAIT_S)  # they are there before the others come
            await asyncio.gather(*(slow(data) for data in [b""] * SILENT + [head, body] * (SLOW // 2)))
        assert len(crowded) >= 20 * len(CALLS), "the healthy ones are served while all others are there"
        done.set()
        await asyncio.gather(*loads)
        assert len(lives) == SLOW + SILENT
        assert server.errors == ""
        assert server.files < resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        slower = quantile(crowded, 0.99) / quantile(quiet, 0.99)
        assert not LONG or (slower <= 2 and max(lives) <= DEADLINE_S + 1), f"{slower:.2f} times, {max(lives):.2f} s"
        report("R9", sockets=len(lives), slower_p99=slower, longest_life_s=max(lives))

    asyncio.run(story())


@pytest.mark.requirement("D-34")
@pytest.mark.parametrize("limits", [{"body_s": 0.0004}, {"tool_s": 0.0004}])
def test_expired_deadline_causes_no_server_error(start: Start, limits: dict[str, float]) -> None:
    async def story() -> None:
        server = start(limits=limits)

        async def ask(protocol: str) -> None:
            for tool, arguments in (("add", {"a": 1, "b": 2}), ("wait", {"seconds": 0.01})):
                async with dial(server) as peer:
                    assert (await peer.ask(CALLS[protocol](tool, arguments))).status in (200, 408, 504)

        await asyncio.gather(*(ask(protocol) for protocol in CALLS for _ in range(20)))
        assert server.errors == ""

    asyncio.run(story())
