"""Find the tools that produce what a call of another tool needs, such as a customer's id."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

from toolwire.core.model import Json, Tool
from toolwire.framing.xllm import collect_extra_members

from .index import FindIndex, Hit
from .stemming import stem_word

_ID: Final = re.compile(r"(.+?)(?:_|-|(?<=[a-z]))(?:id|ids|key|uuid|slug|code)\Z", re.I)
_VERBS: Final = "list search find get lookup query fetch browse enumerate create"
_PRODUCERS: Final = frozenset(map(stem_word, _VERBS.split()))
_WORDS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_MAX_TOOLS: Final = 2
_CANDIDATES: Final = 12
_MAX_DEPTH: Final = 4
_MAX_MEMBERS: Final = 200


class Prerequisite(NamedTuple):
    """A tool that produces the required ``argument`` of another one."""

    name: str
    tool: Tool
    argument: str


def find_prerequisites(
    index: FindIndex, shown: Mapping[str, Tool], permits: Callable[[Tool], bool]
) -> Iterator[Prerequisite]:
    """Yield at most two tools of ``index`` that produce required arguments of the best tools in ``shown``.

    A tool that is in ``shown`` itself is not repeated, and stands for what it produces.
    """
    # FI-03
    yielded = 0
    done: set[str] = set()
    for tool in list(shown.values())[:3]:
        for argument in tool.required_parameters:
            found = _ID.match(argument)
            if found is None or argument in done:
                continue
            done.add(argument)
            producer = next(
                (
                    hit
                    for hit in _rank_candidates(index, found[1], tool)
                    if permits(hit.tool) and _produces(hit.tool, argument, found[1], tool)
                ),
                None,
            )
            if producer is not None and producer.name not in shown and producer.name not in done:
                done.add(producer.name)
                yield Prerequisite(producer.name, producer.tool, argument)
                yielded += 1
                if yielded == _MAX_TOOLS:
                    return


def _rank_candidates(index: FindIndex, noun: str, user: Tool) -> list[Hit]:
    """Return tools of the same server that are about ``noun``; those that list or find come first."""
    hits = [hit for hit in index.rank(f"list find {noun}", 10 * _CANDIDATES) if hit.tool.toolkit == user.toolkit]
    return [hit for hit in hits if hit.tool is not user][:_CANDIDATES]


def _produces(tool: Tool, argument: str, noun: str, user: Tool) -> bool:
    """Return whether a result of ``tool`` says what ``argument`` of ``user`` is, as far as the definitions tell."""
    if argument in tool.required_parameters:
        return False
    if _links_to(tool, user, argument):
        return True
    words = {stem_word(word.lower()) for word in _WORDS.findall(tool.name)}
    is_about = {stem_word(word.lower()) for word in _WORDS.findall(noun)} <= words
    members = {name.casefold() for name in _list_members(tool.output_schema, 0)}
    if argument.casefold() in members:
        return is_about or not _PRODUCERS.isdisjoint(words)
    # A result whose members nobody describes may be anything: then the name of the tool says what it lists.
    return is_about and not _PRODUCERS.isdisjoint(words) and ("id" in members or not members)


def _links_to(tool: Tool, user: Tool, argument: str) -> bool:
    """Return whether the document of ``tool`` says that its result fills ``argument`` of ``user``."""
    steps = collect_extra_members(tool).get("next")
    return any(
        isinstance(step, Mapping) and step.get("operationId") == user.name and argument in (step.get("args") or ())
        for step in (steps if isinstance(steps, list) else ())
    )


def _list_members(schema: Json, depth: int) -> Iterator[str]:
    """Yield the names of the members in results by ``schema``, of lists too."""
    if not isinstance(schema, Mapping) or depth > _MAX_DEPTH:
        return
    properties = schema.get("properties")
    if isinstance(properties, Mapping):
        for name, one in list(properties.items())[:_MAX_MEMBERS]:
            yield str(name)
            yield from _list_members(one, depth + 1)
    yield from _list_members(schema.get("items"), depth + 1)
