"""What reaches a screen: text from elsewhere made harmless, and colour where a terminal wants it.

Rules:
- Text that came from elsewhere goes through ``escaped``, ``escaped_lines`` or ``json_text`` before a person sees it.
- Only our own words are coloured, and only on a terminal.
"""

from __future__ import annotations

import os
import sys
from typing import Final, TextIO

from toolwire.framing.visible import visible as escaped
from toolwire.framing.visible import visible_json as json_text

__all__ = ["coloured", "complain", "escaped", "escaped_lines", "first_line", "json_text", "styled", "warn"]

_STYLES: Final = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33"}


def escaped_lines(text: str) -> str:
    """Return ``text`` like ``escaped``, with its line breaks and tabs."""
    return "\n".join("\t".join(map(escaped, line.split("\t"))) for line in text.replace("\r\n", "\n").split("\n"))


def first_line(text: str) -> str:
    """Return the first line of ``text`` like ``escaped``."""
    return escaped(text.strip().partition("\n")[0])


def coloured(stream: TextIO) -> bool:
    """Return whether ``stream`` is a terminal whose owner did not ask for plain text (NO_COLOR, TERM=dumb)."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def styled(text: str, style: str, stream: TextIO) -> str:
    """Return ``text`` in bold, dim, red, green or yellow where ``stream`` shows colours."""
    return f"\x1b[{_STYLES[style]}m{text}\x1b[0m" if coloured(stream) else text


def complain(sentence: str) -> None:
    """Say ``sentence`` on standard error."""
    label = styled("toolwire:", "red", sys.stderr)
    print(f"{label} {escaped(sentence)}", file=sys.stderr)


def warn(sentence: str) -> None:
    """Say ``sentence`` on standard error, as something that does not stop us."""
    label = styled("toolwire: warning:", "yellow", sys.stderr)
    print(f"{label} {escaped(sentence)}", file=sys.stderr)
