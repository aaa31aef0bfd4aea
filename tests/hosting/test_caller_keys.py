"""Callers of a gateway give their own key of an API that only a vendor's document describes, once, on its page."""

from __future__ import annotations

import json
import logging
import secrets
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx2
import pytest

from toolwire import Problem, ToolwireError, Value, connect_sync
from toolwire.core.model import Result
from toolwire.core.url_origin import get_host
from toolwire.hosting import open_gateway
from toolwire.protocols import BUILTIN
from toolwire.testing import background

pytestmark = pytest.mark.requirement("PL-01")

ANN = "key-of-ann"


class Vendor:
    """An API that knows its users by a header field, and publishes nothing but what ``documents`` has."""

    def __init__(self) -> None:
        self.documents: dict[str, Any] = {}
        self.seen: list[tuple[str, str | None]] = []
        self.secrets: set[str] = set()
        vendor = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                key = self.headers["x-vendor-key"]
                vendor.seen.append((self.path, key))
                body = vendor.documents.get(self.path)
                status = 404 if body is None else 200
                keys = {value for name, value in self.headers.items() if name.startswith(("x-", "X-", "auth", "Auth"))}
                vendor.secrets |= keys
                if self.path == "/orders":
                    status, body = (200, ["one"]) if key == "key-at-vendor" else (401, {"error": "no key"})
                data = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def api() -> Iterator[Vendor]:
    made = Vendor()
    yield made
    made.close()


def describe(servers: list[str], *, keys: int = 1) -> dict[str, Any]:
    schemes = {
        f"key{number}": {"type": "apiKey", "in": "header", "name": ("X-Vendor-Key", "X-Other")[number]}
        for number in range(keys)
    }
    responses = {"200": {"description": "The orders", "content": {"application/json": {"schema": {"type": "array"}}}}}
    security = [{name: [] for name in schemes}]
    return {
        "openapi": "3.1.0",
        "info": {"title": "Vendor", "version": "1"},
        "servers": [{"url": url} for url in servers],
        "paths": {"/orders": {"get": {"operationId": "list_orders", "responses": responses, "security": security}}},
        "components": {"securitySchemes": schemes},
    }


def write_file(folder: Path, target: str, more: str = "") -> Path:
    (folder / "keys.txt").write_text(f"{ANN} ann\n")
    key = folder / "vault.key"
    key.touch(mode=0o600)
    key.write_text(secrets.token_hex(32))
    file = folder / "toolwire.toml"
    file.write_text(f"""
api-key-file = "keys.txt"
key-file = "vault.key"
state = "{folder / "state"}"
public-url = "https://tools.example"
[upstreams.vendor]
target = "{target}"
credentials = "caller"
{more}
""")
    return file


def give_key(url: str) -> str:
    """Give the key of the vendor on the page of the gateway, and return the page that asked for it."""
    page = httpx2.post(f"{url}/sign-in/vendor", data={"key": ANN}).text
    stored = httpx2.post(f"{url}/sign-in/vendor", data={"key": ANN, "step": "key", "site_key": "key-at-vendor"})
    assert "Your calls of <b>vendor</b> are made with your own credentials now" in stored.text
    return page


def call(url: str, protocol: str = "otc") -> Result:
    with connect_sync(url, api_key=ANN, protocol=protocol, approve=lambda _: True) as remote:
        return remote.call("list_orders")


@pytest.mark.parametrize("place", ["file", "file with server"])
def test_call_has_the_callers_key_where_the_document_wants_it(tmp_path: Path, api: Vendor, place: str) -> None:
    more = 'include = "all"\n' + ("" if place == "file" else f'server = "{api.url}"')
    document = describe([api.url] if place == "file" else ["https://old.example"])
    (tmp_path / "vendor.json").write_text(json.dumps(document))
    with background(open_gateway(write_file(tmp_path, "vendor.json", more))) as url:
        refused = call(url)
        page = give_key(url)
        found = call(url)
    assert isinstance(refused, Problem)
    assert "https://tools.example/sign-in/vendor" in str(refused)
    assert "go to <b>127.0.0.1" in page
    assert "in the header X-Vendor-Key" in page
    assert page.count('name="site_key"') == 1
    assert found == Value(["one"])
    assert [key for path, key in api.seen if path == "/orders"] == ["key-at-vendor"]


@pytest.fixture
def docs() -> Iterator[Vendor]:
    """A site of the vendor that has documents alone."""
    made = Vendor()
    yield made
    made.close()


@pytest.mark.parametrize("protocol", [codec.name for codec in BUILTIN])
@pytest.mark.parametrize("is_named", [False, True], ids=["servers", "server option"])
def test_document_elsewhere_is_no_reason_to_save_it(
    tmp_path: Path, api: Vendor, docs: Vendor, caplog: pytest.LogCaptureFixture, protocol: str, is_named: bool
) -> None:
    docs.documents["/vendor.json"] = describe(["https://old.example" if is_named else api.url])
    more = 'include = "all"\n' + (f'server = "{api.url}"' if is_named else "")
    with caplog.at_level(logging.WARNING, "toolwire"):
        served = open_gateway(write_file(tmp_path, f"{docs.url}/vendor.json", more))
    assert caplog.text == ""
    with background(served) as url:
        refused = call(url, protocol)
        page = give_key(url)
        found = call(url, protocol)
    assert isinstance(refused, Problem)
    assert f"go to <b>{get_host(api.url)}</b>" in page
    assert f'name="site" value="{api.url}"' in page
    assert found == Value(["one"])
    assert [key for path, key in api.seen if path == "/orders"] == ["key-at-vendor"]
    assert "key-at-vendor" not in docs.secrets, "the key is for the API, and not for who describes it"


def test_key_for_one_api_goes_to_no_other_that_the_document_names_later(
    tmp_path: Path, api: Vendor, docs: Vendor
) -> None:
    other = Vendor()
    docs.documents["/vendor.json"] = describe([api.url])
    file = write_file(tmp_path, f"{docs.url}/vendor.json", 'include = "all"')
    with background(open_gateway(file)) as url:
        give_key(url)
        assert call(url) == Value(["one"])
        docs.documents["/vendor.json"] = describe([other.url])
        assert call(url) == Value(["one"]), "what runs goes on where the caller agreed to"
    with background(open_gateway(file)) as url:
        refused = call(url)
        page = httpx2.post(f"{url}/sign-in/vendor", data={"key": ANN}).text
        late = {"key": ANN, "step": "key", "site_key": "key-at-vendor", "site": api.url}
        stored = httpx2.post(f"{url}/sign-in/vendor", data=late).text
        again = call(url)
    other.close()
    assert isinstance(refused, Problem)
    assert isinstance(again, Problem)
    assert "/sign-in/vendor" in str(refused)
    assert f"go to <b>{get_host(other.url)}</b>" in page
    assert "Give your key for it once" in stored, "a form for the host before keeps no key for this one"
    assert "key-at-vendor" not in other.secrets | docs.secrets


def test_key_of_one_upstream_is_not_for_the_document_of_another(tmp_path: Path, api: Vendor, docs: Vendor) -> None:
    docs.documents["/vendor.json"] = describe([api.url])
    (tmp_path / "own.json").write_text(json.dumps(describe([api.url])))
    more = (
        f'include = "all"\n[upstreams.odd]\ntarget = "{docs.url}/vendor.json"\ncredentials = "caller"\ninclude = "all"'
    )
    with background(open_gateway(write_file(tmp_path, "own.json", more))) as url:
        give_key(url)
        with connect_sync(url, api_key=ANN, protocol="otc", approve=lambda _: True) as remote:
            found = [remote.call(name) for name in sorted(remote.catalog().names)]
    assert [isinstance(one, Problem) for one in found] == [True, False]


def test_gateway_with_its_own_account_is_told_to_name_the_api(
    tmp_path: Path, api: Vendor, docs: Vendor, caplog: pytest.LogCaptureFixture
) -> None:
    docs.documents["/vendor.json"] = describe([api.url])
    file = write_file(tmp_path, f"{docs.url}/vendor.json", 'include = "all"')
    file.write_text(file.read_text().replace('credentials = "caller"', ""))
    with caplog.at_level(logging.WARNING, "toolwire"):
        served = open_gateway(file)
    assert f'Allow it with server = "{api.url}' in caplog.text
    with background(served) as url:
        assert isinstance(call(url), Problem)
    assert [path for path, _ in api.seen] == []


def test_one_caller_has_two_accounts_at_one_api(tmp_path: Path, api: Vendor) -> None:
    api.documents["/vendor.json"] = describe([api.url])
    table = f'include = "all"\naccount = "work"\n[upstreams.home]\ntarget = "{api.url}/vendor.json"\ninclude = "all"'
    file = write_file(tmp_path, f"{api.url}/vendor.json", f'{table}\ncredentials = "caller"\naccount = "home"')
    with background(open_gateway(file)) as url:
        give_key(url)
        with connect_sync(url, api_key=ANN, protocol="otc", approve=lambda _: True) as remote:
            found = {tool.id.partition(".")[0]: remote.call(tool.id) for tool in remote.tools}
    assert {name: isinstance(one, Value) for name, one in found.items()} == {
        "vendor_Vendor": True,
        "home_Vendor": False,
    }


@pytest.mark.parametrize(
    ("servers", "keys", "said"),
    [([], 2, "need several keys at once")],
)
def test_what_will_fail_is_said_before_anyone_calls(
    tmp_path: Path,
    api: Vendor,
    caplog: pytest.LogCaptureFixture,
    servers: list[str],
    keys: int,
    said: str,
) -> None:
    api.documents["/vendor.json"] = describe(servers or [api.url], keys=keys)
    with caplog.at_level(logging.WARNING, "toolwire"):
        open_gateway(write_file(tmp_path, f"{api.url}/vendor.json", 'include = "all"'))
    assert said in caplog.text


def test_code_as_an_upstream_takes_no_key_of_a_caller(tmp_path: Path) -> None:
    with pytest.raises(ToolwireError, match="or at the API of an OpenAPI document; the target is neither"):
        open_gateway(write_file(tmp_path, "tasks.py"))
