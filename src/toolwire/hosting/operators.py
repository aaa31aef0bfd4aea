"""Find who may open a server's console, by the scopes of their keys, and read the rules about tools in its file."""
# CO-02, QF-02

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from hashlib import sha256
from typing import Final, Literal, TypeAlias

from toolwire.consent.operator_rules import (
    RULE_KINDS,
    OperatorRule,
    OperatorRules,
    RuleKind,
    describe_idle_rules,
    read_rules,
)
from toolwire.core.model import Tool
from toolwire.core.toolbox import Toolbox
from toolwire.gateway import CallerConsent
from toolwire.limits import RulesByCaller
from toolwire.server.access.api_keys import ApiKey, ApiKeyCallers
from toolwire.server.access.callers import Caller
from toolwire.server.build import apply_caller_rules

from .serve_settings import UpstreamSettings

SCOPE: Final = "toolwire:console"
"""The scope of an operator's key. A key without scopes can call every tool, but is not an operator's key."""


def find_operators(keys: Sequence[ApiKey], rules: RulesByCaller) -> dict[str, str]:
    """Return the name of each operator by the digest of their key."""
    callers = apply_caller_rules(ApiKeyCallers(keys), rules)
    found: dict[str, str] = {}
    for key in keys:
        caller = callers.find_caller({b"authorization": b"Bearer " + key.key.reveal().encode()})
        if isinstance(caller, Caller) and caller.scopes is not None and SCOPE in caller.scopes:
            found[digest_key(key.key.reveal())] = caller.name.removeprefix("key:")
    return found


def digest_key(key: str) -> str:
    """Return the digest that represents a key in a server's memory."""
    return sha256(key.encode()).hexdigest()


Trust: TypeAlias = Callable[[tuple[Tool, ...]], "bool | Collection[str]"]
"""Returns the trusted tools among those that would run without a question."""


def read_upstream_rules(upstream: UpstreamSettings, asking: CallerConsent | None = None) -> OperatorRules:
    """Return the rules about the upstream's tools. ``asking`` records what they decide.

    Raises:
        DefinitionError: a rule is not valid.
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


def list_idle_rules(upstreams: Iterable[UpstreamSettings], boxes: Iterable[Toolbox]) -> Iterator[str]:
    """Yield a sentence about each rule of ``run`` that lets no call run. The tools must be known."""
    for upstream, box in zip(upstreams, boxes, strict=False):
        if tools := box.catalog().tools:
            for text in describe_idle_rules(read_rules("run", upstream.run), tools):
                yield f"The upstream {upstream.name}: {text}"


def build_trust(trusted: Literal[True] | Collection[str], rules: OperatorRules | None) -> Trust | None:
    """Return the function that trusts the tools in the file's ``agree`` or rules, or None without such tools."""
    if trusted is True:
        return lambda _: True
    names = frozenset(trusted)
    if not names and (rules is None or not rules.run):
        return None

    def choose(tools: tuple[Tool, ...]) -> Collection[str]:
        named = {tool.id for tool in tools if tool.name in names or tool.id in names}
        return named | {tool.id for tool in tools if rules is not None and rules.may_run(tool)}

    return choose
