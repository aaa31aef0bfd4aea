"""At a terminal: a refused call starts a sign-in, and keys are typed unseen."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.cli.conftest import Terminal
from tests.oauth.conftest import Walker
from tests.oauth.running_site import Running
from tests.oauth.shown_page import page_shown

STATE = "state"


@pytest.fixture
def at(tmp_path: Path) -> Iterator[Callable[..., Terminal]]:
    """Run the program at a terminal, without a browser: ``at("call", url, ...)``."""
    environment = {"XDG_STATE_HOME": str(tmp_path / STATE), "DISPLAY": "", "WAYLAND_DISPLAY": "", "NO_COLOR": "1"}
    with ExitStack() as ending:

        def start(*argv: str) -> Terminal:
            terminal = Terminal(argv, environment)
            ending.callback(terminal.close)
            return terminal

        yield start


@pytest.mark.requirement("XL-102", "AC-05", "AC-08")
def test_unauthorized_call_starts_a_sign_in_and_continues_after_it(
    tmp_path: Path, serve: Callable[[Callable[[str], Any]], str], at: Callable[..., Terminal]
) -> None:
    site = Running(tmp_path, serve, registration=True)
    terminal = at("call", site.url, "list_tasks", "--protocol", "otc", "--agree")
    terminal.wait_for(b"Sign in? [y/N] ")
    assert f"{site.url} wants you to sign in for tasks:delete, tasks:read. ".encode() in terminal.shown  # I-22
    terminal.type("y")
    page = page_shown(terminal)
    with httpx2.Client() as browser:
        back = Walker()._walked(browser, page)
        browser.get(back)
    assert terminal.end() == 0
    assert b"wash up" in terminal.shown
    again = at("call", site.url, "list_tasks", "--protocol", "otc", "--agree")
    assert again.end() == 0  # kept: nobody is asked twice
    assert b"Sign in?" not in again.shown


@pytest.mark.requirement("XL-102")
def test_user_who_declines_sign_in_is_told_why_the_call_did_not_run(
    tmp_path: Path, serve: Callable[[Callable[[str], Any]], str], at: Callable[..., Terminal]
) -> None:
    site = Running(tmp_path, serve, registration=True)
    terminal = at("call", site.url, "list_tasks", "--protocol", "otc", "--agree")
    terminal.wait_for(b"Sign in? [y/N] ")
    terminal.type("")
    assert terminal.end() != 0
    assert b"Open this page" not in terminal.shown
    assert site.kinds() == []


SECRET = "canary-4711"
SENT = {"key": (b"x-key", SECRET.encode()), "basic": (b"authorization", b"Basic YWRhOmNhbmFyeS00NzEx")}


@pytest.mark.requirement("AC-14", "D-26")
@pytest.mark.parametrize("scheme", ["key", "basic"])
def test_keys_and_passwords_are_typed_without_echo_and_then_used(
    scheme: str, serve: Callable[[Callable[[str], Any]], str], at: Callable[..., Terminal], tmp_path: Path
) -> None:
    received: list[dict[bytes, bytes]] = []
    url = serve(lambda base: build_described_app(base, scheme, received))
    terminal = at("login", url, "--key")
    if scheme == "basic":
        terminal.wait_for(b"Name at ")
        terminal.type("ada")
        terminal.wait_for(b"Password: ")
    else:
        terminal.wait_for(b"Key for ")
    terminal.type(SECRET)
    assert terminal.end() == 0
    assert b"Signed in to " in terminal.shown
    assert SECRET.encode() not in terminal.shown
    stored = [file for file in (tmp_path / STATE).rglob("*") if file.is_file()]
    assert stored
    assert all(file.stat().st_mode & 0o077 == 0 for file in stored)  # only this person can read them
    call = at("call", url, "look")
    call.end()
    header, value = SENT[scheme]
    assert received[-1][header] == value
    assert b"tea" in call.shown


def build_described_app(base: str, scheme: str, heard: list[dict[bytes, bytes]]) -> Any:
    """An application with an OpenAPI document whose one operation takes a key, or a name and password."""
    kinds = {
        "key": {"type": "apiKey", "in": "header", "name": "X-Key"},
        "basic": {"type": "http", "scheme": "basic"},
    }
    look = {
        "operationId": "look",
        "summary": "Look around.",
        "x-llm": {"approval": "auto"},
        "security": [{"it": []}],
        "responses": {"200": {"description": "Tea.", "content": {"application/json": {"schema": {"type": "string"}}}}},
    }
    document = {
        "openapi": "3.1.0",
        "info": {"title": "Shop", "version": "1.0.0"},
        "servers": [{"url": base}],
        "paths": {"/look": {"get": look}},
        "components": {"securitySchemes": {"it": kinds[scheme]}},
    }
    bodies = {
        "/.well-known/llm.json": json.dumps({"openapi": "/openapi.json"}),
        "/openapi.json": json.dumps(document),
    }

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        body = bodies.get(scope["path"], "")
        if scope["path"] == "/look":
            heard.append(dict(scope["headers"]))
            body = '"tea"'
        status = 200 if body else 404
        await send(
            {"type": "http.response.start", "status": status, "headers": [(b"content-type", b"application/json")]}
        )
        await send({"type": "http.response.body", "body": body.encode()})

    return app


def test_sign_in_is_not_offered_without_a_terminal(
    tmp_path: Path, serve: Callable[[Callable[[str], Any]], str], capfd: pytest.CaptureFixture[str]
) -> None:
    from toolwire.cli import main

    site = Running(tmp_path, serve, registration=True)
    assert main(["call", site.url, "list_tasks", "--protocol", "otc", "--agree"]) != 0
    assert "Sign in?" not in capfd.readouterr().err


@pytest.mark.requirement("FU-16")
def test_login_to_a_closed_port_is_reported(at: Callable[..., Terminal]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    terminal = at("login", f"http://127.0.0.1:{port}")
    assert terminal.end() == 4
    assert b"could not be reached: it refused the connection" in terminal.shown
