"""A person's "always" is for exactly what they saw."""

from dataclasses import replace
from typing import Any

import pytest

from toolwire.consent import Preferences, build_consent_check, grant_key
from toolwire.core.check import PERMITTED, Ask, Verdict
from toolwire.core.model import Approval, Call, Cost, RateLimit, Requirements, Tool
from toolwire.stores import MemoryGrants

SITE = "https://recipes.example"
NOTE = Tool(name="note", description="Write it down.", approval=Approval.PER_CALL, blanket_allowed=True)


def judge(tool: Tool, grants: MemoryGrants, preferences: Preferences | None = None, site: str = SITE) -> Verdict:
    chosen = preferences if preferences is not None else Preferences()
    return build_consent_check(site=site, target=lambda _: "", preferences=chosen, grants=grants)(Call(tool, {}))


@pytest.fixture
def grants() -> MemoryGrants:
    granted = MemoryGrants()
    granted.add(grant_key(SITE, NOTE))
    return granted


def test_allow_always_prevents_a_second_question(grants: MemoryGrants) -> None:
    assert isinstance(judge(NOTE, MemoryGrants()), Ask)
    assert judge(NOTE, grants) is PERMITTED


@pytest.mark.requirement("XL-047", "D-04")
@pytest.mark.parametrize(
    "change",
    [
        {"description": "Write it down!"},
        {"version": "1.0.1"},
        {"toolkit": "Other"},
        {"input_schema": {"properties": {"a": {}}}},
        {"output_schema": None},
        {"safe": True},
        {"hint": "Often."},
        {"rate_limit": RateLimit(max=1, window="1m")},
        {"requirements": Requirements(secrets=("k",))},
        {"hints": {"openapi": {"server": "https://other.example"}}},
    ],
)
def test_changed_definition_asks_again(grants: MemoryGrants, change: dict[str, Any]) -> None:
    changed = replace(NOTE, **change)
    assert grant_key(SITE, changed) != grant_key(SITE, NOTE)
    assert isinstance(judge(changed, grants), Ask)


@pytest.mark.requirement("XL-047")
def test_another_site_asks_again(grants: MemoryGrants) -> None:
    assert isinstance(judge(NOTE, grants, site="https://other.example"), Ask)


@pytest.mark.requirement("XL-045", "XL-046", "XL-048")
@pytest.mark.parametrize("change", [{"blanket_allowed": False}, {"destructive": True}, {"cost": Cost.PAID}])
def test_grant_ends_if_the_site_withdraws_blanket_approval(change: dict[str, Any]) -> None:
    changed, granted = replace(NOTE, **change), MemoryGrants()
    granted.add(grant_key(SITE, changed))
    assert isinstance(judge(changed, granted), Ask)


@pytest.mark.requirement("XL-042", "XL-045")
def test_user_preference_per_call_asks_despite_a_grant(grants: MemoryGrants) -> None:
    assert isinstance(judge(NOTE, grants, Preferences(writes=Approval.PER_CALL)), Ask)


def test_grant_key_accepts_text_with_a_lone_surrogate() -> None:
    assert grant_key(SITE, replace(NOTE, description="\ud800")) != grant_key(SITE, NOTE)
