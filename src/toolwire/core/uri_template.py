"""Match URIs against URI templates of RFC 6570, of level 1 and the form ``{+name}`` of level 2.

``{name}`` stands for characters other than ``/``, ``?`` and ``#``, percent-encoded where they are reserved;
``{+name}`` stands for any characters.
"""
# MC-08

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import quote, unquote

MAX_URI: Final = 4_000
"""The longest URI that is matched, in characters."""

_EXPRESSION: Final = re.compile(r"\{(\+?)([A-Za-z_][A-Za-z0-9_]*)\}")
_URI: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,200}:[!-~]*")
_RESERVED: Final = ":/?#[]@!$&'()*+,;="


@dataclass(frozen=True, slots=True)
class UriTemplate:
    """A URI with variables; ``names`` are those of the variables, in order; none for a plain URI.

    Raises:
        ValueError: the text is not a URI, or an expression in braces is none that is supported.
    """

    text: str
    names: tuple[str, ...] = field(init=False)
    _pattern: re.Pattern[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if len(self.text) > MAX_URI or not _URI.fullmatch(_EXPRESSION.sub("", self.text)):
            raise ValueError(f"{self.text[:200]!r} is not a valid URI, such as config://app or notes://{{name}}")
        names = tuple(match[2] for match in _EXPRESSION.finditer(self.text))
        if len(set(names)) != len(names):
            raise ValueError(f"{self.text[:200]!r} names a variable twice")
        literals = _EXPRESSION.split(self.text)[::3]
        if any("{" in literal or "}" in literal for literal in literals):
            raise ValueError(f"{self.text[:200]!r} contains an expression other than {{name}} and {{+name}}")
        object.__setattr__(self, "names", names)
        object.__setattr__(self, "_pattern", _build_pattern(self.text))

    def match(self, uri: str) -> dict[str, str] | None:
        """Return the decoded values of the variables if ``uri`` fits, else None. The first split that fits counts."""
        found = self._pattern.fullmatch(uri) if len(uri) <= MAX_URI else None
        return None if found is None else {name: unquote(found[name]) for name in self.names}

    def expand(self, values: Mapping[str, str]) -> str:
        """Return the URI with ``values`` in the place of the variables; a variable without a value is left out."""

        def write(match: re.Match[str]) -> str:
            return quote(values.get(match[2], ""), safe=_RESERVED if match[1] else "")

        return _EXPRESSION.sub(write, self.text)


def _build_pattern(text: str) -> re.Pattern[str]:
    """Return the pattern of the URIs that ``text`` means.

    Each variable ends where the literal after it first stands, and gives nothing back: so the time to match is in
    proportion to the length of the URI, whatever the URI.
    """
    # D-17: a URI comes from the caller, and a pattern of many variables that backtracks takes exponential time.
    pieces = _EXPRESSION.split(text)  # a literal, then the mark, the name and the next literal of each expression
    parts = [re.escape(pieces[0])]
    for mark, name, literal in zip(pieces[1::3], pieces[2::3], pieces[3::3], strict=True):
        characters = "." if mark else "[^/?#]"
        is_last = name == pieces[-2]
        ahead = re.escape(literal) + (r"\Z" if is_last else "")
        parts += [f"(?P<{name}>(?>{characters}*?(?={ahead})))", re.escape(literal)]
    return re.compile("".join(parts), re.DOTALL)
