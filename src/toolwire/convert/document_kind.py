"""What the converter has to know of one sort of document."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from toolwire.core.catalog import Catalog
from toolwire.core.model import Json, Problem, Tool

from .loss import Loss


class Entry(NamedTuple):
    """One tool of a document: what the document calls it, where it stands, and what anybody can read of it.

    ``renamed`` is the loss of a name that is not legal here.
    """

    label: str
    pointer: str
    tool: Tool
    renamed: Loss | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sheet:
    """What a document says in its own words, and what of it has no place in a catalog."""

    title: str
    version: str = "1.0.0"
    description: str = ""
    entries: tuple[Entry, ...] = ()
    losses: tuple[Loss, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """One sort of document.

    ``read`` is given only what ``fits``. ``labels`` gives the tools of a catalog that the document has, by what it
    calls them. ``room`` is the way to the member that is ours; empty where there is none. ``carries`` says whether
    that member may say what the tools are beyond the document's own words. ``spots`` is where a field stands, from
    its entry on.
    """

    kind: str
    fits: Callable[[Json], bool]
    write: Callable[[Catalog], Json]
    read: Callable[[Json], Sheet | Problem]
    labels: Callable[[Catalog], Mapping[str, Tool]]
    room: tuple[str, ...] = ("x-toolwire",)
    carries: bool = True
    spots: Mapping[str, str] = field(default_factory=dict)


POLICY_SPOTS: Mapping[str, str] = {
    "approval": "/x-llm/approval",
    "blanket_allowed": "/x-llm/blanketApprovalAllowed",
    "cost": "/x-llm/costIndicator",
    "destructive": "/x-llm/destructive",
    "hint": "/x-llm/hint",
    "idempotent": "/x-llm/idempotent",
    "rate_limit": "/x-llm/rateLimit",
    "safe": "/x-llm/readOnly",
}
"""Where an ``x-llm`` beside a tool says what."""


def every_version(catalog: Catalog) -> dict[str, Tool]:
    """Return each tool of ``catalog`` by its unique name, the older ones by ``name@version``."""
    names = {(tool.toolkit, tool.name): name for name, tool in catalog.names.items()}
    unique = [(names[tool.toolkit, tool.name], tool) for tool in catalog.tools]
    return {name if catalog.names[name] is tool else f"{name}@{tool.version}": tool for name, tool in unique}
