"""For which arguments a call is asked about: what holds, what does not, and what cannot be decided."""

from __future__ import annotations

from typing import Any

import pytest

from toolwire.consent import build_consent_check
from toolwire.consent.conditions import is_met
from toolwire.consent.grant import grant_key
from toolwire.core.check import ALLOW, PERMITTED, Ask
from toolwire.core.model import Approval, Call, Condition, Tool
from toolwire.framing import xllm
from toolwire.stores.consent.memory import MemoryGrants

SITE = "https://bank.example"
ASK = None
SCHEMA = {"type": "object", "properties": {"n": {"type": "number", "default": 70}, "m": {"type": "number"}}}


@pytest.mark.requirement("CC-01")
@pytest.mark.parametrize(
    ("op", "value", "argument", "met"),
    [
        ("eq", 1, 1.0, True),
        pytest.param("eq", 1, True, ASK, id="what some servers take for 1"),
        ("eq", 0, False, ASK),
        ("eq", 2, True, False),
        ("eq", True, "Yes", ASK),
        ("eq", False, "0", ASK),
        ("eq", True, "no", False),
        ("eq", 50, " 5e1 ", ASK),
        ("eq", 50, "５０", ASK),
        ("eq", "50", 50, ASK),
        ("eq", 50, "fifty", False),
        ("eq", 50, None, False),
        ("eq", 50, [5, "50"], ASK),
        ("eq", 50, [5, 6], False),
        ("eq", 50, [[5]], ASK),
        ("eq", 50, {"n": 50}, ASK),
        pytest.param("eq", 50, [5] * 10_000, ASK, id="a list that is too long to compare"),
        ("eq", {"a": [1, {"b": None}]}, {"a": [1.0, {"b": None}]}, True),
        ("eq", [1, 2], [2, 1], False),
        ("eq", [1], [True], False),
        ("ne", 1, True, ASK),
        ("ne", 50, "50", ASK),
        ("ne", 50, "51", True),
        ("ne", "a", "a", False),
        ("gt", 50, 50, False),
        ("gt", 50, 50.000001, True),
        pytest.param("gt", 50, 10**400, True, id="a number larger than any float"),
        pytest.param("eq", 2**53, 2**53 + 1, ASK, id="an integer that JavaScript reads as the other one"),
        ("eq", 2**53 + 1, 2**53 + 1, True),
        ("eq", {"a": [2**53]}, {"a": [2**53 + 1]}, ASK),
        ("ne", 2**53, 2**53 + 1, ASK),
        ("ne", 2**53 + 1, 2**53 + 1, False),
        ("in", [1, 2**53], 2**53 + 1, ASK),
        ("in", [1, 2**53], 2**53 + 2, False),
        ("ge", 2**53 + 4, 2**53 + 3, ASK),
        ("ge", 2**53 + 4, 2**53 + 1, False),
        ("lt", 10**400, 10**399, ASK),
        ("gt", 50, float("inf"), True),
        ("gt", 50, float("nan"), ASK),
        ("gt", 50, "60", ASK),
        ("gt", 50, True, ASK),
        ("gt", 50, None, ASK),
        ("gt", 50, [60], ASK),
        ("ge", 50, 50, True),
        ("lt", 0, -0.5, True),
        ("le", 0, 0, True),
        ("le", 0, 1, False),
        ("in", ["a", 1], True, ASK),
        ("in", ["a", 2], True, False),
        ("in", ["a", 1], 1, True),
        ("in", ["a"], ["a"], ASK),
        ("matches", "@evil", "x@evil.example", True),
        pytest.param("matches", "^(a+)+$", "a" * 5_000 + "b", False, id="what makes others backtrack"),
        ("matches", "^a$", "b", False),
        ("matches", "a", 5, ASK),
        ("matches", "a", None, ASK),
        ("matches", "(", "a", ASK),
        ("matches", "(?=a)a", "b", ASK),
        ("matches", "(a)\\1", "b", ASK),
        ("matches", "a{9999}{9999}", "b", ASK),
        pytest.param("matches", "(ab?c){200}", "x" * 1_000_000, ASK, id="a text too long for the pattern"),
        ("present", True, None, True),
        ("present", False, None, False),
        ("between", 1, 1, ASK),
        ("gt", "50", 60, ASK),
    ],
)
def test_condition_is_met_or_not_met_or_undecidable(op: str, value: Any, argument: Any, met: bool | None) -> None:
    assert is_met(Condition("/n", op, value), Tool(name="x"), {"n": argument}) is met


@pytest.mark.requirement("CC-01")
def test_condition_on_a_too_deep_value_is_undecidable() -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    other: Any = []
    for _ in range(100_000):
        other = [other]
    for op, value in (("eq", other), ("ne", other), ("in", [other])):
        assert is_met(Condition("/n", op, value), Tool(name="x"), {"n": deep}) is ASK


@pytest.mark.requirement("CC-01")
@pytest.mark.parametrize(
    ("pointer", "arguments", "met"),
    [
        ("/n", {}, True),  # the default of the schema is 70
        ("/n", {"n": 5}, False),
        ("/m", {}, ASK),
        ("/m/deep", {"m": 5}, ASK),
        ("/list/0/n", {"list": [{"n": 51}]}, True),
        ("/list/1/n", {"list": [{"n": 51}]}, ASK),
        ("/a~1b/~0", {"a/b": {"~": 51}}, True),
        ("n", {"n": 5}, ASK),
        ("", {"n": 5}, ASK),
        ("/n~2", {"n~2": 5}, ASK),
    ],
)
def test_condition_pointer_reads_arguments_or_their_defaults(pointer: str, arguments: Any, met: bool | None) -> None:
    assert is_met(Condition(pointer, "gt", 50), Tool(name="x", input_schema=SCHEMA), arguments) is met


@pytest.mark.requirement("CC-01")
def test_approval_condition_asks_despite_an_earlier_allow_always() -> None:
    tool = Tool(
        name="pay", approval=Approval.PER_CALL, blanket_allowed=True, ask_when=(Condition("/amount", "gt", 50),)
    )
    grants = MemoryGrants()
    grants.add(grant_key(SITE, tool))
    check = build_consent_check(site=SITE, grants=grants)
    assert check(Call(tool, {"amount": 50})) is PERMITTED
    asked = check(Call(tool, {"amount": 51}))
    assert isinstance(asked, Ask)
    assert not asked.question.always_allowed
    assert asked.question.reasons[0] == "The site wants you to be asked where /amount is more than 50."


@pytest.mark.requirement("CC-01", "D-20")
def test_number_that_a_site_may_read_as_another_is_asked_about() -> None:
    tool = Tool(
        name="pay", approval=Approval.PER_CALL, blanket_allowed=True, ask_when=(Condition("/account", "eq", 2**53),)
    )
    grants = MemoryGrants()
    grants.add(grant_key(SITE, tool))
    check = build_consent_check(site=SITE, grants=grants)
    assert check(Call(tool, {"account": 2**53 - 1})) is PERMITTED
    asked = check(Call(tool, {"account": 2**53 + 1}))
    assert isinstance(asked, Ask)
    assert asked.question.reasons[0].endswith(". toolwire cannot decide whether that applies here.")


@pytest.mark.requirement("CC-01")
@pytest.mark.parametrize("approval", ["auto", "per-call", None])
@pytest.mark.parametrize("given", [[], ["/amount"], [{"pointer": "/n", "op": "lt", "value": 0}]])
def test_conditions_never_weaken_approval(approval: str | None, given: Any) -> None:
    declared = {"approvalWhen": given} | ({} if approval is None else {"approval": approval})
    policy = xllm.read(declared)
    tool = Tool(name="pay", safe=True, **policy.list_tool_members())
    verdict = build_consent_check(site=SITE)(Call(tool, {"n": 5}))
    assert (verdict is ALLOW) is (approval == "auto" and given != ["/amount"])


@pytest.mark.requirement("CC-01")
@pytest.mark.parametrize(
    "bad", [None, {}, "x", 5, [None], [{"pointer": "/a", "op": "present"}] * 17, [{"pointer": "/a", "op": "gt"}]]
)
def test_unreadable_approval_conditions_mean_approval_per_call(bad: Any) -> None:
    policy = xllm.read({"approval": "auto", "blanketApprovalAllowed": True, "approvalWhen": bad})
    assert (policy.approval, policy.blanket_allowed, policy.ask_when) == (Approval.PER_CALL, False, ())
