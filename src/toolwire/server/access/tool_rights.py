"""Restrict the tools that a caller may use. Nothing that a caller, a user or a server says or allows adds to them.

Rules:
- A tool that a caller may not use is not listed, described or found. Calls of it are answered as if it did not exist.
- An effect counts only as far as the operator can trust it. An untrusted server's word does not make a tool harmless.
- What cannot be decided is refused, such as a tool of an unknown upstream or a condition about a missing argument.
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
"""The name of the bundle whose URL was requested, or an empty string."""

_MAX_CATALOGS: Final = 8


class BoundedTools:
    """The tools that ``bound`` permits and whose upstreams ``find_upstream`` knows.

    Their catalogs have this ``title``, or else their own.
    """

    def __init__(self, bound: ToolBound, find_upstream: Callable[[Tool], ToolUpstream | None], title: str = "") -> None:
        self._bound, self._find_upstream, self._title = bound, find_upstream, title
        self._narrowed: OrderedDict[int, tuple[Catalog, Catalog]] = OrderedDict()

    def permits(self, tool: Tool) -> bool:
        """Return whether ``tool``, or the resource or prompt that it represents, may be used."""
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
        """Return how many of the catalog's tools may be used, by upstream name."""
        found = (self._find_upstream(tool) for tool in self.narrow(catalog).tools)
        return Counter(one.name for one in found if one is not None)

    def narrow(self, catalog: Catalog) -> Catalog:
        """Return the permitted part of ``catalog``. It is the same object if everything is permitted."""
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
        """Return why the arguments of ``call`` may not be sent, or None if they are permitted."""
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
        self._known: dict[int, BoundedTools] = {}  # by the bound's identity; the rules keep the bound alive

    def find(self, principal: str, group: str) -> BoundedTools | None:
        """Return a caller's bound, or None. ``group`` is the group that the caller's claims select."""
        bound = self._rules.find(principal, group).bound
        if bound == NO_BOUND:
            return None
        known = self._known.get(id(bound))
        if known is None:
            known = self._known[id(bound)] = BoundedTools(bound, self._find_upstream)
        return known

    def check(self, call: Call) -> Verdict:
        """Refuse a call that was accepted while its caller had more rights."""
        verdict = self.check_tool(call)
        return self.check_arguments(call) if verdict is ALLOW else verdict

    def check_tool(self, call: Call) -> Verdict:
        """Refuse a call of a tool that its caller may not use, as if the tool did not exist."""
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
    """Return the toolbox's tools that are in each of ``bundles``, by the bundle's name."""
    find_upstream = find_upstreams(toolbox)
    return {name: BoundedTools(one.bound, find_upstream, one.title) for name, one in bundles.items()}


def narrow_for_call(
    rights: ToolRights | None, bundles: Mapping[str, BoundedTools], call: Call, catalog: Catalog
) -> Catalog:
    """Return the part of ``catalog`` that the caller of ``call`` is offered at the requested URL."""
    if (bundle := bundles.get(BUNDLE.get())) is not None:
        catalog = bundle.narrow(catalog)
    bounded = None if rights is None else rights.find(call.context.principal, call.context.group)
    return catalog if bounded is None else bounded.narrow(catalog)


def _is_own(tool: Tool) -> bool:
    """Return whether ``tool`` is our own, such as the tools that find other (permitted) tools or read results."""
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
    """Return the effects of a call of ``tool``, as far as the operator can trust them."""
    # HTTP defines what its methods do, and an untrusted server cannot change that.
    facts = tool.hints.get("openapi")
    deletes = isinstance(facts, Mapping) and facts.get("method") == "DELETE"
    is_destructive = tool.destructive or deletes or not upstream.declares_effects
    kind: Effect = "reads" if tool.safe or is_reader(tool) else "destructive" if is_destructive else "writes"
    return frozenset((kind, "costs")) if tool.cost not in (None, Cost.FREE) else frozenset((kind,))


def build_unknown(tool: Tool) -> Problem:
    """Return the Problem for a tool that does not exist."""
    return Problem(kind=Kind.UNKNOWN_TOOL, message=f"Unknown tool {tool.id!r}.")
