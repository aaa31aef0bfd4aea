"""A user at a terminal learns what the program waits for; a script reads nothing of it."""

from __future__ import annotations

from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Event, Thread
from typing import Any

import pytest

from toolwire.cli.parser import list_commands

pytestmark = pytest.mark.requirement("FU-40")


def test_a_slow_server_is_named_while_the_user_waits(
    terminal: Callable[..., Any],
) -> None:
    message = Event()

    class Slow(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            message.wait(60)
            self.send_error(404)

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    with HTTPServer(("127.0.0.1", 0), Slow) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        try:
            url = f"http://127.0.0.1:{server.server_port}"
            shown = terminal("tools", url, NO_COLOR="1")
            shown.wait_for(f"Reading the tools of {url} ...".encode())
        finally:
            message.set()
            shown.end()
            server.shutdown()


def test_command_help_keeps_the_case_of_acronyms(toolwire: Callable[..., Any]) -> None:
    for name, command in list_commands("1").items():
        assert (command.description or "")[0].isupper()
        assert "url" not in (command.description or "").split(), name
        assert "api" not in (command.description or "").split(), name
    assert "a URL's protocols" in toolwire("explain", "--help").out


def test_call_help_shows_arguments_as_optional(toolwire: Callable[..., Any]) -> None:
    assert "TARGET NAME [KEY=VALUE ...]" in toolwire("call", "--help").out
