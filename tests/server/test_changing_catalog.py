"""The tables of a changed catalog are built in a thread: health probes are answered meanwhile."""

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


class ChangingToolbox:
    """A Toolbox whose catalog changes while it is served, as that of a gateway does."""

    def __init__(self) -> None:
        self.now = build_catalog("before", {"type": "object"})

    def catalog(self) -> Catalog:
        return self.now

    async def run(self, call: Call, notify: Notify = ignore_progress) -> Result:
        return Value(call.tool.name)


def build_catalog(name: str, schema: Mapping[str, Json]) -> Catalog:
    tool = Tool(name=name, toolkit="Kit", approval=Approval.AUTO, safe=True, input_schema=schema)
    return Catalog(title="Kit", tools=(tool,))


def get(url: str, path: str) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=30)
    try:
        connection.request("GET", path)
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
