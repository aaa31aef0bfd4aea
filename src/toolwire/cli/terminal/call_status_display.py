"""Print how a long call stands, and the progress of any call."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence

from toolwire.core.call_status import CallStatus
from toolwire.core.long_call import read_progress
from toolwire.core.model import LOG_EVENT, PROGRESS_EVENT, Json, Problem, Progress, Value
from toolwire.core.url_display import show_url

from .screen import apply_style, escape_lines, escaped, json_text, show_time
from .table import print_table

_PROGRESS_MEMBERS = frozenset({"progress", "total", "message"})


def print_progress(progress: Progress) -> None:
    """Print one piece of progress on standard error: a part as a percentage, and any other value as it is."""
    text = _describe_log(progress.value) if progress.event == LOG_EVENT else _describe_progress(progress)
    print(apply_style(text, "dim", sys.stderr), file=sys.stderr, flush=True)


def print_status(status: CallStatus) -> None:
    """Print how a call stands, a line for each fact."""
    state = status.state.value + (", cancelling" if status.cancel_asked and not status.is_over else "")
    result = status.result
    rows = [
        ("id", status.id),
        ("tool", status.tool),
        ("state", state),
        ("progress", "" if status.progress is None else f"{status.progress:.0%}"),
        ("message", status.message),
        ("asks", ", ".join(status.input)),
        ("created", show_time(status.created_at)),
        ("updated", show_time(status.updated_at)),
        ("kept until", "" if status.expires_at is None else show_time(status.expires_at)),
        ("failed", result.message if isinstance(result, Problem) else ""),
        ("result", json_text(result.value) if isinstance(result, Value) else ""),
    ]
    width = max(len(name) for name, text in rows if text)
    for name, text in rows:
        if text:
            print(f"{name.ljust(width)}  {escaped(text)}")


def print_statuses(calls: Sequence[CallStatus]) -> None:
    """Print a table of calls."""
    rows = [
        (
            escaped(one.id),
            escaped(one.tool),
            one.state.value,
            "" if one.progress is None else f"{one.progress:.0%}",
            show_time(one.created_at),
            escaped(one.message),
        )
        for one in calls
    ]
    print_table(("id", "tool", "state", "progress", "created", "message"), rows, sys.stdout)


def print_continuation(target: str, call_id: str) -> None:
    """Say on standard error how a call that goes on is taken up again."""
    words = ("toolwire", "calls", "wait", show_url(target), call_id)
    print(f"It goes on. Take it up again with: {escaped(shlex.join(words))}", file=sys.stderr, flush=True)


def _describe_log(value: Json) -> str:
    """Return a message of a server's log as one line: its level, its logger if it has one, and what it says."""
    entry = value if isinstance(value, dict) else {"data": value}
    data, logger = entry.get("data"), entry.get("logger")
    words = data if isinstance(data, str) else json_text(data)
    return escape_lines(f"{entry.get('level')}: {f'{logger}: ' if logger else ''}{words}")


def _describe_progress(progress: Progress) -> str:
    value = progress.value
    # A number that a stream yields is an item, and one that a tool reports is a part.
    is_part = isinstance(value, int | float) and progress.event == PROGRESS_EVENT
    if not is_part and (not isinstance(value, dict) or not value or not _PROGRESS_MEMBERS.issuperset(value)):
        return escape_lines(value if isinstance(value, str) else json_text(value))
    part, message = read_progress(progress)
    if part is None and (is_part or (isinstance(value, dict) and value.get("progress") is not None)):
        return escape_lines(json_text(value))  # not a part of anything
    texts = ("" if part is None else f"{part:.0%}", escape_lines(message or ""))
    return "  ".join(text for text in texts if text)
