"""What a host is told of a tool besides its schema, by us and by the SDKs that have a place for it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from toolwire.consent import Preferences
from toolwire.consent.tool_facts import build_facts
from toolwire.core.catalog import Catalog
from toolwire.core.model import Approval, Call, Cost, RateLimit, Result, Tool, Value
from toolwire.core.toolbox import Notify, ignore_progress

SAID = {"openapi": {"origin": "https://pay.example", "scopes": ["pay:write"]}}
PAY = Tool(
    name="pay",
    description="Pay somebody.",
    input_schema={"type": "object", "properties": {}},
    approval=Approval.PER_CALL,
    destructive=True,
    cost=Cost.PAID,
    rate_limit=RateLimit(max=3, window="1m"),
    hints=SAID,
)


class Box:
    """One tool."""

    def catalog(self) -> Catalog:
        return Catalog(tools=(PAY,))

    async def run(self, call: Call, notify: Notify = ignore_progress) -> Result:
        return Value(None)


@pytest.mark.requirement("XL-085")
def test_tool_facts_contain_approval_cost_rate_scopes_origin_and_hash() -> None:
    reply = build_facts(PAY)
    assert len(reply.pop("hash")) == 64
    assert reply == {
        "needsApproval": True,
        "approval": "per-call",
        "approvalWhen": [],
        "destructive": True,
        "cost": "paid",
        "rate": {"max": 3, "window": "1m"},
        "scopes": ["pay:write"],
        "origin": "https://pay.example",
    }
    assert json.loads(json.dumps(reply)) == reply


@pytest.mark.requirement("XL-085")
def test_tool_facts_without_a_document_use_given_origin_and_preferences() -> None:
    read = Tool(name="read", safe=True, approval=Approval.AUTO, scopes=("mail.read",))
    reply = build_facts(read, origin="https://mail.example")
    assert (reply["needsApproval"], reply["origin"], reply["scopes"]) == (False, "https://mail.example", ["mail.read"])
    assert build_facts(read, Preferences(everything=Approval.PER_CALL))["needsApproval"] is True
    assert build_facts(read)["hash"] != build_facts(Tool(name="read", safe=True, approval=Approval.AUTO))["hash"]


@pytest.mark.requirement("XL-085")
@pytest.mark.parametrize("sdk", ["langchain", "pydantic_ai"])
def test_sdk_tools_carry_tool_facts_in_their_metadata(sdk: str) -> None:
    pytest.importorskip({"langchain": "langchain_core"}.get(sdk, sdk))
    from importlib import import_module

    made: list[Any] = import_module(f"toolwire.adapters.{sdk}").build_tools(Box())
    assert made[0].metadata == build_facts(PAY)
