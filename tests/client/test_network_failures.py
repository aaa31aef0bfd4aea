"""What a person reads when a server cannot be reached, and what a program can tell from it."""

from __future__ import annotations

import asyncio
import datetime
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.programs import find_free_port
from toolwire.client.transport.async_pool import ConnectionPool, PooledConnection
from toolwire.client.transport.limits import TransportLimits
from toolwire.client.transport.sync_pool import PoolKey, SyncConnectionPool, SyncPooledConnection
from toolwire.core.http import Request, Response
from toolwire.core.model import Kind, Problem


def check(answer: Response | Problem, origin: str, kind: Kind, reason: str, *, sent: bool) -> None:
    assert isinstance(answer, Problem)
    assert (answer.kind, answer.details["reason"], answer.details["sent"]) == (kind, reason, sent)
    assert answer.details.keys() <= {"reason", "sent", "answered"}
    assert origin in answer.message
    assert answer.message.endswith((".", "?"))
    assert "hidden" not in repr(answer)


def then_hang_up(said: bytes) -> Any:
    def answer(_: object) -> Iterator[bytes]:
        yield said
        raise ConnectionAbortedError

    return answer


def test_refused_connection_is_unreachable(open_network: Any) -> None:
    origin = f"http://127.0.0.1:{find_free_port()}"
    answer = open_network().send(Request("GET", f"{origin}/tools?key=hidden"))
    check(answer, origin, Kind.UNREACHABLE, "refused", sent=False)


@pytest.mark.parametrize(
    "error", [socket.gaierror(-2, "Name or service not known"), OSError("no network"), UnicodeError("label too long")]
)
def test_unknown_host_name_is_unreachable(open_network: Any, error: Exception) -> None:
    def resolve(host: str, port: int) -> list[str]:
        raise error

    answer = open_network(resolve=resolve).send(Request("GET", "https://nowhere.example/?key=hidden"))
    check(answer, "https://nowhere.example", Kind.UNREACHABLE, "dns", sent=False)


def test_a_name_without_an_address(open_network: Any) -> None:
    answer = open_network(resolve=lambda host, port: []).send(Request("GET", "https://nowhere.example/?key=hidden"))
    check(answer, "https://nowhere.example", Kind.UNREACHABLE, "dns", sent=False)


def test_server_with_a_full_accept_queue_is_unreachable(open_network: Any) -> None:
    """Its queue is full: the system does not answer the next knock at all."""
    with ExitStack() as ending:
        server = ending.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(8):
            waiting = ending.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(server.getsockname())
        origin = f"http://127.0.0.1:{server.getsockname()[1]}"
        answer = open_network(limits=TransportLimits(connect_s=0.2)).send(Request("GET", f"{origin}/?key=hidden"))
    check(answer, origin, Kind.UNREACHABLE, "timeout", sent=False)


def test_system_resolver_is_used_by_default(listen: Any, open_network: Any) -> None:
    listener = listen()
    transport = open_network()
    assert transport.send(Request("GET", f"http://localhost:{listener.port}/")).status == 200
    answer = transport.send(Request("GET", f"https://{'a' * 70}.example/"))
    check(answer, ".example", Kind.UNREACHABLE, "dns", sent=False)


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"HTTP/1.1 200 OK\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhi",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhi",
    ],
)
def test_connection_closed_too_early_is_unreachable(listen: Any, open_network: Any, said: bytes) -> None:
    listener = listen(then_hang_up(said))
    answer = open_network().send(Request("POST", f"{listener.origin}/?key=hidden", (), b"{}"))
    check(answer, listener.origin, Kind.UNREACHABLE, "closed", sent=True)


@pytest.mark.parametrize(
    "said",
    [
        b"SSH-2.0-OpenSSH_9.6\r\n\r\n",
        b"hello\r\n\r\n",
        b"HTTP/1.1 20 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nx\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nx: \x01\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\nhi",
        b"HTTP/1.1 200 OK\r\ncontent-length: -2\r\n\r\nhi",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\nhi",
    ],
)
def test_a_server_that_does_not_speak_http(listen: Any, open_network: Any, said: bytes) -> None:
    listener = listen(then_hang_up(said))
    answer = open_network().send(Request("GET", f"{listener.origin}/?key=hidden"))
    check(answer, listener.origin, Kind.BAD_ANSWER, "not_http", sent=True)


def test_failed_tls_handshake_sends_only_the_server_name(listen: Any, open_network: Any) -> None:
    listener = listen()
    transport = open_network(resolve=lambda host, port: ["127.0.0.1"])
    answer = transport.send(
        Request("POST", f"https://localhost:{listener.port}/?key=hidden", (), b"body"), total_s=10.0
    )
    check(answer, f"https://localhost:{listener.port}", Kind.UNREACHABLE, "tls", sent=False)
    assert listener.hung_up.wait(10)
    [hello] = listener.first_bytes
    assert hello[:1] == b"\x16"
    assert b"localhost" in hello
    assert b"hidden" not in hello


def test_only_a_trusted_certificate_for_the_host_is_accepted(
    listen: Any, open_network: Any, encode_response: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, trusted, reached in (
        ("localhost", False, False),
        ("other.example", True, False),
        ("localhost", True, True),
    ):
        path = certificate(tmp_path, name)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(path)
        listener = listen(encode_response(b"safe"), tls=context)
        if trusted:
            monkeypatch.setenv("SSL_CERT_FILE", str(path))
        transport = open_network(resolve=lambda host, port: ["127.0.0.1"])
        answer = transport.send(Request("GET", f"https://localhost:{listener.port}/?key=hidden"))
        if reached:
            assert answer.body == b"safe"
        else:
            check(answer, f"https://localhost:{listener.port}", Kind.UNREACHABLE, "tls", sent=False)
            assert not listener.requests


def certificate(folder: Path, name: str) -> Path:
    """Write a certificate for ``name`` that vouches for itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    path = folder / f"{name}.pem"
    path.write_bytes(made.public_bytes(pem) + key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain))
    return path


def silently_gone(status: str) -> Any:
    """Return an answer for each connection's first request alone: the second finds the server gone."""
    served: set[threading.Thread] = set()  # the listener has a thread for each connection

    def answer(request: Any) -> Iterator[bytes]:
        if threading.current_thread() in served:
            raise ConnectionAbortedError
        served.add(threading.current_thread())
        yield f"HTTP/1.1 {status}\r\ncontent-length: 2\r\n\r\n{{}}".encode()

    return answer


@pytest.mark.parametrize("method", ["GET", "DELETE", "QUERY"])
def test_repeatable_request_is_resent_if_its_connection_was_dead(listen: Any, open_network: Any, method: str) -> None:
    listener, transport = listen(silently_gone("200 OK")), open_network()
    answers = [transport.send(Request(method, listener.origin)) for _ in range(3)]
    assert [answer.status for answer in answers] == [200, 200, 200]


def test_unrepeatable_request_is_not_resent(listen: Any, open_network: Any) -> None:
    listener, transport = listen(silently_gone("200 OK")), open_network()
    assert transport.send(Request("POST", listener.origin, (), b"{}")).status == 200
    answer = transport.send(Request("POST", listener.origin, (), b"{}"))
    check(answer, listener.origin, Kind.UNREACHABLE, "closed", sent=True)
    assert len(listener.requests) == 2


@pytest.mark.parametrize("method", ["POST", "GET"])
def test_call_after_a_server_error_uses_a_new_connection(listen: Any, open_network: Any, method: str) -> None:
    listener, transport = listen(silently_gone("500 Oops")), open_network()
    answers = [transport.send(Request(method, listener.origin, (), b"")) for _ in range(4)]
    assert [answer.status for answer in answers] == [500] * 4
    assert len(listener.requests) == 4


def close_after_the_answer(said: bytes = b"") -> Any:
    """Return an answer whose server sends ``said`` after it, and then closes the connection without notice."""

    def answer(_: Any) -> Iterator[bytes]:
        yield b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}" + said
        raise ConnectionAbortedError

    return answer


@pytest.mark.requirement("TE-03")
@pytest.mark.parametrize("method", ["POST", "GET"])
def test_connection_that_the_server_closed_while_it_was_idle_carries_no_request(
    listen: Any, open_network: Any, method: str
) -> None:
    listener, transport = listen(close_after_the_answer()), open_network()
    for number in (1, 2, 3):
        assert transport.send(Request(method, listener.origin, (), b"")).status == 200
        assert listener.hung_up.wait(10)
        listener.hung_up.clear()
        assert (listener.connections, len(listener.requests)) == (number, number)


@pytest.mark.requirement("TE-03")
def test_data_that_no_request_asked_for_answers_no_later_request(
    listen: Any, open_network: Any, encode_response: Any
) -> None:
    forged = encode_response(b"forged")
    listener, transport = listen(close_after_the_answer(forged)), open_network()
    for _ in range(2):
        answer = transport.send(Request("POST", listener.origin, (), b""))
        assert isinstance(answer, Problem) or answer.body == b"{}"
        assert listener.hung_up.wait(10)
        listener.hung_up.clear()
    assert listener.connections == 2


@pytest.mark.requirement("TE-03")
def test_two_origins_with_one_address_share_no_connection(listen: Any, open_network: Any) -> None:
    listener = listen()
    transport = open_network(resolve=lambda host, port: ["127.0.0.1"])
    for host in ("127.0.0.1", "localhost", "127.0.0.1", "localhost"):
        assert transport.send(Request("GET", f"http://{host}:{listener.port}/")).status == 200
    assert listener.connections == 2


@pytest.mark.requirement("TE-03")
@pytest.mark.parametrize(("idle_s", "is_found"), [(59.9, True), (60.0, False), (3600.0, False)])
def test_connection_that_was_idle_for_a_minute_is_not_used(idle_s: float, is_found: bool) -> None:
    here, there = socket.socketpair()
    key, pool = PoolKey("http://site.example", "192.0.2.1"), SyncConnectionPool()
    with here, there:
        connection = SyncPooledConnection(key, here)
        pool.add(connection)
        pool.release(connection, 1000.0, is_reusable=True)
        assert (pool.take(key, 1000.0 + idle_s) is connection) == is_found
        assert (here.fileno() < 0) == (not is_found)


@pytest.mark.requirement("TE-03")
@pytest.mark.parametrize(("idle_s", "is_found"), [(59.9, True), (60.0, False), (3600.0, False)])
def test_connection_that_was_idle_for_a_minute_is_not_used_by_an_event_loop(idle_s: float, is_found: bool) -> None:
    async def take() -> bool:
        here, there = socket.socketpair()
        key, pool = PoolKey("http://site.example", "192.0.2.1"), ConnectionPool()
        with here, there:
            connection = PooledConnection(key, here)
            connection.idle_since = 1000.0
            pool._idle[connection] = None
            found = pool.take(key, 1000.0 + idle_s)
            assert connection.is_lost == (not is_found)
            return found is connection

    assert asyncio.run(take()) == is_found


@pytest.mark.requirement("TE-03")
def test_one_closed_connection_drops_those_that_were_idle_longer() -> None:
    key, other = PoolKey("http://site.example", "192.0.2.1"), PoolKey("http://site.example", "192.0.2.2")
    pool, pairs = SyncConnectionPool(), [socket.socketpair() for _ in range(3)]
    with ExitStack() as ending:
        for number, (here, there) in enumerate(pairs):
            ending.enter_context(here)
            ending.enter_context(there)
            connection = SyncPooledConnection(other if number == 1 else key, here)
            pool.add(connection)
            pool.release(connection, 1000.0, is_reusable=True)
        pairs[2][1].close()
        assert pool.take(key, 1001.0) is None
        assert [here.fileno() < 0 for here, _ in pairs] == [True, False, True]


@pytest.mark.requirement("TE-03", "TE-02")
def test_one_closed_connection_drops_those_that_were_idle_longer_in_an_event_loop() -> None:
    async def story() -> list[bool]:
        key, other = PoolKey("http://site.example", "192.0.2.1"), PoolKey("http://site.example", "192.0.2.2")
        pool, made = ConnectionPool(), []
        with ExitStack() as ending:
            for number in range(3):
                here, there = socket.socketpair()
                ending.enter_context(here)
                ending.enter_context(there)
                connection = PooledConnection(other if number == 1 else key, here)
                connection.idle_since = 1000.0 if number < 2 else 0.0  # the last one is too old
                pool._idle[connection] = None
                made.append(connection)
            assert pool.take(key, 1001.0) is None
            return [one.is_lost for one in made]

    assert asyncio.run(story()) == [True, False, True]
