"""What tests need of the machine beside Python, and what a test says where it is not there."""

from __future__ import annotations

import contextlib
import itertools
import os
import pwd
import shutil
import socket
import subprocess
from pathlib import Path

import pytest

_FIRST_PORT = 12_000 + 1_000 * int(os.environ.get("PYTEST_XDIST_WORKER", "gw9").removeprefix("gw"))
ON_DEBIAN = "`make test` installs it as root on Debian; or install the package {}"


def require_redis() -> str:
    """Return the path of ``redis-server``; skip the test where there is none."""
    if found := shutil.which("redis-server"):
        return found
    pytest.skip(f"there is no redis-server: {ON_DEBIAN.format('redis-server')}")


def require_postgres(name: str) -> str:
    """Return the path of a program of PostgreSQL, which Debian keeps out of the path; skip the test without it."""
    stored = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    found = shutil.which(name) or (str(stored[-1]) if stored else None)
    if found is None:
        pytest.skip(f"there is no PostgreSQL server: {ON_DEBIAN.format('postgresql')}")
    if os.getuid() == 0 and not any(user.pw_name == "postgres" for user in pwd.getpwall()):
        pytest.skip("PostgreSQL refuses to run as root, and there is no user postgres: run the tests as another user")
    return found


def postgres_user() -> str | None:
    """Return as whom PostgreSQL runs: it refuses to run as root. ``None`` is whoever runs the tests."""
    return "postgres" if os.getuid() == 0 else None


def require_loopback(address: str) -> None:
    """Skip the test where this machine has no such loopback address: many containers have no IPv6."""
    try:
        socket.create_server((address, 0), family=socket.AF_INET6 if ":" in address else socket.AF_INET).close()
    except OSError:
        pytest.skip(f"this machine has no address {address}: IPv6 is off")


def find_free_port() -> int:
    """Return a port of this machine that nobody listens at, and that no program gets which asks for any port.

    Each process of a test run has 1,000 ports of its own below those that systems give out, and takes the next one.
    """
    for port in _OWN_PORTS:
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    raise OSError("There is no free port for this process of the tests.")


_OWN_PORTS = itertools.islice(itertools.cycle(range(_FIRST_PORT, _FIRST_PORT + 1_000)), 100_000)


class RedisServer:
    """A Redis of a test's own on a free port, as often as it is started. Without the program, the test is skipped."""

    def __init__(self, folder: Path) -> None:
        self.port = find_free_port()
        self._argv = [require_redis(), "--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(folder)]
        self._argv += ["--save", "", "--appendonly", "no"]
        self.start()

    def start(self) -> None:
        self._process = subprocess.Popen(self._argv, stdout=subprocess.DEVNULL)

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(30)

    def answers(self) -> bool:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1.0) as connection:
            connection.sendall(b"PING\r\n")
            return connection.recv(64).startswith(b"+PONG")
        return False
