"""A URL or file that describes an API, but no tools as it is: what toolwire says, and the next step."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.console_reader import Reader
from toolwire import ConnectError, Kind, Selection, connect_sync
from toolwire.client.calls.session import open_stored_session
from toolwire.console import Console, ConsoleSource, OneTimeKey
from toolwire.console.chat import Conversation, ModelChoice, ModelStore, build_chat_group
from toolwire.stores.credentials.files import CredentialStore
from toolwire.testing.loopback import background

OPERATION = {"operationId": "list_items", "tags": ["items"], "responses": {"200": {"description": "ok"}}}
PLAIN: dict[str, Any] = {
    "openapi": "3.1.0",
    "info": {"title": "Shop", "version": "1"},
    "paths": {"/items": {"get": OPERATION, "post": OPERATION | {"operationId": "add_item"}}},
}
LATER = PLAIN | {"x-llm": {"version": "2.3", "defaultApproval": "auto"}}
ROOTLESS = PLAIN | {"paths": {"/items": {"get": OPERATION | {"x-llm": {"enabled": True}}}}}
UNMARKED = "/openapi.json is an API with 2 operations, none marked for models (x-llm): --include all"


def serve_json(documents: dict[str, Any], status: int = 404) -> Any:
    """Return an application that answers each path of ``documents`` with its data, and ``status`` elsewhere."""

    async def application(scope: Any, _receive: Any, send: Any) -> None:
        found = documents.get(scope["path"])
        head = [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": status if found is None else 200, "headers": head})
        await send({"type": "http.response.body", "body": b"" if found is None else json.dumps(found).encode()})

    return application


@pytest.fixture
def plain() -> Iterator[str]:
    with background(serve_json({"/openapi.json": PLAIN, "/items": ["a"]})) as url:
        yield url


@pytest.mark.requirement("FU-51")
@pytest.mark.parametrize("path", ["", "/", "/docs", "/openapi.json"])
@pytest.mark.parametrize("command", [("tools",), ("show", "list_items"), ("call", "list_items"), ("explain",)])
def test_an_api_without_marks_is_named_with_the_next_step(
    plain: str, path: str, command: tuple[str, ...], toolwire: Callable[..., Any]
) -> None:
    ended = toolwire(command[0], plain + path, *command[1:])
    assert ended.code == 4
    assert f"{plain}{UNMARKED}" in ended.err
    assert "--tag NAME for those of one tag (items)." in ended.err


@pytest.mark.requirement("FU-51")
def test_the_next_step_works(plain: str, toolwire: Callable[..., Any]) -> None:
    assert "list_items" in toolwire("tools", plain, "--include", "all", "--tag", "items").out
    with pytest.raises(ConnectError, match=r"Selection\(include=\"all\"\)") as failed, connect_sync(plain):
        pass
    assert failed.value.kind is Kind.NOT_FOUND
    with connect_sync(plain, selection=Selection(include="all"), approve=lambda _: True) as remote:
        assert remote.call("list_items").value == ["a"]


@pytest.mark.requirement("FU-51", "SE-08")
def test_a_later_version_of_x_llm_is_named_with_its_option(toolwire: Callable[..., Any]) -> None:
    with background(serve_json({"/openapi.json": LATER})) as url:
        ended = toolwire("tools", url)
        assert (ended.code, "the later major version 2.3, which is not read: --any-version" in ended.err) == (4, True)
        assert "list_items" not in toolwire("tools", url, "--include", "declared", "--any-version").err


@pytest.mark.requirement("FU-51")
def test_marked_operations_without_a_root_are_used_from_the_url_of_the_document(toolwire: Callable[..., Any]) -> None:
    with background(serve_json({"/openapi.json": ROOTLESS})) as url:
        ended = toolwire("tools", url)
        assert "connect to the URL of this document itself" in ended.err
        assert "list_items" in toolwire("tools", f"{url}/openapi.json").out


@pytest.mark.requirement("FU-51", "SE-08")
def test_a_document_on_another_server_is_named_in_full(toolwire: Callable[..., Any], plain: str) -> None:
    named = f"{plain}/openapi.json"
    with background(serve_json({"/.well-known/llm.json": {"openapi": named, "auth": "oauth2"}})) as url:
        ended = toolwire("tools", url)
        assert ended.code == 4
        assert f"links to a document on another server, {named}, which you have not trusted" in ended.err


@pytest.mark.requirement("FU-51")
@pytest.mark.parametrize("status", [401, 403])
def test_a_server_that_wants_a_key_names_both_commands(status: int, toolwire: Callable[..., Any]) -> None:
    with background(serve_json({}, status)) as url:
        ended = toolwire("tools", url)
        assert "--key-env NAME" in ended.err
        assert f"`toolwire login {url}`" in ended.err


@pytest.mark.requirement("FU-51")
def test_a_pasted_url_that_wants_a_key_is_not_explained_by_another_document(toolwire: Callable[..., Any]) -> None:
    with background(serve_json({"/openapi.json": PLAIN}, 401)) as url:
        assert "requires a key" in toolwire("tools", f"{url}/mcp").err


@pytest.mark.requirement("FU-51")
def test_the_file_of_a_host_as_a_target_lists_its_servers(
    write: Callable[..., Path], toolwire: Callable[..., Any]
) -> None:
    entries = {"notes": {"command": "notes"}, "web": {"url": "https://a.example/mcp"}}
    for section in ("mcpServers", "servers", "context_servers"):
        file = write("mcp.json", json.dumps({section: entries}))
        ended = toolwire("tools", str(file))
        assert ended.code == 4
        assert "mcp.json lists MCP servers" in ended.err
        assert "use mcp.json:NAME with one of notes, web." in ended.err


@pytest.mark.requirement("FU-51")
@pytest.mark.parametrize("name", ["petstore", "petstore.oas", "petstore.json.bak"])
@pytest.mark.parametrize("text", [json.dumps(PLAIN), "openapi: 3.1.0\ninfo: {title: T, version: '1'}\npaths: {}\n"])
def test_a_document_without_its_ending_is_read(
    name: str, text: str, write: Callable[..., Path], toolwire: Callable[..., Any]
) -> None:
    file = write(name, text)
    server = ("--server", "http://127.0.0.1:9", "--include", "all")
    assert toolwire("tools", str(file), *server).code == 0
    with connect_sync(str(file), selection=Selection(include="all", server="http://127.0.0.1:9")) as remote:
        assert len(remote.tools) == (2 if text.startswith("{") else 0)


@pytest.mark.requirement("FU-51")
def test_a_file_that_is_no_document_is_refused_as_before(
    write: Callable[..., Path], toolwire: Callable[..., Any]
) -> None:
    assert (
        "is neither a Python file nor a document" in toolwire("tools", str(write("notes.txt", "openapi is nice"))).err
    )


@pytest.mark.requirement("FU-51")
@pytest.mark.parametrize(
    ("document", "label"),
    [(PLAIN, "Use every operation, and ask me about each call"), (LATER, "Use it anyway, and ask me about each call")],
)
def test_the_chat_offers_the_next_step_as_a_button(document: Any, label: str, tmp_path: Path) -> None:
    folder = tmp_path / "decisions"
    folder.mkdir(mode=0o700)
    credentials = CredentialStore(tmp_path / "credentials")
    source, choice = ConsoleSource(place=folder), ModelChoice(ModelStore(folder, credentials))
    conversation = Conversation(choice.make_model, session=open_stored_session(folder), credentials=credentials)
    key = OneTimeKey("you")
    console = Console(source, key, groups=[build_chat_group(conversation, source, choice)])
    with background(serve_json({"/openapi.json": document})) as site, background(console) as url:
        reader = Reader(url, key.key)
        reader.submit("/chat/sites", url=site)
        while label not in (page := reader.get("/chat")):
            assert "badge" in page
        (failed,) = conversation.list_sites()
        reader.submit("/chat/sites", remedy=failed.id)
        while not (sites := conversation.list_sites()) or sites[0].state == "connecting":
            reader.get("/chat")
        assert (sites[0].state, label in reader.get("/chat")) == ("connected", False)
        console.drain()


@pytest.mark.requirement("FU-59")
def test_a_yaml_document_without_its_extra_names_the_extra(
    toolwire: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def application(scope: Any, _receive: Any, send: Any) -> None:
        is_there = scope["path"] == "/openapi.yaml"
        head = [(b"content-type", b"application/yaml")]
        await send({"type": "http.response.start", "status": 200 if is_there else 404, "headers": head})
        await send({"type": "http.response.body", "body": b"openapi: 3.1.0\n" if is_there else b""})

    monkeypatch.setitem(sys.modules, "yaml", None)
    with background(application) as url:
        ended = toolwire("tools", f"{url}/openapi.yaml")
    assert ended.code == 4
    assert "pip install 'toolwire[yaml]'" in ended.err
    assert ". Name one with --protocol to see why" not in ended.err
