"""Write what was found for a model: a line for each tool, and the names of the tools beside them.

Rules:
- Nothing is written about a tool that the caller may not use, not even its name.
- One server gets at most three of five lines, if the tools come from several servers.
"""
# FI-02, FI-05: the rules above.

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from toolwire.core.catalog import Catalog
from toolwire.core.model import Approval, Tool
from toolwire.framing.text_cleaning import cap_text, clean

from .index import FindIndex, Hit, get_index, group_tools
from .prerequisites import find_prerequisites

DEFAULT_LIMIT: Final = 8
MAX_LINES: Final = 50
_MAX_RANKED: Final = 200
_GROUPS: Final = 10
_GROUP_NAMES: Final = 12
_NAMES_CHARACTERS: Final = 800
_NAMES_CHARACTERS_A_LINE: Final = 200
"""The fewer lines somebody asks for, the fewer names stand beside them."""
_MAX_ARGUMENTS: Final = 30
_MAX_GROUPS: Final = 40
_SENTENCE_CHARACTERS: Final = 70
_ARGUMENT_CHARACTERS: Final = 40
_DISCOUNTS: Final = (1.0, 0.5, 0.25, 0.125)

LEVEL_WORDS: Final[Mapping[Approval, str]] = {
    Approval.AUTO: "runs",
    Approval.PER_CALL: "asks",
    Approval.DENY: "denied",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What one caller may know of a list of tools: which ones, and whether a call of one asks somebody first."""

    permits: Callable[[Tool], bool] = lambda _: True
    find_level: Callable[[Tool], Approval]


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What was found: ``tools`` by name, best first, and ``text``, which a model reads. ``str`` returns the text.

    ``matches`` is how many tools share a word with the search.
    """

    tools: Mapping[str, Tool]
    matches: int
    text: str

    def __str__(self) -> str:
        return self.text


def find_tools(catalog: Catalog, words: str, view: View, limit: int = DEFAULT_LIMIT) -> Found:
    """Return at most ``limit`` tools of ``catalog`` that ``words`` describe, and what a model reads about them."""
    index = get_index(catalog)
    ranked = [hit for hit in index.rank(words) if view.permits(hit.tool)]
    exact = [hit for hit in _find_exact(catalog, words) if view.permits(hit.tool)]
    ranked = [*exact, *(hit for hit in ranked if all(hit.name != one.name for one in exact))]
    if not ranked:
        return Found(tools={}, matches=0, text=_write_groups(catalog, view))
    limit = max(1, min(limit, MAX_LINES))
    chosen = _choose(ranked, limit, is_from_many=index.has_many_servers)
    shown = {hit.name: hit.tool for hit in chosen}
    lines = [write_tool_line(hit.name, hit.tool, view, is_imitated=index.is_imitated(hit.tool)) for hit in chosen]
    before = list(find_prerequisites(index, shown, view.permits))
    for name, tool, argument in before:
        line = write_tool_line(name, tool, view, is_imitated=index.is_imitated(tool))
        lines.append(f"first, for {argument}: {line}")
    room = min(limit * _NAMES_CHARACTERS_A_LINE, _NAMES_CHARACTERS)
    lines += _write_neighbours(index, ranked, {*shown, *(one.name for one in before)}, view, room)
    more = len(ranked) - len(chosen)
    if more > 0:
        count = f"{more}" if len(ranked) < _MAX_RANKED else f"more than {more}"
        lines.append(f"{count} more tools match. Name a server or an object.")
    return Found(tools=shown, matches=len(ranked), text="\n".join(lines))


def _find_exact(catalog: Catalog, words: str) -> Iterator[Hit]:
    """Yield the tools whose exact names ``words`` are or hold; a single plain word is a name only if it is alone."""
    texts = dict.fromkeys((words.strip(), *(word for word in words.split() if "_" in word or "." in word)))
    for text in list(texts)[:10]:
        if found := catalog.get(text):
            name = next((name for name in (text, found.name) if catalog.names.get(name) is found), "")
            if name := name or next((name for name, tool in catalog.names.items() if tool is found), ""):
                yield Hit(name, found, 0.0)


def _choose(ranked: Sequence[Hit], limit: int, *, is_from_many: bool) -> list[Hit]:
    """Return the first ``limit`` hits; at most three fifths of them from one server, if there are several servers."""
    if not is_from_many:
        return list(ranked[:limit])
    most = max(1, -(-limit * 3 // 5))
    counts: Counter[str] = Counter()
    chosen: list[Hit] = []
    for hit in ranked:
        if counts[hit.tool.toolkit] < most:
            counts[hit.tool.toolkit] += 1
            chosen.append(hit)
            if len(chosen) == limit:
                break
    return chosen


def write_tool_line(name: str, tool: Tool, view: View, *, is_imitated: bool = False) -> str:
    """Return the line of one tool: how it is called, what it does, and whether somebody is asked."""
    sentence = _cut_sentence(clean(tool.description).text)
    home = f" [{_plain(tool.toolkit)}]" if is_imitated else ""
    parts = [
        f"{_plain(name)}({_write_arguments(tool)}){home}" + (f": {sentence}" if sentence else ""),
        LEVEL_WORDS[view.find_level(tool)],
    ]
    if tool.requirements.authorization:
        parts.append("needs sign-in")
    return " · ".join(parts)


def _write_arguments(tool: Tool) -> str:
    required = set(tool.required_parameters)
    names = [f"{name}*" for name in tool.parameters if name in required]
    names += [name for name in tool.parameters if name not in required]
    lines: list[str] = []
    for name in map(_plain, names):
        if lines and sum(map(len, lines)) + len(name) > _ARGUMENT_CHARACTERS and not name.endswith("*"):
            lines.append("…")
            break
        lines.append(name)
    return ", ".join(lines[:_MAX_ARGUMENTS])


def _cut_sentence(text: str) -> str:
    line = next((part.strip() for part in text.splitlines() if part.strip()), "")
    return cap_text(line.partition(". ")[0].removesuffix("."), _SENTENCE_CHARACTERS)


def _plain(text: str) -> str:
    """Return ``text`` of another server on one line and without what could be read as a line of the answer."""
    return cap_text(" ".join(clean(text).text.split()), _SENTENCE_CHARACTERS)


def _write_neighbours(index: FindIndex, ranked: Sequence[Hit], shown: set[str], view: View, room: int) -> Iterable[str]:
    """Return the line of the names beside those in ``shown``: of the groups that match best, in ``room`` characters."""
    groups = index.groups
    scores: dict[str, list[float]] = {}
    for hit in ranked[:_MAX_RANKED]:
        scores.setdefault(groups[hit.name], []).append(hit.score)
    totals = {
        group: sum(score * part for score, part in zip(found, _DISCOUNTS, strict=False))
        for group, found in scores.items()
    }
    best = sorted(totals, key=totals.__getitem__, reverse=True)[:_GROUPS]
    order = [hit.name for hit in ranked]
    texts: list[str] = []
    for group in best:
        members = dict.fromkeys(name for name in order if groups[name] == group)
        members.update(dict.fromkeys(index.members[group]))
        names: list[str] = []
        for name in members:
            if name in shown or not view.permits(index.tools[name]):
                continue
            neighbour = _plain(name)
            if len(neighbour) + 2 > room or len(names) == _GROUP_NAMES:
                break
            room -= len(neighbour) + 2
            names.append(neighbour)
        if names:
            texts.append(f"{_plain(group)}: {', '.join(names)}")
    return [f"also here: {'; '.join(texts)}"] if texts else []


def _write_groups(catalog: Catalog, view: View) -> str:
    """Return what a model reads if nothing was found: the groups of tools, a line each."""
    visible = {name: tool for name, tool in catalog.names.items() if view.permits(tool)}
    if not visible:
        return "No tool matches, because there are no tools."
    members: dict[str, list[str]] = {}
    for name, group in group_tools(visible).items():
        members.setdefault(group, []).append(name)
    ordered = sorted(members, key=lambda group: -len(members[group]))
    lines = ["No tool matches these words. Search in English for one of these groups:"]
    for group in ordered[:_MAX_GROUPS]:
        names = members[group]
        count = "1 tool" if len(names) == 1 else f"{len(names):,} tools"
        lines.append(
            f"{_plain(group)} ({count}): {', '.join(map(_plain, names[:4]))}" + (", …" if len(names) > 4 else "")
        )
    left = len(ordered) - _MAX_GROUPS
    return "\n".join([*lines, *([f"and {left:,} more groups"] if left > 0 else [])])
