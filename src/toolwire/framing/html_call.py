"""Show on a page how a call stands: its state as a badge, how far it is, and when something happened."""
# CO-02, LC-05

from __future__ import annotations

from datetime import UTC, datetime
from html import escape
from typing import Final

from .html_page import build_badge
from .visible_text import make_visible

_STATES: Final = {
    "accepted": ("reads", "accepted"),
    "running": ("changes", "running"),
    "waiting": ("costs", "waits for an answer"),
    "ended": ("safe", "ended"),
    "cancelled": ("reads", "cancelled"),
    "interrupted": ("destroys", "interrupted"),
}
_FAILED: Final = ("destroys", "failed")


def build_state(state: str, *, has_failed: bool = False) -> str:
    """Return the state of a call as a badge; ``has_failed`` says that it ended without a value."""
    is_failure = has_failed and state == "ended"
    return build_badge(*(_FAILED if is_failure else _STATES.get(state, ("reads", make_visible(state)))))


def build_progress(progress: float, name: str) -> str:
    """Return how far the call of the tool ``name`` is, from 0 to 1, as a bar and a number."""
    percent, label = round(max(0.0, min(progress, 1.0)) * 100), escape(make_visible(name))
    bar = f'<progress max="100" value="{percent}" aria-label="Progress of {label}"></progress>'
    return f'<span class="how-far">{bar} {percent} %</span>'


def build_moment(seconds: float) -> str:
    """Return a time, which is in seconds since 1970, as HTML: in UTC, or in the reader's zone where a script runs."""
    try:
        moment = datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, ValueError, OSError):
        return "at no readable time"
    exact = moment.strftime("%Y-%m-%dT%H:%M:%SZ")
    text = f"{moment.day} {moment:%b %Y}, {moment:%H:%M:%S} UTC"
    return f'<time data-moment datetime="{exact}" title="{exact}">{text}</time>'
