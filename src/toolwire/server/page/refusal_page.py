"""Write the page that tells a person why an address or a form is not answered, and where to go from here."""
# CO-01, FU-32

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from math import ceil
from typing import Final

from toolwire.core.http import STATUS_BY_KIND, Response
from toolwire.core.model import Kind, Problem
from toolwire.framing.html_page import NO_STORE, build_html_page, build_notice, build_page_headers, build_policy
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
    Kind.NOT_FOUND: "The address may have a mistake, or lead to something that is gone.",
    Kind.WRONG_METHOD: (
        "A program, such as a host of MCP, connects to this address: paste it there, as it stands above. "
        "A browser finds nothing to show."
    ),
}
"""What is said where nothing went wrong."""


def build_refusal_page(problem: Problem, *, home: str = "") -> Response:
    """Return the page that says what ``problem`` is. With ``home``, it leads to the page of all tools there.

    Without ``home``, a form was not taken, and the user goes back to it.
    """
    title = _TITLES.get(problem.kind, _OTHER) if home else _OTHER
    calm = f"<p>{_CALM[problem.kind]}</p>" if home and problem.kind in _CALM else ""
    said = calm or build_notice(make_visible(problem.message), "destroys", role="alert")
    seconds = ceil((problem.retry_after_ms or 0) / 1_000)
    wait = f"<p>Try again in {seconds:,} second{'' if seconds == 1 else 's'}.</p>" if seconds else ""
    # A link to a server that was called by a wrong name would lead to the same refusal.
    has_link = bool(home) and problem.kind is not Kind.MISDIRECTED
    link = f'<p><a class="button" href="{escape(home)}">See the tools of this server</a></p>' if has_link else ""
    back = "" if home else "<p>Go back, and try again.</p>"
    page = build_html_page(title, f'<div class="card"><h1>{title}</h1>{said}{wait}{link}{back}</div>', width="narrow")
    fields = (*build_page_headers(build_policy()), NO_STORE, VARY)
    if seconds:
        fields = (*fields, (b"retry-after", str(seconds).encode()))
    return Response(STATUS_BY_KIND[problem.kind], fields, page.encode("utf-8", "replace"))
