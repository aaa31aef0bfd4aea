"""Leave out of a tool's text what speaks to the model instead of describing the tool."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from .stemming import stem_word

_SIGN_TEXT: Final = (
    "always assistant confidential covertly disregard ignore important instructions mandatory must never override"
    " prefer prompt secret secretly silently tell"
)
_SIGNS: Final = frozenset(map(stem_word, _SIGN_TEXT.split()))
"""A text without these words gives no instruction that is known here; nearly all texts are done then."""
_TAG: Final = re.compile(r"<\s*/?\s*(?:important|secret|system|hidden|instructions?|critical|admin)\b[^<>]*>", re.I)
_TAGGED: Final = re.compile(
    r"<\s*(important|secret|system|hidden|instructions?|critical|admin)\b[^<>]*>.*?(?:<\s*/\s*\1\s*>|\Z)", re.I | re.S
)
_SENTENCE: Final = re.compile(r"[^.!?\n]+[.!?\n]*")
_INSTRUCTION: Final = re.compile(
    r"\b(?:"
    r"(?:ignore|disregard|forget|override)\b.{0,40}\b(?:previous|prior|other|above|all|instructions?|tools?|rules?)"
    r"|(?:do not|don't|never|without)\b.{0,30}\b(?:tell|telling|mention|inform|informing|reveal|notify|show|ask)\w*"
    r"|(?:you|the (?:assistant|model|agent|ai|llm))\s+(?:must|should|shall|have to|need to|are required)"
    r"|(?:always|only|must|please)\s+(?:use|call|choose|prefer|pick|select|invoke|run)\b"
    r"|(?:before|instead of|prior to)\b.{0,30}\b(?:any|all|every|each|other|another)\b.{0,20}\btools?"
    r"|(?:use|call|choose|prefer)\s+this\b.{0,30}\b(?:first|instead|whenever|always|before)"
    r"|(?:system|developer)\s+prompt"
    r"|(?:keep|stay|remain|this is)\b.{0,20}\b(?:secret|confidential|hidden)"
    r"|(?:secretly|silently|covertly)\b"
    r")",
    re.I,
)


def read_words(text: str, split: Callable[[str], dict[str, None]]) -> dict[str, None]:
    """Return the words of ``text`` by ``split``, without those of instructions to the model and secrecy markers."""
    # FI-05
    words = split(text)
    if _SIGNS.isdisjoint(words):
        return words
    if "<" not in text and _INSTRUCTION.search(text) is None:
        return words
    plain = _TAG.sub(" ", _TAGGED.sub(" ", text))
    return split(" ".join(one for one in _SENTENCE.findall(plain) if _INSTRUCTION.search(one) is None))
