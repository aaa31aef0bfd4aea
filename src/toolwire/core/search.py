"""Find tools by words, in a catalog of any size."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from heapq import nsmallest
from math import log

from .model import Tool

_WORD = re.compile(r"[^\W_]+")
_PARTS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_SHORTEST_START = 3
_PLURAL = 4


class SearchIndex:
    """An index from each word to the tools that have it; building it takes about 10 us for each tool."""

    __slots__ = ("_tools", "_words")

    def __init__(self, tools: Sequence[Tool]) -> None:
        self._tools = tools
        self._words: dict[str, dict[int, float]] = {}
        known: dict[str, tuple[str, ...]] = {}
        for number, tool in enumerate(tools):
            for word in _split_words(tool.description, known):
                self._words.setdefault(word, {})[number] = 1.0
            name = tuple(_split_words(tool.name, known))
            weight = 2.0 + 4.0 / max(len(name), 1)  # a word of a short name is more specific than one of a long name
            for word in name:
                self._words.setdefault(word, {})[number] = weight

    def find(self, words: str, limit: int = 20) -> tuple[Tool, ...]:
        """Return at most ``limit`` tools, best first: those that have the most and the rarest of ``words``.

        A word of three letters or more that no tool has matches words that begin with it. A word that most tools have
        counts only if no other word matches.
        """
        # CV-25
        found = [entries for word in dict.fromkeys(_split_words(words, {})) if (entries := self._find_entries(word))]
        telling = [entries for entries in found if len(entries) * 4 <= len(self._tools)]
        scores: dict[int, float] = {}
        for entries in telling or found:
            rarity = 1.0 + log(len(self._tools) / len(entries))
            for number, weight in entries.items():
                scores[number] = scores.get(number, 0.0) + weight * rarity
        ranked = nsmallest(limit, scores, key=lambda number: (-scores[number], number))
        return tuple(self._tools[number] for number in ranked)

    def _find_entries(self, word: str) -> dict[int, float]:
        known = self._words.get(word)
        if known is not None or len(word) < _SHORTEST_START:
            return known or {}
        merged: dict[int, float] = {}
        for other, entries in self._words.items():
            if other.startswith(word):
                merged.update(entries)
        return merged


def _split_words(text: str, known: dict[str, tuple[str, ...]]) -> Iterable[str]:
    """Yield the words of ``text`` in lower case and without a plural's s; a compound name gives several words.

    ``known`` caches the words of each compound, because a catalog repeats them.
    """
    for compound in _WORD.findall(text):
        words = known.get(compound)
        if words is None:
            words = known[compound] = tuple(map(_strip_plural, _PARTS.split(compound)))
        yield from words


def _strip_plural(part: str) -> str:
    word = part.lower()
    return word[:-1] if len(word) >= _PLURAL and word.endswith("s") and not word.endswith("ss") else word
