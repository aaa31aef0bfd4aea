"""Tables and lists of many tools are built in a thread, when they are needed: others are answered meanwhile."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import pytest

from toolwire import Approval, asgi
from toolwire.core.catalog import Catalog
from toolwire.core.model import Call, Json, Result, Tool, Value
from toolwire.core.toolbox import Notify, ignore_progress
from toolwire.testing.loopback import background


class SlowSchema(Mapping[str, Json]):
    """A schema that takes until ``go_on`` to be described, as that of a hostile site behind a gateway may."""

    def __init__(self) -> None:
        self.is_asked = threading.Event()
        self.go_on = threading.Event()
        self.waits: list[bool] = []
        self._data: dict[str, Json] = {"type": "object", "properties": {"text": {"type": "string"}}}

    def __getitem__(self, name: str) -> Json:
        self._wait()
        return self._data[name]

    def __iter__(self) -> Iterator[str]:
        self._wait()
        return iter(self._data)

    def __len__(self) -> int:
        return len(self._data)

    def _wait(self) -> None:
        self.is_asked.set()
        if not self.waits:
            self.waits.append(self.go_on.wait(20))


PLAIN: Mapping[str, Json] = {"type": "object"}


class ChangingToolbox:
    """A Toolbox whose catalog changes while it is served, as that of a gateway does."""

    def __init__(self, schema: Mapping[str, Json] = PLAIN) -> None:
        self.now = build_catalog("before", schema)

    def catalog(self) -> Catalog:
        return self.now

    async def run(self, call: Call, notify: Notify = ignore_progress) -> Result:
        return Value(call.tool.name)


def build_catalog(name: str, schema: Mapping[str, Json], *, safe: bool = True) -> Catalog:
    tool = Tool(name=name, toolkit="Kit", approval=Approval.AUTO, safe=safe, input_schema=schema)
    return Catalog(title="Kit", tools=(tool,))


def get(url: str, path: str) -> tuple[int, bytes]:
    return send(url, "GET", path)


def send(url: str, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=30)
    try:
        connection.request(method, path, body, {"content-type": "application/json"} if body else {})
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


@pytest.mark.requirement("D-34")
def test_a_health_probe_does_not_wait_for_the_tables_of_a_changed_catalog() -> None:
    toolbox, schema = ChangingToolbox(), SlowSchema()
    with background(asgi(toolbox)) as url, ThreadPoolExecutor(3) as pool:
        assert b"before" in get(url, "/tools")[1]
        toolbox.now = build_catalog("after", schema)
        listings = [pool.submit(get, url, path) for path in ("/tools", "/openapi.json", "/tools")]
        assert schema.is_asked.wait(20)
        assert [get(url, "/health")[0] for _ in range(3)] == [200, 200, 200]
        assert not any(one.done() for one in listings)
        schema.go_on.set()
        assert [(status, b"after" in body) for status, body in (one.result(30) for one in listings)] == [
            (200, True)
        ] * 3
    assert schema.waits == [True]


@pytest.mark.requirement("D-34")
def test_all_requests_that_wait_share_one_build_even_if_the_first_client_leaves() -> None:
    toolbox, schema = ChangingToolbox(), SlowSchema()
    with background(asgi(toolbox)) as url, ThreadPoolExecutor(1) as pool:
        assert get(url, "/tools")[0] == 200
        toolbox.now = build_catalog("after", schema)
        first = http.client.HTTPConnection(urlsplit(url).netloc, timeout=30)
        first.request("GET", "/tools")
        assert schema.is_asked.wait(20)
        first.close()
        second = pool.submit(get, url, "/tools")
        assert get(url, "/health")[0] == 200
        schema.go_on.set()
        assert "after" in json.dumps(json.loads(second.result(30)[1]))
    assert schema.waits == [True]


MCP_LIST = b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}'


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/tools", b""),
        ("GET", "/uts/tools", b""),
        ("GET", "/ots/tools", b""),
        ("GET", "/openapi.json", b""),
        ("GET", "/openapi.json?openapi=3.0", b""),
        ("GET", "/opentool/load", b""),
        ("POST", "/mcp", MCP_LIST),
    ],
)
@pytest.mark.requirement("D-34")
def test_a_list_is_first_written_when_a_client_asks_for_it_and_others_do_not_wait(
    method: str, path: str, body: bytes
) -> None:
    schema = SlowSchema()
    toolbox = ChangingToolbox()
    toolbox.now = build_catalog("before", schema, safe=False)  # the path of one that only reads depends on its schema

    def ask() -> tuple[int, bytes]:
        return send(url, method, path, body)

    with background(asgi(toolbox)) as url, ThreadPoolExecutor(2) as pool:
        assert not schema.is_asked.is_set()
        listings = [pool.submit(ask), pool.submit(ask)]
        assert schema.is_asked.wait(20)
        assert send(url, "GET", "/health")[0] == 200
        assert send(url, "POST", "/call", b'{"request":{"tool_id":"Kit.nothing","input":{}}}')[0] == 400
        assert not any(one.done() for one in listings)
        schema.go_on.set()
        first, second = (one.result(30) for one in listings)
        assert first[0] == 200
        assert b"before" in first[1]
        assert first == second == ask()
    assert schema.waits == [True]


def test_a_list_that_cannot_be_written_is_a_failure_of_this_list_alone(caplog: pytest.LogCaptureFixture) -> None:
    toolbox = ChangingToolbox()
    toolbox.now = build_catalog("before", {"type": "object", "properties": {"a": {"const": object()}}}, safe=False)
    with background(asgi(toolbox)) as url:
        assert send(url, "GET", "/openapi.json")[0] == 500
        assert send(url, "GET", "/health")[0] == 200
    assert "a list of the tools cannot be written" in caplog.text
