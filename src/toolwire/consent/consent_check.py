"""Consent as a check: allow, ask the person, or deny."""

from __future__ import annotations

from collections.abc import Callable

from toolwire.core.check import ALLOW, Ask, Check, Deny, Question, Verdict
from toolwire.core.model import Approval, Call, Cost, Kind, Problem, Tool

from .grant import GrantKey, Grants, grant_key
from .policy import CLIENT_RULES, NO_PREFERENCES, ClientRules, Preferences, effective, may_be_always


def consent_check(
    *,
    site: str,
    target: Callable[[Call], str] | None = None,
    preferences: Preferences = NO_PREFERENCES,
    rules: ClientRules = CLIENT_RULES,
    grants: Grants | None = None,
    key: Callable[[Tool], GrantKey] | None = None,
    agreed: Callable[[Tool], bool] | None = None,
    notices: Callable[[Call], tuple[str, ...]] | None = None,
) -> Check:
    """Return a check that asks for each call the policy does not let through; nothing is sent before the answer.

    ``site`` is the origin that the person is shown; ``target`` says method and URL of a call. ``grants`` holds what
    the person allowed for good, by ``key``; it counts only while the policy still lets one yes cover later calls.
    ``agreed`` says which tools that write were let through on connecting. ``notices`` are reasons to ask about this
    very call whatever was allowed before. [XL-043, XL-049]
    """
    levels: dict[int, tuple[Tool, bool, Approval]] = {}
    key_of = key if key is not None else lambda tool: grant_key(site, tool)

    def check(call: Call) -> Verdict:
        tool = call.tool
        agreed_to = agreed is not None and not tool.safe and agreed(tool)
        known = levels.get(id(tool))
        if known is None or known[0] is not tool or known[1] is not agreed_to:
            if len(levels) >= _KEPT:
                levels.clear()
            known = levels[id(tool)] = (tool, agreed_to, effective(tool, preferences, agreed=agreed_to))
        level = known[2]
        if level is Approval.DENY:
            return Deny(build_denial(f"Your preferences do not let {tool.name} be called."))
        noticed = notices(call) if notices is not None else ()
        if not noticed and level is Approval.AUTO:
            return ALLOW
        always = not noticed and may_be_always(tool, preferences, rules)
        if always and grants is not None and grants.holds(key_of(tool)):
            return ALLOW
        where = target(call) if target is not None else ""
        asked = Approval.PER_CALL if level is Approval.AUTO else level
        return Ask(Question(call, site, where, asked, always, (*noticed, *_reasons(tool))))

    return check


_KEPT = 20_000
_CLAIMED = "The site would not ask and says that this only reads, but nothing except its word shows that."


def build_denial(message: str, *, reason: str = "") -> Problem:
    """Return the result of a call the person did not allow; its details are exactly what a model is told. [XL-052]"""
    details = {"denied": True, "reason": reason} if reason else {"denied": True}
    return Problem(kind=Kind.DENIED, message=message, details=details)


def _reasons(tool: Tool) -> tuple[str, ...]:
    reasons: list[str] = []
    if tool.approval is None:
        reasons.append("The site does not say how much consent this needs.")
    if tool.destructive:
        reasons.append("The site says that this destroys something.")
    if tool.cost in (Cost.CREDITS, Cost.PAID):
        reasons.append(f"The site says that this costs: {tool.cost}.")
    if tool.approval is Approval.AUTO and not tool.safe:
        reasons.append(_CLAIMED if tool.claimed_safe else "The site would not ask, but this changes something.")
    return tuple(reasons)
