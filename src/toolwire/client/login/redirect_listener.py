"""Receive the browser's redirect at the end of a sign-in, on a loopback address.

Rules:
- The response page is always the same; nothing of the request is in it.
- A request for another host, path or method is refused. The first request for the right path ends the listener.
"""

# AC-05: a page that repeats its request could run a script.

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from time import monotonic

from toolwire.core.model import Kind, Problem
from toolwire.framing.html import Html
from toolwire.framing.html_page import build_html_page, build_policy

_HEAD_BYTES = 16 * 1024
# A program that connects and sends nothing must not keep the browser waiting for longer.
_REQUEST_S = 5.0
_NO_FORM = "'none'"


@cache
def _write_answer() -> bytes:
    """Return the answer to each request, all but its first line."""
    page = build_html_page(
        "Back to toolwire",
        Html(
            '<div class="card"><h1>The site has answered</h1><p>toolwire goes on where you started it, and says there '
            "whether you are signed in.</p><p>You can close this page and go back to toolwire.</p></div>"
        ),
        place="sign-in",
        width="narrow",
    ).encode()
    fields = (
        "content-type: text/html; charset=utf-8\r\ncache-control: no-store\r\nreferrer-policy: no-referrer\r\n"
        f"content-security-policy: {build_policy(form=_NO_FORM)}\r\nx-content-type-options: nosniff\r\n"
        f"connection: close\r\ncontent-length: {len(page)}\r\n\r\n"
    )
    return fields.encode() + page


class RedirectListener:
    """A listener on 127.0.0.1 or ::1. It is open from the start, so that no other program can take its port."""

    def __init__(self, host: str = "127.0.0.1", *, clock: Callable[[], float] = monotonic) -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._socket = socket.create_server((host, 0), family=family, backlog=8)
        port = self._socket.getsockname()[1]
        self._host = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self._path = "/callback"
        self._clock = clock

    @property
    def redirect_uri(self) -> str:
        """The URL that the browser is redirected to."""
        return f"http://{self._host}{self._path}"

    def wait(self, within_s: float = 300.0) -> str | Problem:
        """Return the query of the redirect and close, or a Problem if none came in time."""
        until = self._clock() + within_s
        try:
            # AC-05: one time limit for all requests, so that wrong ones do not keep the port open.
            while (left_s := until - self._clock()) > 0:
                self._socket.settimeout(left_s)
                connection, _ = self._socket.accept()
                with connection:
                    query = self._receive_query(connection)
                if query is not None:
                    return query
        except (TimeoutError, OSError):
            pass
        finally:
            self.close()
        return Problem(kind=Kind.TIMEOUT, message=f"The sign-in was not completed within {within_s / 60:g} minutes.")

    def close(self) -> None:
        """Stop listening."""
        self._socket.close()

    def _receive_query(self, connection: socket.socket) -> str | None:
        """Return the query of one request if it is the redirect, or None."""
        connection.settimeout(_REQUEST_S)
        head = b""
        with suppress(OSError):
            while b"\r\n\r\n" not in head and len(head) <= _HEAD_BYTES and (piece := connection.recv(4_096)):
                head += piece
            query = self._query(head)
            status = b"HTTP/1.1 404 Not Found\r\n" if query is None else b"HTTP/1.1 200 OK\r\n"
            # A wrong request gets the same page, so a page of another site learns nothing.
            connection.sendall(status + _write_answer())
            return query
        return None

    def _query(self, head: bytes) -> str | None:
        lines = head.decode("latin-1").split("\r\n")
        hosts = [
            value.strip() for name, _, value in (line.partition(":") for line in lines[1:]) if name.lower() == "host"
        ]
        method, _, rest = lines[0].partition(" ")
        path, _, query = rest.rpartition(" ")[0].partition("?")
        # Another Host header means that the request came through a name that rebinds to this machine.
        return query if (method, path, hosts) == ("GET", self._path, [self._host]) else None
