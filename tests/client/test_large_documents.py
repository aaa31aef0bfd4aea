"""Large documents are read up to a limit of their own, and read without keeping an event loop from its other work."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import anyio
import pytest

from toolwire import connect, connect_sync
from toolwire.cli import main
from toolwire.client.transport.drivers import arun
from toolwire.core.codec import ConnectError, Flow
from toolwire.core.http import Request, Response
from toolwire.core.selection import Selection
from toolwire.framing import jsontext
from toolwire.protocols.openapi.document import loading

MIB = 1_048_576
DOCUMENT: dict[str, Any] = {
    "openapi": "3.0.3",
    "info": {"title": "Pets", "version": "1.0.0"},
    "servers": [{"url": "https://pets.example"}],
    "paths": {"/pets": {"get": {"operationId": "list_pets", "responses": {}}}},
}


def pad_document(size: int) -> bytes:
    """Return the document with text in it, so that it has about ``size`` bytes."""
    return json.dumps({**DOCUMENT, "x-text": "x" * size}).encode()


@pytest.mark.requirement("XL-012", "P-05")
@pytest.mark.parametrize("keyed", [False, True], ids=["without a key", "with a key"])
def test_document_may_be_larger_than_the_response_limit(listen: Any, encode_response: Any, keyed: bool) -> None:
    refused = encode_response(b"", status="401 Unauthorized")
    whole = encode_response(pad_document(20 * MIB), "content-type: application/json")

    def answer(seen: Any) -> list[bytes]:
        wants_key = keyed and "authorization" not in seen.headers
        return [refused if wants_key else whole]

    site = listen(answer)
    key = "k" if keyed else None
    with connect_sync(f"{site.origin}/api.json", selection=Selection(include="all"), api_key=key) as remote:
        assert [tool.name for tool in remote.tools] == ["list_pets"]


@pytest.mark.requirement("XL-012", "O-12")
def test_document_above_its_limit_is_refused_with_the_option_to_raise_it(
    listen: Any, encode_response: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    site = listen(encode_response(pad_document(200_000), "content-type: application/json"))
    (tmp_path / "api.json").write_bytes(pad_document(200_000))
    for target in (f"{site.origin}/api.json", str(tmp_path / "api.json")):
        selection = Selection(include="all", document_bytes=100_000)
        with pytest.raises(ConnectError, match=r"100,?000 bytes.*document_bytes=.* or --document-bytes takes more\.$"):
            connect_sync(target, selection=selection).__enter__()
        assert main(["tools", target, "--include", "all", "--document-bytes", "100000"]) != 0
        assert "--document-bytes takes more" in capsys.readouterr().err
        assert main(["tools", target, "--include", "all", "--document-bytes", "300000"]) == 0
        capsys.readouterr()


@pytest.mark.parametrize("number", ["0", "-1", "x", "9" * 30])
def test_invalid_document_limit_is_refused(tmp_path: Path, number: str) -> None:
    (tmp_path / "api.json").write_bytes(pad_document(10))
    with pytest.raises(SystemExit):
        raise SystemExit(main(["tools", str(tmp_path / "api.json"), "--document-bytes", number]))
    with pytest.raises(ValueError, match="document_bytes"):
        Selection(document_bytes=0)


class Marker(list[Any]):
    """A value of an overlay that notes in which thread it is applied."""

    threads: set[int]

    def __deepcopy__(self, memo: Any) -> list[Any]:
        self.threads.add(threading.get_ident())
        return []


@pytest.mark.requirement("P-05")
def test_connecting_converts_a_document_in_another_thread(tmp_path: Path) -> None:
    (tmp_path / "api.json").write_bytes(pad_document(10))
    marker = Marker()
    marker.threads = set()
    overlay: Any = {"overlay": "1.0.0", "actions": [{"target": "$.info", "update": {"x-marker": marker}}]}

    async def connected() -> None:
        async with connect(str(tmp_path / "api.json"), selection=Selection(include="all"), overlay=overlay) as remote:
            assert [tool.name for tool in remote.tools] == ["list_pets"]

    anyio.run(connected)
    assert marker.threads
    assert threading.get_ident() not in marker.threads


def test_flow_steps_can_run_in_a_thread_and_raise_errors() -> None:
    threads: list[int] = []

    class Door:
        async def send(self, request: Request) -> Response:
            assert threading.get_ident() == loop
            return Response(200)

    def flow(*, fails: bool) -> Flow[str]:
        threads.append(threading.get_ident())
        received = yield Request("GET", "https://a.example")
        threads.append(threading.get_ident())
        if fails:
            raise RuntimeError("it broke")
        assert received == Response(200)
        return "done"

    async def both() -> None:
        assert await arun(flow(fails=False), Door(), in_thread=True) == "done"  # type: ignore[arg-type]
        with pytest.raises(RuntimeError, match="it broke"):
            await arun(flow(fails=True), Door(), in_thread=True)  # type: ignore[arg-type]

    loop = threading.get_ident()
    anyio.run(both)
    assert len(threads) == 4
    assert loop not in threads


def test_flow_step_in_a_thread_outlasts_a_cancellation() -> None:
    goes_on = threading.Event()

    async def cancel_within_a_step() -> None:
        loop, has_begun = asyncio.get_running_loop(), asyncio.Event()

        def flow() -> Flow[str]:
            loop.call_soon_threadsafe(has_begun.set)
            goes_on.wait(60)
            yield Request("GET", "https://a.example")
            return "done"

        task = asyncio.create_task(arun(flow(), None, in_thread=True))  # type: ignore[arg-type]
        await has_begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        goes_on.set()

    asyncio.run(cancel_within_a_step())


@pytest.mark.requirement("D-16", "CV-33")
@pytest.mark.parametrize(
    "part",
    [
        '"a": 1, "a": 2', '"a": {"b": 1, "\\u0062": 2}', '"a": NaN', '"a": 1e999', '"a": "\\ud800"', '"a": -Infinity',
        f'"a": {"9" * 5_000}', f'"a": {"[" * 250}{"]" * 250}', '"a": "\x01"', '"a": 01', '"a": 1,', '"a": "\udcff"',
    ],
)  # fmt: skip
def test_large_invalid_document_is_refused_like_a_small_one(part: str) -> None:
    for filler in ("x", "x" * 2 * MIB):
        text = f'{{"x": "{filler}", {part}}}'.encode("utf-8", "surrogateescape")
        found = loading.load_document(text)
        assert not isinstance(found, loading.Loaded), part[:40]


@pytest.mark.parametrize("value", [1, 2**70, -1.5, "\U0001f600", "\\ud83d", [[{}, []]], None, True, "[[{{"])
def test_large_json_is_read_with_the_same_values_as_small_json(value: Any) -> None:
    text = json.dumps({"a": value, "x": "x" * 2 * MIB}).encode()
    assert jsontext.read_without_duplicates(text) == jsontext.read(text) == {"a": value, "x": "x" * 2 * MIB}
