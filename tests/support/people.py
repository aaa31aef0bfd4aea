"""People with browsers of their own, who sign in where a program of another maker leads them."""

from __future__ import annotations

import asyncio
import html
import re
import ssl
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

import httpx2
from mcp.client.auth import OAuthClientProvider
from mcp.client.session import ClientSession
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientMetadata

from tests.support.token_storage import Storage

PASSWORD = "correct horse"
CALLBACK = "http://127.0.0.1:9/callback"


class Person(NamedTuple):
    """A person with a browser of their own, and what their program keeps."""

    name: str
    browser: httpx2.Client
    storage: Storage


def walk(person: Person, url: str, end: str, seen: list[str] | None = None, name: str = "") -> httpx2.Response:
    """Do what a person does from ``url`` on, until an address begins with ``end``; ``seen`` gets each page."""
    answer = person.browser.get(url)
    for _ in range(30):
        location = answer.headers.get("location", "")
        if str(answer.url).startswith(end) or location.startswith(end):
            return answer
        if location:
            answer = person.browser.get(str(answer.url.join(location)))
            continue
        text = answer.text
        if seen is not None:
            seen.append(text)
        if onward := re.findall(r'class="button primary" href="([^"]*)"', text):
            answer = person.browser.get(str(answer.url.join(html.unescape(onward[0]))))
            continue
        form: dict[str, Any] = dict(read_fields(text))
        if 'name="password"' in text:
            form |= {"name": name or person.name, "login": person.name, "password": PASSWORD}
        else:
            form |= {"scope": re.findall(r'name="scope" value="([^"]*)"', text), "decision": "allow"}
        action = re.findall(r'action="([^"]*)"', text)[0]
        answer = person.browser.post(str(answer.url.join(action)), data=form)
    raise AssertionError(answer.text)


async def use(
    url: str, person: Person, tool: str = "", seen: list[str] | None = None, verify: ssl.SSLContext | bool = True
) -> Any:
    """Sign in with the client of the MCP SDK, and return the text of a call, or the names of the tools."""
    back = ""

    async def redirect(page: str) -> None:
        nonlocal back
        answer = await asyncio.to_thread(walk, person, page, CALLBACK, seen)
        back = answer.headers["location"]

    async def callback() -> AuthorizationCodeResult:
        query = parse_qs(urlsplit(back).query)
        return AuthorizationCodeResult(code=query["code"][0], state=query["state"][0], iss=query["iss"][0])

    metadata = OAuthClientMetadata(redirect_uris=[CALLBACK], client_name="Host", token_endpoint_auth_method="none")
    provider = OAuthClientProvider(f"{url}/mcp", metadata, person.storage, redirect, callback)
    async with (
        httpx2.AsyncClient(auth=provider, timeout=30, verify=verify) as http,
        streamable_http_client(f"{url}/mcp", http_client=http) as streams,
        ClientSession(streams[0], streams[1]) as session,
    ):
        await session.initialize()
        if not tool:
            return sorted(one.name for one in (await session.list_tools()).tools)
        result = await session.call_tool(tool, {})
        content: Any = result.content[0]
        return content.text


def read_fields(page: str) -> dict[str, str]:
    """Return the hidden fields of the forms on a page."""
    found = re.findall(r'type="hidden" name="([^"]*)" value="([^"]*)"', page)
    return {name: html.unescape(value) for name, value in found}
