"""docs/how-to/app-with-users.md to the letter: an MCP host acts for a user of an application, in a real browser."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import Queue
from threading import Thread
from typing import Any
from urllib.parse import parse_qs

import httpx2
import pytest
from mcp import Client
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientMetadata
from mcp.types import ElicitRequestParams, ElicitResult

from tests.docs.blocks import read_blocks
from tests.support.token_storage import Storage

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "app-with-users.md"
OWN_LINES = 40
WORDS = 700


class McpHost:
    """A host made with the official MCP SDK: it opens a browser for its user, who is the test."""

    def __init__(self, site: str) -> None:
        self.site = site
        self.pages: Queue[str | BaseException | None] = Queue()
        self.said: dict[str, Any] = {}
        self.forms: list[str] = []
        self._thread = Thread(target=self._run, daemon=True)
        self._thread.start()

    def open_page(self) -> str:
        """Return the next page that the host opens."""
        url = self.pages.get(timeout=30)
        assert isinstance(url, str), url
        return url

    def end(self) -> dict[str, Any]:
        """Return what the calls returned."""
        last = self.pages.get(timeout=30)
        if isinstance(last, BaseException):
            raise last
        assert last is None, last
        self._thread.join(10)
        return self.said

    def _run(self) -> None:
        try:
            asyncio.run(self._call())
        except BaseException as error:  # noqa: BLE001 - the test raises it again
            self.pages.put(error)
        else:
            self.pages.put(None)

    async def _call(self) -> None:
        answers: asyncio.Queue[str] = asyncio.Queue()

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            line = (await reader.readline()).decode()
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\nconnection: close\r\n\r\n<h1>Back</h1>")
            await writer.drain()
            writer.close()
            if "/callback?" in line:
                await answers.put(line.split()[1].partition("?")[2])

        async def open_page(url: str) -> None:
            self.pages.put(url)

        async def read_answer() -> AuthorizationCodeResult:
            query = parse_qs(await answers.get())
            return AuthorizationCodeResult(code=query["code"][0], state=query["state"][0], iss=query["iss"][0])

        async def fill_form(context: Any, params: ElicitRequestParams) -> ElicitResult:
            self.forms.append(params.message)
            return ElicitResult(action="accept", content={"allow": True})

        listener = await asyncio.start_server(answer, "127.0.0.1", 0)
        callback = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}/callback"
        about = OAuthClientMetadata(redirect_uris=[callback], client_name="Desk", token_endpoint_auth_method="none")
        auth = OAuthClientProvider(f"{self.site}/mcp", about, Storage(), open_page, read_answer)
        async with (
            listener,
            httpx2.AsyncClient(auth=auth, timeout=30) as http,
            Client(
                streamable_http_client(f"{self.site}/mcp", http_client=http), elicitation_callback=fill_form
            ) as client,
        ):
            self.said["tools"] = sorted(tool.name for tool in (await client.list_tools()).tools)
            self.said["read"] = await client.call_tool("listOrders", {})
            self.said["write"] = await client.call_tool("order", {"dish": "soup"})
            self.said["read again"] = await client.call_tool("listOrders", {})


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Callable[..., tuple[str, subprocess.Popen[str]]]]:
    """Write the files of the page, with only the port changed, and serve them as the page says."""
    started: list[subprocess.Popen[str]] = []

    def start(replace: tuple[str, str] = ("", "")) -> tuple[str, subprocess.Popen[str]]:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = str(free.getsockname()[1])
        for block in read_blocks(PAGE.read_text("utf-8")):
            if block.name in ("accounts.py", "app.py"):
                text = block.text.replace("9627", port)
                if block.name == "app.py" and replace[0]:
                    assert replace[0] in text
                    text = text.replace(*replace)
                (tmp_path / block.name).write_text(text, "utf-8")
        command = [sys.executable, "-m", "uvicorn", "app:app", "--port", port]
        server = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
        started.append(server)
        return f"http://127.0.0.1:{port}", server

    yield start
    for server in started:
        server.terminate()
        server.communicate(timeout=20)


def wait_until_ready(server: subprocess.Popen[str]) -> None:
    assert server.stderr is not None
    reply = ""
    for line in server.stderr:
        reply += line
        if "CTRL+C" in line:
            return
    raise AssertionError(reply)


@pytest.mark.requirement("AO-01")
def test_mcp_host_reads_is_refused_gets_more_scopes_and_writes_as_the_user(
    page: Any, shop: Callable[..., tuple[str, subprocess.Popen[str]]]
) -> None:
    site, server = shop()
    wait_until_ready(server)
    host = McpHost(site)
    page.goto(host.open_page())  # the application's own sign-in page
    for password in ("wrong", "correct horse"):
        page.get_by_label("Name").fill("Ada")
        page.get_by_label("Password").fill(password)
        page.get_by_role("button", name="Sign in").click()
    page.get_by_role("heading", name="May “Desk” use Shop for you?").wait_for()
    ticked = {box.get_attribute("value"): box.is_checked() for box in page.get_by_role("checkbox").all()}
    assert ticked == {"orders:read": True, "orders:write": False}
    page.get_by_role("button", name="Allow", exact=True).click()
    page.get_by_role("heading", name="Back").wait_for()
    page.goto(host.open_page())  # the call was refused, and the host asks for more
    boxes = {box.get_attribute("value") for box in page.get_by_role("checkbox").all()}
    assert boxes == {"orders:read", "orders:write"}
    page.get_by_label("Order dishes for you").check()
    page.get_by_role("button", name="Allow", exact=True).click()
    page.get_by_role("heading", name="Back").wait_for()
    reply = host.end()
    assert reply["tools"] == ["listOrders", "order"]
    assert (reply["read"].is_error, reply["read"].content[0].text) == (False, "[]")
    assert "soup for Ada" in str(reply["write"].content)
    assert "soup" in str(reply["read again"].content)
    assert len(host.forms) == 1  # a form before the call that changes something
    page.goto(f"{site}/oauth/connected")
    assert "Order dishes for you" in page.get_by_role("region", name="Desk").first.inner_text()
    page.goto(f"{site}/orders")  # the user's own pages see the same, with their session
    assert "soup" in page.inner_text("body")


@pytest.mark.requirement("AO-01")
def test_application_without_sessions_says_so_at_startup(
    shop: Callable[..., tuple[str, subprocess.Popen[str]]],
) -> None:
    _, server = shop(("app.add_middleware(SessionMiddleware", "dict(middleware=SessionMiddleware"))
    _, reply = server.communicate(timeout=60)
    assert server.returncode != 0
    assert "(KeyError: 'session'). Add SessionMiddleware to the application." in reply, reply


@pytest.mark.requirement("AO-01")
def test_page_has_at_most_forty_lines_that_belong_to_toolwire_and_is_short() -> None:
    text = PAGE.read_text("utf-8")
    (app,) = [block.text for block in read_blocks(text) if block.name == "app.py"]
    assert len([line for line in app.splitlines() if line.strip()]) <= OWN_LINES
    prose = "".join(part for index, part in enumerate(text.split("```")) if index % 2 == 0)
    assert len(prose.split()) <= WORDS
