"""A document is stored between commands: its server confirms it, or with --offline nothing is sent at all."""

import json
import os
import ssl
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.certificates import write_certificate
from toolwire import Toolkit, connect_sync
from toolwire.client import open_document_cache
from toolwire.client.discovery.stored_documents import open_stored_documents
from toolwire.client.transport.tls import digest_trust
from toolwire.core.http import Request, Response
from toolwire.core.model import Kind, Problem
from toolwire.server import asgi
from toolwire.testing.loopback import background

Run = Callable[..., Any]
ETAG = '"one"'


def write_document(*names: str) -> bytes:
    paths = {
        f"/{name}": {"get": {"operationId": name, "x-llm": {"approval": "auto"}, "responses": {"200": {}}}}
        for name in names
    }
    info = {"title": "Fruit", "version": "1"}
    return json.dumps({"openapi": "3.1.0", "info": info, "x-llm": {"name": "Fruit"}, "paths": paths}).encode()


class Site:
    """A server with one OpenAPI document, which counts what it is asked and what it sends of the document."""

    def __init__(self) -> None:
        self.body = write_document("apple")
        self.fields = {"ETag": ETAG}
        self.key = ""
        self.status = 200
        self.asked: list[str] = []
        self.sent: list[int] = []
        self.validators: list[str | None] = []
        self.url = ""

    @contextmanager
    def serve(self, context: ssl.SSLContext | None = None) -> Iterator["Site"]:
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                site.asked.append(self.path)
                if self.path.partition("?")[0] != "/openapi.json":
                    self.send_response(404)
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                    return
                given = self.headers["if-none-match"]
                status = 304 if given and given == site.fields.get("ETag") else site.status
                if site.key and self.headers["authorization"] != f"Bearer {site.key}":
                    status = 401
                site.sent.append(status)
                site.validators.append(given)
                self.send_response(status)
                body = b"" if status == 304 else site.body
                fields = {"Content-Type": "application/json", "Content-Length": str(len(body)), **site.fields}
                for name, value in fields.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_request(self, *args: object) -> None:
                """Print nothing."""

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        if context is not None:
            server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        self.url = f"http{'s' if context else ''}://127.0.0.1:{server.server_port}"
        try:
            yield self
        finally:
            server.shutdown()
            server.server_close()
            thread.join()


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the stored documents, which is not there yet."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "toolwire" / "documents"


@pytest.fixture
def site() -> Iterator[Site]:
    with Site().serve() as served:
        yield served


@pytest.fixture
def secure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """The site over https, with a certificate that the whole machine trusts."""
    cert, key = write_certificate(tmp_path, "localhost", "127.0.0.1")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    monkeypatch.setenv("SSL_CERT_FILE", str(cert))
    with Site().serve(context) as served:
        yield served


@pytest.mark.requirement("SE-07")
def test_second_command_asks_whether_the_document_changed_and_downloads_nothing(secure: Site, toolwire: Run) -> None:
    first = toolwire("tools", secure.url)
    assert "apple" in first.out
    assert secure.sent == [200]
    for command in (("tools", secure.url), ("show", secure.url, "apple"), ("size", secure.url)):
        assert "apple" in toolwire(*command).out
    assert (secure.sent, secure.validators[1:]) == ([200, 304, 304, 304], [ETAG] * 3)
    # A change of a moment ago is seen, whatever was promised.
    secure.body, secure.fields = write_document("apple", "pear"), {"ETag": '"two"', "Cache-Control": "max-age=86400"}
    assert "pear" in toolwire("tools", secure.url).out
    assert "pear" in toolwire("tools", secure.url).out
    assert secure.sent[4:] == [200, 304]


@pytest.mark.requirement("SE-07")
@pytest.mark.parametrize(
    "command", [("tools",), ("show", "apple"), ("size",), ("convert", "--to", "mcp"), ("install", "cursor", "--print")]
)
def test_offline_command_uses_what_is_stored_and_sends_nothing(
    command: tuple[str, ...], secure: Site, toolwire: Run
) -> None:
    name, *rest = command
    words = (name, "cursor", secure.url, "--print") if name == "install" else (name, secure.url, *rest)
    toolwire("tools", secure.url)
    before = len(secure.asked)
    offline = toolwire(*words, "--offline")
    assert offline.code == 0, offline.err
    assert "apple" in offline.out or name == "install"
    assert len(secure.asked) == before
    if name != "install":
        assert offline.err.startswith("toolwire: The tools are from a copy stored on 20")
        assert offline.out == toolwire(*words).out


@pytest.mark.requirement("SE-07")
@pytest.mark.parametrize("protocol", ["openapi", "opentool", "otc"])
def test_each_protocol_with_documents_can_be_listed_offline(protocol: str, toolwire: Run) -> None:
    kit = Toolkit("Fruit")
    kit.tool(approval="auto", safe=True)(peel)
    with background(asgi(kit)) as url:
        online = toolwire("tools", url, "--protocol", protocol, "--json")
    offline = toolwire("tools", url, "--protocol", protocol, "--json", "--offline")
    assert (online.code, offline.code, offline.out) == (0, 0, online.out)


def peel(fruit: str) -> str:
    """Peel a fruit."""
    return fruit


@pytest.mark.requirement("SE-07")
def test_offline_without_a_stored_document_is_one_sentence(site: Site, toolwire: Run) -> None:
    outcome = toolwire("tools", site.url, "--offline")
    assert (outcome.code, outcome.out) == (4, "")
    assert outcome.err == (
        f"toolwire: No tools of {site.url} are stored here. List them once without --offline (what needs "
        "a key and the lists of MCP servers are never stored).\n"
    )
    assert site.asked == []
    assert json.loads(toolwire("tools", site.url, "--offline", "--json").out)["kind"] == "unreachable"


@pytest.mark.requirement("SE-07")
def test_lists_of_mcp_servers_and_programs_are_not_stored(toolwire: Run) -> None:
    kit = Toolkit("Fruit")
    kit.tool(approval="auto", safe=True)(peel)
    with background(asgi(kit)) as url:
        assert "peel" in toolwire("tools", f"{url}/mcp", "--protocol", "mcp").out
        outcome = toolwire("tools", f"{url}/mcp", "--protocol", "mcp", "--offline")
        assert (outcome.code, "MCP servers are never stored" in outcome.err) == (4, True)
    program = toolwire("tools", "stdio:no-such-program-here", "--offline")
    assert program.code == 4
    assert program.err.endswith("a program lists its tools only while it runs, so none are stored.\n")


@pytest.mark.requirement("SE-07")
def test_code_and_files_are_listed_offline_as_ever(desk: Path, tmp_path: Path, toolwire: Run) -> None:
    assert "add" in toolwire("tools", desk, "--offline").out
    file = tmp_path / "fruit.json"
    file.write_bytes(write_document("apple").replace(b'"paths"', b'"servers": [{"url": "https://a.test"}], "paths"'))
    outcome = toolwire("tools", file, "--offline")
    assert (outcome.code, outcome.err, "apple" in outcome.out) == (0, "", True)


@pytest.mark.requirement("SE-07")
def test_commands_that_call_have_no_offline(site: Site, toolwire: Run) -> None:
    for command in (("call", site.url, "apple"), ("lock", site.url), ("diff", site.url)):
        outcome = toolwire(*command, "--offline")
        assert (outcome.code, "has no option --offline" in outcome.err) == (2, True)
    assert site.asked == []


@pytest.mark.requirement("SE-07")
def test_nothing_is_called_through_an_offline_connection(site: Site) -> None:
    with connect_sync(site.url, cache=open_document_cache()) as remote:
        assert [tool.name for tool in remote.tools] == ["apple"]
    before = list(site.asked)
    with connect_sync(site.url, cache=open_document_cache(offline=True), agree=bool) as remote:
        assert [tool.name for tool in remote.tools] == ["apple"]
        outcome = remote.call("apple", {})
        assert isinstance(outcome, Problem)
        assert (outcome.kind, outcome.message) == (Kind.UNREACHABLE, "Nothing is sent in offline mode.")
    assert site.asked == before


@pytest.mark.requirement("SE-07")
@pytest.mark.parametrize("cache_control", ["no-store", "private", "max-age=60, PRIVATE"])
def test_document_that_must_not_be_kept_is_not_stored(
    cache_control: str, secure: Site, toolwire: Run, folder: Path
) -> None:
    toolwire("tools", secure.url)
    assert len(list(folder.iterdir())) == 1
    secure.fields = {"ETag": '"two"', "Cache-Control": cache_control}
    assert "apple" in toolwire("tools", secure.url).out
    assert list(folder.iterdir()) == []
    assert toolwire("tools", secure.url, "--offline").code == 4
    # A 304 can say so too.
    secure.fields = {"ETag": ETAG}
    toolwire("tools", secure.url)
    secure.fields = {"ETag": ETAG, "Cache-Control": cache_control}
    assert "apple" in toolwire("tools", secure.url).out
    assert (secure.sent[-1], list(folder.iterdir())) == (304, [])


@pytest.mark.requirement("SE-07", "D-30")
def test_document_that_wants_a_key_is_not_stored_and_an_open_one_is(
    secure: Site, toolwire: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FRUIT", "hush")
    assert "apple" in toolwire("tools", secure.url, "--key-env", "FRUIT").out
    # The document is open, also for a user who has a key for the calls.
    assert "apple" in toolwire("tools", secure.url, "--offline").out
    assert "apple" in toolwire("tools", secure.url, "--key-env", "FRUIT", "--offline").out
    assert "apple" in toolwire("tools", secure.url, "--key-env", "FRUIT").out
    assert secure.sent == [200, 304]
    secure.key = "hush"
    assert "apple" in toolwire("tools", secure.url, "--key-env", "FRUIT").out
    assert secure.sent[2:] == [401, 304]
    assert list(folder.iterdir()) == []
    assert toolwire("tools", secure.url, "--key-env", "FRUIT", "--offline").code == 4


@pytest.mark.requirement("SE-07", "XL-089")
def test_document_fetched_with_header_fields_of_the_user_is_neither_stored_nor_replaced(
    secure: Site, toolwire: Run, folder: Path
) -> None:
    assert "apple" in toolwire("tools", secure.url, "--header", "x-tenant: a").out
    assert not folder.exists()
    toolwire("tools", secure.url)
    assert toolwire("tools", secure.url, "--header", "x-tenant: a", "--offline").code == 4
    toolwire("tools", secure.url, "--header", "x-tenant: a")
    assert secure.sent == [200, 200, 200]


@pytest.mark.requirement("SE-07", "D-26")
@pytest.mark.parametrize("query", ["?token=hush-hush-hush", "?sig=0123456789abcdef0123456789abcdef"])
def test_url_with_a_secret_is_neither_stored_nor_written(
    query: str, secure: Site, toolwire: Run, folder: Path, tmp_path: Path
) -> None:
    toolwire("tools", f"{secure.url}/openapi.json{query}")
    stored = [file.read_bytes() for file in folder.iterdir()] if folder.exists() else []
    assert all(b"hush" not in data and query.encode() not in data for data in stored)
    plain = [name for name in secure.asked if "?" not in name and name != "/openapi.json"]
    assert len(stored) <= 1 + len(plain)
    assert toolwire("tools", f"{secure.url}/openapi.json{query}", "--offline", "--protocol", "otc").code == 4


@pytest.mark.requirement("SE-07")
def test_server_of_plain_http_confirms_nothing(site: Site, toolwire: Run) -> None:
    """Another program may have had its address before, and have chosen this ETag."""
    toolwire("tools", site.url)
    site.body = write_document("pear")  # with the same ETag
    assert "pear" in toolwire("tools", site.url).out
    assert (site.sent, site.validators) == ([200, 200], [None, None])


@pytest.mark.requirement("SE-07")
def test_document_under_another_certificate_is_another_document(
    secure: Site, tmp_path: Path, toolwire: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    cert = os.environ["SSL_CERT_FILE"]
    monkeypatch.delenv("SSL_CERT_FILE")
    for _ in range(2):
        assert "apple" in toolwire("tools", secure.url, "--ca-file", cert).out
    assert toolwire("tools", secure.url, "--offline").code == 4
    monkeypatch.setenv("SSL_CERT_FILE", cert)
    other, _ = write_certificate(tmp_path, "other.test")
    assert "apple" in toolwire("tools", secure.url, "--ca-file", str(other)).out
    assert secure.sent == [200, 304, 200]


@pytest.mark.requirement("SE-07")
@pytest.mark.parametrize("status", [404, 410])
def test_document_that_is_gone_is_not_stored_any_more(status: int, secure: Site, toolwire: Run, folder: Path) -> None:
    toolwire("tools", secure.url)
    secure.status, secure.fields = status, {}
    assert toolwire("tools", secure.url).code == 4
    assert list(folder.iterdir()) == []


@pytest.mark.requirement("SE-07")
def test_server_that_fails_is_reported_and_its_document_stays_for_offline(secure: Site, toolwire: Run) -> None:
    toolwire("tools", secure.url)
    secure.status, secure.fields = 503, {}
    assert toolwire("tools", secure.url).code == 4
    assert "apple" in toolwire("tools", secure.url, "--offline").out


@pytest.mark.requirement("SE-07", "XL-012")
def test_limit_of_size_holds_for_a_stored_document(secure: Site, toolwire: Run) -> None:
    toolwire("tools", secure.url)
    outcome = toolwire("tools", secure.url, "--document-bytes", "100")
    assert (outcome.code, "too large" in outcome.err) == (4, True)
    toolwire("tools", secure.url)
    assert toolwire("tools", secure.url, "--document-bytes", "100", "--offline").code == 4


@pytest.mark.requirement("SE-07", "D-05")
def test_rules_of_addresses_hold_for_a_stored_document(site: Site, toolwire: Run) -> None:
    """What was stored with a permission is not used without it."""
    request = Request("GET", "http://10.1.2.3/openapi.json", ((b"accept", b"application/json"),))
    open_stored_documents().write(request, Response(200, (), write_document("apple")), digest_trust(None), 1.0)
    allowed = toolwire("tools", "http://10.1.2.3", "--offline", "--allow-http", "http://10.1.2.3")
    assert (allowed.code, "apple" in allowed.out) == (0, True), allowed.err
    refused = toolwire("tools", "http://10.1.2.3", "--offline")
    assert (refused.code, refused.out, "stored" in refused.err) == (4, "", False)


@pytest.mark.requirement("SE-07", "XL-011")
def test_redirect_to_another_site_is_not_stored(site: Site, toolwire: Run) -> None:
    with Site().serve() as first:
        first.status, first.fields = 302, {"Location": f"{site.url}/openapi.json"}
        assert toolwire("tools", first.url).code != 0
        assert toolwire("tools", first.url, "--offline").code == 4
    assert site.asked == []


@pytest.mark.requirement("SE-07", "D-04")
def test_change_of_a_stored_document_is_found_by_the_lock(secure: Site, toolwire: Run, tmp_path: Path) -> None:
    lock = tmp_path / "toolwire.lock"
    toolwire("tools", secure.url)
    assert toolwire("lock", secure.url, "--file", lock).code == 0
    assert secure.sent == [200, 304]
    secure.body, secure.fields = write_document("apple", "pear"), {"ETag": '"two"'}
    assert toolwire("tools", secure.url).code == 0
    changed = toolwire("tools", secure.url, "--locked", "--file", lock, "--offline")
    assert (changed.code, "pear" in changed.err and "added" in changed.err) == (1, True)


@pytest.mark.requirement("SE-07")
def test_folder_and_files_are_of_this_user_alone(secure: Site, toolwire: Run, folder: Path) -> None:
    before = os.umask(0)
    try:
        toolwire("tools", secure.url)
    finally:
        os.umask(before)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    [file] = folder.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert secure.url.encode() not in file.read_bytes()


@pytest.mark.requirement("SE-07", "RE-05")
@pytest.mark.parametrize("place", ["a file", "no home", "not writable"])
def test_commands_work_where_nothing_can_be_stored(
    place: str, secure: Site, toolwire: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if place == "no home":
        monkeypatch.delenv("XDG_CACHE_HOME")
        monkeypatch.setattr(Path, "home", refuse)
    elif place == "a file":
        (tmp_path / "cache").write_text("no folder")
    else:
        (tmp_path / "cache").symlink_to("/proc/self/fdinfo")
    assert "apple" in toolwire("tools", secure.url).out
    assert "apple" in toolwire("tools", secure.url).out
    assert secure.sent == [200, 200]
    outcome = toolwire("tools", secure.url, "--offline")
    assert (outcome.code, outcome.err.count("\n")) == (4, 1)


def refuse() -> Path:
    raise RuntimeError("Could not determine home directory.")


@pytest.mark.requirement("SE-07")
def test_deleting_the_folder_forgets_everything(secure: Site, toolwire: Run, folder: Path) -> None:
    toolwire("tools", secure.url)
    for file in folder.iterdir():
        file.unlink()
    folder.rmdir()
    assert toolwire("tools", secure.url, "--offline").code == 4
    assert "apple" in toolwire("tools", secure.url).out
    assert secure.sent == [200, 200]


@pytest.mark.requirement("SE-07")
def test_programs_in_python_can_keep_documents_too(secure: Site, tmp_path: Path) -> None:
    place = tmp_path / "documents"
    for _ in range(2):
        with connect_sync(secure.url, cache=open_document_cache(place), agree=bool) as remote:
            assert [tool.name for tool in remote.tools] == ["apple"]
    assert secure.sent == [200, 304]
    with connect_sync(secure.url, cache=open_document_cache(place, offline=True)) as remote:
        assert remote.source is not None
        assert remote.source.stale
