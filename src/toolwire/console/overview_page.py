"""Build the first page of the console: what needs a decision, what is allowed, and what was decided last."""
# CO-02

from __future__ import annotations

from itertools import islice

from toolwire.framing.html import NO_HTML, Html, escape_text, join_html
from toolwire.framing.html_page import build_badge, build_empty, build_notice
from toolwire.framing.visible_text import make_visible

from .log_page import build_timeline
from .page import Page, PageRequest, build_heading, count_words
from .source import ConsoleSource

_LAST = 6


def build_overview(source: ConsoleSource, request: PageRequest) -> Page:
    """Return the first page."""
    waiting = source.approvals.list_pending()
    first = Html('<p class="muted">No question waits for you. A call that needs your consent appears in the inbox.</p>')
    if waiting:
        words = f"Decide: {count_words(len(waiting), 'question waits', 'questions wait')}"
        first = request.build_link("/inbox", words, "button primary")
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
    items = join_html(
        Html(
            f'<li class="card tile"><a href="{escape_text(request.link(path))}"><span class="figure">{number:,}</span> '
            f'<b>{escape_text(words)}</b></a><span class="muted">{escape_text(about)}</span></li>'
        )
        for path, words, number, about in tiles
    )
    latest = list(islice(source.audit.iterate_back(), _LAST))
    timeline = build_timeline(latest) if latest else build_empty("No decisions yet.")
    more = Html(f"<p>{request.build_link('/log', 'All decisions')}</p>") if latest else NO_HTML
    html = Html(
        f"{build_heading('Overview')}{_build_health(source)}{_build_faults(source)}"
        f'<div data-part="first">{first}</div><ul class="tiles" data-part="tiles">{items}</ul>'
        f'<section class="card" aria-label="Decided last"><h2>Decided last</h2>'
        f'<div data-part="latest">{timeline}{more}</div></section>'
    )
    return Page("Overview", html, ("inbox", "permissions", "rules", "log", "upstreams", "calls"))


def _build_faults(source: ConsoleSource) -> Html:
    """Return what is wrong with the server besides its upstreams, such as a webhook that fails."""
    notices = join_html(build_notice(make_visible(text), "costs") for text in source.find_faults())
    return Html(f'<div data-part="faults">{notices}</div>')


def _build_health(source: ConsoleSource) -> Html:
    """Return the state of the upstreams in one line, where there are any."""
    if source.list_upstreams is None:
        return NO_HTML
    rows = source.list_upstreams()
    bad = [row.name for row in rows if row.state != "ok"]
    if bad:
        text = (
            f"{', '.join(bad[:5])}: not answering. The other upstreams are available. The Upstreams page "
            "shows the reason."
        )
        return Html(f'<div data-part="health">{build_notice(text, "costs")}</div>')
    words = f"{count_words(len(rows), 'upstream answers', 'upstreams answer')}"
    return Html(f'<p data-part="health">{build_badge("safe", words)}</p>')
