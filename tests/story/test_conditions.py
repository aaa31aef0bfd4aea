"""A site says for which arguments it wants its user asked, and every way to call it keeps to that."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

import toolwire
from toolwire import Answer, Kind, Problem, Question, Toolkit, Value, connect, connect_sync
from toolwire.cli import main
from toolwire.core.errors import DefinitionError
from toolwire.hosting.open_upstreams import open_toolboxes
from toolwire.hosting.serve_app import build_app
from toolwire.hosting.serve_settings import ServeSettings
from toolwire.protocols import BUILTIN
from toolwire.testing.loopback import background

PROTOCOLS = [codec.name for codec in BUILTIN]


class Bank:
    """A server whose tool pays, its URL, and what was paid."""

    def __init__(self) -> None:
        self.url = ""
        self.paid: list[float] = []
        self.kit = kit = Toolkit("Bank")

        @kit.tool(
            approval="auto",
            safe=False,
            ask_when=[("/amount", "gt", 50), {"pointer": "/to", "op": "matches", "value": "@evil"}],
            question="Pay {/amount} to {/to}?",
        )
        def pay(amount: float, to: str = "Ada") -> str:
            """Pay somebody."""
            self.paid.append(amount)
            return "paid"


@pytest.fixture
def bank() -> Iterator[Bank]:
    bank = Bank()
    with background(toolwire.asgi(bank.kit)) as bank.url:
        yield bank


def pay(remote: Any, amount: Any, **more: Any) -> Any:
    return remote.call("pay", {"amount": amount, **more})


@pytest.mark.requirement("CC-01", "CC-02")
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_blocking_client_asks_only_for_matching_arguments(bank: Bank, protocol: str) -> None:
    asked: list[Question] = []

    def approve(question: Question) -> Answer:
        asked.append(question)
        return Answer(allowed=False)

    with connect_sync(bank.url, protocol=protocol, approve=approve, agree=lambda _: True) as remote:
        assert pay(remote, 50) == Value("paid")
        assert asked == []
        for arguments in ({"amount": 50.5}, {"amount": 1, "to": "x@evil.example"}):
            refused = remote.call("pay", arguments)
            assert isinstance(refused, Problem)
            assert refused.kind is Kind.DENIED
    assert bank.paid == [50]
    assert "/amount is more than 50" in asked[0].reasons[0]
    assert asked[0].call.tool.question == "Pay {/amount} to {/to}?"


@pytest.mark.requirement("CC-01")
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_asynchronous_client_asks_for_matching_arguments(bank: Bank, protocol: str) -> None:
    async def story() -> None:
        async with connect(bank.url, protocol=protocol, agree=lambda _: True) as remote:
            assert await pay(remote, 5) == Value("paid")
            assert (await pay(remote, 500)).kind is Kind.DENIED

    anyio.run(story)
    assert bank.paid == [5]


@pytest.mark.requirement("CC-01", "CC-02")
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_gateway_keeps_approval_conditions_in_every_protocol(bank: Bank, protocol: str) -> None:
    settings = ServeSettings(targets=[bank.url], agree=True)
    with (
        background(build_app(settings, open_toolboxes(settings))) as front,
        connect_sync(front, protocol=protocol, agree=lambda _: True) as remote,
    ):
        assert pay(remote, 5) == Value("paid")
        assert not pay(remote, 500).ok
        [tool] = remote.tools
        assert tool.ask_when[0] == ("/amount", "gt", 50)
        assert tool.question == "Pay {/amount} to {/to}?"
    assert bank.paid == [5]


@pytest.mark.requirement("CC-01", "CC-02")
def test_the_command_line_shows_the_conditions_and_asks(bank: Bank, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["call", bank.url, "pay", "amount=5", "--agree"]) == 0
    assert main(["call", bank.url, "pay", "amount=500", "--agree", "--yes"]) != 0
    assert bank.paid == [5]
    capsys.readouterr()
    assert main(["show", bank.url, "pay"]) == 0
    assert "asks you where /amount is more than 50" in capsys.readouterr().out
    assert main(["tools", bank.url, "--json"]) == 0
    [tool] = json.loads(capsys.readouterr().out)
    assert tool["ask_when"][0] == {"pointer": "/amount", "op": "gt", "value": 50}
    assert tool["question"] == "Pay {/amount} to {/to}?"


@pytest.mark.requirement("CC-01")
def test_overlay_can_add_approval_conditions_to_a_foreign_document(tmp_path: Path) -> None:
    kit, paid = Toolkit("Plain"), list[float]()

    @kit.tool(approval="auto", safe=False)
    def send(amount: float) -> str:
        """Send money."""
        paid.append(amount)
        return "sent"

    overlay = tmp_path / "overlay.json"
    conditions = [{"pointer": "/amount", "op": "gt", "value": 50}]
    update = {"x-llm": {"approvalWhen": conditions}}
    overlay.write_text(
        json.dumps(
            {
                "overlay": "1.0.0",
                "info": {"title": "Mine", "version": "1.0.0"},
                "actions": [{"target": "$.paths[*][?@.operationId]", "update": update}],
            }
        )
    )
    with background(toolwire.asgi(kit)) as url:
        assert main(["call", url, "send", "amount=5", "--agree", "--overlay", str(overlay)]) == 0
        assert main(["call", url, "send", "amount=51", "--agree", "--overlay", str(overlay)]) != 0
    assert paid == [5]


@pytest.mark.requirement("CC-01", "CC-02")
def test_check_reports_invalid_conditions_and_questions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    policy = {
        "approvalWhen": [
            {"pointer": "/a", "op": "matches", "value": "(?=x)"},
        ],
        "question": "",
    }
    operation = {"operationId": "x", "summary": "X.", "x-llm": policy, "responses": {"200": {"description": "OK"}}}
    document = {
        "openapi": "3.1.0",
        "info": {"title": "T", "version": "1"},
        "servers": [{"url": "https://a.example"}],
        "x-llm": {"version": "0.1", "name": "T"},
        "paths": {"/x": {"post": operation}},
    }
    path = tmp_path / "openapi.json"
    path.write_text(json.dumps(document))
    assert main(["check", str(path)]) != 0
    text = capsys.readouterr().out
    assert "CC-01" in text
    assert "uses lookaround" in text
    assert "CC-02" in text
    policy["approvalWhen"] = [{"pointer": "/a", "op": "gt"}]
    path.write_text(json.dumps(document))
    assert main(["check", str(path)]) != 0
    assert "The value is missing" in capsys.readouterr().out


@pytest.mark.requirement("CC-01", "CC-02")
@pytest.mark.parametrize(
    "options",
    [
        {"ask_when": [("/amount", "above", 50)]},
        {"ask_when": [("amount", "gt", 50)]},
        {"ask_when": [("/amout", "gt", 50)]},
        {"ask_when": ["/amount"]},
        {"ask_when": [("/amount", "present")] * 17},
        {"ask_when": [("/amount", "eq", object())]},
        {"question": "x" * 501},
    ],
)
def test_invalid_approval_condition_is_refused_at_definition(options: Any) -> None:
    with pytest.raises(DefinitionError):

        @Toolkit("Bank").tool(**options)
        def pay(amount: float) -> None:
            """Pay."""
