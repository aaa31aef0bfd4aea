"""Bound the tools that a caller may use: nothing that a caller, a user or a server says or allows adds to it.

Rules:
- What a caller may not use is not listed, not described and not found: it is answered like a tool that is not there.
- An effect counts as the operator may believe it. What only an untrusted server says makes no tool harmless.
- What cannot be decided is refused: a tool of no known upstream, a condition on an argument that is not there.
"""
# PL-02

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Final

from toolwire.core.call_by_name import TOOLKIT
from toolwire.core.catalog import Catalog
from toolwire.core.check import ALLOW, Deny, Verdict
from toolwire.core.model import Call, Cost, Kind, Problem, Tool
from toolwire.core.server_features import is_reader
from toolwire.core.toolbox import ToolUpstream, find_upstreams
from toolwire.limits import NO_BOUND, Effect, RulesByCaller, ToolBound, ToolBundle

BUNDLE: ContextVar[str] = ContextVar("BUNDLE", default="")
"""The name of the bundle to whose URL this request came, or an empty text."""

_MAX_CATALOGS: Final = 8


class BoundedTools:
    """The tools that ``bound`` leaves, of those whose upstreams ``find_upstream`` knows.

    Catalogs of them have this ``title``, or their own.
    """

    def __init__(self, bound: ToolBound, find_upstream: Callable[[Tool], ToolUpstream | None], title: str = "") -> None:
        self._bound, self._find_upstream, self._title = bound, find_upstream, title
        self._narrowed: OrderedDict[int, tuple[Catalog, Catalog]] = OrderedDict()

    def permits(self, tool: Tool) -> bool:
        """Return whether ``tool``, or the resource or prompt behind which it stands, may be used."""
        upstream = self._find_upstream(tool)
        if upstream is None:
            return _is_own(tool)
        if upstream.is_entrance:
            return may_use_upstream(self._bound, upstream.name)
        tools, effects = self._bound.tools, self._bound.effects
        if tools is not None and not any(match_tool(one, upstream.name, tool.name) for one in tools):
            return False
        return effects is None or list_effects(tool, upstream) <= effects

    def count_tools(self, catalog: Catalog) -> Mapping[str, int]:
        """Return how many tools of ``catalog`` may be used, by the name of their upstream."""
        found = (self._find_upstream(tool) for tool in self.narrow(catalog).tools)
        return Counter(one.name for one in found if one is not None)

    def narrow(self, catalog: Catalog) -> Catalog:
        """Return the part of ``catalog`` that is left: the same object where that is all."""
        known = self._narrowed.get(id(catalog))
        if known is not None and known[0] is catalog:
            return known[1]
        tools = tuple(filter(self.permits, catalog.tools))
        features = catalog.features.filter(self.permits)
        title = self._title or catalog.title
        is_all = len(tools) == len(catalog.tools) and features == catalog.features and title == catalog.title
        narrowed = catalog if is_all else replace(catalog, title=title, tools=tools, features=features)
        self._narrowed[id(catalog)] = catalog, narrowed
        if len(self._narrowed) > _MAX_CATALOGS:
            self._narrowed.popitem(last=False)
        return narrowed

    def find_refusal(self, call: Call) -> Problem | None:
        """Return why the arguments of ``call`` may not be sent, or None if they may."""
        upstream = self._find_upstream(call.tool)
        if upstream is None:
            return None if _is_own(call.tool) else build_unknown(call.tool)
        for pattern, conditions in self._bound.arguments:
            if not match_tool(pattern, upstream.name, call.tool.name):
                continue
            from toolwire.consent.conditions import describe_condition, is_met  # few servers have such conditions

            for condition in conditions:
                if is_met(condition, call.tool, call.arguments) is not True:
                    text = f"{call.tool.name} did not run: you can call it only if {describe_condition(condition)}."
                    return Problem(kind=Kind.FORBIDDEN, message=text)
        return None


class ToolRights:
    """What each caller may use of the tools of ``toolbox``, by ``rules``."""

    def __init__(self, rules: RulesByCaller, toolbox: object) -> None:
        self._rules, self._find_upstream = rules, find_upstreams(toolbox)
        self._known: dict[int, BoundedTools] = {}  # by the identity of the bound, which the rules keep alive

    def find(self, principal: str, group: str) -> BoundedTools | None:
        """Return the bound of a caller; None if it has none. ``group`` is the one of its claims."""
        bound = self._rules.find(principal, group).bound
        if bound == NO_BOUND:
            return None
        known = self._known.get(id(bound))
        if known is None:
            known = self._known[id(bound)] = BoundedTools(bound, self._find_upstream)
        return known

    def check(self, call: Call) -> Verdict:
        """Refuse a call that was accepted when its caller had other rights."""
        verdict = self.check_tool(call)
        return self.check_arguments(call) if verdict is ALLOW else verdict

    def check_tool(self, call: Call) -> Verdict:
        """Refuse a call of a tool that its caller may not use, as if there were no such tool."""
        bounded = self.find(call.context.principal, call.context.group)
        return ALLOW if bounded is None or bounded.permits(call.tool) else Deny(build_unknown(call.tool))

    def check_arguments(self, call: Call) -> Verdict:
        """Refuse a call whose arguments its caller may not send."""
        bounded = self.find(call.context.principal, call.context.group)
        refusal = None if bounded is None else bounded.find_refusal(call)
        return ALLOW if refusal is None else Deny(refusal)


def open_rights(rules: RulesByCaller | None, toolbox: object) -> ToolRights | None:
    """Return what each caller may use, or None if no caller has a bound."""
    return None if rules is None or not rules.has_bounds else ToolRights(rules, toolbox)


def open_bundles(bundles: Mapping[str, ToolBundle], toolbox: object) -> Mapping[str, BoundedTools]:
    """Return the tools of ``toolbox`` that each of ``bundles`` has, by its name."""
    find_upstream = find_upstreams(toolbox)
    return {name: BoundedTools(one.bound, find_upstream, one.title) for name, one in bundles.items()}


def narrow_for_call(
    rights: ToolRights | None, bundles: Mapping[str, BoundedTools], call: Call, catalog: Catalog
) -> Catalog:
    """Return what the caller of ``call`` is offered of ``catalog`` at the URL to which the call came."""
    if (bundle := bundles.get(BUNDLE.get())) is not None:
        catalog = bundle.narrow(catalog)
    bounded = None if rights is None else rights.find(call.context.principal, call.context.group)
    return catalog if bounded is None else bounded.narrow(catalog)


def _is_own(tool: Tool) -> bool:
    """Return whether ``tool`` is ours: one that finds the others tells of those that are left, one reads results."""
    if tool.toolkit != TOOLKIT:
        return False
    from toolwire.find.short_list import is_own  # FI-01: a server that lists all its tools pays nothing for it
    from toolwire.framing.long_result import is_reading

    return is_own(tool) or is_reading(tool)


def may_use_upstream(bound: ToolBound, name: str) -> bool:
    """Return whether ``bound`` leaves any tool that the upstream ``name`` could have."""
    is_named = bound.tools is None or any(fnmatchcase(name, one.partition(".")[0]) for one in bound.tools)
    return is_named and bound.effects != frozenset()


def match_tool(pattern: str, upstream: str, name: str) -> bool:
    """Return whether ``pattern``, ``UPSTREAM`` or ``UPSTREAM.TOOL``, means the tool ``name`` of ``upstream``."""
    place, dot, tool = pattern.partition(".")
    return fnmatchcase(upstream, place) and (not dot or fnmatchcase(name, tool))


def list_effects(tool: Tool, upstream: ToolUpstream) -> frozenset[Effect]:
    """Return what a call of ``tool`` does, as far as its operator may believe that."""
    # HTTP says what its methods do, and a server that is not trusted does not change that.
    facts = tool.hints.get("openapi")
    deletes = isinstance(facts, Mapping) and facts.get("method") == "DELETE"
    is_destructive = tool.destructive or deletes or not upstream.declares_effects
    kind: Effect = "reads" if tool.safe or is_reader(tool) else "destructive" if is_destructive else "writes"
    return frozenset((kind, "costs")) if tool.cost not in (None, Cost.FREE) else frozenset((kind,))


def build_unknown(tool: Tool) -> Problem:
    """Return the Problem of a tool that is not there."""
    return Problem(kind=Kind.UNKNOWN_TOOL, message=f"Unknown tool {tool.id!r}.")
