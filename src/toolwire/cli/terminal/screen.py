"""Print text on the screen: escape what others wrote, and use colours where a terminal shows them.

Rules:
- Text from elsewhere goes through ``escaped``, ``escape_lines`` or ``json_text`` before the user sees it.
- Only our own text has colours, and only on a terminal.
"""

from __future__ import annotations

import logging
import os
import sys
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final, TextIO

from toolwire.core.url_display import show_urls
from toolwire.framing.visible_text import make_visible as escaped
from toolwire.framing.visible_text import make_visible_json as json_text

__all__ = [
    "apply_style",
    "drop_unwritable",
    "escape_first_line",
    "escape_lines",
    "escaped",
    "has_colours",
    "json_text",
    "open_closed_streams",
    "print_error",
    "print_warning",
    "shorten",
    "show_time",
    "write_count",
]

_STYLES: Final = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33"}


def escape_lines(text: str) -> str:
    """Return ``text`` like ``escaped``, with its line breaks and tabs."""
    return "\n".join("\t".join(map(escaped, line.split("\t"))) for line in text.replace("\r\n", "\n").split("\n"))


def escape_first_line(text: str) -> str:
    """Return the first line of ``text`` like ``escaped``."""
    return escaped(text.strip().partition("\n")[0])


def shorten(text: str, most: int) -> str:
    """Return ``text`` in at most ``most`` characters; an ellipsis stands for the rest."""
    return text if len(text) <= most else f"{text[: most - 1].rstrip()}…"


def write_count(number: int, noun: str) -> str:
    """Return ``number`` with ``noun``, which takes an ``s`` unless there is one: ``1 tool``, ``1,200 tools``."""
    return f"{number:,} {noun}{'s' * (number != 1)}"


def show_time(seconds: float) -> str:
    """Return a time, in seconds since 1970, to the second in UTC; ``at no time`` for a number that is none."""
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (ValueError, OverflowError, OSError):  # what another program wrote
        return "at no time"


def has_colours(stream: TextIO) -> bool:
    """Return whether ``stream`` is a terminal and the user did not ask for plain text (NO_COLOR, TERM=dumb)."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def apply_style(text: str, style: str, stream: TextIO) -> str:
    """Return ``text`` in bold, dim, red, green or yellow where ``stream`` has colours."""
    return f"\x1b[{_STYLES[style]}m{text}\x1b[0m" if has_colours(stream) else text


def print_error(sentence: str) -> None:
    """Print an error on standard error, with the secrets in its URLs masked."""
    _print_masked(apply_style("toolwire:", "red", sys.stderr), sentence)


def print_instruction(sentence: str) -> None:
    """Print ``sentence`` on standard error with its URLs as they are: the user has to open them."""
    # A sign-in page needs its state and challenge, which ``complain`` and ``warn`` mask.
    _print_line(apply_style("toolwire:", "red", sys.stderr), sentence)


def print_warning(sentence: str) -> None:
    """Print a warning on standard error, with the secrets in its URLs masked; as JSON if the log is."""
    from toolwire.telemetry.logs import is_json_log  # few commands warn

    if is_json_log():
        logging.getLogger("toolwire").warning("%s", show_urls(sentence))
        return
    _print_masked(apply_style("toolwire: warning:", "yellow", sys.stderr), sentence)


def _print_masked(label: str, sentence: str) -> None:
    _print_line(label, show_urls(sentence))


def _print_line(label: str, text: str) -> None:
    try:
        print(f"{label} {escaped(text)}", file=sys.stderr, flush=True)
    except OSError:  # there is no other place to print it; the exit code still tells
        drop_unwritable(sys.stderr)


def drop_unwritable(stream: TextIO) -> OSError | None:
    """Flush ``stream``. Where that fails, discard its content and all later output, and return the error.

    Otherwise the interpreter would fail to flush it at exit, print an error, and change the exit code.
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
    """Open closed standard streams to the null device. Return whether standard output was one of them.

    Python has None in their place, and the next file or socket would get the descriptor of one.
    """
    was_closed = sys.stdout is None
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 - open until the process ends
    return was_closed
