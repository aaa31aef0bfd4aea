"""Group questions that wait by the task that asks them, and find in what those about one tool differ.

A task is what one caller does at one server, by one connection. It is read from what the questions show.
"""
# QF-05

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Generic, Protocol, TypeVar

from .display import DisplayRow

DIFFERS: Final = "differs"
"""The end of the note of an argument that other questions of the same task have otherwise."""
_FACTS: Final = ("site", "program", "connection", "asked by")


class ShownQuestion(Protocol):
    """A question that waits, as the rows that its user sees."""

    @property
    def id(self) -> str:
        """The id by which it is answered."""
        ...

    @property
    def rows(self) -> tuple[DisplayRow, ...]:
        """What its user sees."""
        ...


Q = TypeVar("Q", bound=ShownQuestion)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionGroup(Generic[Q]):
    """The ``questions`` of one task, oldest first; ``words`` name the task and are fit to show.

    ``differing`` has by the id of a question the arguments in which it differs from others about the same tool. A
    question about a tool that no other one is about is not in it.
    """

    words: str
    questions: Sequence[Q]
    differing: Mapping[str, frozenset[str]]


def group_questions(waiting: Iterable[Q]) -> list[QuestionGroup[Q]]:
    """Return ``waiting`` by task. The task with the oldest question comes first."""
    tasks: dict[str, list[Q]] = {}
    for one in waiting:
        tasks.setdefault(_name_task(one.rows), []).append(one)
    return [
        QuestionGroup(words=words, questions=found, differing=_find_differing(found)) for words, found in tasks.items()
    ]


def mark_differing(rows: Iterable[DisplayRow], names: frozenset[str]) -> tuple[DisplayRow, ...]:
    """Return ``rows`` with a note at each argument of these ``names``."""
    return tuple(
        row._replace(note="; ".join(part for part in (row.note, DIFFERS) if part))
        if row.kind == "argument" and row.label in names
        else row
        for row in rows
    )


def describe_differences(names: frozenset[str]) -> str:
    """Return how a question compares with others of its task about the same tool."""
    # AT-52: no name of an argument stands here, since its server wrote it.
    if names:
        return "Other questions of this task are about the same tool. The differences are marked."
    return "Another question of this task is about the same tool, with the same arguments."


def _name_task(rows: Iterable[DisplayRow]) -> str:
    facts = {row.label: row.text for row in rows if row.kind == "part" and row.label in _FACTS}
    where = facts.get("program") or facts.get("site") or "a server"
    connection, caller = facts.get("connection"), facts.get("asked by")
    via = f", by the connection {connection}" if connection else ""
    return f"{where}{via}{f', for {caller}' if caller else ''}"


def _find_differing(found: Sequence[Q]) -> dict[str, frozenset[str]]:
    by_tool: dict[str, list[Q]] = {}
    for one in found:
        tool = next((row.text for row in one.rows if row.kind == "part" and row.label == "tool"), "")
        by_tool.setdefault(tool, []).append(one)
    differing: dict[str, frozenset[str]] = {}
    for alike in by_tool.values():
        if len(alike) > 1:
            values = [_list_arguments(one.rows) for one in alike]
            names = {name for each in values for name in each}
            differ = frozenset(name for name in names if len({each.get(name) for each in values}) > 1)
            differing |= {one.id: differ for one in alike}
    return differing


def _list_arguments(rows: Iterable[DisplayRow]) -> dict[str, tuple[str, str]]:
    """Return the text of each argument; with its note, in which a masked value has its length."""
    return {row.label: (row.text, row.note) for row in rows if row.kind == "argument"}
