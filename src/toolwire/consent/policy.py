"""How much consent a call needs once the site, the user and the client have spoken.

Rules:
- Approvals are ordered auto < per-call < deny, and the strictest word wins: nobody loosens what another tightened.
- What nobody declared is per-call.
- A wish to lower what the site asks for is an error, not a wish that is quietly dropped.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from toolwire.core.errors import DefinitionError
from toolwire.core.model import Approval, Cost, Tool

_ORDER = tuple(Approval)
_FREE = (None, Cost.FREE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Preferences:
    """What the user asks for on top of the site: for one tool by name or id, for all that write, for everything.

    ``costs`` names the tools whose declared cost needs no question of its own. ``secrets`` names the arguments, of any
    tool, that are masked in questions where they are texts. [XL-073]

    Raises:
        DefinitionError: a text is neither "auto", "per-call" nor "deny".
    """

    everything: Approval | None = None
    writes: Approval | None = None
    tools: Mapping[str, Approval] = field(default_factory=dict)
    costs: frozenset[str] = frozenset()
    secrets: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        for level in (self.everything, self.writes, *self.tools.values()):
            if level is not None and level not in _ORDER:
                raise DefinitionError(f'{level!r} is no approval: write "auto", "per-call" or "deny".')


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientRules:
    """Where this client lets one yes cover later calls although that is risky, each off unless turned on. [XL-046]

    ``elsewhere``: calls that change something on another origin than the document's. ``questions_a_minute`` is how
    often a person is asked at the most; a program that answers may be asked more. ``costly_calls`` is how many calls
    that cost credits or money one connection may make, whoever says yes; without it they are not counted. [XL-054]

    Raises:
        DefinitionError: ``costly_calls`` is neither None nor a number from 0.
    """

    always_destructive: bool = False
    always_costly: bool = False
    always_elsewhere: bool = False
    questions_a_minute: int = 10
    costly_calls: int | None = None

    def __post_init__(self) -> None:
        most = self.costly_calls
        if most is not None and (type(most) is not int or most < 0):
            raise DefinitionError(f"costly_calls is a number of calls from 0, or None for any, not {most!r}.")


NO_PREFERENCES = Preferences()
CLIENT_RULES = ClientRules()


def strictest(*levels: Approval) -> Approval:
    """Return the strictest of ``levels``; of none, auto. [XL-040]"""
    return max(levels, key=_ORDER.index, default=Approval.AUTO)


def joined(first: Preferences, second: Preferences) -> Preferences:
    """Return what both ask for: the strictest of them on each point. [XL-042]"""
    names = {*first.tools, *second.tools}
    return Preferences(
        everything=_stricter(first.everything, second.everything),
        writes=_stricter(first.writes, second.writes),
        tools={
            name: strictest(*(Approval(one.tools[name]) for one in (first, second) if name in one.tools))
            for name in names
        },
        costs=first.costs | second.costs,
        secrets=first.secrets | second.secrets,
    )


def site_level(tool: Tool) -> Approval:
    """Return what the site asks for: its declared approval, else per-call. [XL-041]"""
    return tool.approval if tool.approval is not None else Approval.PER_CALL


def user_level(tool: Tool, preferences: Preferences) -> Approval:
    """Return what the user asks for. It can raise the site's level, never lower it. [XL-042]"""
    writes = None if tool.safe else preferences.writes
    wishes = (preferences.everything, writes, preferences.tools.get(tool.name), preferences.tools.get(tool.id))
    return strictest(*(Approval(wish) for wish in wishes if wish is not None))


def client_level(tool: Tool, preferences: Preferences = NO_PREFERENCES, *, agreed: bool = False) -> Approval:
    """Return what this client asks for whatever the site says: auto only for what reads and is free. [XL-044, XL-073]

    ``agreed`` says that the user, on connecting, let the site's word stand for this tool although it writes.
    """
    if tool.destructive or (tool.cost not in _FREE and not _opted_in(tool, preferences)):
        return Approval.PER_CALL
    return Approval.AUTO if tool.safe or agreed else Approval.PER_CALL


def effective(tool: Tool, preferences: Preferences = NO_PREFERENCES, *, agreed: bool = False) -> Approval:
    """Return the approval a call of ``tool`` needs: the strictest of site, user and client. [XL-040]"""
    client = client_level(tool, preferences, agreed=agreed)
    return strictest(site_level(tool), user_level(tool, preferences), client)


def may_be_always(
    tool: Tool, preferences: Preferences = NO_PREFERENCES, rules: ClientRules = CLIENT_RULES, *, elsewhere: bool = False
) -> bool:
    """Return whether one yes may cover later calls too.

    Only where the site allows it and nobody escalated; for what destroys, costs, or changes something ``elsewhere``
    only where ``rules`` say so. [XL-045, XL-046]
    """
    if not tool.blanket_allowed or user_level(tool, preferences) is not Approval.AUTO:
        return False
    if tool.destructive and not rules.always_destructive:
        return False
    if tool.cost not in _FREE and not rules.always_costly:
        return False
    return not elsewhere or tool.safe or rules.always_elsewhere


def unasked_writes(tools: Iterable[Tool]) -> tuple[Tool, ...]:
    """Return the tools the site would run without asking although they change something, or may. [XL-044]

    What destroys or costs is not among them: that is asked about each time, whatever anybody agreed to.
    """
    return tuple(
        tool
        for tool in tools
        if site_level(tool) is Approval.AUTO and not tool.safe and client_level(tool, agreed=True) is Approval.AUTO
    )


def refuse_lowering(tools: Iterable[Tool], preferences: Preferences) -> None:
    """Do nothing, unless ``preferences`` ask for less than the site does for one of ``tools``. [XL-042]

    Raises:
        DefinitionError: they do; the text names the tool and the least that the site asks for.
    """
    for tool in tools:
        least = site_level(tool)
        for name in (tool.name, tool.id):
            wish = preferences.tools.get(name)
            if wish is not None and _ORDER.index(Approval(wish)) < _ORDER.index(least):
                raise DefinitionError(_lowering(name, wish, least))
        if least is Approval.AUTO:
            continue
        if preferences.everything == Approval.AUTO:
            raise DefinitionError(_lowering(f"everything ({tool.name} is one of them)", Approval.AUTO, least))
        if preferences.writes == Approval.AUTO and not tool.safe:
            raise DefinitionError(_lowering(f"writes ({tool.name} is one of them)", Approval.AUTO, least))


def _lowering(what: str, wish: Approval, least: Approval) -> str:
    return f"{what}: the site asks for {least} at least, so a preference of {wish} cannot be: it can only ask for more."


def _stricter(first: Approval | None, second: Approval | None) -> Approval | None:
    given = [Approval(level) for level in (first, second) if level is not None]
    return strictest(*given) if given else None


def _opted_in(tool: Tool, preferences: Preferences) -> bool:
    return tool.name in preferences.costs or tool.id in preferences.costs
