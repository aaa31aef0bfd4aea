"""Decide by an operator's rules whether a call of an upstream runs, is asked about or is refused.

Rules:
- ``never`` comes before ``ask``, and ``ask`` before ``run``.
- ``run`` lifts only what nobody required: a question that the server or the user wants is asked all the same, and so is
  one about a tool that destroys or costs something.
- "reads" and a name with ``*`` never let a write run: a server chooses its names. Only its exact name does.
- What cannot be decided about arguments counts for ``ask`` and ``never``, and does not count for ``run``.
"""
# QF-02

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from toolwire.core.condition import read_ask_when
from toolwire.core.errors import DefinitionError
from toolwire.core.model import Call, Condition, Json, Tool
from toolwire.core.write_names import has_write_word, is_named_like_write

from .conditions import describe_condition, is_met
from .grant import covers_call
from .policy import can_rule_lift

RuleKind: TypeAlias = Literal["run", "ask", "never"]
RULE_KINDS: Final[tuple[RuleKind, ...]] = ("never", "ask", "run")
"""The kinds of rules, the strictest first."""
READS: Final = "reads"
WRITES: Final = "writes"

_MAX_RULES: Final = 200
_MAX_PATTERN_LENGTH: Final = 200
_MAX_STARS: Final = 4
_MEMBERS: Final = ("tools", "when")
_READING: Final = re.compile(r"(?:check|count|describe|fetch|find|get|list|look|query|read|search|show|view)(?![a-z])")


class OperatorRule(NamedTuple):
    """One rule: ``tools`` is ``reads``, ``writes``, or a name that may contain ``*``. All of ``when`` must hold."""

    tools: str
    when: tuple[Condition, ...] = ()

    @property
    def words(self) -> str:
        """The rule in words, fit to show."""
        conditions = " and ".join(map(describe_condition, self.when))
        return f"{self.tools} where {conditions}" if conditions else self.tools

    def names(self, tool: Tool) -> bool:
        """Return whether the rule is about ``tool``, in any spelling of its name."""
        is_read = tool.safe or tool.claimed_safe
        if self.tools in (READS, WRITES):
            return is_read is (self.tools == READS)
        return any(self._fits(name.casefold(), self.tools.casefold()) for name in _list_names(tool))

    def lets_run(self, tool: Tool) -> bool:
        """Return whether the rule, as one of ``run``, is about ``tool``."""
        is_read = tool.safe or tool.claimed_safe
        if self.tools == READS:
            return is_read
        if "*" in self.tools and not (is_read or (_declares_nothing(tool) and not self._may_name_write(tool))):
            return False
        return any(self._fits(name, self.tools) for name in _list_names(tool))

    def _may_name_write(self, tool: Tool) -> bool:
        # "list_*" names what is done, and a name such as list_open_orders is about orders; "*_order" names neither.
        is_write = is_named_like_write if _READING.match(self.tools) else has_write_word
        return any(map(is_write, _list_names(tool)))

    def _fits(self, name: str, pattern: str) -> bool:
        return name == pattern or ("*" in pattern and _compile(pattern).fullmatch(name) is not None)


class FoundRule(NamedTuple):
    """The rule that decides about a call: its kind, and itself with its place in words."""

    kind: RuleKind
    words: str

    def find_reasons(self) -> tuple[str, ...]:
        """Return why the user is asked, if the rule wants that."""
        return (f"The operator requires your consent ({self.words}).",) if self.kind == "ask" else ()


_ByTool: TypeAlias = "dict[int, tuple[Tool, Mapping[RuleKind, Sequence[OperatorRule]]]]"


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorRules:
    """The rules of one upstream. ``where`` names the file and the table that hold them.

    ``record`` is called with each call that a rule decides without a question, and whether it was ``allowed`` or
    ``denied``; with ``agreed`` for the first call of a tool whose site's word is trusted.
    """

    run: tuple[OperatorRule, ...] = ()
    ask: tuple[OperatorRule, ...] = ()
    never: tuple[OperatorRule, ...] = ()
    where: str = "the operator's file"
    record: Callable[[Call, str], None] = field(default=lambda *_: None, repr=False, compare=False)
    _known: _ByTool = field(default_factory=dict, init=False, repr=False, compare=False)

    def find(self, call: Call) -> FoundRule | None:
        """Return the strictest rule that is about ``call``, or None."""
        tool, arguments = call.tool, call.arguments
        for kind in RULE_KINDS:
            for rule in self._by_tool(tool)[kind]:
                is_covered = covers_call(rule.when or None, arguments)
                if is_covered if kind == "run" else _may_hold(rule.when, tool, arguments):
                    return FoundRule(kind, f'{kind} = "{rule.words}" in {self.where}')
        return None

    def may_run(self, tool: Tool) -> bool:
        """Return whether a rule lets some calls of ``tool`` run."""
        return bool(self._by_tool(tool)["run"])

    def runs_always(self, tool: Tool) -> bool:
        """Return whether calls of ``tool`` run whatever their arguments are."""
        found = self._by_tool(tool)
        return not found["never"] and not found["ask"] and any(not rule.when for rule in found["run"])

    def _by_tool(self, tool: Tool) -> Mapping[RuleKind, Sequence[OperatorRule]]:
        # The identity is a safe key, since the entry keeps the tool alive.
        known = self._known.get(id(tool))
        if known is None or known[0] is not tool:
            if len(self._known) >= _MAX_TOOLS:
                self._known.clear()
            found: dict[RuleKind, Sequence[OperatorRule]] = {
                "never": [rule for rule in self.never if rule.names(tool)],
                "ask": [rule for rule in self.ask if rule.names(tool)],
                "run": [rule for rule in self.run if rule.lets_run(tool)],
            }
            known = self._known[id(tool)] = tool, found
        return known[1]


_MAX_TOOLS: Final = 20_000


def read_rules(kind: RuleKind, given: Any) -> tuple[OperatorRule, ...]:
    """Return the rules in ``given``, the value of a member of a file.

    Raises:
        DefinitionError: it is not valid.
    """
    if not isinstance(given, list | tuple) or len(given) > _MAX_RULES:
        raise DefinitionError(f'{kind} must be an array of at most {_MAX_RULES} rules, such as ["reads", "list_*"].')
    return tuple(_read_rule(kind, number, one) for number, one in enumerate(given, 1))


def _read_rule(kind: RuleKind, number: int, given: Any) -> OperatorRule:
    table = given if isinstance(given, Mapping) else {"tools": given}
    place = f"rule {number} of {kind}"
    odd = next((name for name in table if name not in _MEMBERS), None)
    if odd is not None:
        raise DefinitionError(f"{place}: unknown member {str(odd)[:40]!r}. Only tools and when are allowed.")
    tools, when = table.get("tools"), table.get("when", [])
    if not isinstance(tools, str) or not 1 <= len(tools) <= _MAX_PATTERN_LENGTH or tools.count("*") > _MAX_STARS:
        raise DefinitionError(
            f'{place} must be "reads", "writes" or the name of a tool with at most {_MAX_STARS} "*",'
            ' or a table such as {tools = "pay", when = [{pointer = "/amount", op = "le", value = 50}]}.'
        )
    if kind == "run" and tools == WRITES:
        raise DefinitionError(f"{place}: name each tool that can change something without a question.")
    if not isinstance(when, list | tuple) or ("when" in table and not when):
        raise DefinitionError(f"{place}: when must be a non-empty array of conditions.")
    return OperatorRule(tools, read_ask_when(when, place, "when"))


def describe_idle_rules(rules: Sequence[OperatorRule], tools: Sequence[Tool]) -> list[str]:
    """Return a sentence about each of ``rules`` of ``run`` that lets no call of ``tools`` run, and why."""
    found: list[str] = []
    for rule in rules:
        named = [tool for tool in tools if rule.names(tool)]
        if any(rule.lets_run(tool) and can_rule_lift(tool) for tool in named):
            continue
        if not named:
            reason = "no tool has such a name" if rule.tools != READS else "no tool only reads"
        elif not any(map(rule.lets_run, named)):
            reason = f"a pattern covers no tool that may change something. Name it: {named[0].name}"
        else:
            reason = f"the server of {named[0].name} requires a question, or the tool destroys or costs something"
        found.append(f'run = "{rule.words}" lets no call run: {reason}.')
    return found


def _may_hold(when: Sequence[Condition], tool: Tool, arguments: Mapping[str, Json]) -> bool:
    return all(is_met(one, tool, arguments) is not False for one in when)


def _list_names(tool: Tool) -> tuple[str, ...]:
    mcp = tool.hints.get("mcp")
    listed = mcp.get("name") if isinstance(mcp, Mapping) else None
    names = (tool.name, tool.id, tool.id.partition("@")[0])
    return (*names, listed) if isinstance(listed, str) else names


def _declares_nothing(tool: Tool) -> bool:
    """Return whether the server of ``tool`` says neither that it reads nor that it changes something."""
    mcp = tool.hints.get("mcp")
    annotations = mcp.get("annotations") if isinstance(mcp, Mapping) else None
    declares_write = isinstance(annotations, Mapping) and annotations.get("readOnlyHint") is False
    # A method of HTTP is no silence: what is not a read by its method may change something.
    return tool.approval is None and "openapi" not in tool.hints and not declares_write


def _compile(pattern: str) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, pattern.split("*"))), re.DOTALL)
