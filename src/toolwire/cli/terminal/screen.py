"""What reaches a screen: text from elsewhere made harmless, and colour where a terminal wants it.

Rules:
- Text that came from elsewhere goes through ``escaped``, ``escaped_lines`` or ``json_text`` before a person sees it.
- Only our own words are coloured, and only on a terminal.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import Final, TextIO

from toolwire.core.url_display import show_urls
from toolwire.framing.visible_text import visible as escaped
from toolwire.framing.visible_text import visible_json as json_text

__all__ = [
    "coloured",
    "complain",
    "drop_unwritable",
    "escaped",
    "escaped_lines",
    "first_line",
    "json_text",
    "open_closed_streams",
    "styled",
    "warn",
]

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
    _say(styled("toolwire:", "red", sys.stderr), sentence)


def instruct(sentence: str) -> None:
    """Print ``sentence`` on standard error with its URLs as they are: the user has to open them."""
    # A sign-in page needs its state and challenge, which ``complain`` and ``warn`` mask.
    _print_line(styled("toolwire:", "red", sys.stderr), sentence)


def warn(sentence: str) -> None:
    """Say ``sentence`` on standard error, as something that does not stop us."""
    _say(styled("toolwire: warning:", "yellow", sys.stderr), sentence)


def _say(label: str, sentence: str) -> None:
    _print_line(label, show_urls(sentence))


def _print_line(label: str, text: str) -> None:
    try:
        print(f"{label} {escaped(text)}", file=sys.stderr, flush=True)
    except OSError:  # there is nowhere else to say it; the exit code still does
        drop_unwritable(sys.stderr)


def drop_unwritable(stream: TextIO) -> OSError | None:
    """Write out what ``stream`` holds; where that fails, drop it and all that comes, and return why.

    Otherwise the interpreter would fail to write it at exit, say so, and end with a code of its own.
    """
    try:
        stream.flush()
    except OSError as error:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
        with suppress(OSError):
            stream.flush()
        return error
    return None


def open_closed_streams() -> bool:
    """Open the standard streams that were closed before the start, to nowhere; return whether standard output was one.

    Python has None in their place, and the next file or socket that is opened would get the number of one.
    """
    was_closed = sys.stdout is None
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 - for as long as the process
    return was_closed
