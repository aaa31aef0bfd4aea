"""Build the first page of the console: what needs a decision, what is allowed, and what was decided last."""
# CO-02

from __future__ import annotations

from html import escape
from itertools import islice

from toolwire.framing.html_page import build_badge, build_notice
from toolwire.framing.visible_text import make_visible

from .log_page import build_timeline
from .page import Page, PageRequest, build_heading, count_words
from .source import ConsoleSource

_LAST = 6


def build_overview(source: ConsoleSource, request: PageRequest) -> Page:
    """Return the first page."""
    waiting = source.approvals.list_pending()
    first = (
        f'<a class="button primary" href="{escape(request.link("/inbox"))}">'
        f"Decide: {escape(count_words(len(waiting), 'question waits', 'questions wait'))}</a>"
        if waiting
        else '<p class="muted">No question waits for you. A call that needs your consent appears in the inbox.</p>'
    )
    tiles = [
        ("/permissions", "Permissions", len(source.grants.list_grants()), "allowed for later calls"),
        ("/rules", "Rules", len(source.preferences.list_levels()), "stricter than the site asks for"),
        ("/log", "Decisions", source.audit.last_number(), "recorded, in one chain"),
    ]
    if source.list_connections is not None:
        tiles.insert(0, ("/connections", "Connections", len(source.list_connections()), "sites and programs"))
    if source.list_calls is not None:
        running = sum(call.state not in ("ended", "cancelled", "interrupted") for call in source.list_calls())
        tiles.append(("/calls", "Calls", running, "running now"))
    items = "".join(
        f'<li class="card tile"><a href="{escape(request.link(path))}"><span class="figure">{number:,}</span> '
        f'<b>{escape(words)}</b></a><span class="muted">{escape(about)}</span></li>'
        for path, words, number, about in tiles
    )
    latest = list(islice(source.audit.iterate_back(), _LAST))
    timeline = build_timeline(latest) if latest else '<p class="empty">Nothing was decided yet.</p>'
    more = f'<p><a href="{escape(request.link("/log"))}">All decisions</a></p>' if latest else ""
    html = (
        f"{build_heading('Overview')}{_build_health(source)}{_build_faults(source)}"
        f'<div data-part="first">{first}</div><ul class="tiles" data-part="tiles">{items}</ul>'
        f'<section class="card" aria-label="Decided last"><h2>Decided last</h2>'
        f'<div data-part="latest">{timeline}{more}</div></section>'
    )
    return Page("Overview", html, ("inbox", "permissions", "rules", "log", "upstreams", "calls"))


def _build_faults(source: ConsoleSource) -> str:
    """Return what is wrong with the server besides its upstreams, such as a webhook that fails."""
    notices = "".join(build_notice(make_visible(text), "costs") for text in source.find_faults())
    return f'<div data-part="faults">{notices}</div>'


def _build_health(source: ConsoleSource) -> str:
    """Return the state of the upstreams in one line, where there are any."""
    if source.list_upstreams is None:
        return ""
    rows = source.list_upstreams()
    bad = [row.name for row in rows if row.state != "ok"]
    if bad:
        text = f"{', '.join(bad[:5])}: not answering. The other upstreams are served; the page Upstreams says why."
        return f'<div data-part="health">{build_notice(text, "costs")}</div>'
    words = f"{count_words(len(rows), 'upstream answers', 'upstreams answer')}"
    return f'<p data-part="health">{build_badge("safe", words)}</p>'
