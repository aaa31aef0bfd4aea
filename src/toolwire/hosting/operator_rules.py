"""Read the rules of a gateway's file about the tools of an upstream, for its calls and for the console."""
# QF-02

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Literal, TypeAlias

from toolwire.consent.operator_rules import RULE_KINDS, OperatorRule, OperatorRules, RuleKind, read_rules
from toolwire.core.model import Tool
from toolwire.gateway import CallerConsent

from .serve_settings import UpstreamSettings

Trust: TypeAlias = Callable[[tuple[Tool, ...]], "bool | Collection[str]"]
"""Returns which tools are trusted, of those that would run without a question."""


def read_upstream_rules(upstream: UpstreamSettings, asking: CallerConsent | None = None) -> OperatorRules:
    """Return the rules about the tools of ``upstream``; ``asking`` records what they decide.

    Raises:
        DefinitionError: one of them is not valid.
    """
    run, ask, never = (read_rules(kind, getattr(upstream, kind)) for kind in ("run", "ask", "never"))
    where = f"the file of the gateway, upstream {upstream.name}"
    if asking is None:
        return OperatorRules(run=run, ask=ask, never=never, where=where)
    return OperatorRules(run=run, ask=ask, never=never, where=where, record=asking.record_rule)


def list_rules(rules: OperatorRules) -> Iterator[tuple[RuleKind, OperatorRule]]:
    """Yield each rule with its kind, the strictest kind first."""
    for kind in RULE_KINDS:
        of_kind: tuple[OperatorRule, ...] = getattr(rules, kind)
        for rule in of_kind:
            yield kind, rule


def build_trust(trusted: Literal[True] | Collection[str], rules: OperatorRules | None) -> Trust | None:
    """Return what trusts the tools that the file names, by ``agree`` or by a rule; None if it names none."""
    if trusted is True:
        return lambda _: True
    names = frozenset(trusted)
    if not names and (rules is None or not rules.run):
        return None

    def choose(tools: tuple[Tool, ...]) -> Collection[str]:
        named = {tool.id for tool in tools if tool.name in names or tool.id in names}
        return named | {tool.id for tool in tools if rules is not None and rules.may_run(tool)}

    return choose
