"""The loopback listener, and opening a browser."""

from __future__ import annotations

import socket
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.programs import require_loopback
from toolwire.client.login.browser import open_page
from toolwire.client.login.redirect_listener import RedirectListener
from toolwire.core.model import Problem


def send_request(listener: RedirectListener, line: str, host: str | None = None) -> bytes:
    """Send a request and return the whole answer."""
    netloc = listener.redirect_uri.split("/")[2]
    port = int(netloc.rpartition(":")[2])
    address = netloc.rpartition(":")[0].strip("[]")
    with socket.create_connection((address, port), 10) as connection:
        connection.sendall(f"{line} HTTP/1.1\r\nhost: {host or netloc}\r\n\r\n".encode("latin-1"))
        answer = b""
        while piece := connection.recv(65_536):
            answer += piece
    return answer


@pytest.mark.requirement("AC-05", "D-28")
@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_redirect_listener_accepts_one_answer_on_its_exact_path_and_closes(address: str) -> None:
    require_loopback(address)
    listener = RedirectListener(address)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(listener.wait, 20.0)
        for line, host in (
            ("GET /other?code=evil", None),
            ("GET /callback/x?code=evil", None),
            ("POST /callback?code=evil", None),
            ("GET /callback?code=evil", "evil.example"),
            ("GET /callback?code=evil", "localhost:1"),
            ("\x16\x03", None),
            ("", None),
        ):
            assert b"200 OK" not in send_request(listener, line, host)
        page = send_request(listener, "GET /callback?code=<script>alert(1)</script>&state=s")
        assert waiting.result(10) == "code=<script>alert(1)</script>&state=s"
    assert page.startswith(b"HTTP/1.1 200 OK")
    assert b"script" not in page.replace(b"default-src", b"")
    assert b"frame-ancestors 'none'" in page
    with pytest.raises(ConnectionError):
        send_request(listener, "GET /callback?code=again")


@pytest.mark.requirement("AC-05")
def test_silent_connection_does_not_block_the_redirect_listener() -> None:
    now = iter([0.0, 1.0, 301.0, 302.0])
    listener = RedirectListener(clock=lambda: next(now))
    silent = socket.create_connection(("127.0.0.1", int(listener.redirect_uri.split(":")[2].split("/")[0])))
    silent.shutdown(socket.SHUT_WR)
    problem = listener.wait(300.0)
    silent.close()
    assert isinstance(problem, Problem)
    assert problem.kind == "timeout"


BAD = [
    "javascript:alert(1)",
    "file:///etc/passwd",
    "data:text/html,x",
    "ssh://host",
    "-version",
    "--help",
    "https://a b",
    "https://a\nb",
    "https://a`id`b",
    'https://a"b',
    "https://a\\b",
    "vbscript:x",
    "https://a|b",
    "https://a<b>",
    "",
]


@pytest.mark.requirement("D-29", "D-28")
@pytest.mark.parametrize("url", BAD)
def test_only_web_urls_are_opened_in_a_browser(url: str) -> None:
    started: list[Sequence[str]] = []
    assert open_page(url, start=started.append, environment={"DISPLAY": ":0"}, system="darwin") is False
    assert started == []


@pytest.mark.requirement("D-29")
def test_browser_url_is_passed_as_one_argument_without_a_shell(tmp_path: Path) -> None:
    seen, program = tmp_path / "seen", tmp_path / "xdg-open"
    program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$#" "$@" > {seen}.new && mv {seen}.new {seen}\n')
    program.chmod(0o700)
    url = "https://login.example/a?x=$(touch%20/tmp/x)&y=;id&z='q'"
    done = threading.Event()
    processes = []

    def start(command: Sequence[str]) -> None:
        import subprocess

        processes.append(subprocess.Popen(command))
        done.set()

    environment = {"DISPLAY": ":0", "PATH": str(tmp_path)}
    assert open_page(url, start=start, environment=environment, system="linux") is True
    assert done.wait(10)
    assert processes[0].wait(10) == 0
    assert seen.read_text().splitlines() == ["1", url]
    assert open_page(url, start=start, environment={"PATH": str(tmp_path)}, system="linux") is False
