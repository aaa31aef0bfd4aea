"""Write the page that tells a person why an address or a form is not answered, and where to go from here."""
# CO-01, FU-32

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from typing import Final

from toolwire.core.http import STATUS_BY_KIND, Response
from toolwire.core.model import Kind, Problem
from toolwire.framing.html import NO_HTML, Html, escape_text
from toolwire.framing.html_page import (
    build_alert,
    build_html_page,
    build_link,
    write_page,
)
from toolwire.framing.visible_text import make_visible

from .browser_request import VARY

_TITLES: Final[Mapping[Kind, str]] = {
    Kind.FORBIDDEN: "This is not allowed",
    Kind.INTERNAL: "The server failed",
    Kind.MISDIRECTED: "This server has another name",
    Kind.NOT_FOUND: "There is no such page here",
    Kind.OVERLOADED: "The server is busy",
    Kind.RATE_LIMITED: "Too many requests",
    Kind.UNAUTHORIZED: "This address needs a key",
    Kind.WRONG_METHOD: "This address is for programs",
}
_OTHER: Final = "This did not work"
_CALM: Final[Mapping[Kind, str]] = {
    Kind.NOT_FOUND: "The address might be mistyped, or the page was removed.",
    Kind.WRONG_METHOD: (
        "This address is for programs, such as MCP hosts. Paste it there exactly as shown above. A "
        "browser shows nothing at it."
    ),
}
"""What is said where nothing went wrong."""


def build_refusal_page(problem: Problem, *, home: str = "") -> Response:
    """Return the page that says what ``problem`` is. With ``home``, it leads to the page of all tools there.

    Without ``home``, a form was not taken, and the user goes back to it.
    """
    title = _TITLES.get(problem.kind, _OTHER) if home else _OTHER
    calm = escape_text(_CALM.get(problem.kind, "")) if home else NO_HTML
    sentence_html = Html(f"<p>{calm}</p>") if calm else build_alert(make_visible(problem.message))
    seconds = ceil((problem.retry_after_ms or 0) / 1_000)
    wait = Html(f"<p>Try again in {seconds:,} second{'' if seconds == 1 else 's'}.</p>") if seconds else NO_HTML
    back = NO_HTML if home else Html("<p>Go back, and try again.</p>")
    # A link to a server that was called by a wrong name would lead to the same refusal.
    if home and problem.kind is not Kind.MISDIRECTED:
        back = Html(f"<p>{build_link(home, 'See the tools of this server', 'button')}</p>")
    html = Html(f'<div class="card"><h1>{escape_text(title)}</h1>{sentence_html}{wait}{back}</div>')
    more = (VARY, (b"retry-after", str(seconds).encode())) if seconds else (VARY,)
    return write_page(build_html_page(title, html, width="narrow"), STATUS_BY_KIND[problem.kind], more=more)
