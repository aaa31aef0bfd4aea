"""Check consent before each call: allow it, ask the user, or deny it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from toolwire.core.check import ALLOW, PERMITTED, Ask, Check, Deny, Question, Verdict
from toolwire.core.model import Approval, Call, Cost, Kind, Problem, Tool

from .conditions import find_condition_reasons
from .grant import GrantKey, Grants, grant_key
from .operator_rules import OperatorRules
from .policy import (
    CLIENT_RULES,
    NO_PREFERENCES,
    ClientRules,
    CurrentPreferences,
    Preferences,
    can_rule_lift,
    effective_level,
    find_always,
)


def build_consent_check(
    *,
    site: str,
    target: Callable[[Call], str] | None = None,
    preferences: Preferences | CurrentPreferences = NO_PREFERENCES,
    rules: ClientRules = CLIENT_RULES,
    grants: Grants | None = None,
    key: Callable[[Tool], GrantKey] | None = None,
    has_agreement: Callable[[Tool], bool] | None = None,
    notices: Callable[[Call], tuple[str, ...]] | None = None,
    operator: OperatorRules | None = None,
) -> Check:
    """Return a check that asks about each call that the policy does not allow. Nothing is sent before the user answers.

    ``site`` is the origin that the user is shown. ``target`` returns a call's method and URL. ``grants`` contains what
    the user allowed for later calls, under ``key``. A grant counts only while the policy allows grants for the tool.
    ``has_agreement`` returns whether the user trusted a writing tool when connecting. ``notices`` returns reasons to
    ask about this call, whatever was allowed before. ``operator`` contains an operator's rules. A rule that lets a call
    run counts only if ``has_agreement`` says that the tool has not changed since it was trusted.
    """
    # XL-043, XL-049
    current = preferences if isinstance(preferences, CurrentPreferences) else CurrentPreferences(preferences)
    key_of = key if key is not None else lambda tool: grant_key(site, tool)
    is_trusted = has_agreement if has_agreement is not None else _trust_nothing
    find_level = _Levels(current).find

    def check(call: Call) -> Verdict:
        tool, rule = call.tool, None if operator is None else operator.find(call)
        is_accepted = not tool.safe and is_trusted(tool)
        level = find_level(tool, is_accepted=is_accepted)
        if rule is not None and rule.kind == "never":
            # QF-02
            text = f"{tool.name} was not called, because the operator does not allow it ({rule.words})."
            return Deny(build_denial(text, reason=OPERATOR_REASON))
        if level is Approval.DENY:
            return Deny(build_denial(f"Your rules do not allow calls of {tool.name}."))
        reasons = () if notices is None else notices(call)
        if tool.ask_when:
            # CC-01: these arguments need consent even if the tool, or an earlier answer, needs no question.
            reasons = (*reasons, *find_condition_reasons(call))
        if rule is not None:
            reasons = (*reasons, *rule.find_reasons())
        if not reasons and rule is not None and level is not Approval.AUTO and can_rule_lift(tool, current.get()):
            if is_trusted(tool):
                return ALLOW  # QF-02: nobody requires this question
            reasons = (_CHANGED_SINCE_TRUSTED,)
        if not reasons and level is Approval.AUTO:
            return ALLOW
        always = False if reasons else find_always(call, current.get(), rules)
        if always and grants is not None and grants.has_grant(key_of(tool)):
            return PERMITTED
        shown_target = target(call) if target is not None else ""
        asked_level = Approval.PER_CALL if level is Approval.AUTO else level
        all_reasons = (*reasons, *_find_reasons(tool), *_find_missing_tokens(call))
        return Ask(Question(call, site, shown_target, asked_level, always, all_reasons))

    return check


class _Levels:
    """The level of each tool, computed once for the same preferences and trust."""

    __slots__ = ("_current", "_known")

    def __init__(self, current: CurrentPreferences) -> None:
        self._current = current
        self._known: dict[int, tuple[Tool, bool, Preferences, Approval]] = {}

    def find(self, tool: Tool, *, is_accepted: bool) -> Approval:
        """Return the level that a call of ``tool`` needs."""
        preferred = self._current.get()
        # The identity is a safe key, because the entry keeps the tool alive.
        known = self._known.get(id(tool))
        if known is None or known[0] is not tool or known[1] is not is_accepted or known[2] is not preferred:
            if len(self._known) >= _MAX_LEVELS:
                self._known.clear()
            level = effective_level(tool, preferred, has_agreement=is_accepted)
            known = self._known[id(tool)] = (tool, is_accepted, preferred, level)
        return known[3]


def _trust_nothing(_: Tool) -> bool:
    return False


_MAX_LEVELS = 20_000
TRUST_ADVICE: Final = " Tools that you trust with --agree, in Python agree=, run without a question."
_CLAIMED_SAFE: Final = f"The server says that this tool is read-only, but cannot prove it.{TRUST_ADVICE}"


_CHANGED_SINCE_TRUSTED: Final = (
    "The operator allowed this tool as it was when the server started, and it has changed since."
)
OPERATOR_REASON: Final = "the operator's rules do not allow it"
"""The reason that a model reads if an operator's rule denies a call."""
NO_APPROVER_REASON: Final = "no approver is configured, so no user was asked"
"""The reason that a model reads if a call is denied without asking a user."""


def build_denial(message: str, *, reason: str = "") -> Problem:
    """Return the result of a call that the user did not allow. A model sees exactly its message and details."""
    # XL-052
    details = {"denied": True, "reason": reason} if reason else {"denied": True}
    return Problem(kind=Kind.DENIED, message=message, details=details)


def _find_missing_tokens(call: Call) -> tuple[str, ...]:
    """Return a sentence about tokens that the tool needs and the call does not contain, or nothing."""
    # I-27: not refused, because the server can have the token or name the page where the user gets it.
    missing = [one.id for one in call.tool.requirements.authorization if one.id not in call.context.tokens]
    if not missing:
        return ()
    options = " ".join(f"--token {one}" for one in missing)
    text = f"This tool needs a token for {', '.join(missing)}, and this call brings none: without one, its server may"
    return (f"{text} refuse the call. Pass {options}, or in Python context=Context(...).",)


def _find_reasons(tool: Tool) -> tuple[str, ...]:
    reasons: list[str] = []
    if tool.approval is None:
        reasons.append("The server does not declare how much consent this tool needs.")
    if tool.destructive and tool.claimed_safe:  # FU-58: one sentence for two claims that contradict each other
        reasons.append("The server declares this tool both read-only and destructive.")
    elif tool.destructive:
        reasons.append("The server declares that this tool is destructive.")
    if tool.cost in (Cost.CREDITS, Cost.PAID):
        reasons.append(f"The server declares a cost for this tool: {tool.cost}.")
    if tool.approval is Approval.AUTO and not tool.safe and not tool.destructive:
        reasons.append(
            _CLAIMED_SAFE if tool.claimed_safe else "The server would not ask, but this tool changes something."
        )
    return tuple(reasons)
