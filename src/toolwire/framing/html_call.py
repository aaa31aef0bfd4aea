"""Show on a page how a call stands: its state as a badge, how far it is, and when something happened."""
# CO-02, LC-05

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from .html import NO_HTML, Html, escape_text, show_text
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


def build_state(state: str, *, has_failed: bool = False) -> Html:
    """Return the state of a call as a badge; ``has_failed`` says that it ended without a value."""
    is_failure = has_failed and state == "ended"
    return build_badge(*(_FAILED if is_failure else _STATES.get(state, ("reads", make_visible(state)))))


def build_call_state(state: str, name: str, message: str = "", *, progress: float | None = None) -> Html:
    """Return how the call of the tool ``name`` stands, as a cell of a table of calls."""
    how_far = Html(f" {build_progress(progress, name)}") if progress is not None else NO_HTML
    message_html = Html(f" <small>{show_text(message)}</small>") if message else NO_HTML
    return Html(f"{build_state(state)}{how_far}{message_html}")


def build_progress(progress: float, name: str) -> Html:
    """Return how far the call of the tool ``name`` is, from 0 to 1, as a bar and a number."""
    percent, label = round(max(0.0, min(progress, 1.0)) * 100), show_text(name)
    bar = Html(f'<progress max="100" value="{percent}" aria-label="Progress of {label}"></progress>')
    return Html(f'<span class="how-far">{bar} {percent} %</span>')


def build_moment(seconds: float) -> Html:
    """Return a time, which is in seconds since 1970, as HTML: in UTC, or in the reader's zone where a script runs."""
    try:
        moment = datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, ValueError, OSError):
        return Html("at no readable time")
    exact = escape_text(moment.strftime("%Y-%m-%dT%H:%M:%SZ"))
    text = escape_text(f"{moment.day} {moment:%b %Y}, {moment:%H:%M:%S} UTC")
    return Html(f'<time data-moment datetime="{exact}" title="{exact}">{text}</time>')
