"""One connection at a time: what is too slow, too large or not HTTP is answered and closed; what is good is served."""

import asyncio
import json
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolwire import Toolkit, asgi
from toolwire.core.errors import DefinitionError
from toolwire.server.http.deadlines import Deadlines
from toolwire.testing.loopback import background

from .echo import LARGE, Echo

HANG = 30.0
"""Seconds after which a test that waits for the server has failed."""

SHORT = Deadlines(head_s=0.3, idle_s=1, stall_s=0.3, head_bytes=4096, head_fields=20)
PATIENT = Deadlines(idle_s=1, head_bytes=4096, head_fields=20)
"""For tests that send a request in pieces: a busy machine may pause between two of them for longer than ``SHORT``."""
GET = b"GET /a HTTP/1.1\r\nhost: x\r\n\r\n"

Dial = Callable[[], socket.socket]


@pytest.fixture(scope="module")
def app() -> Echo:
    return Echo()


@pytest.fixture(scope="module")
def address(app: Echo) -> Iterator[tuple[str, int]]:
    with background(app, deadlines=SHORT) as url:
        yield find_address(url)


@pytest.fixture(scope="module")
def patient_address(app: Echo) -> Iterator[tuple[str, int]]:
    with background(app, deadlines=PATIENT) as url:
        yield find_address(url)


@pytest.fixture
def dial(address: tuple[str, int]) -> Iterator[Dial]:
    yield from connect_to(address)


@pytest.fixture
def patient_dial(patient_address: tuple[str, int]) -> Iterator[Dial]:
    yield from connect_to(patient_address)


def find_address(url: str) -> tuple[str, int]:
    parts = urlsplit(url)
    return str(parts.hostname), int(parts.port or 0)


def connect_to(address: tuple[str, int]) -> Iterator[Dial]:
    """Yield a function that connects to ``address``, and close what it opened."""
    sockets: list[socket.socket] = []

    def connect() -> socket.socket:
        sockets.append(socket.create_connection(address, timeout=HANG))
        return sockets[-1]

    yield connect
    for each in sockets:
        each.close()


def read_until_closed(peer: socket.socket) -> bytes:
    """Return what comes until the server closes."""
    received = b""
    while chunk := peer.recv(65_536):
        received += chunk
    return received


def one_answer(peer: socket.socket) -> tuple[int, bytes]:
    received = b""
    while b"\r\n\r\n" not in received:
        chunk = peer.recv(65_536)
        assert chunk, "the server closed"
        received += chunk
    head, _, body = received.partition(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
    while len(body) < length:
        body += peer.recv(65_536)
    return int(head.split()[1]), body[:length]


def refusal(answer: bytes) -> tuple[int, str]:
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"content-type: application/json\r\n" in head
    assert b"connection: close" in head
    assert b"server:" not in head.lower()
    data = json.loads(body)
    assert data["message"].endswith(".")
    return int(head.split()[1]), data["error"]


@pytest.mark.requirement("R9")
def test_a_silent_connection_is_closed(dial: Dial) -> None:
    assert read_until_closed(dial()) == b""


@pytest.mark.requirement("R9")
def test_incomplete_request_head_is_answered_with_408_and_closed(dial: Dial) -> None:
    peer = dial()
    peer.sendall(GET[:-2] + b"x: ")
    assert refusal(read_until_closed(peer)) == (408, "too_slow")


@pytest.mark.requirement("R9")
def test_slow_bytes_do_not_extend_the_head_deadline(dial: Dial) -> None:
    peer = dial()
    peer.settimeout(0.02)
    peer.sendall(GET[:-2])
    received = b""
    for _ in range(int(HANG / 0.02)):
        try:
            peer.sendall(b"x")
            received = peer.recv(4096)
            break
        except TimeoutError:
            continue
    assert refusal(received) == (408, "too_slow")


@pytest.mark.requirement("R9")
def test_a_second_request_has_the_same_deadline_as_the_first(dial: Dial) -> None:
    peer = dial()
    peer.sendall(GET)
    assert one_answer(peer)[0] == 200
    peer.sendall(GET[:9])
    assert refusal(read_until_closed(peer)) == (408, "too_slow")


@pytest.mark.requirement("R9")
def test_empty_lines_are_not_a_request(dial: Dial) -> None:
    peer = dial()
    peer.sendall(b"\r\n" * 100)
    assert read_until_closed(peer) == b""


@pytest.mark.requirement("R9")
def test_empty_lines_do_not_extend_the_idle_deadline(dial: Dial) -> None:
    peer = dial()
    peer.sendall(GET)
    one_answer(peer)
    peer.sendall(b"\r\n")
    assert read_until_closed(peer) == b""


def test_idle_connection_is_closed_after_its_deadline(dial: Dial) -> None:
    peer = dial()
    for _ in range(3):
        peer.sendall(GET)
        assert one_answer(peer)[0] == 200
    assert read_until_closed(peer) == b""


def test_slow_tool_is_not_limited_by_the_head_deadline(dial: Dial) -> None:
    peer = dial()
    peer.sendall(b"GET /sleep/1.5 HTTP/1.1\r\nhost: x\r\n\r\n")
    assert one_answer(peer) == (200, b'"slept"')


@pytest.mark.requirement("R9", "D-34")
def test_client_that_reads_nothing_of_a_stream_is_disconnected(dial: Dial, app: Echo) -> None:
    app.flood_ended.clear()
    dial().sendall(b"GET /flood HTTP/1.1\r\nhost: x\r\n\r\n")
    assert app.flood_ended.wait(HANG)


@pytest.mark.requirement("R9", "D-34")
def test_client_that_reads_nothing_of_a_final_response_is_disconnected(dial: Dial) -> None:
    peer = dial()
    peer.sendall(b"GET /large HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
    assert is_held(peer)
    assert any(not is_held(peer) for _ in range(int(HANG / 0.05)) if not select.select([], [], [], 0.05)[0])


def is_held(peer: socket.socket) -> bool:
    """Return whether the server still has its end of the connection open, as the kernel tells."""
    ports = f":{peer.getpeername()[1]:04X}", f":{peer.getsockname()[1]:04X}"
    rows = [row.split() for row in Path("/proc/net/tcp").read_text().splitlines()]
    return any(row[1].endswith(ports[0]) and row[2].endswith(ports[1]) and row[3] == "01" for row in rows)


def test_client_that_reads_a_final_response_slowly_gets_all_of_it(dial: Dial) -> None:
    peer = dial()
    peer.sendall(b"GET /large HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
    size = 0
    while chunk := peer.recv(65_536):
        size += len(chunk)
        time.sleep(0.004)  # the slowness that is tested: longer in all than a head may take
    assert size > LARGE


@pytest.mark.requirement("R10")
@pytest.mark.parametrize(
    "head",
    [
        pytest.param(b"GET / HTTP/1.1\r\nx: " + b"a" * 200_000 + b"\r\n\r\n", id="one long field"),
        pytest.param(b"GET / HTTP/1.1\r\nx: " + b"a" * 200_000, id="one field without an end"),
        pytest.param(b"GET / HTTP/1.1\r\n" + b"a" * 200_000, id="a name without an end"),
        pytest.param(b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\n\r\n", id="a long path"),
        pytest.param(b"GET /?" + b"a" * 200_000, id="a path without an end"),
        pytest.param(b"GET / HTTP/1.1\r\n" + b"a:\r\n" * 2_000 + b"\r\n", id="many fields"),
        pytest.param(b"GET / HTTP/1.1\r\n" + b"a:\r\n" * 21 + b"\r\n", id="a field too many"),
    ],
)
def test_a_head_that_is_too_large_is_refused(dial: Dial, head: bytes) -> None:
    peer = dial()
    peer.sendall(head)
    assert refusal(read_until_closed(peer)) == (431, "too_large")


@pytest.mark.requirement("R10")
def test_request_head_size_does_not_depend_on_chunks(dial: Dial) -> None:
    peer = dial()
    for piece in (b"GET / HTTP/1.1\r\nx: ", *[b"a" * 1_000] * 5, b"\r\n\r\n"):
        peer.sendall(piece)
    assert refusal(read_until_closed(peer)) == (431, "too_large")


@pytest.mark.requirement("R10")
def test_a_large_head_on_a_used_connection_is_refused(dial: Dial) -> None:
    peer = dial()
    peer.sendall(GET)
    one_answer(peer)
    peer.sendall(b"GET / HTTP/1.1\r\nx: " + b"a" * 5_000 + b"\r\n\r\n")
    assert refusal(read_until_closed(peer)) == (431, "too_large")


def test_a_head_within_the_limits_is_served(dial: Dial) -> None:
    peer = dial()
    peer.sendall(b"GET /a HTTP/1.1\r\nhost: x\r\n" + b"a: b\r\n" * 18 + b"x: " + b"a" * 3_900 + b"\r\n\r\n")
    assert one_answer(peer)[0] == 200


def test_pipelined_requests_are_answered_in_order(dial: Dial) -> None:
    peer = dial()
    count = 200  # together more than a head may have
    peer.sendall(b"".join(b"POST /%d HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\nab" % n for n in range(count)))
    received = b""
    while received.count(b"HTTP/1.1 200") < count or not received.endswith(b"}"):
        received += peer.recv(65_536)
    bodies = [json.loads(part.partition(b"\r\n\r\n")[2]) for part in received.split(b"HTTP/1.1 200 OK\r\n")[1:]]
    assert bodies == [{"path": f"/{n}", "body": "ab"} for n in range(count)]


@pytest.mark.parametrize(
    "second",
    [
        pytest.param(b"GET / HTTP/1.1\r\nx y: z\r\n\r\n", id="malformed"),
        pytest.param(b"GET / HTTP/1.1\r\n" + b"a:\r\n" * 100 + b"\r\n", id="too large"),
    ],
)
def test_refusal_follows_the_answer_before_it(dial: Dial, second: bytes) -> None:
    peer = dial()
    peer.sendall(b"GET /sleep/0.1 HTTP/1.1\r\nhost: x\r\n\r\n" + second)
    received = read_until_closed(peer)
    assert received.startswith(b"HTTP/1.1 200 ")
    assert b'"slept"' in received


@pytest.mark.parametrize(
    "request_",
    [
        b"hello\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET / HTTP/1.1\r\nbad name: 1\r\n\r\n",
        b"GET / HTTP/1.1\r\nx: a\x00b\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"POST / HTTP/1.1\r\ncontent-length: x\r\n\r\n",
        b"POST / HTTP/1.1\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n",
        b"POST / HTTP/1.1\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n",
        b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        b"CONNECT a:1 HTTP/1.1\r\n\r\n",
        b"GET \xff HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nbad name: " + b"a" * 9_000,
        b"POST / HTTP/1.1\r\nconnection: upgrade\r\nupgrade: h2c\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
    ],
)
def test_non_http_bytes_are_refused_in_json(dial: Dial, request_: bytes) -> None:
    peer = dial()
    peer.sendall(request_)
    assert refusal(read_until_closed(peer)) == (400, "malformed")


@pytest.mark.requirement("D-24")
@pytest.mark.parametrize(
    ("target", "hosts"),
    [
        ("http://evil.example/a", ("x",)),
        ("HTTP://x:81/a", ("x",)),
        ("https://x/a", ("x:80",)),
        ("http://x/a", ()),
        ("http://x/a", ("x", "evil.example")),
        ("http://x%2f/a", ("x%2f",)),
    ],
)
def test_target_that_names_another_host_than_its_field_is_refused(
    dial: Dial, target: str, hosts: tuple[str, ...]
) -> None:
    peer = dial()
    fields = "".join(f"host: {host}\r\n" for host in hosts)
    peer.sendall(f"GET {target} HTTP/1.1\r\n{fields}\r\n".encode() + GET)
    assert refusal(read_until_closed(peer)) == (400, "malformed")


@pytest.mark.parametrize("target", ["http://x/a", "http://X:80/a", "http://x/a?to=http://evil.example/"])
def test_target_that_names_the_host_of_its_field_is_served(dial: Dial, target: str) -> None:
    peer = dial()
    peer.sendall(f"GET {target} HTTP/1.1\r\nhost: x\r\n\r\n".encode())
    assert one_answer(peer)[0] == 200


@pytest.mark.requirement("D-24")
@pytest.mark.parametrize("codings", [(b"gzip, chunked",), (b"gzip", b"chunked"), (b"x-unknown , chunked",)])
def test_body_in_an_unknown_transfer_coding_is_refused(dial: Dial, codings: tuple[bytes, ...]) -> None:
    peer = dial()
    fields = b"".join(b"transfer-encoding: " + coding + b"\r\n" for coding in codings)
    peer.sendall(b"POST / HTTP/1.1\r\nhost: x\r\n" + fields + b"\r\n2\r\n{}\r\n0\r\n\r\n" + GET)
    assert refusal(read_until_closed(peer)) == (501, "unsupported_type")


def test_body_in_chunks_is_served_whatever_the_case_of_the_word(dial: Dial) -> None:
    peer = dial()
    chunks = b"2\r\n{}\r\n0\r\n\r\n"
    for _ in range(2):
        peer.sendall(b"POST / HTTP/1.1\r\nhost: x\r\nTransfer-Encoding: Chunked\r\n\r\n" + chunks)
        assert one_answer(peer)[0] == 200


@pytest.mark.parametrize("pieces", [1, 2, 3])
@pytest.mark.parametrize(
    ("framing", "body"),
    [(b"content-length: 5", b"hello"), (b"transfer-encoding: chunked", b"2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n")],
)
def test_upgrade_request_is_served_as_an_ordinary_request(
    patient_dial: Dial, framing: bytes, body: bytes, pieces: int
) -> None:
    head = b"POST /a HTTP/1.1\r\nhost: x\r\nconnection: Upgrade, HTTP2-Settings\r\nupgrade: h2c\r\n" + framing
    message = head + b"\r\n\r\n" + body
    cuts = {1: [], 2: [len(message) - len(body)], 3: [20, len(message) - 3]}[pieces]
    peer = patient_dial()
    for start, end in zip([0, *cuts], [*cuts, len(message)], strict=True):
        peer.sendall(message[start:end])
    assert json.loads(read_until_closed(peer).partition(b"\r\n\r\n")[2]) == {"path": "/a", "body": "hello"}


def test_bytes_after_an_upgrade_request_are_ignored(dial: Dial) -> None:
    fields = b"host: x\r\nconnection: upgrade\r\nupgrade: h2c\r\ncontent-length: 5"
    peer = dial()
    peer.sendall(
        b"POST /a HTTP/1.1\r\n" + fields + b"\r\n\r\nhello" + b"POST /b HTTP/1.1\r\ncontent-length: 3\r\n\r\nabc"
    )
    received = read_until_closed(peer)
    assert received.count(b"HTTP/1.1") == 1
    assert json.loads(received.partition(b"\r\n\r\n")[2]) == {"path": "/a", "body": "hello"}


def test_invalid_chunk_during_the_response_ends_the_connection(dial: Dial) -> None:
    peer = dial()
    peer.sendall(b"POST /sleep/60 HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n")
    assert peer.recv(4096).startswith(b"HTTP/1.1 200 ")
    peer.sendall(b"zz\r\n")
    assert read_until_closed(peer) == b""


def test_a_request_to_upgrade_without_a_body_is_served(dial: Dial) -> None:
    peer = dial()
    peer.sendall(b"GET /a HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\nframes")
    received = read_until_closed(peer)
    assert received.startswith(b"HTTP/1.1 200 ")
    assert b"connection: close" in received


@pytest.mark.requirement("R10")
def test_early_response_reaches_a_client_that_is_still_sending(dial: Dial) -> None:
    peer = dial()
    peer.sendall(b"POST /early HTTP/1.1\r\nhost: x\r\ncontent-length: 50000000\r\n\r\n")
    for _ in range(100):
        peer.sendall(bytes(65_536))
    assert one_answer(peer)[0] == 413
    assert read_until_closed(peer) == b""  # the rest of the body is not waited for


@settings(max_examples=40)
@given(data=st.binary(max_size=200), good=st.booleans())
def test_any_bytes_are_answered_or_closed(address: tuple[str, int], data: bytes, good: bool) -> None:
    with closing(socket.create_connection(address, timeout=HANG)) as peer:
        peer.sendall((GET if good else b"") + data)
        peer.shutdown(socket.SHUT_WR)
        received = read_until_closed(peer)
    assert received == b"" or received.startswith(b"HTTP/1.1 ")
    assert b"HTTP/1.1 5" not in received


def test_deadline_of_zero_is_refused_by_name() -> None:
    with pytest.raises(DefinitionError, match="head_s"):
        Deadlines(head_s=0)


# What comes after a head


KEY = b"authorization: Bearer " + b"k" * 40 + b"\r\n"
ADD = b"POST /api/add HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
CHUNKS = b'transfer-encoding: chunked\r\n\r\nd\r\n{"a":1,"b":2}\r\n0\r\n'
BAD_CHUNK = b"POST /b HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nZZ\r\n"


@pytest.fixture(scope="module")
def guarded_server() -> Iterator[tuple[str, int]]:
    kit = Toolkit("Kit")
    kit.add(lambda a, b: a + b, name="add", safe=False)
    with background(asgi(kit, api_keys=["k" * 40]), deadlines=SHORT) as url:
        parts = urlsplit(url)
        yield str(parts.hostname), int(parts.port or 0)


@pytest.mark.requirement("D-24", "R10")
@pytest.mark.parametrize(
    ("head", "trailer", "status"),
    [
        (KEY, b"", 200),
        (b"", KEY, 401),
        (b"authorization: Bearer xxx\r\n", KEY, 401),
        (KEY + b"origin: http://evil.example\r\n", b"origin: http://localhost\r\n", 403),
        (KEY, b"host: evil.example\r\nidempotency-key: \xff\r\n", 200),
        (KEY, b"".join(b"x%d: a\r\n" % number for number in range(2_000)), 431),
    ],
)
def test_trailer_fields_are_ignored_and_limited(
    guarded_server: tuple[str, int], head: bytes, trailer: bytes, status: int
) -> None:
    with socket.create_connection(guarded_server, timeout=HANG) as peer:
        peer.sendall(ADD + head + CHUNKS + trailer + b"\r\n")
        assert one_answer(peer)[0] == status


@pytest.mark.requirement("R10", "D-34")
def test_endless_trailer_field_is_refused(guarded_server: tuple[str, int]) -> None:
    with socket.create_connection(guarded_server, timeout=HANG) as peer:
        peer.sendall(ADD + KEY + CHUNKS + b"x: ")
        reply = b""
        for _ in range(64):
            if not reply:
                peer.sendall(b"a" * 16_384)
            ready, _, _ = select.select([peer], [], [], 0.05)
            reply += peer.recv(65_536) if ready else b""
            if reply:
                break
        assert reply.startswith(b"HTTP/1.1 431 ")


def test_trailer_size_is_counted_for_each_request(dial: Dial) -> None:
    peer = dial()
    for _ in range(8):
        peer.sendall(b"POST /a HTTP/1.1\r\nhost: x\r\nx: " + b"a" * 1_000 + b"\r\ntransfer-encoding: chunked\r\n\r\n")
        assert select.select([peer], [], [], 0.02)[0] == []
        peer.sendall(b"0\r\n\r\n")
        assert one_answer(peer)[0] == 200


@pytest.mark.requirement("R10")
@pytest.mark.parametrize("before", [b"GET /sleep/0.2 HTTP/1.1\r\nhost: x\r\n\r\n", GET])
def test_refusal_of_an_invalid_request_follows_earlier_answers(dial: Dial, before: bytes) -> None:
    peer = dial()
    peer.sendall(before + GET + BAD_CHUNK)
    reply = read_until_closed(peer)
    last = reply.rindex(b"HTTP/1.1 4")
    assert reply[:last].count(b"HTTP/1.1 200 ") == 2
    assert refusal(reply[last:]) == (400, "malformed")


@pytest.mark.requirement("R10")
def test_request_answered_early_gets_no_second_answer(dial: Dial) -> None:
    peer = dial()
    peer.sendall(b"POST /early HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n")
    assert one_answer(peer)[0] == 413
    peer.sendall(b"ZZ\r\n")
    assert read_until_closed(peer) == b""


@pytest.mark.requirement("R12", "D-34")
def test_stream_of_a_disconnected_caller_is_cancelled_despite_pipelined_requests() -> None:
    cancelled = threading.Event()
    kit = Toolkit("Kit")

    async def wait():  # type: ignore[no-untyped-def]
        yield 1
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    kit.add(wait, approval="auto")
    body = json.dumps({"jsonrpc": "2.0", "id": "1", "method": "wait", "params": {}}).encode()
    head = b"POST /opentool/streamCall HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    with background(asgi(kit), deadlines=SHORT) as url:
        parts = urlsplit(url)
        with socket.create_connection((parts.hostname, parts.port), timeout=HANG) as peer:
            peer.sendall(head + b"content-length: %d\r\n\r\n" % len(body) + body + GET)
            reply = b""
            while b"event:data" not in reply:
                reply += peer.recv(65_536)
        assert cancelled.wait(HANG)
