"""The proxies of ``behind-a-proxy.md``, as the page prints them, on other ports and with a test's certificate."""

from __future__ import annotations

import os
import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.certificates import write_certificate
from tests.docs.blocks import read_blocks
from tests.docs.page import ROOT
from tests.programs import find_free_port

NAME = "tools.example.com"
PAGES = [ROOT / "docs/how-to" / name for name in ("deploy.md", "behind-a-proxy.md")]
FILES = {block.name: block.text for page in PAGES for block in read_blocks(page.read_text("utf-8")) if block.name}
"""The named blocks of the pages."""
WAIT_S = 60.0
PROXIES: dict[str, tuple[str, Callable[[Path], list[str]]]] = {
    "nginx": ("nginx.conf", lambda file: ["-p", str(file.parent), "-c", str(file), "-g", NGINX]),
    "caddy": ("Caddyfile", lambda file: ["run", "--config", str(file), "--adapter", "caddyfile"]),
    "haproxy": ("haproxy.cfg", lambda file: ["-f", str(file)]),
}
"""The file of each proxy on the page, and what its program gets."""
NGINX_FOLDERS = (
    "".join(f"  {kind}_temp_path {{folder}}/{kind};\n" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    + "  access_log off;\n"
)
NGINX = "daemon off; pid nginx.pid; error_log stderr;" + (" user root;" if os.getuid() == 0 else "")
_PATH = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin"  # where Debian puts servers, and a user's PATH does not look


@contextmanager
def run_program(argv: list[str], place: int | Path, folder: Path, env: dict[str, str] | None = None) -> Iterator[Any]:
    """Run a program until it listens at ``place``, a port or a Unix socket, and end it at the end.

    What it prints is in ``printed-PLACE.txt`` in ``folder``.
    """
    with (log := folder / f"printed-{Path(str(place)).name}.txt").open("wb") as errors:
        process = subprocess.Popen(argv, cwd=folder, stdout=errors, stderr=errors, env=env)
        try:
            until = time.monotonic() + WAIT_S
            while not _listens(place):
                assert process.poll() is None, log.read_text()
                assert time.monotonic() < until, f"{argv[0]} does not listen"
                time.sleep(0.02)
            yield process
        finally:
            process.terminate()
            process.wait(WAIT_S)


def _listens(place: int | Path) -> bool:
    try:
        _connect(place).close()
    except OSError:
        return False
    return True


def _connect(place: int | Path) -> socket.socket:
    if isinstance(place, int):
        return socket.create_connection(("127.0.0.1", place), WAIT_S)
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.settimeout(WAIT_S)
        connection.connect(str(place))
    except OSError:
        connection.close()
        raise
    return connection


@contextmanager
def run_server(argv: list[str], place: int | Path, folder: Path) -> Iterator[Any]:
    """Run a server of ours as `run_program` does, until it answers: it listens some time before.

    A proxy that checks it meanwhile would take it for one that has failed.
    """
    with run_program(argv, place, folder) as process:
        with _connect(place) as connection:
            connection.sendall(b"GET /health HTTP/1.0\r\n\r\n")
            assert connection.recv(100).startswith(b"HTTP/1.1 ")
        yield process


def fit_sample(text: str, *, port: int, upstream: int, folder: Path) -> str:
    """Return a configuration of the page for this machine: other ports and the files of the test."""
    for old, new in (
        ("127.0.0.1:9627", f"127.0.0.1:{upstream}"),
        ("listen 8443 ssl", f"listen 127.0.0.1:{port} ssl"),
        ("bind :8443", f"bind 127.0.0.1:{port}"),
        ("fullchain.pem", str(folder / "fullchain.pem")),
        ("privkey.pem", str(folder / "privkey.pem")),
        ("crt tools.pem", f"crt {folder / 'tools.pem'}"),
        (f"{NAME} {{\n\t", f"{NAME}:{port} {{\n\ttls {folder / 'fullchain.pem'} {folder / 'privkey.pem'}\n\t"),
        ("events {}\nhttp {\n", "events {}\nhttp {\n" + NGINX_FOLDERS.format(folder=folder)),
    ):  # fmt: skip
        text = text.replace(old, new)
    return "{\n\tadmin off\n}\n" + text if text.startswith(f"{NAME}:") else text


@contextmanager
def run_proxy(
    proxy: str, folder: Path, upstream: int, port: int = 0, change: Callable[[str], str] = lambda text: text
) -> Iterator[int]:
    """Run ``proxy`` as the page prints it, before the server at the port ``upstream``, and give its own port.

    ``change`` gets the configuration and returns it as it is used. Its certificate is ``fullchain.pem`` in ``folder``.
    Without the program, the test is skipped.
    """
    program = shutil.which(proxy, path=_PATH)
    if program is None:
        pytest.skip(f"there is no {proxy}: apt-get install {proxy}")
    certificate, key = write_certificate(folder, NAME, "127.0.0.1")
    (folder / "fullchain.pem").write_bytes(certificate.read_bytes())
    (folder / "privkey.pem").write_bytes(key.read_bytes())
    (folder / "tools.pem").write_bytes(certificate.read_bytes() + key.read_bytes())
    port = port or find_free_port()
    name, list_options = PROXIES[proxy]
    file = folder / name
    file.write_text(change(fit_sample(FILES[name], port=port, upstream=upstream, folder=folder)), encoding="utf-8")
    env = {**os.environ, "XDG_DATA_HOME": str(folder), "XDG_CONFIG_HOME": str(folder)}
    with run_program([program, *list_options(file)], port, folder, env):
        yield port


def wait_until_healthy(port: int, folder: Path, path: str = "/health") -> None:
    """Wait until the server behind the proxy at ``port`` answers: a proxy may first check it."""
    until = time.monotonic() + WAIT_S
    while time.monotonic() < until:
        with (
            suppress(OSError),
            socket.create_connection(("127.0.0.1", port), 5.0) as plain,
            trust_certificate(folder).wrap_socket(plain, server_hostname=NAME) as connection,
        ):
            connection.sendall(f"GET {path} HTTP/1.1\r\nhost: {NAME}\r\nconnection: close\r\n\r\n".encode())
            if connection.recv(100).startswith(b"HTTP/1.1 200"):
                return
        time.sleep(0.05)
    raise AssertionError("the server behind the proxy does not answer")


def trust_certificate(folder: Path) -> ssl.SSLContext:
    """Return the settings of a client that trusts the certificate of the proxy."""
    return ssl.create_default_context(cafile=str(folder / "fullchain.pem"))


def resolve_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the host name of the page mean this machine, for the clients of a test."""
    resolve = socket.getaddrinfo

    def resolve_here(host: Any, *rest: Any, **more: Any) -> Any:
        return resolve("127.0.0.1" if host in (NAME, NAME.encode()) else host, *rest, **more)

    monkeypatch.setattr(socket, "getaddrinfo", resolve_here)
