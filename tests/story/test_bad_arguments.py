"""An argument that does not fit is named, on both sides, and the tool does not run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Annotated, Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from pydantic import Field

import toolwire
from toolwire import Kind, Problem, ToolError, Toolkit, Value, connect_sync
from toolwire.protocols import BUILTIN
from toolwire.testing.loopback import background

PROTOCOLS = [codec.name for codec in BUILTIN]


def bank(moved: list[int]) -> Toolkit:
    toolkit = Toolkit("Bank")

    @toolkit.tool(approval="per-call")
    def move(to: str, cents: Annotated[int, Field(gt=0)]) -> int:
        """Move money."""
        if cents > 1_000:
            raise ToolError("There is not so much.", additional_prompt_content="Ask for less.")
        moved.append(cents)
        return sum(moved)

    @toolkit.tool(approval="auto")
    def balance() -> int:
        """Say what is left."""
        return 1 // 0

    return toolkit


@pytest.fixture(scope="module")
def served_bank() -> Iterator[tuple[list[int], str]]:
    moved: list[int] = []
    with background(toolwire.asgi(bank(moved))) as url:
        yield moved, url


@pytest.fixture
def money_moves(served_bank: tuple[list[int], str]) -> list[int]:
    served_bank[0].clear()
    return served_bank[0]


@pytest.fixture
def site(served_bank: tuple[list[int], str], money_moves: list[int]) -> str:
    return served_bank[1]


@pytest.mark.requirement("XL-086")
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_client_names_the_invalid_argument_without_a_question(site: str, money_moves: list[int], protocol: str) -> None:
    asked: list[Any] = []
    with connect_sync(site, protocol=protocol, approve=lambda question: asked.append(question) is None) as remote:
        result = remote.call("move", {"to": "Ann", "cents": "ten"})
        assert isinstance(result, Problem)
        assert (result.kind, list(result.parameter_errors)) == (Kind.INVALID_ARGUMENTS, ["cents"])
        missing = remote.call("move", {"cents": 5})
        assert isinstance(missing, Problem)
        assert missing.parameter_errors == {"to": "is required"}
        assert (asked, money_moves) == ([], [])
        assert remote.call("move", {"to": "Ann", "cents": 5}) == Value(5)
    assert (len(asked), money_moves) == (1, [5])


def refusal(url: str, body: Any) -> tuple[int, Any]:
    request = Request(url, json.dumps(body).encode(), {"content-type": "application/json"})
    try:
        with urlopen(request, timeout=30) as response:
            return response.status, json.load(response)
    except HTTPError as error:
        with error:
            return error.code, json.load(error)


@pytest.mark.requirement("OXP-009", "S-15", "OTC-040")
def test_server_validates_arguments_of_every_client(site: str, money_moves: list[int]) -> None:
    wrong = {"to": "Ann", "cents": -5}
    call = {"request": {"tool_id": "Bank.move", "input": wrong}}
    for path, body in (("/api/move", wrong), ("/call", call), ("/tools/call", call)):
        status, answer = refusal(f"{site}{path}", body)
        assert (status, list(answer["parameter_errors"])) == (422, ["cents"])
    body = {"jsonrpc": "2.0", "id": "1", "method": "move", "params": wrong}
    status, answer = refusal(f"{site}/opentool/call", body)
    assert (status, answer["error"]["code"]) == (200, -32602)
    assert money_moves == []


@pytest.mark.requirement("OTC-028", "OTC-031")
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_tool_error_has_a_message_for_the_user_and_a_text_for_the_model(site: str, protocol: str) -> None:
    with connect_sync(site, protocol=protocol, approve=lambda _: True) as remote:
        result = remote.call("move", {"to": "Ann", "cents": 2_000})
    assert isinstance(result, Problem)
    assert (result.kind, result.message) == (Kind.TOOL_FAILED, "There is not so much.")
    assert result.additional_prompt_content == "Ask for less."


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_exception_in_a_tool_is_only_logged(site: str, protocol: str, caplog: pytest.LogCaptureFixture) -> None:
    with connect_sync(site, protocol=protocol, agree=lambda _: True) as remote:
        result = remote.call("balance")
    assert isinstance(result, Problem)
    assert (result.kind, result.message) == (Kind.TOOL_FAILED, "balance failed. See the server's log.")
    assert "ZeroDivisionError" not in repr(result)
    assert "ZeroDivisionError" in caplog.text
