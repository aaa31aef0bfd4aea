"""What came from one connection and is about to go to another. [D-33]

Everything that a connection gave counts: results with their notes, errors, and the pieces of a stream. Texts of 24
characters and more are known again, whatever stands around them, in whatever case and spacing. Words put in other words
are not: this notices carrying, not paraphrase.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping

from toolwire.core.model import Json, Result, Value

LEAST = 24
"""How many characters in a row must be the same."""

_BLOCK = LEAST // 2  # any LEAST characters in a row hold one whole block of this length that begins at a multiple of it
_KEPT = 1_000_000
_JOINED = 512


class DataFlow:
    """The texts that each connection of a session gave, the latest million characters of each."""

    def __init__(self) -> None:
        self._texts: dict[str, deque[str]] = {}
        self._sizes: dict[str, int] = {}
        self._blocks: dict[str, dict[str, list[tuple[str, int]]]] = {}
        self._pieces: dict[str, str] = {}

    def heard_piece(self, connection: str, value: Json) -> None:
        """Remember a piece of a stream, also where each piece is too short to be known again by itself."""
        joined = self._pieces.get(connection, "") + "".join(_walk_texts(value))
        if len(joined) >= _JOINED:
            self.heard(connection, joined)
            joined = joined[-LEAST:]
        self._pieces[connection] = joined

    def end_stream(self, connection: str) -> None:
        """Remember the end of what came in pieces."""
        if connection in self._pieces:
            self.heard(connection, self._pieces.pop(connection))

    def heard(self, connection: str, value: Json) -> None:
        """Remember the texts in ``value``, which came from ``connection``."""
        kept = self._texts.setdefault(connection, deque())
        for text in _texts(value):
            if len(text) >= LEAST:
                kept.append(text[:_KEPT])
                self._sizes[connection] = self._sizes.get(connection, 0) + len(kept[-1])
                self._blocks.pop(connection, None)
        while self._sizes.get(connection, 0) > _KEPT:
            self._sizes[connection] -= len(kept.popleft())

    def sources(self, connection: str, arguments: Json) -> tuple[str, ...]:
        """Return the other connections whose texts are in ``arguments`` of a call to ``connection``."""
        texts = [text for text in _texts(arguments) if len(text) >= LEAST]
        if not texts:
            return ()
        return tuple(
            other
            for other in self._texts
            if other != connection and any(_carries(text, self._indexed(other)) for text in texts)
        )

    def _indexed(self, connection: str) -> dict[str, list[tuple[str, int]]]:
        found = self._blocks.get(connection)
        if found is None:
            found = self._blocks[connection] = {}
            for text in self._texts[connection]:
                for start in range(0, len(text) - _BLOCK + 1, _BLOCK):
                    places = found.setdefault(text[start : start + _BLOCK], [])
                    if len(places) < _PLACES:
                        places.append((text, start))
        return found


_PLACES = 16


def _carries(text: str, blocks: dict[str, list[tuple[str, int]]]) -> bool:
    for start in range(len(text) - _BLOCK + 1):
        for source, place in blocks.get(text[start : start + _BLOCK], ()):
            if _common(text, start, source, place) >= LEAST:
                return True
    return False


def _common(text: str, start: int, source: str, place: int) -> int:
    """Return how many characters around two equal places are equal too, as far as it matters."""
    before = 0
    most = min(start, place, LEAST)
    while before < most and text[start - before - 1] == source[place - before - 1]:
        before += 1
    after = 0
    while after < LEAST and text[start + after : start + after + 1] == source[place + after : place + after + 1] != "":
        after += 1
    return before + after


def texts_of(result: Result) -> Json:
    """Return everything in ``result`` that a model may read: the value and its notes, or all of an error."""
    if isinstance(result, Value):
        return [result.value, result.notes]
    said = [result.message, result.additional_prompt_content]
    return [*said, dict(result.parameter_errors), dict(result.details)]


def _texts(value: Json) -> Iterator[str]:
    """Yield every text in ``value`` in one case and spacing."""
    return (" ".join(text.casefold().split()) for text in _walk_texts(value))


def _walk_texts(value: Json) -> Iterator[str]:
    """Yield every text in ``value``, in order."""
    waiting = [value]
    while waiting:
        match waiting.pop():
            case str(text):
                yield text
            case Mapping() as members:
                waiting += [*members.values(), *members]
            case list() | tuple() as items:
                waiting += reversed(items)
            case _:
                pass
