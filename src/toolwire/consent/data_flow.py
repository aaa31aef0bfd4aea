"""Find text from one connection in the arguments of a call to another connection.

Everything that a connection returns counts: values and their notes, errors, and pieces of a stream. A copy of at least
24 characters is found in any case and spacing, whatever surrounds it. Identifiers of 10 to 24 characters, such as an
IBAN, a card or phone number, or an email address, are found even with different separators and as a JSON number. A
paraphrase is not found.
"""
# D-33

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from types import NoneType

from toolwire.core.model import Json, Result, Value

MIN_MATCH = 24
"""The number of characters in a row that must be equal to count as a copy."""

# Any MIN_MATCH characters in a row contain one block of this length that starts at a multiple of the length. So one
# index of such blocks finds every match, with one entry per 12 characters.
_BLOCK = MIN_MATCH // 2
_MAX_CHARACTERS = 1_000_000
_MAX_PIECES = 512
_NO_TEXT = frozenset((float, bool, NoneType))

# AT-54: shorter than a copy, but still identifies one person, account or card.
_MIN_IDENTIFIER_LENGTH = 10
_MAX_IDENTIFIER_LENGTH = 34  # an IBAN; grouped by spaces, it is not a copy of 24 characters
_MIN_DIGITS = 5
_MIN_NUMBER = 10 ** (_MIN_IDENTIFIER_LENGTH - 1)
_MAX_NUMBER = 10**_MAX_IDENTIFIER_LENGTH
# Texts are in lower case here, with single spaces.
_NUMBER = re.compile(r"[0-9](?:[ ./()+-]{0,2}[0-9])+")
_IBAN = re.compile(r"(?<![a-z0-9])[a-z]{2}[0-9]{2}(?: ?[a-z0-9]{4}){2,7}(?: ?[a-z0-9]{1,3})?(?![a-z0-9])")
_WORD = re.compile(r"[a-z0-9](?:[._/-]?[a-z0-9])+")
_MAIL = re.compile(r"[a-z0-9._%+-]{1,64}+@[a-z0-9-]{1,63}(?:\.[a-z0-9-]{1,63})+")
_DATE = re.compile(r"(?:19|20)[0-9]{2}[./-][01][0-9][./-][0-3][0-9](?![0-9])")
_SEPARATORS = re.compile(r"[^a-z0-9]")


class DataFlow:
    """The texts that each connection of a session returned: the newest million characters of each."""

    def __init__(self) -> None:
        self._texts: dict[str, deque[str]] = {}
        self._sizes: dict[str, int] = {}
        self._blocks: dict[str, dict[str, list[tuple[str, int]]]] = {}
        self._identifiers: dict[str, set[str]] = {}
        self._pieces: dict[str, str] = {}

    def add_piece(self, connection: str, value: Json) -> None:
        """Remember a piece of a stream. Pieces are joined, because each one can be too short to be found."""
        # A text continues in the next piece. Other values are separated, so that each can be found.
        texts = _collect_texts(value)
        joined = self._pieces.get(connection, "") + (value if isinstance(value, str) else f" {' '.join(texts)} ")
        if len(joined) >= _MAX_PIECES:
            self.add_texts(connection, list_texts(joined))
            joined = joined[-MIN_MATCH:]  # a copy can begin in this piece and end in the next
        self._pieces[connection] = joined

    def end_stream(self, connection: str) -> None:
        """Remember the last pieces of a stream."""
        if connection in self._pieces:
            self.add_texts(connection, list_texts(self._pieces.pop(connection)))

    def add_texts(self, connection: str, texts: Iterable[str]) -> None:
        """Remember ``texts``, from ``list_texts``, which ``connection`` returned."""
        recent = self._texts.setdefault(connection, deque())
        for text in texts:
            recent.append(text)
            self._sizes[connection] = self._sizes.get(connection, 0) + len(text)
            self._blocks.pop(connection, None)  # the index is built again when it is needed
            self._identifiers.pop(connection, None)
        while self._sizes.get(connection, 0) > _MAX_CHARACTERS:
            self._sizes[connection] -= len(recent.popleft())

    def find_sources(self, connection: str, arguments: Json) -> tuple[str, ...]:
        """Return the names of the other connections whose texts are in ``arguments`` of a call to ``connection``."""
        if not self._texts or (len(self._texts) == 1 and connection in self._texts):
            return ()  # nothing came from another connection
        texts = _list_normalized_texts(arguments)
        if not texts:
            return ()
        sent = {one for text in texts for one in _find_identifiers(text)}
        return tuple(
            other
            for other in self._texts
            if other != connection
            and (
                not sent.isdisjoint(self._index_identifiers(other))
                or any(_has_common_text(text, self._index_blocks(other)) for text in texts)
            )
        )

    def _index_identifiers(self, connection: str) -> set[str]:
        found = self._identifiers.get(connection)
        if found is None:
            found = {one for text in self._texts[connection] for one in _find_identifiers(text)}
            self._identifiers[connection] = found
        return found

    def _index_blocks(self, connection: str) -> dict[str, list[tuple[str, int]]]:
        found = self._blocks.get(connection)
        if found is None:
            found = self._blocks[connection] = {}
            for text in self._texts[connection]:
                for start in range(0, len(text) - _BLOCK + 1, _BLOCK):
                    positions = found.setdefault(text[start : start + _BLOCK], [])
                    if len(positions) < _MAX_POSITIONS:
                        positions.append((text, start))
        return found


_MAX_POSITIONS = 16  # of one block; a text of one repeated letter must not make the search quadratic


def _has_common_text(text: str, blocks: dict[str, list[tuple[str, int]]]) -> bool:
    for start in range(len(text) - _BLOCK + 1):
        for source, position in blocks.get(text[start : start + _BLOCK], ()):
            if _count_common(text, start, source, position) >= MIN_MATCH:
                return True
    return False


def _count_common(text: str, start: int, source: str, position: int) -> int:
    """Return how many consecutive characters match around ``start`` and ``position``, counted only as far as needed."""
    before = 0
    most = min(start, position, MIN_MATCH)
    while before < most and text[start - before - 1] == source[position - before - 1]:
        before += 1
    after = 0
    most = min(len(text) - start, len(source) - position, MIN_MATCH)
    while after < most and text[start + after] == source[position + after]:
        after += 1
    return before + after


def model_content(result: Result) -> Json:
    """Return everything in ``result`` that a model can read: the value and its notes, or all parts of an error."""
    if isinstance(result, Value):
        return [result.value, result.notes]
    texts = [result.message, result.additional_prompt_content]
    return [*texts, dict(result.parameter_errors), dict(result.details)]


def list_texts(value: Json) -> list[str]:
    """Return the texts of ``value`` to remember, ready to be compared: the last million characters of them."""
    texts = _list_normalized_texts(value)
    size, first = 0, len(texts)
    while first and size <= _MAX_CHARACTERS:
        first -= 1
        texts[first] = texts[first][:_MAX_CHARACTERS]
        size += len(texts[first])
    return texts[first:]


def _list_normalized_texts(value: Json) -> list[str]:
    """Return every text in ``value`` that is long enough to match, in lower case, with single spaces."""
    # A text of ASCII never grows, and most texts of a result are short.
    long = [text for text in _collect_texts(value) if len(text) >= _MIN_IDENTIFIER_LENGTH or not text.isascii()]
    if not long:
        return long
    normalized = (" ".join(text.casefold().split()) for text in long)
    return [text for text in normalized if len(text) >= MIN_MATCH or _can_identify(text)]


def _can_identify(text: str) -> bool:
    """Return whether a text that is too short for a copy can contain an identifier."""
    return len(text) >= _MIN_IDENTIFIER_LENGTH and ("@" in text or sum(map(str.isdecimal, text)) >= _MIN_DIGITS)


def _find_identifiers(text: str) -> Iterator[str]:
    """Yield each identifier in a normalized text: a mail address, or letters and digits without separators."""
    if "@" in text:
        yield from (match[0] for match in _MAIL.finditer(text) if len(match[0]) >= _MIN_IDENTIFIER_LENGTH)
    if not any(map(str.isdecimal, text)):
        return
    for pattern in (_NUMBER, _IBAN, _WORD):
        for match in pattern.finditer(text):
            if _DATE.match(match[0]):
                continue  # a date names nobody
            plain = _SEPARATORS.sub("", match[0])
            digits = sum(map(str.isdecimal, plain))
            if _MIN_IDENTIFIER_LENGTH <= len(plain) <= _MAX_IDENTIFIER_LENGTH and digits >= _MIN_DIGITS:
                yield plain


def _collect_texts(value: Json) -> list[str]:
    """Return every text in ``value``, in order."""
    texts: list[str] = []
    waiting = [value]
    while waiting:
        item = waiting.pop()
        kind = type(item)
        # The types of parsed JSON come first, because every call passes here and checks of abstract types are slow.
        if kind is str:
            texts.append(item)
        elif kind is dict:
            waiting += item.values()
            waiting += item
        elif kind in _NO_TEXT:
            pass
        elif kind is int:
            if _MIN_NUMBER <= item < _MAX_NUMBER:
                texts.append(str(item))
        elif isinstance(item, str):
            texts.append(item)
        elif isinstance(item, (list, tuple)):
            waiting += reversed(item)
        elif isinstance(item, Mapping):
            waiting += [*item.values(), *item]
    return texts
