"""Consent as a check: allow, ask, or deny, and what a person is told."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolwire.consent import Preferences, build_consent_check, build_denial, effective_level
from toolwire.core.check import ALLOW, Ask, Deny, Question, Verdict
from toolwire.core.model import Approval, Call, Cost, Kind, Tool

SITE = "https://recipes.example"


def judge(tool: Tool, preferences: Preferences | None = None) -> Verdict:
    check = build_consent_check(
        site=SITE,
        target=lambda call: f"POST {SITE}/{call.tool.name}",
        preferences=preferences or Preferences(),
    )
    return check(Call(tool, {"a": 1}))


def question(tool: Tool, preferences: Preferences | None = None) -> Question:
    verdict = judge(tool, preferences)
    assert isinstance(verdict, Ask)
    return verdict.question


def test_safe_tool_with_approval_auto_is_allowed() -> None:
    assert judge(Tool(name="x", safe=True, approval=Approval.AUTO)) is ALLOW


@pytest.mark.requirement("XL-049")
def test_a_question_shows_the_call_the_site_and_the_target() -> None:
    tool = Tool(name="add", approval=Approval.PER_CALL, blanket_allowed=True)
    asked = question(tool)
    assert asked == Question(Call(tool, {"a": 1}), SITE, f"POST {SITE}/add", Approval.PER_CALL, True, ())


@pytest.mark.requirement("XL-044", "XL-049")
@pytest.mark.parametrize(
    ("tool", "reason"),
    [
        (Tool(name="x"), "does not declare how much consent"),
        (Tool(name="x", approval=Approval.PER_CALL, destructive=True), "is destructive"),
        (Tool(name="x", approval=Approval.PER_CALL, cost=Cost.CREDITS), "a cost for this tool: credits"),
        (Tool(name="x", approval=Approval.AUTO), "would not ask, but this tool changes something"),
    ],
)
def test_question_contains_its_reason(tool: Tool, reason: str) -> None:
    reasons = question(tool).reasons
    assert len(reasons) == 1
    assert reason in reasons[0]


def test_cost_free_is_no_reason_to_ask() -> None:
    assert question(Tool(name="x", approval=Approval.PER_CALL, cost=Cost.FREE)).reasons == ()


def test_tool_denied_by_the_user_is_denied_without_a_question() -> None:
    verdict = judge(Tool(name="x", safe=True, approval=Approval.AUTO), Preferences(tools={"x": Approval.DENY}))
    assert isinstance(verdict, Deny)
    assert verdict.problem.kind is Kind.DENIED
    assert verdict.problem.details == {"denied": True}


@pytest.mark.requirement("XL-042", "XL-045")
def test_allow_always_is_not_offered_if_the_user_requires_each_approval() -> None:
    tool = Tool(name="x", safe=True, approval=Approval.AUTO, blanket_allowed=True)
    assert question(tool, Preferences(everything=Approval.PER_CALL)).always_allowed is False


@given(st.sampled_from([None, *Approval]), st.booleans(), st.sampled_from(Approval))
def test_verdict_follows_the_effective_approval_level(
    approval: Approval | None, safe: bool, everything: Approval
) -> None:
    tool, preferences = Tool(name="x", approval=approval, safe=safe), Preferences(everything=everything)
    kinds = {Approval.AUTO: type(ALLOW), Approval.PER_CALL: Ask, Approval.DENY: Deny}
    assert type(judge(tool, preferences)) is kinds[effective_level(tool, preferences)]


@pytest.mark.requirement("XL-052")
def test_denial_details_have_an_exact_form() -> None:
    assert build_denial("No.").details == {"denied": True}
    assert build_denial("No.", reason="too dear").details == {"denied": True, "reason": "too dear"}


def test_consent_check_judges_very_many_tools_correctly() -> None:
    check = build_consent_check(site=SITE)
    auto, asks = Tool(name="x", safe=True, approval=Approval.AUTO), Tool(name="y", approval=Approval.PER_CALL)
    stored = [Tool(name=f"t{number}", safe=True, approval=Approval.AUTO) for number in range(20_001)]
    assert all(check(Call(tool, {})) is ALLOW for tool in [auto, *stored, auto])
    assert isinstance(check(Call(asks, {})), Ask)


@pytest.mark.requirement("XL-044")
def test_agreement_at_connect_replaces_the_question_until_it_ends() -> None:
    tool = Tool(name="add", approval=Approval.AUTO)
    agreed = {"add"}
    check = build_consent_check(site=SITE, has_agreement=lambda one: one.name in agreed)
    assert check(Call(tool, {})) is ALLOW
    agreed.clear()
    assert isinstance(check(Call(tool, {})), Ask)


def test_notice_causes_a_question_and_is_its_first_reason() -> None:
    check = build_consent_check(site=SITE, notices=lambda call: ("Careful.",) if call.arguments else ())
    tool = Tool(name="x", safe=True, approval=Approval.AUTO, blanket_allowed=True)
    assert check(Call(tool, {})) is ALLOW
    verdict = check(Call(tool, {"a": 1}))
    assert isinstance(verdict, Ask)
    assert (verdict.question.approval, verdict.question.always_allowed) == (Approval.PER_CALL, False)
    assert verdict.question.reasons[0] == "Careful."
