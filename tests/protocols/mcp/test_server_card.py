"""The AI catalog and the server card: served by every server, read by every client, and never trusted."""

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import jsonschema_rs
import pytest
from fastapi import FastAPI

from tests.support.wire import HERE, AppTransport
from toolwire import Toolkit, asgi, connect_sync
from toolwire.core.errors import ToolwireError
from toolwire.core.http import Request, Response
from toolwire.core.model import Json
from toolwire.integrations.asgi import publish_tools as publish_tools_of
from toolwire.integrations.fastapi import publish_tools
from toolwire.testing.loopback import background

pytestmark = pytest.mark.requirement("FD-09")

CARD_TYPE = "application/mcp-server-card+json"
CARD_SCHEMA = {
    "type": "object",
    "required": ["$schema", "name", "version", "description"],
    "properties": {
        "$schema": {"const": "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json"},
        "name": {"pattern": "^[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+$", "minLength": 3, "maxLength": 200},
        "version": {"type": "string", "maxLength": 255},
        "title": {"type": "string", "minLength": 1, "maxLength": 100},
        "description": {"type": "string", "minLength": 1, "maxLength": 100},
        "remotes": {
            "items": {
                "required": ["type", "url"],
                "properties": {"type": {"enum": ["streamable-http", "sse"]}, "url": {"pattern": "^https?://"}},
            }
        },
    },
}
"""What the schema of the extension asks of a card, in our words."""


def make_kit(title: str = "My Shop", description: str = "Sells tea.") -> Toolkit:
    kit = Toolkit(title, version="1.2.0", description=description)

    @kit.tool(approval="auto", safe=True)
    def stock(item: str) -> int:
        """Say how many there are."""
        return len(item)

    return kit


def get(app: Any, path: str) -> tuple[Response, dict[str, Any]]:
    response = asyncio.run(AppTransport(app).send(Request("GET", HERE + path)))
    assert isinstance(response, Response)
    return response, json.loads(response.body)


@pytest.mark.parametrize("title", ["My Shop", "Über/Shop", "日本", "x" * 150])
@pytest.mark.parametrize("public_url", ["", "https://tools.example.com", "http://127.0.0.1:8000", "http://[::1]:8000"])
def test_card_and_catalog_are_valid_whatever_the_server_is_called(title: str, public_url: str) -> None:
    app = asgi(make_kit(title, "A text. " * 40), public_url=public_url)
    response, card = get(app, "/mcp/server-card")
    fields = dict(response.headers)
    assert (response.status, fields[b"content-type"]) == (200, CARD_TYPE.encode())
    assert fields[b"access-control-allow-origin"] == b"*"
    assert jsonschema_rs.validator_for(CARD_SCHEMA).is_valid(card), card
    assert ("remotes" in card) is bool(public_url)
    response, catalog = get(app, "/.well-known/ai-catalog.json")
    assert (response.status, catalog["specVersion"]) == (200, "1.0")
    (entry,) = catalog["entries"]
    assert (entry["type"], entry["mediaType"]) == (CARD_TYPE, CARD_TYPE)
    assert entry["url"] == f"{public_url}/mcp/server-card"
    assert entry["identifier"].startswith("urn:air:")


def test_card_says_nothing_of_tools_and_is_there_without_a_key() -> None:
    app = asgi(make_kit(), api_keys=["a-key-that-is-long-enough"], private=True)
    response, card = get(app, "/mcp/server-card")
    assert (response.status, card["name"], card["version"]) == (200, "localhost/my-shop", "1.2.0")
    assert "stock" not in response.body.decode()


@pytest.mark.parametrize("path", ["/.well-known/mcp.json", "/.well-known/agents.json", "/.well-known/ai-plugin.json"])
def test_names_that_nobody_reads_any_more_are_not_served(path: str) -> None:
    response, _ = get(asgi(make_kit()), path)
    assert response.status == 404


def test_card_and_catalog_of_a_web_application_are_served_unless_it_has_them() -> None:
    app = FastAPI(title="Tea shop", version="3.1.4")

    @app.get("/.well-known/ai-catalog.json")
    def catalog() -> dict[str, str]:
        return {"own": "yes"}

    publish_tools(app)
    _, card = get(app, "/mcp/server-card")
    assert (card["name"], card["version"]) == ("localhost/tea-shop", "3.1.4")
    assert get(app, "/.well-known/ai-catalog.json")[1] == {"own": "yes"}
    document = {"openapi": "3.1.0", "info": {"title": "Tea shop", "version": "3.1.4"}, "paths": {}}
    front = publish_tools_of(app, document)
    assert get(front, "/.well-known/ai-catalog.json")[1]["entries"][0]["url"] == "/mcp/server-card"
    assert get(front, "/mcp/server-card")[1]["title"] == "Tea shop"


class Site:
    """A site that is no server of tools at its root, with an MCP server at a path that no client guesses."""

    def __init__(self, catalog: Callable[[str], Json], card: Callable[[str], Json]) -> None:
        self._catalog, self._card = catalog, card
        self._inner = asgi(make_kit())
        self.asked: list[str] = []
        self.url = ""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self._inner(scope, receive, send)
            return
        path = scope["path"]
        self.asked.append(path)
        if path.startswith("/services/v1/tools"):
            await self._inner({**scope, "path": "/mcp", "raw_path": b"/mcp"}, receive, send)
            return
        documents = {"/.well-known/ai-catalog.json": self._catalog, "/card.json": self._card}
        body = json.dumps(documents[path](self.url)).encode() if path in documents else b"{}"
        status = 200 if path in documents else 404
        headers = [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})


def list_card(url: str, **more: Json) -> Json:
    return {"specVersion": "1.0", "entries": [{"type": CARD_TYPE, "url": url, **more}]}


def write_card(*urls: str) -> Json:
    return {"name": "a/b", "remotes": [{"type": "streamable-http", "url": url} for url in urls]}


@pytest.fixture
def serve() -> Iterator[Callable[..., Site]]:
    with ExitStack() as stack:

        def start(catalog: Callable[[str], Json], card: Callable[[str], Json]) -> Site:
            site = Site(catalog, card)
            site.url = stack.enter_context(background(site))
            return site

        yield start


@pytest.mark.parametrize(
    "catalog",
    [
        lambda url: list_card(f"{url}/card.json"),
        lambda _: list_card("/card.json"),
        lambda _: {"entries": [1, {}, {"mediaType": CARD_TYPE, "url": "/card.json"}]},
        lambda _: {"entries": [{"type": "application/mcp-server+json", "url": "../card.json"}]},
    ],
)
def test_server_that_only_a_catalog_names_is_found(serve: Callable[..., Site], catalog: Callable[[str], Json]) -> None:
    site = serve(catalog, lambda url: write_card(f"{url}/services/v1/tools"))
    with connect_sync(site.url, agree=lambda _: True) as remote:
        assert remote.protocol == "mcp"
        assert remote.call("stock", {"item": "tea"}).value == 3


def refuse(site: Site, **options: Any) -> str:
    with pytest.raises(ToolwireError) as raised, connect_sync(site.url, **options):
        pass
    return str(raised.value)


@pytest.mark.parametrize(
    ("catalog", "card"),
    [
        (lambda _: list_card("https://elsewhere.example/card.json"), lambda _: {}),
        (lambda _: list_card("/card.json"), lambda _: write_card("https://elsewhere.example/mcp")),
    ],
)
def test_server_at_another_origin_is_named_and_not_requested(
    serve: Callable[..., Site], catalog: Callable[[str], Json], card: Callable[[str], Json]
) -> None:
    asked: list[Any] = []
    assert "elsewhere.example" in refuse(serve(catalog, card))

    def approve(*about: Any) -> bool:
        asked.append(about)
        return False

    assert "elsewhere.example" in refuse(serve(catalog, card), approve_relocation=approve)
    assert len(asked) == 1


@pytest.mark.parametrize(
    ("catalog", "card"),
    [
        (lambda _: [], lambda _: {}),
        (lambda _: {"entries": "none"}, lambda _: {}),
        (lambda _: list_card("javascript:alert(1)"), lambda _: {}),
        (lambda _: list_card("http://[:::"), lambda _: {}),
        (lambda _: list_card("file:///etc/passwd"), lambda _: {}),
        (lambda _: list_card("/card.json"), lambda _: write_card("http://{host}/mcp", "", "data:text/plain,x")),
        (lambda _: list_card("/card.json"), lambda _: {"remotes": [3, {"type": "stdio", "url": "/services/v1/tools"}]}),
        (
            lambda url: {"entries": [{"type": CARD_TYPE, "url": f"{url}/card.json?{n}"} for n in range(1000)]},
            lambda url: write_card(*[f"{url}/nothing/{n}" for n in range(1000)]),
        ),
    ],
)
def test_hostile_catalogs_and_cards_lead_nowhere(
    serve: Callable[..., Site], catalog: Callable[[str], Json], card: Callable[[str], Json]
) -> None:
    site = serve(catalog, card)
    assert refuse(site)
    assert len(site.asked) < 150


def test_catalog_is_not_asked_for_where_a_server_is_found(serve: Callable[..., Site]) -> None:
    site = serve(lambda _: {}, lambda _: {})
    with connect_sync(f"{site.url}/services/v1/tools", protocol="mcp", agree=lambda _: True) as remote:
        assert remote.call("stock", {"item": "tea"}).value == 3
    assert "/.well-known/ai-catalog.json" not in site.asked
