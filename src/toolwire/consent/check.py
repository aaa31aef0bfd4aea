"""Consent as a check: allow, ask the person, or deny."""

from __future__ import annotations

from collections.abc import Callable

from toolwire.core.check import ALLOW, Ask, Check, Deny, Question, Verdict
from toolwire.core.model import Approval, Call, Cost, Kind, Problem, Tool

from .grant import Grants, grant_key
from .policy import NO_PREFERENCES, Preferences, effective, may_be_always


def consent_check(
    *,
    site: str,
    target: Callable[[Call], str],
    preferences: Preferences = NO_PREFERENCES,
    grants: Grants | None = None,
) -> Check:
    """Return a check that asks for each call the policy does not let through; nothing is sent before the answer.

    ``site`` is the origin that the person is shown; ``target`` says method and URL of a call. ``grants`` holds what
    the person allowed for good; it counts only while the policy still lets one yes cover later calls. [XL-043, XL-049]
    """

    def check(call: Call) -> Verdict:
        tool = call.tool
        level = effective(tool, preferences)
        if level is Approval.AUTO:
            return ALLOW
        if level is Approval.DENY:
            return Deny(denied(f"Your preferences do not let {tool.name} be called."))
        always = may_be_always(tool, preferences)
        if always and grants is not None and grants.holds(grant_key(site, tool)):
            return ALLOW
        return Ask(Question(call, site, target(call), level, always, _reasons(tool)))

    return check


def denied(message: str, *, reason: str = "") -> Problem:
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
        reasons.append("The site would not ask, but this changes something.")
    return tuple(reasons)
