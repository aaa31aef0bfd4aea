"""How much consent a call needs: nobody loosens what another tightened."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolwire.consent import NO_PREFERENCES, Preferences, effective_level, site_level, strictest_level
from toolwire.consent.policy import (
    ClientRules,
    CurrentPreferences,
    can_allow_always,
    client_level,
    find_unasked_writes,
    merge_preferences,
    reject_lowering,
    user_level,
)
from toolwire.core.errors import DefinitionError
from toolwire.core.model import Approval, Cost, Tool
from toolwire.stores.consent.preferences import StoredPreferences

RANK = {Approval.AUTO: 0, Approval.PER_CALL: 1, Approval.DENY: 2}
LEVELS = st.sampled_from(Approval)
TOOLS = st.builds(
    Tool,
    name=st.sampled_from(["read", "write"]),
    approval=st.none() | LEVELS,
    safe=st.booleans(),
    destructive=st.booleans(),
    blanket_allowed=st.booleans(),
    cost=st.none() | st.sampled_from(Cost),
)
PREFERENCES = st.builds(
    Preferences,
    everything=LEVELS,
    writes=LEVELS,
    tools=st.dictionaries(st.sampled_from(["read", "write", "other"]), LEVELS),
)


@pytest.mark.requirement("XL-040")
@given(TOOLS, PREFERENCES)
def test_effective_level_is_the_strictest_of_site_user_and_client(tool: Tool, preferences: Preferences) -> None:
    layers = [site_level(tool), user_level(tool, preferences), client_level(tool)]
    level = effective_level(tool, preferences)
    assert level in layers
    assert all(RANK[level] >= RANK[layer] for layer in layers)


@pytest.mark.requirement("XL-042")
@given(TOOLS, PREFERENCES)
def test_a_user_can_tighten_but_not_loosen(tool: Tool, preferences: Preferences) -> None:
    assert RANK[effective_level(tool, preferences)] >= RANK[effective_level(tool)]
    assert can_allow_always(tool) or not can_allow_always(tool, preferences)


@pytest.mark.requirement("XL-042")
@given(TOOLS, PREFERENCES, LEVELS)
def test_a_user_can_raise_a_tool_all_writes_or_everything(
    tool: Tool, preferences: Preferences, level: Approval
) -> None:
    for raised in (Preferences(everything=level), Preferences(tools={tool.name: level})):
        assert RANK[effective_level(tool, raised)] >= RANK[level]
    written = effective_level(tool, Preferences(writes=level))
    assert written is effective_level(tool) if tool.safe else RANK[written] >= RANK[level]


@pytest.mark.requirement("XL-042")
def test_level_that_a_user_keeps_holds_for_this_site_from_the_next_call_on(tmp_path: Path) -> None:
    tool = Tool(name="read", safe=True, approval=Approval.AUTO)
    stored = StoredPreferences(tmp_path)
    here, elsewhere = (CurrentPreferences(NO_PREFERENCES, stored, site) for site in ("https://a.example", "b"))
    here.set_level(tool, Approval.DENY)
    assert (here.can_keep, effective_level(tool, here.get())) == (True, Approval.DENY)
    assert effective_level(tool, elsewhere.get()) is Approval.AUTO
    unkept = CurrentPreferences(NO_PREFERENCES)
    unkept.set_level(tool, Approval.DENY)
    assert (unkept.can_keep, effective_level(tool, unkept.get())) == (False, Approval.AUTO)


def test_a_preference_for_another_tool_changes_nothing() -> None:
    tool = Tool(name="read", safe=True, approval=Approval.AUTO)
    assert effective_level(tool, Preferences(tools={"write": Approval.DENY})) is Approval.AUTO


@pytest.mark.requirement("XL-040")
@given(st.lists(LEVELS))
def test_strictest_level_returns_the_highest_rank(levels: list[Approval]) -> None:
    found = strictest_level(*levels)
    assert RANK[found] == max((RANK[level] for level in levels), default=0)


@pytest.mark.requirement("XL-041")
@pytest.mark.parametrize(
    ("declared", "level"), [(None, Approval.PER_CALL), (Approval.AUTO, Approval.AUTO), (Approval.DENY, Approval.DENY)]
)
def test_undeclared_approval_means_per_call(declared: Approval | None, level: Approval) -> None:
    assert site_level(Tool(name="x", approval=declared)) is level


@pytest.mark.requirement("XL-044")
@given(TOOLS)
def test_only_safe_free_auto_tools_run_without_a_question(tool: Tool) -> None:
    unasked = effective_level(tool) is Approval.AUTO
    harmless = tool.safe and not tool.destructive and tool.cost not in (Cost.CREDITS, Cost.PAID)
    assert unasked == (harmless and tool.approval is Approval.AUTO)


@pytest.mark.requirement("XL-044")
def test_site_cannot_declare_a_destructive_tool_as_auto() -> None:
    assert effective_level(Tool(name="delete", approval=Approval.AUTO, destructive=True)) is Approval.PER_CALL


@pytest.mark.requirement("XL-045", "XL-046")
@given(TOOLS, PREFERENCES)
def test_allow_always_is_offered_only_if_site_and_user_permit_it(tool: Tool, preferences: Preferences) -> None:
    if can_allow_always(tool, preferences):
        assert tool.blanket_allowed
        assert user_level(tool, preferences) is Approval.AUTO
        assert not tool.destructive
        assert tool.cost not in (Cost.CREDITS, Cost.PAID)


@pytest.mark.requirement("XL-045")
def test_allow_always_is_offered_for_a_favorite_but_not_for_a_deletion() -> None:
    favourite = Tool(name="addFavorite", approval=Approval.PER_CALL, blanket_allowed=True)
    assert can_allow_always(favourite)
    assert not can_allow_always(favourite, Preferences(writes=Approval.PER_CALL))
    assert not can_allow_always(Tool(name="deleteRecipe", approval=Approval.PER_CALL, destructive=True))
    assert not can_allow_always(Tool(name="deleteRecipe", blanket_allowed=True, destructive=True))
    assert not can_allow_always(Tool(name="buy", blanket_allowed=True, cost=Cost.PAID))


@pytest.mark.parametrize(
    "wrong", [{"everything": "never"}, {"writes": "AUTO"}, {"tools": {"x": ""}}, {"everything": 1}]
)
def test_a_preference_that_is_no_level_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(DefinitionError, match='is not a valid approval level\\. Write "auto", "per-call" or "deny"'):
        Preferences(**wrong)  # type: ignore[arg-type]  # that is the point


def test_preference_level_accepts_text() -> None:
    preferences = Preferences(everything="per-call", tools={"x": "deny"})  # type: ignore[arg-type, dict-item]  # as in settings
    assert effective_level(Tool(name="x", safe=True, approval=Approval.AUTO), preferences) is Approval.DENY
    assert effective_level(Tool(name="y", safe=True, approval=Approval.AUTO), preferences) is Approval.PER_CALL
    assert Preferences() == NO_PREFERENCES


@pytest.mark.requirement("XL-042")
@given(TOOLS, PREFERENCES, PREFERENCES)
def test_merged_preferences_give_the_stricter_level(tool: Tool, first: Preferences, second: Preferences) -> None:
    both = user_level(tool, merge_preferences(first, second))
    assert both is strictest_level(user_level(tool, first), user_level(tool, second))


def test_merging_with_empty_preferences_changes_nothing() -> None:
    wish = Preferences(writes=Approval.DENY, costs=frozenset({"buy"}))
    assert merge_preferences(NO_PREFERENCES, wish) == merge_preferences(wish, NO_PREFERENCES) == wish


@pytest.mark.requirement("XL-044")
def test_tools_that_change_data_without_a_question_are_listed() -> None:
    add = Tool(name="add", approval=Approval.AUTO)
    others = [
        Tool(name="look", approval=Approval.AUTO, safe=True),
        Tool(name="ask", approval=Approval.PER_CALL),
        Tool(name="silent"),
        Tool(name="delete", approval=Approval.AUTO, destructive=True),
        Tool(name="buy", approval=Approval.AUTO, cost=Cost.PAID),
    ]
    assert find_unasked_writes([*others, add]) == (add,)


@pytest.mark.requirement("XL-042")
@pytest.mark.parametrize(
    ("preferences", "said"),
    [
        (Preferences(tools={"write": Approval.AUTO}), "write: the site does not say that it needs no question"),
        (Preferences(tools={"ask": Approval.AUTO}), "ask: the site requires at least per-call"),
        (Preferences(tools={"K.write@1.0.0": Approval.AUTO}), "K.write@1.0.0: the site does not say"),
        (Preferences(everything=Approval.AUTO), r"everything \(including write\): the site does not say"),
        (Preferences(writes=Approval.AUTO), r"writes \(including write\): the site does not say"),
    ],
)
def test_preference_weaker_than_the_site_level_is_refused_by_name(preferences: Preferences, said: str) -> None:
    tools = [
        Tool(name="look", approval=Approval.AUTO, safe=True),
        Tool(name="write", toolkit="K"),
        Tool(name="ask", approval=Approval.PER_CALL),
    ]
    reject_lowering(tools[:1], preferences)
    with pytest.raises(DefinitionError, match=said):
        reject_lowering(tools, preferences)


@pytest.mark.parametrize(
    "preferences",
    [NO_PREFERENCES, Preferences(everything=Approval.DENY), Preferences(tools={"write": Approval.PER_CALL})],
)
def test_preference_as_strict_as_the_site_level_is_accepted(preferences: Preferences) -> None:
    reject_lowering([Tool(name="write"), Tool(name="read", safe=True)], preferences)
    reject_lowering([Tool(name="read", safe=True)], Preferences(writes=Approval.AUTO))


@pytest.mark.requirement("XL-046")
def test_client_rules_can_enable_allow_always_for_each_risk() -> None:
    for tool, rules, elsewhere in (
        (Tool(name="x", blanket_allowed=True, destructive=True), ClientRules(always_destructive=True), False),
        (Tool(name="x", blanket_allowed=True, cost=Cost.PAID), ClientRules(always_costly=True), False),
        (Tool(name="x", blanket_allowed=True), ClientRules(always_elsewhere=True), True),
    ):
        assert can_allow_always(tool, rules=rules, elsewhere=elsewhere)
        assert not can_allow_always(tool, elsewhere=elsewhere)


@pytest.mark.parametrize("most", [-1, 1.5, True, "3"])
def test_invalid_cost_limit_is_refused(most: Any) -> None:
    with pytest.raises(DefinitionError, match="integer of at least 0"):
        ClientRules(costly_calls=most)
