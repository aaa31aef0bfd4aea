"""A server that does not say what it offers: any function is called by its name, with what the caller gave."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from toolwire import Kind, Problem, Question, Result, Value, connect, connect_sync

from .conftest import Notes, Serve
from .foreign_servers import KEY, dart, dotnet8, java, netfx, run_server, typescript

Ask = Callable[[Question], bool]


def call_blocking(url: str, name: str, arguments: dict[str, Any], approve: Ask | None) -> Result:
    with connect_sync(url, approve=approve, api_key=KEY) as remote:
        return remote.call(name, arguments)


def call_async(url: str, name: str, arguments: dict[str, Any], approve: Ask | None) -> Result:
    async def calling() -> Result:
        async with connect(url, approve=approve, api_key=KEY) as remote:
            return await remote.call(name, arguments)

    return asyncio.run(calling())


@pytest.fixture(params=[call_blocking, call_async])
def call(request: pytest.FixtureRequest) -> Callable[..., Result]:
    return request.param  # type: ignore[no-any-return]  # what pytest says of a parameter


@pytest.fixture(params=["ours", typescript, java, dart, dotnet8, netfx])
def undescribed_server(request: pytest.FixtureRequest, serve: Serve) -> Iterator[str]:
    """The URL of a server without a document: ours, and others as their SDKs answer."""
    if request.param == "ours":
        yield serve(Notes(), api_keys=[KEY]).url
        return
    with run_server(request.param) as server:
        yield server.url


@pytest.mark.requirement("C-5", "OTRPC-016", "OTRPC-021")
def test_call_by_name_sends_the_given_arguments(call: Callable[..., Result], undescribed_server: str) -> None:
    asked: list[Question] = []

    def allow(question: Question) -> bool:
        asked.append(question)
        return True

    assert call(undescribed_server, "create", {"text": "héllo"}, allow) == Value({"id": 1})
    (question,) = asked
    assert (question.call.tool.name, question.call.arguments) == ("create", {"text": "héllo"})
    assert not question.call.tool.safe


@pytest.mark.requirement("C-5", "XL-053")
def test_undescribed_tool_is_asked_about_each_time(undescribed_server: str) -> None:
    for approve in (None, lambda question: False):
        refused = call_blocking(undescribed_server, "create", {"text": "x"}, approve)
        assert isinstance(refused, Problem)
        assert refused.kind is Kind.DENIED


@pytest.mark.requirement("C-5", "OTRPC-016")
def test_illegal_function_name_is_sent_unchanged(serve: Serve) -> None:
    class Named:
        def call(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
            return {"name": name, "arguments": arguments}

        def load(self) -> None:
            return None

    url = serve(Named()).url
    for name in ("files.read file", "add@2", "x" * 100, "é"):
        assert call_blocking(url, name, {"a": [1]}, lambda question: True) == Value(
            {"name": name, "arguments": {"a": [1]}}
        )


@pytest.mark.requirement("C-5")
def test_server_error_for_an_unknown_name_is_reported(serve: Serve) -> None:
    with connect_sync(serve(Notes()).url, approve=lambda question: True) as remote:
        assert remote.tools == ()
        refused = remote.call("nope", {})
        assert isinstance(refused, Problem)
        assert refused.kind is Kind.UNKNOWN_TOOL
        assert remote.call("create", {"text": "x"}) == Value({"id": 1})  # and the connection goes on
