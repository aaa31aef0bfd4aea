"""Collect the faults and references of a document, with the path to each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple, TypeAlias

from toolwire.core.json_pointer import PathStep

Path: TypeAlias = "tuple[Path, PathStep] | None"
"""The way to a value: the way to what holds it, and one step more. Linked, so that going down copies nothing."""

Severity: TypeAlias = Literal["error", "warning"]

MAX_FAULTS: Final = 1_000


class PathFault(NamedTuple):
    """One fault: where, how bad, which rule, and what is wrong and expected.

    A structural one can be seen by looking at one object alone, and so by a JSON Schema.
    """

    path: Path
    severity: Severity
    rule: str
    message: str
    is_structural: bool


class Reference(NamedTuple):
    """A ``$ref`` to the named schema ``target``, and the named schema it is part of, if any.

    ``is_whole`` says that this named schema is nothing but the reference.
    """

    path: Path
    target: str
    owner: str | None
    is_whole: bool


@dataclass(slots=True)
class Report:
    """What was found so far. Faults after the first 1,000 are dropped."""

    faults: list[PathFault] = field(default_factory=list)
    references: list[Reference] = field(default_factory=list)

    @property
    def is_full(self) -> bool:
        """Whether more faults would be dropped."""
        return len(self.faults) >= MAX_FAULTS

    def add_error(self, path: Path, rule: str, message: str) -> None:
        """Add a fault that one object shows by itself."""
        self._add(PathFault(path, "error", rule, message, is_structural=True))

    def add_conflict(self, path: Path, rule: str, message: str) -> None:
        """Add a fault that depends on another part of the document."""
        self._add(PathFault(path, "error", rule, message, is_structural=False))

    def add_warning(self, path: Path, rule: str, message: str) -> None:
        """Add a warning: the document is valid, but should be changed."""
        self._add(PathFault(path, "warning", rule, message, is_structural=False))

    def _add(self, found: PathFault) -> None:
        if not self.is_full:
            self.faults.append(found)


def list_steps(path: Path) -> list[PathStep]:
    """Return the steps of ``path``, from the whole document on."""
    taken: list[PathStep] = []
    while path is not None:
        path, step = path
        taken.append(step)
    return taken[::-1]


def warn_of_nulls(nulls: Sequence[Path], rule: str) -> list[PathFault]:
    """Return one warning for all members that are null, at one of them; none without nulls."""
    if not nulls:
        return []
    many = "This member is null" if len(nulls) == 1 else f"{len(nulls):,} members are null, this one among them"
    text = f"{many}. They are read as unset, but other readers might refuse them. Leave out members that are not set."
    return [PathFault(nulls[0], "warning", rule, text, is_structural=False)]


def quote_text(text: str) -> str:
    """Return ``text`` in quotes for a sentence, cut where it is long."""
    return repr(text if len(text) <= 60 else text[:60] + "...")
