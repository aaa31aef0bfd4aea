"""Write the description of an operation for models: cleaned, shortened, its parts in a fixed order.

Rules:
- The parts: summary, further description, ``(deprecated)``, and the hint on its own line. The cost of a call is added
  by ``framing.tool_description``.
- Hidden characters are removed. A hint has at most 1,024 characters, the rest 4,096.
- A long text keeps its first sentence and sentences with values, formats, units, defaults or duties.
"""
# XL-070, XL-072, CV-26, XL-071, D-01, CV-25

from __future__ import annotations

import re
from typing import Any

from toolwire.core.model import Json, Tool
from toolwire.framing.text_cleaning import cap_text, clean
from toolwire.framing.tool_description import DESCRIPTION_CHARACTERS

from .findings import SHOWN

_DEPRECATED = " (deprecated)"
_DESCRIPTION_BUDGET = 700
# D-15: a run of spaces is read from its beginning alone, and once.
_SENTENCE = re.compile(
    r"(?<=[.!?:])(?<!e\.g\.)(?<!i\.e\.)(?<!etc\.)\s++(?=[^a-z\s])|(?<!\s)[^\S\n]*+\n\s*+(?:[-*]\s++)?(?=\S)"
)
_MARKUP = re.compile(r"</?(?:a|b|br|code|div|em|i|li|ol|p|pre|span|strong|ul)(?:\s[^<>]{0,500})?/?>", re.IGNORECASE)
_LINK = re.compile(r"\[([^\[\]]{1,200})\]\([^()\s]{1,500}\)")
_STRONG_WORDS = (
    *("must", "only", "cannot", "can't", "can be", "default", "format", "one of", "either", "valid", "allowed"),
    *("values?", "maximum", "minimum", "required"),
)
_WEAK_WORDS = (
    *("may", "requires?", "should", "iso", "rfc", "enum", "supported", "accepts?", "at least", "at most", "up to"),
    *("between", "units?", "in (?:milli)?seconds", "cents", "bytes", "characters", "comma", "pattern", r"e\.g\."),
    *("example", "never", "always", "instead", "if", "unless", "when"),
)
_STATES_VALUES = (
    re.compile(rf"`|\b(?:{'|'.join(_STRONG_WORDS)})\b", re.IGNORECASE),
    re.compile(rf"[\d\"]|\b(?:{'|'.join(_WEAK_WORDS)})\b", re.IGNORECASE),
)
"""Patterns of sentences that state values, formats, units, defaults or duties; the most reliable pattern first."""


def describe_operation(operation: dict[str, Any], method: str, path: str, hint: str) -> str:
    """Return summary, description and hint of an operation as one text; method and path replace a missing text.

    A long description is shortened to its most useful sentences.
    """
    summary = clean_text(operation.get("summary"), DESCRIPTION_CHARACTERS).strip()
    more = shorten_text(
        clean_text(operation.get("description"), 4 * DESCRIPTION_CHARACTERS).strip(), _DESCRIPTION_BUDGET
    )
    text = _join_texts(summary, more) or f"{method} {clean_text(path, SHOWN)}"
    after = _DEPRECATED if operation.get("deprecated") is True else ""
    return text + after + (f"\n{hint}" if hint else "")


def _join_texts(summary: str, more: str) -> str:
    """Return both texts as one; a text that the other contains is left out."""
    short, long = (" ".join(re.findall(r"\w+", text.lower())) for text in (summary, more))
    # Generators often write one sentence twice; a model should pay for it once.
    if not long or short == long or long in short:
        return summary or more
    if short and long.startswith(short):
        return more
    return f"{summary}\n{more}" if summary else more


def describe_own(tool: Tool) -> str:
    """Return the description of ``tool`` without the hint and ``(deprecated)`` of ``describe_operation``."""
    text = tool.description.removesuffix(f"\n{tool.hint}") if tool.hint else tool.description
    return text.removesuffix(_DEPRECATED) if tool.deprecated else text


def clean_text(text: Json, characters: int) -> str:
    """Return ``text`` without hidden characters, in at most ``characters``; ``""`` if it is not a string."""
    return cap_text(clean(text).text, characters) if isinstance(text, str) else ""


def shorten_text(text: str, limit: int) -> str:
    """Return the most useful sentences of ``text`` in about ``limit`` characters; an ellipsis replaces the rest.

    The first sentence stays. Then come sentences that state values, formats, units, defaults or duties, while there is
    room. A link is replaced by its text.
    """
    if "](" in text or "</" in text:
        text = _LINK.sub(r"\1", _MARKUP.sub("", text)).strip()
    if len(text) <= limit // 2:
        return text
    sentences = [one for one in _SENTENCE.split(text.strip()) if one]
    # The first sentence says what the operation does.
    sentences_kept = {0: cap_text(sentences[0], limit)} if sentences else {}
    left = limit - len(sentences_kept.get(0, ""))
    # Facts that a caller needs come before prose, in the order of how surely a sentence has one.
    for states in _STATES_VALUES:
        for number, one in enumerate(sentences):
            if number not in sentences_kept and len(one) < left and states.search(one):
                sentences_kept[number] = one
                left -= len(one) + 1
    joined = " ".join(one for _, one in sorted(sentences_kept.items()))
    return joined if len(sentences_kept) == len(sentences) or joined.endswith("\u2026") else f"{joined}\u2026"
