"""How much consent a call needs once the site, the user and the client have spoken.

Rules:
- Approvals are ordered auto < per-call < deny, and the strictest word wins: nobody loosens what another tightened.
- What nobody declared is per-call.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from toolwire.core.errors import DefinitionError
from toolwire.core.model import Approval, Cost, Tool

_ORDER = tuple(Approval)


@dataclass(frozen=True, slots=True, kw_only=True)
class Preferences:
    """What the user asks for on top of the site: for one tool by name, for all tools that write, for everything.

    Raises:
        DefinitionError: a text is neither "auto", "per-call" nor "deny".
    """

    everything: Approval = Approval.AUTO
    writes: Approval = Approval.AUTO
    tools: Mapping[str, Approval] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for level in (self.everything, self.writes, *self.tools.values()):
            if level not in _ORDER:
                raise DefinitionError(f'{level!r} is no approval: write "auto", "per-call" or "deny".')


NO_PREFERENCES = Preferences()


def strictest(*levels: Approval) -> Approval:
    """Return the strictest of ``levels``; of none, auto. [XL-040]"""
    return max(levels, key=_ORDER.index, default=Approval.AUTO)


def site_level(tool: Tool) -> Approval:
    """Return what the site asks for: its declared approval, else per-call. [XL-041]"""
    return tool.approval if tool.approval is not None else Approval.PER_CALL


def user_level(tool: Tool, preferences: Preferences) -> Approval:
    """Return what the user asks for. It can raise the site's level, never lower it. [XL-042]"""
    writes = Approval.AUTO if tool.safe else Approval(preferences.writes)
    return strictest(
        Approval(preferences.everything), writes, Approval(preferences.tools.get(tool.name, Approval.AUTO))
    )


def client_level(tool: Tool) -> Approval:
    """Return what this client asks for whatever the site says: auto only for what is read and free. [XL-044, XL-073]"""
    if tool.safe and not tool.destructive and tool.cost in (None, Cost.FREE):
        return Approval.AUTO
    return Approval.PER_CALL


def effective(tool: Tool, preferences: Preferences = NO_PREFERENCES) -> Approval:
    """Return the approval a call of ``tool`` needs: the strictest of site, user and client. [XL-040]"""
    return strictest(site_level(tool), user_level(tool, preferences), client_level(tool))


def may_be_always(tool: Tool, preferences: Preferences = NO_PREFERENCES) -> bool:
    """Return whether one yes may cover later calls too.

    Only where the site allows it and nobody escalated, and never for what destroys or costs. [XL-045, XL-046]
    """
    escalated = user_level(tool, preferences) is not Approval.AUTO
    return tool.blanket_allowed and not escalated and not tool.destructive and tool.cost in (None, Cost.FREE)
