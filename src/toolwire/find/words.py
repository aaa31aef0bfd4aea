"""Split texts into the words that are compared: compound names apart, without endings and without filler."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import chain
from typing import Final

from .stemming import stem_word

_COMPOUND: Final = re.compile(r"[^\W_]+")
_PARTS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[^\WA-Z\d_]+|\d+|[^\W_]")
_MAX_LENGTH: Final = 64

_FILLER_TEXT: Final = (
    "a about all also am an and any are as at be been but by can could did do does for from give had has have help her"
    " here him his how i if in into is it its just like ll me my need no not of on one or our out please s she should"
    " so some t than that the their them then there these they this those to too up us use used using via want was we"
    " were what when where which who will with would you your"
)
_FILLER: Final = frozenset(_FILLER_TEXT.split())
"""Words that say nothing about what a tool does."""

_SYNONYMS: Final = (
    "get fetch retrieve read show view obtain lookup",
    "list enumerate browse",
    "search find query locate",
    "create add make new insert generate",
    "update edit modify change alter adjust",
    "delete remove erase drop destroy",
    "send post publish submit deliver",
    "calculate compute determine evaluate",
    "convert transform translate",
    "start begin launch run execute open",
    "stop end halt terminate cancel close",
    "save store write persist",
    "download fetch",
    "upload attach",
    "copy duplicate clone",
    "move rename transfer",
    "check verify validate test",
    "book reserve order schedule",
    "buy purchase order",
    "price cost rate",
    "picture image photo",
    "film movie",
    "directory folder",
    "document file",
    "mail email message",
)


class _Stems(dict[str, str]):
    """The stem of each part of a compound that was looked up; filler has the stem ``""``."""

    def __missing__(self, part: str) -> str:
        word = part.lower()
        stem = self[part] = "" if word in _FILLER else stem_word(word)
        return stem


class WordSplitter(dict[str, tuple[str, ...]]):
    """The stems of each text without a space that was split, such as ``(listOpenIssues)``; filler has none.

    A list of tools repeats its words, so each is split once.
    """

    def __init__(self) -> None:
        self._stems = _Stems()

    def __missing__(self, text: str) -> tuple[str, ...]:
        stems = self[text] = tuple(self.split_once(text))
        return stems

    def split(self, text: str) -> dict[str, None]:
        """Return the stems of the words in ``text``, each once, in their order."""
        # All in C: a list of ten thousand tools has a million words.
        return dict.fromkeys(chain.from_iterable(map(self.__getitem__, text.split())))

    def split_once(self, text: str) -> Iterable[str]:
        """Yield the stems of the words in a ``text`` that is not repeated, such as a name."""
        if len(text) > _MAX_LENGTH:
            text = " ".join(compound[:_MAX_LENGTH] for compound in _COMPOUND.findall(text))
        return filter(None, map(self._stems.__getitem__, _PARTS.findall(text)))


def _collect_synonyms(lines: Iterable[str]) -> dict[str, tuple[str, ...]]:
    alike: dict[str, dict[str, None]] = {}
    for line in lines:
        stems = [stem_word(word) for word in line.split()]
        for stem in stems:
            alike.setdefault(stem, {}).update(dict.fromkeys(other for other in stems if other != stem))
    return {stem: tuple(others) for stem, others in alike.items()}


SYNONYMS: Final = _collect_synonyms(_SYNONYMS)
"""The stems that mean nearly the same, by each stem."""
