"""A message about arguments names all that are wrong, in every protocol, in both clients and on the command line."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from toolwire import Problem, Toolkit, asgi, connect, connect_sync
from toolwire.cli import main
from toolwire.testing.loopback import background
from toolwire.validation import compile_schema

pytestmark = pytest.mark.requirement("FU-59")

GIVEN = {"guests": "many", "price": [1], "zip": 1, "zap": 2}
WRONG = ("guests", "price", "name", "zip", "zap")


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    kit = Toolkit("Inn")

    @kit.tool(approval="per-call", blanket_allowed=True)
    def book(guests: int, price: float, name: str, late: bool = False) -> str:
        """Book a room."""
        return name

    with background(asgi(kit)) as where:
        yield where


def post(url: str, body: Any, **headers: str) -> str:
    answer = httpx.post(url, json=body, headers={"accept": "application/json, text/event-stream", **headers})
    return answer.text


def call_openapi(url: str) -> str:
    document = httpx.get(f"{url}/openapi.json").json()
    [path] = [path for path, item in document["paths"].items() if "post" in item and path.endswith("book")]
    return post(url + path, GIVEN)


def call_otc(url: str) -> str:
    [tool] = httpx.get(f"{url}/tools").json()["items"]
    return post(f"{url}/tools/call", {"request": {"tool_id": tool["id"], "input": GIVEN}})


def call_opentool(url: str) -> str:
    return post(f"{url}/opentool/call", {"jsonrpc": "2.0", "id": "1", "method": "book", "params": GIVEN})


def call_mcp(url: str) -> str:
    body = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "book", "arguments": GIVEN},
    }
    return post(f"{url}/mcp", body, **{"mcp-protocol-version": "2025-06-18"})


@pytest.mark.parametrize("call", [call_openapi, call_otc, call_opentool, call_mcp])
def test_every_protocol_names_all_arguments_that_are_wrong(call: Any, url: str) -> None:
    reply = call(url)
    assert [name for name in WRONG if name not in reply] == [], reply


@pytest.mark.parametrize("protocol", ["openapi", "otc", "opentool", "mcp"])
def test_client_names_all_arguments_that_are_wrong(protocol: str, url: str) -> None:
    async def call() -> Any:
        async with connect(url, protocol=protocol) as remote:
            return await remote.call("book", GIVEN)

    refused = asyncio.run(call())
    with connect_sync(url, protocol=protocol) as blocking:
        again = blocking.call("book", GIVEN)
    assert isinstance(refused, Problem)
    assert again == refused
    assert [name for name in WRONG if name not in refused.message] == [], refused.message
    assert set(WRONG) == set(refused.parameter_errors)


def test_one_argument_with_several_faults_names_each_of_them() -> None:
    size = {"type": "object", "properties": {"w": {"type": "integer"}}, "required": ["h"]}
    refused = compile_schema({"type": "object", "properties": {"size": size}})({"size": {"w": "x"}})
    assert refused is not None
    assert [word for word in ("h", "w") if word not in refused.parameter_errors["size"].replace('"', "").split()] == []


def test_number_of_faults_is_bounded() -> None:
    schema = {"type": "object", "properties": {f"p{number}": {"type": "integer"} for number in range(50)}}
    refused = compile_schema(schema)({f"p{number}": "x" for number in range(50)})
    assert refused is not None
    assert len(refused.parameter_errors) == 20


def test_command_line_names_all_arguments_that_are_wrong(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["call", url, "book", "guests=many", "price:=[1]", "zip=1", "zap=2"])
    text = capsys.readouterr().err
    assert (code, [name for name in WRONG if name not in text]) == (2, []), text
    code = main(["call", url, "book", "guests:={", "price:=}", "name", "zap=1"])
    text = capsys.readouterr().err
    assert (code, [name for name in ("guests", "price", "name", "zap") if f"'{name}'" not in text]) == (2, []), text


def test_all_files_that_cannot_be_sent_are_named(url: str, tmp_path: Path) -> None:
    with connect_sync(url) as remote:
        refused = remote.call("book", {"guests": tmp_path / "a.txt", "price": tmp_path / "b.txt", "name": "x"})
    assert isinstance(refused, Problem)
    assert set(refused.parameter_errors) == {"guests", "price"}
    assert ("guests" in refused.message, "price" in refused.message) == (True, True)
