"""Define what the converter knows of one kind of document."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from toolwire.core.catalog import Catalog
from toolwire.core.model import Json, Problem, Tool

from .loss import Loss


class DocumentEntry(NamedTuple):
    """One tool of a document: its name there, its pointer, and the tool as the standard parts describe it.

    ``renamed`` is the loss of a name that is not legal here. ``mended`` has the losses of a schema that was not usable
    as it stood, by the field of the tool.
    """

    label: str
    pointer: str
    tool: Tool
    renamed: Loss | None = None
    mended: tuple[tuple[str, Loss], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentContent:
    """What a document says in its own words, and what of it has no place in a catalog."""

    title: str
    version: str = "1.0.0"
    description: str = ""
    entries: tuple[DocumentEntry, ...] = ()
    losses: tuple[Loss, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentForm:
    """One kind of document, such as OpenAPI: how to recognise, read and write it.

    ``read`` gets only data that ``fits``. ``label_tools`` returns the tools of a catalog that the document can hold, by
    the names that the document gives them. ``extension_path`` is the path of our own member, ``()`` where the format
    has no room for one. ``keeps_exact_values`` says whether that member may hold what the format itself cannot say.
    ``field_pointers`` is the JSON Pointer of each field, relative to its entry.
    """

    kind: str
    fits: Callable[[Json], bool]
    write: Callable[[Catalog], Json]
    read: Callable[[Json], DocumentContent | Problem]
    label_tools: Callable[[Catalog], Mapping[str, Tool]]
    extension_path: tuple[str, ...] = ("x-toolwire",)
    keeps_exact_values: bool = True
    field_pointers: Mapping[str, str] = field(default_factory=dict)


POLICY_POINTERS: Mapping[str, str] = {
    "approval": "/x-llm/approval",
    "ask_when": "/x-llm/approvalWhen",
    "question": "/x-llm/question",
    "blanket_allowed": "/x-llm/blanketApprovalAllowed",
    "cost": "/x-llm/costIndicator",
    "destructive": "/x-llm/destructive",
    "hint": "/x-llm/hint",
    "idempotent": "/x-llm/idempotent",
    "rate_limit": "/x-llm/rateLimit",
    "safe": "/x-llm/readOnly",
}
"""Where an ``x-llm`` beside a tool says what."""
