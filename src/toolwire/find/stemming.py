"""Reduce English words to their stems, by the rules of Porter (1980)."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

_MIN_LENGTH: Final = 3
_LONG: Final = 5
_VOWEL: Final = re.compile("[aeiouy]")
_VOWELS_CONSONANTS: Final = re.compile("(?:[aeiou]|(?<=[a-z])y)+[^aeiouy]+")
_DOUBLE: Final = re.compile(r"([^aeioulsyz])\1$")
_SHORT: Final = re.compile("[^aeiouy][aeiouy][^aeiouwxy]$")

_STEP_2: Final = {
    "ational": "ate",
    "tional": "tion",
    "enci": "ence",
    "anci": "ance",
    "izer": "ize",
    "abli": "able",
    "alli": "al",
    "entli": "ent",
    "eli": "e",
    "ousli": "ous",
    "ization": "ize",
    "ation": "ate",
    "ator": "ate",
    "alism": "al",
    "iveness": "ive",
    "fulness": "ful",
    "ousness": "ous",
    "aliti": "al",
    "iviti": "ive",
    "biliti": "ble",
}
_STEP_3: Final = {
    "icate": "ic",
    "ative": "",
    "alize": "al",
    "iciti": "ic",
    "ical": "ic",
    "ful": "",
    "ness": "",
}
_STEP_4_TEXT: Final = "al ance ence er ic able ible ant ement ment ent sion tion ou ism ate iti ous ive ize"
_STEP_4: Final = tuple(_STEP_4_TEXT.split())
_PATTERN_2, _PATTERN_3, _PATTERN_4 = (
    re.compile("(" + "|".join(sorted(endings, key=len, reverse=True)) + ")$") for endings in (_STEP_2, _STEP_3, _STEP_4)
)


@lru_cache(65_536)  # the words of one language are few, and the rules take 5 us for each
def stem_word(word: str) -> str:
    """Return the stem of ``word``, which is in lower case; a word that is not ASCII letters is returned unchanged.

    A y counts as a vowel except at the beginning of the word.
    """
    if len(word) < _MIN_LENGTH or not (word.isascii() and word.isalpha()):
        return word
    word = _remove_tense(_remove_plural(word))
    if word.endswith("y") and _VOWEL.search(word, 1, len(word) - 1):
        word = word[:-1] + "i"
    if len(word) >= _LONG:
        for pattern, endings in ((_PATTERN_2, _STEP_2), (_PATTERN_3, _STEP_3)):
            found = pattern.search(word)
            if found is not None and _measure(word[: found.start()]) > 0:
                word = word[: found.start()] + endings[found[0]]
        word = _remove_last_ending(word)
    return _remove_silent_letter(word)


def _remove_plural(word: str) -> str:
    if word.endswith(("sses", "ies")):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith("ss") else word


def _remove_tense(word: str) -> str:
    if word.endswith("eed"):
        return word[:-1] if _measure(word[:-3]) > 0 else word
    if word.endswith("ed"):
        rest = word[:-2]
    elif word.endswith("ing"):
        rest = word[:-3]
    else:
        return word
    if not _VOWEL.search(rest):
        return word
    if rest.endswith(("at", "bl", "iz")):
        return rest + "e"
    if _DOUBLE.search(rest):
        return rest[:-1]
    return rest + "e" if _measure(rest) == 1 and _SHORT.search(rest) else rest


def _remove_last_ending(word: str) -> str:
    found = _PATTERN_4.search(word)
    if found is None:
        return word
    # Of "sion" and "tion" only the "ion" is an ending.
    start = found.start() + (1 if found[0] in ("sion", "tion") else 0)
    return word[:start] if _measure(word[:start]) > 1 else word


def _remove_silent_letter(word: str) -> str:
    if word.endswith("e"):
        rest = word[:-1]
        measure = _measure(rest)
        if measure > 1 or (measure == 1 and not _SHORT.search(rest)):
            word = rest
    return word[:-1] if word.endswith("ll") and _measure(word) > 1 else word


def _measure(word: str) -> int:
    """Return how many times vowels are followed by consonants in ``word``."""
    return len(_VOWELS_CONSONANTS.findall(word))
