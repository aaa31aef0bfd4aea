"""Compute how much consent a call needs, from the site's, the user's and the client's rules.

Rules:
- Approval levels are ordered auto < per-call < deny. The strictest level wins, so no party can loosen another's rule.
- A tool without a declared level is per-call.
- A preference below the site's level is an error. It is never silently ignored.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from toolwire.core.condition import SUM, WITHIN
from toolwire.core.errors import DefinitionError
from toolwire.core.grant_bounds import GrantBounds
from toolwire.core.model import Approval, Call, Cost, Tool

_ORDER = tuple(Approval)
_FREE = (None, Cost.FREE)
EVERY = "*"
"""Stands for every tool in the lists of tools that return private or untrusted data."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preferences:
    """The user's consent rules: for one tool by name or ID, for all tools that write, or for every tool.

    - ``costs``: tools that can cost something without a question about the cost.
    - ``secrets``: names of arguments, of any tool, whose values are masked in questions.
    - ``private``, ``untrusted``: tools or connections that return private data, or text that anyone could have written.
      ``"*"`` means all. Once a session has read both, it asks before anything leaves.

    Raises:
        DefinitionError: a level is not "auto", "per-call" or "deny".
    """

    everything: Approval | None = None
    writes: Approval | None = None
    tools: Mapping[str, Approval] = field(default_factory=dict)
    costs: frozenset[str] = frozenset()  # XL-073: a cost asks each time, unless the user named the tool
    secrets: frozenset[str] = frozenset()
    private: frozenset[str] = frozenset()  # QF-06
    untrusted: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        for level in (self.everything, self.writes, *self.tools.values()):
            if level is not None and level not in _ORDER:
                raise DefinitionError(f'{level!r} is not a valid approval level. Write "auto", "per-call" or "deny".')


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientRules:
    """The limits that this client sets for consent.

    - ``always_destructive``, ``always_costly``, ``always_elsewhere``: whether one approval can cover later calls of
      this kind. ``always_elsewhere`` is about calls that change something at another origin than the document's.
    - ``questions_a_minute``: how often the user can be asked. A question that is answered within 0.25 seconds
      does not count: a program answers it.
    - ``costly_calls``: how many calls that cost credits or money one connection can make, even with approval. None
      means no limit.

    Raises:
        DefinitionError: ``costly_calls`` is neither None nor an integer of at least 0.
    """

    # XL-046, XL-054
    always_destructive: bool = False
    always_costly: bool = False
    always_elsewhere: bool = False
    questions_a_minute: int = 10
    costly_calls: int | None = None

    def __post_init__(self) -> None:
        most = self.costly_calls
        if most is not None and (type(most) is not int or most < 0):
            raise DefinitionError(f"costly_calls must be an integer of at least 0, or None for no limit, not {most!r}.")


class PreferenceStore(Protocol):
    """The user's stored preferences for each site. They can only require more consent."""

    # XL-042

    def find(self, site: str, /) -> Preferences:
        """Return the preferences for ``site``, an origin. The object stays the same until they change."""
        ...

    def set(self, site: str, tool: str, level: Approval, /) -> None:
        """Store per-call or deny for ``tool`` of ``site``."""
        ...


NO_PREFERENCES = Preferences()
CLIENT_RULES = ClientRules()


def strictest_level(*levels: Approval) -> Approval:
    """Return the strictest of ``levels``, or auto if there are none."""
    # XL-040
    return max(levels, key=_ORDER.index, default=Approval.AUTO)


def merge_preferences(first: Preferences, second: Preferences) -> Preferences:
    """Return the preferences that satisfy both: the stricter level of each pair."""
    # XL-042
    names = {*first.tools, *second.tools}
    return Preferences(
        everything=_stricter_level(first.everything, second.everything),
        writes=_stricter_level(first.writes, second.writes),
        tools={
            name: strictest_level(*(Approval(one.tools[name]) for one in (first, second) if name in one.tools))
            for name in names
        },
        costs=first.costs | second.costs,
        secrets=first.secrets | second.secrets,
        private=first.private | second.private,
        untrusted=first.untrusted | second.untrusted,
    )


class CurrentPreferences:
    """The preferences of a connection to ``site``: the ``initial`` ones and the ones in ``preference_store``."""

    # XL-042: a level that is set in another process applies from the next call on.

    def __init__(self, given: Preferences, preference_store: PreferenceStore | None = None, site: str = "") -> None:
        self.initial: Preferences = given
        self._store = preference_store
        self._site = site
        self._merged = (NO_PREFERENCES, given)

    def get(self) -> Preferences:
        """Return the preferences. The object stays the same until they change."""
        if self._store is None:
            return self.initial
        newest = self._store.find(self._site)
        if newest is not self._merged[0]:
            self._merged = (newest, merge_preferences(self.initial, newest))
        return self._merged[1]

    @property
    def can_keep(self) -> bool:
        """Whether the user can store a level for a tool."""
        return self._store is not None

    def set_level(self, tool: Tool, level: Approval) -> None:
        """Keep ``level`` for ``tool``, of every version.

        Raises:
            DefinitionError: it cannot be stored.
        """
        if self._store is not None:
            self._store.set(self._site, tool.name, level)


def site_level(tool: Tool) -> Approval:
    """Return the level that the site declares, or per-call if it declares none."""
    # XL-041
    return tool.approval if tool.approval is not None else Approval.PER_CALL


def user_level(tool: Tool, preferences: Preferences) -> Approval:
    """Return the level that the user sets. It can raise the level of the site, never lower it."""
    # XL-042
    writes = None if tool.safe else preferences.writes
    levels = (preferences.everything, writes, preferences.tools.get(tool.name), preferences.tools.get(tool.id))
    return strictest_level(*(Approval(level) for level in levels if level is not None))


def client_level(tool: Tool, preferences: Preferences = NO_PREFERENCES, *, has_agreement: bool = False) -> Approval:
    """Return the level that this client sets, whatever the site declares. It is auto only for free, read-only tools.

    ``has_agreement`` means that the user accepted, when connecting, that this tool writes without a question.
    """
    # XL-044, XL-073
    if tool.destructive or (tool.cost not in _FREE and not _has_cost_opt_in(tool, preferences)):
        return Approval.PER_CALL
    return Approval.AUTO if tool.safe or has_agreement else Approval.PER_CALL


def effective_level(tool: Tool, preferences: Preferences = NO_PREFERENCES, *, has_agreement: bool = False) -> Approval:
    """Return the level that a call of ``tool`` needs: the strictest of site, user and client."""
    # XL-040
    client = client_level(tool, preferences, has_agreement=has_agreement)
    return strictest_level(site_level(tool), user_level(tool, preferences), client)


def can_rule_lift(tool: Tool, preferences: Preferences = NO_PREFERENCES) -> bool:
    """Return whether an operator's rule can let calls of ``tool`` run, because nobody requires a question about it.

    A site that declares nothing requires no question, whatever level its tools are read with. A site that declares
    "per-call" requires one. So does a tool that destroys or costs something.
    """
    # QF-02
    is_free = client_level(tool, preferences, has_agreement=True) is Approval.AUTO
    # An operation of a document without x-llm is read as per-call (XL-041), which its site never declared.
    is_required = tool.approval not in (None, Approval.AUTO) and not (
        tool.approval is Approval.PER_CALL and tool.blanket_allowed is None
    )
    return is_free and not is_required and user_level(tool, preferences) is Approval.AUTO


def can_allow_always(
    tool: Tool, preferences: Preferences = NO_PREFERENCES, rules: ClientRules = CLIENT_RULES, *, elsewhere: bool = False
) -> bool:
    """Return whether one approval can also cover later calls.

    The site must allow it, and the user must not have raised the level. For a tool that destroys or costs something, or
    changes something ``elsewhere``, ``rules`` must also allow it.
    """
    # XL-045, XL-046
    if not tool.blanket_allowed or user_level(tool, preferences) is not Approval.AUTO:
        return False
    if tool.destructive and not rules.always_destructive:
        return False
    if tool.cost not in _FREE and not rules.always_costly:
        return False
    return not elsewhere or tool.safe or rules.always_elsewhere


def find_always(
    call: Call, preferences: Preferences = NO_PREFERENCES, rules: ClientRules = CLIENT_RULES, *, elsewhere: bool = False
) -> bool | None:
    """Return whether one approval of ``call`` can also cover later calls. None means only within bounds.

    It is None if the site does not use x-llm. No setting allows that for a call that destroys or costs something, goes
    ``elsewhere``, or has no argument to limit.
    """
    # QF-03
    tool = call.tool
    if tool.blanket_allowed is not None:
        return can_allow_always(tool, preferences, rules, elsewhere=elsewhere)
    is_free = client_level(tool, has_agreement=True) is Approval.AUTO and user_level(tool, preferences) is Approval.AUTO
    return None if is_free and not elsewhere and call.arguments else False


def explain_unkept(bounds: GrantBounds | None, *, always_allowed: bool | None) -> str:
    """Return a sentence for the user that says why no permission with ``bounds`` can be stored. Empty if it can.

    ``always_allowed`` is None if a permission needs bounds that limit an argument.
    """
    # QF-03
    if always_allowed:
        return ""
    if always_allowed is not None:
        return "This tool can only be allowed one call at a time, so no permission can be stored."
    if bounds is not None and not bounds.tools and any(op in _LIMITS for _, op, _ in bounds.conditions or ()):
        return ""
    return (
        "The server does not declare that later calls can run without a question, so a permission needs a condition"
        " that limits an argument, or a sum."
    )


_LIMITS: Final = frozenset(("eq", "in", "lt", "le", "matches", WITHIN, SUM))


def find_unasked_writes(tools: Iterable[Tool]) -> tuple[Tool, ...]:
    """Return the tools that the site declares as auto although they change, or can change, something.

    Destructive and costly tools are not included, because they ask each time, whatever the user agreed to.
    """
    # XL-044
    return tuple(tool for tool in tools if not tool.safe and runs_unasked(tool))


def runs_unasked(tool: Tool) -> bool:
    """Return whether ``tool`` runs without a question once the user has agreed to what its site declares."""
    return site_level(tool) is Approval.AUTO and client_level(tool, has_agreement=True) is Approval.AUTO


def reject_lowering(tools: Iterable[Tool], preferences: Preferences) -> None:
    """Raise if ``preferences`` set a lower level than the site does for one of ``tools``.

    Raises:
        DefinitionError: a preference is too low. The message names the tool and the site's level.
    """
    # XL-042
    for tool in tools:
        least = site_level(tool)
        for name in (tool.name, tool.id):
            level = preferences.tools.get(name)
            if level is not None and _ORDER.index(Approval(level)) < _ORDER.index(least):
                raise DefinitionError(_describe_lowering(name, level, tool))
        if least is Approval.AUTO:
            continue
        if preferences.everything == Approval.AUTO:
            raise DefinitionError(_describe_lowering(f"everything (including {tool.name})", Approval.AUTO, tool))
        if preferences.writes == Approval.AUTO and not tool.safe:
            raise DefinitionError(_describe_lowering(f"writes (including {tool.name})", Approval.AUTO, tool))


def _describe_lowering(what: str, level: Approval, tool: Tool) -> str:
    # I-21: a server that said nothing is not said to require anything.
    why = (
        "the site does not say that it needs no question, so each call needs one"
        if tool.approval is None
        else f"the site requires at least {tool.approval}"
    )
    return f"{what}: {why}, and your rules can only be stricter. Remove {level}."


def _stricter_level(first: Approval | None, second: Approval | None) -> Approval | None:
    given = [Approval(level) for level in (first, second) if level is not None]
    return strictest_level(*given) if given else None


def _has_cost_opt_in(tool: Tool, preferences: Preferences) -> bool:
    return tool.name in preferences.costs or tool.id in preferences.costs
