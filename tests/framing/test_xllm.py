"""The x-llm object fails closed, member by member."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolwire.core.model import Approval, Cost, RateLimit, Tool
from toolwire.framing import xllm
from toolwire.framing.xllm import DEFAULT_LIMIT, HIDDEN_POLICY, Policy

ODD = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.just([]) | st.just({})
LIMITS = st.builds(RateLimit, max=st.integers(1, 1_000_000), window=st.sampled_from(["100ms", "30s", "1m", "30d"]))
TOOLS = st.builds(
    Tool,
    name=st.just("x"),
    approval=st.sampled_from([None, Approval.AUTO, Approval.PER_CALL]),
    blanket_allowed=st.booleans(),
    destructive=st.booleans(),
    idempotent=st.booleans(),
    rate_limit=st.none() | LIMITS,
    hint=st.text(),
    cost=st.none() | st.sampled_from(Cost),
)


@pytest.mark.requirement("XL-031")
@given(TOOLS)
def test_written_x_llm_is_read_back(tool: Tool) -> None:
    policy = xllm.read(xllm.write(tool))
    assert policy.exposed
    assert policy.list_tool_members() == {name: getattr(tool, name) for name in policy.list_tool_members()}


def test_denied_tool_is_written_with_approval_per_call() -> None:
    assert xllm.write(Tool(name="x", approval=Approval.DENY))["approval"] == "per-call"


@pytest.mark.requirement("XL-032")
def test_missing_x_llm_members_have_defaults() -> None:
    assert xllm.read({}) == Policy()
    assert Policy() == (True, None, (), "", False, False, None, "", None, False, False, {})


@pytest.mark.requirement("XL-036")
@pytest.mark.parametrize("data", [False, None, 1, 0, "true", [], 1.5])
def test_x_llm_that_is_no_object_exposes_a_tool_only_if_true(data: Any) -> None:
    assert xllm.read(data) == HIDDEN_POLICY
    assert xllm.read(True) == Policy()


@pytest.mark.requirement("XL-035")
@pytest.mark.parametrize(
    ("data", "member", "meaning"),
    [
        ({"enabled": "yes"}, "exposed", False),
        ({"enabled": None}, "exposed", False),
        ({"approval": "sometimes"}, "approval", Approval.PER_CALL),
        ({"approval": None}, "approval", Approval.PER_CALL),
        ({"approval": "deny"}, "approval", Approval.PER_CALL),
        ({"approval": "sometimes", "blanketApprovalAllowed": True}, "blanket_allowed", False),
        ({"blanketApprovalAllowed": "true"}, "blanket_allowed", False),
        ({"blanketApprovalAllowed": 1}, "blanket_allowed", False),
        ({"destructive": "no"}, "destructive", True),
        ({"destructive": None}, "destructive", True),
        ({"destructive": 0}, "destructive", True),
        ({"rateLimit": "often"}, "rate_limit", DEFAULT_LIMIT),
        ({"rateLimit": {"max": 0, "window": "1m"}}, "rate_limit", DEFAULT_LIMIT),
        ({"rateLimit": {"max": True, "window": "1m"}}, "rate_limit", DEFAULT_LIMIT),
        ({"rateLimit": {"max": 5}}, "rate_limit", DEFAULT_LIMIT),
        ({"rateLimit": 5}, "rate_limit", RateLimit(max=5, window="1m")),
        ({"costIndicator": "much"}, "cost", Cost.PAID),
        ({"costIndicator": ["free"]}, "cost", Cost.PAID),
        ({"costIndicator": None}, "cost", Cost.PAID),
        ({"hint": 7}, "hint", ""),
        ({"idempotent": 1}, "idempotent", False),
    ],
)
def test_invalid_x_llm_member_has_its_strictest_meaning(data: dict[str, Any], member: str, meaning: Any) -> None:
    assert getattr(xllm.read(data), member) == meaning


@pytest.mark.requirement("XL-035", "XL-037")
@given(TOOLS, st.sampled_from(["hint", "rateLimit", "costIndicator", "destructive", "enabled", "x-unknown"]), ODD)
def test_invalid_x_llm_member_does_not_change_the_others(tool: Tool, member: str, odd: Any) -> None:
    names = {"rateLimit": "rate_limit", "costIndicator": "cost", "enabled": "exposed", "x-unknown": "extra_members"}
    good = xllm.write(tool)
    before, after = xllm.read(good)._asdict(), xllm.read({**good, member: odd})._asdict()
    changed = names.get(member, member)
    assert {**before, changed: None} == {**after, changed: None}


@pytest.mark.requirement("XL-027")
@pytest.mark.parametrize("text", ["per-call", "AUTO", None, True, 7, [], {}])
def test_only_the_text_auto_means_approval_auto(text: Any) -> None:
    assert xllm.read_approval("auto") is Approval.AUTO
    assert xllm.read_approval(text) is Approval.PER_CALL


@pytest.mark.requirement("XL-037")
def test_extra_x_llm_members_are_collected_under_any_protocol() -> None:
    hints = {
        "odd": 7,
        "x-llm": {"hint": "known", "result": {"render": "list"}},
        "mcp": {"x-llm": {"x-mine": 1}},
        "opentool": {"next": [{"operationId": "save"}]},
    }
    assert xllm.collect_extra_members(Tool(name="x", hints=hints)) == {
        "result": {"render": "list"}, "x-mine": 1, "next": [{"operationId": "save"}],
    }  # fmt: skip
