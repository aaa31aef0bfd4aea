"""Write a text that matches a regular expression of a schema, for example calls.

It reads groups, alternatives, classes, repetitions and the common escapes, takes the first alternative, and leaves out
what looks around. So its text need not match: who uses it checks it.
"""
# O-29

from __future__ import annotations

import re
from typing import Final

_MAX_LENGTH: Final = 2_000
_MAX_DEPTH: Final = 30
_COUNT: Final = re.compile(r"\{(\d{1,4})(,(\d{0,4}))?\}")
_CODE: Final = re.compile(r"\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2}))")
_PROPERTY: Final = re.compile(r"\\[pP]\{\^?(\w+)[^}]*\}")
_GROUP: Final = re.compile(r"\(\?(?::|P?<[A-Za-z_]\w*>)")
_LOOK: Final = re.compile(r"\(\?(?:=|!|<=|<!|#)")
_CLASSES: Final = {"d": "1", "w": "a", "s": " ", "D": "a", "W": "-", "S": "a", "n": "\n", "r": "\r", "t": "\t"}
_NOT_THERE: Final = "aA1-_ .~"
"""The characters that a negated class may take, the first that is not in it."""


def write_matching_text(pattern: str, more: int) -> str:
    """Return a text that should match ``pattern``; what may repeat without end stands ``more`` times more than needed.

    It is ``""`` for a pattern that this does not read.
    """
    if len(pattern) > _MAX_LENGTH:
        return ""
    try:
        return _PatternReader(pattern, more).read_choice(0)[:_MAX_LENGTH]
    except (IndexError, ValueError):
        return ""


class _PatternReader:
    def __init__(self, pattern: str, more: int) -> None:
        self._text = pattern
        self._more = more
        self._at = 0

    def read_choice(self, depth: int) -> str:
        """Return a text for the alternatives from here to the end or to a closing parenthesis."""
        if depth > _MAX_DEPTH:
            raise ValueError("nested too deeply")
        first: str | None = None
        built = ""
        while self._at < len(self._text) and self._text[self._at] != ")":
            if self._text[self._at] == "|":
                self._at += 1
                first = built if first is None else first
                built = ""
            else:
                built = (built + self._repeat(self._read_piece(depth)))[:_MAX_LENGTH]
        return built if first is None else first

    def _read_piece(self, depth: int) -> str:
        character = self._text[self._at]
        if character == "(":
            look_around = _LOOK.match(self._text, self._at)
            opening = look_around or _GROUP.match(self._text, self._at)
            self._at = opening.end() if opening else self._at + 1
            inner = self.read_choice(depth + 1)
            self._at += 1
            return "" if look_around else inner
        if character == "[":
            return self._read_class()
        if character == "\\":
            return self._read_escape(within=False)
        self._at += 1
        return "" if character in "^$" else "a" if character == "." else character

    def _read_escape(self, *, within: bool) -> str:
        code, named = (one.match(self._text, self._at) for one in (_CODE, _PROPERTY))
        if code or named:
            self._at = (code or named).end()  # type: ignore[union-attr]  # one of the two matched
            return chr(int(code[1] or code[2], 16)) if code else "1" if named and named[1].startswith("N") else "a"
        character = self._text[self._at + 1]
        self._at += 2
        if character in "bBAzZ" and not within:
            return ""
        return _CLASSES.get(character, character)

    def _read_class(self) -> str:
        start = self._at
        is_negated = self._text[start + 1] == "^"
        self._at += 2 if is_negated else 1
        members: list[str] = []
        while self._text[self._at] != "]" or self._at == start + 1 + is_negated:
            if self._text[self._at] == "\\":
                members.append(self._read_escape(within=True))
            else:
                members.append(self._text[self._at])
                self._at += 1
        self._at += 1
        if not is_negated:
            return next((one for one in members if one.isalnum()), members[0])
        source = self._text[start : self._at]
        try:
            return next((one for one in _NOT_THERE if re.match(source, one)), "a")
        except re.error:  # what ECMAScript has and Python has not, such as \p{L}
            return _NOT_THERE[0]

    def _repeat(self, piece: str) -> str:
        least, is_open, quantifier = 1, False, self._text[self._at : self._at + 1]
        counted = _COUNT.match(self._text, self._at)
        if counted:
            least, is_open = int(counted[1]), counted[2] == ","
            least = min(least + self._more, int(counted[3])) if counted[3] else least
            self._at = counted.end()
        elif quantifier and quantifier in "*+?":
            least, is_open = (1 if quantifier == "+" else 0), quantifier != "?"
            self._at += 1
        else:
            return piece
        if self._text[self._at : self._at + 1] in ("?", "+"):
            self._at += 1  # lazy or possessive
        return piece * min(least + (self._more if is_open else 0), _MAX_LENGTH)
