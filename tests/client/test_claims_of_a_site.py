"""A site's word only tightens: what it claims of its tools never saves a question, a retry or a check."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.claims import Bank
from toolwire import Answer, Kind, Problem, Question, Tool, connect, connect_sync
from toolwire.client import Session
from toolwire.client.calls.session import open_stored_session
from toolwire.core.model import Result


@pytest.fixture(params=["otc", "opentool", "mcp"])
def bank(request: pytest.FixtureRequest, listen: Callable[..., Any], encode_response: Callable[..., bytes]) -> Bank:
    return Bank(request.param, listen, encode_response)


@pytest.mark.requirement("XL-044", "XL-043", "AT-01")
def test_claimed_read_only_tool_is_never_called_without_a_question(bank: Bank) -> None:
    with connect_sync(bank.url, protocol=bank.wire) as remote:
        (tool,) = remote.tools
        assert (tool.safe, tool.claimed_safe) == (False, True)
        result = remote.call(tool.name, {"amount": 5})
        assert isinstance(result, Problem)
        assert (result.kind, "agree=" in result.message) == (Kind.DENIED, True)
    assert bank.sent == []


@pytest.mark.requirement("XL-044", "AT-01")
def test_asynchronous_client_also_asks_for_a_claimed_read_only_tool(bank: Bank) -> None:
    async def call() -> Result:
        async with connect(bank.url, protocol=bank.wire) as remote:
            return await remote.call("wire_money", {"amount": 5})

    assert not asyncio.run(call()).ok
    assert bank.sent == []


@pytest.mark.requirement("XL-044", "XL-050", "AT-01")
def test_approved_call_is_sent_once_despite_a_claim_of_idempotence(bank: Bank) -> None:
    asked: list[Question] = []

    def person(question: Question) -> bool:
        asked.append(question)
        return True

    bank.status = 503
    with connect_sync(bank.url, protocol=bank.wire, approve=person) as remote:
        assert not remote.call("wire_money", {"amount": 5}).ok
    (question,) = asked
    assert any("is read-only, but cannot prove it" in reason for reason in question.reasons)
    if bank.wire == "otc":  # its protocol keeps calls by their id: what is sent again is the same call
        assert len({json.dumps(one, sort_keys=True) for one in bank.sent}) == 1
    else:
        assert any("sent again" in reason for reason in question.reasons)


@pytest.mark.requirement("XL-044", "XL-048", "D-04", "AT-01")
def test_agreement_is_asked_once_and_ends_with_another_definition(bank: Bank, tmp_path: Path) -> None:
    lists: list[tuple[Tool, ...]] = []

    def agree(tools: tuple[Tool, ...]) -> bool:
        lists.append(tools)
        return True

    for _ in range(2):
        with connect_sync(bank.url, protocol=bank.wire, session=open_stored_session(tmp_path), agree=agree) as remote:
            assert remote.tools[0].safe
            remote.call("wire_money", {"amount": 5})
    assert [[tool.name for tool in tools] for tools in lists] == [["wire_money"]]
    sent = len(bank.sent)
    assert sent >= 2
    with connect_sync(bank.url, protocol=bank.wire, session=open_stored_session(tmp_path)) as remote:
        bank.description = "Say how it is, and pay."
        assert not isinstance(remote.refresh(), Problem)
        assert not remote.tools[0].safe
        assert not remote.call("wire_money", {"amount": 5}).ok
    assert len(bank.sent) == sent


@pytest.mark.requirement("XL-044")
def test_only_true_is_an_agreement(bank: Bank) -> None:
    for answer in (False, "yes", 1, None):
        with connect_sync(bank.url, protocol=bank.wire, agree=lambda _, said=answer: said) as remote:  # type: ignore[misc]
            assert not remote.call("wire_money", {"amount": 5}).ok
    assert bank.sent == []


@pytest.mark.requirement("XL-044", "D-33")
def test_connections_do_not_share_an_agreement(bank: Bank) -> None:
    session = Session()
    with (
        connect_sync(bank.url, protocol=bank.wire, session=session, name="one", agree=lambda _: True) as one,
        connect_sync(bank.url, protocol=bank.wire, session=session, name="two") as two,
    ):
        assert (one.tools[0].safe, two.tools[0].safe) == (True, False)
        assert session.tools()["two_wire_money"].tool.claimed_safe
        assert not two.call("wire_money", {"amount": 5}).ok
    assert bank.sent == []


@pytest.mark.requirement("XL-044")
def test_gateway_does_not_repeat_a_claim_of_its_upstream_as_its_own(bank: Bank) -> None:
    from tests.support.upstreams import connect_without_user
    from toolwire.server import asgi
    from toolwire.testing.loopback import background

    path = "/mcp" if bank.wire == "mcp" else ""  # a gateway finds an MCP server elsewhere only by a GET
    remote = connect_without_user(bank.url + path, Session())
    with background(asgi(remote)) as url:
        for protocol in ("openapi", "otc", "opentool", "mcp"):
            with connect_sync(url, protocol=protocol, approve=lambda _: Answer(allowed=True)) as near:
                (tool,) = near.tools
                assert (tool.safe, tool.claimed_safe) == (False, False)
                assert not near.call(tool.name, {"amount": 5}).ok
    assert bank.sent == []
