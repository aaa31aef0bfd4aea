"""Build the pages about other servers: the sites that are known and what they offer, and how they differ from the lock.

Rules:
- Nothing is fetched before the operator asks for it, and only from an address that the list has.
- What a site says stands in its own frame. Looking calls no tool.
"""
# CO-02

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from toolwire.core.model import Problem
from toolwire.core.url_display import show_url
from toolwire.framing.html_page import build_badge, build_fold, build_notice, build_quote, build_table
from toolwire.framing.visible_text import make_visible

from .page import Page, PageRequest, Redirect, build_heading, count_words
from .source import ConnectionRow, ConsoleSource, OfferedTool

_EFFECTS = {"reads": "only reads", "changes": "changes something", "destroys": "destroys something"}
_LEVELS = {"auto": "no question", "per-call": "asks each time", "deny": "never called", "always": "asks each time"}
_FIRST_TOOLS = 300


def build_connections(source: ConsoleSource, request: PageRequest) -> Page:
    """Return the list of connections."""
    return _build(source, request, "", ())


def look_at_offers(source: ConsoleSource, request: PageRequest) -> Page | Redirect:
    """Return the list with what the site in the form offers now."""
    url = request.get("url")
    known = {row.url for row in source.list_connections()} if source.list_connections is not None else set()
    if url not in known or source.find_offers is None:
        return Redirect("/connections", "not-there")
    return _build(source, request, url, source.find_offers(url))


def build_lock(source: ConsoleSource, request: PageRequest) -> Page:
    """Return the locked sites."""
    return _build_lock(source, request, "", ())


def compare_with_lock(source: ConsoleSource, request: PageRequest) -> Page | Redirect:
    """Return the locked sites, with how one of them differs from the lock now."""
    url = request.get("url")
    known = {locked for locked, _ in source.list_locked()} if source.list_locked is not None else set()
    if url not in known or source.find_differences is None:
        return Redirect("/lock", "not-there")
    return _build_lock(source, request, url, source.find_differences(url))


def _build(source: ConsoleSource, request: PageRequest, url: str, offers: Sequence[OfferedTool] | Problem) -> Page:
    rows = source.list_connections() if source.list_connections is not None else ()
    empty = (
        '<div class="card empty"><p>No site is known yet.</p><p><code>toolwire login URL</code> signs you in to one, '
        "and a call of a tool makes its site known.</p></div>"
    )
    cards = "".join(_build_card(source, request, row, offers if row.url == url else None) for row in rows)
    about = "Sites and programs that you are signed in to, have rules for, or called tools of."
    return Page("Connections", f"{build_heading('Connections', about)}{cards or empty}")


def _build_card(
    source: ConsoleSource, request: PageRequest, row: ConnectionRow, offers: Sequence[OfferedTool] | Problem | None
) -> str:
    shown = make_visible(show_url(row.url))
    scopes = f" <small>{escape(make_visible(', '.join(row.scopes)))}</small>" if row.scopes else ""
    look = ""
    if source.find_offers is not None and row.url.startswith(("http://", "https://")):
        look = (
            f"{request.open_form('/connections', [('url', row.url)])}"
            f'<button class="small" aria-label="Look at what {escape(shown)} offers">Look at its tools</button></form>'
        )
    found = "" if offers is None else _build_offers(offers)
    return (
        f'<section class="card" aria-label="{escape(shown)}"><div class="row"><div class="grow">'
        f'<h2 class="plain">{escape(shown)}</h2><p class="muted">{escape(row.access)}{scopes}</p></div>{look}</div>'
        f"{found}</section>"
    )


def _build_offers(offers: Sequence[OfferedTool] | Problem) -> str:
    if isinstance(offers, Problem):
        return build_notice(make_visible(offers.message), "destroys", role="alert")
    if not offers:
        return '<p class="empty">It offers no tool.</p>'
    rows = [
        [
            f"<code>{escape(make_visible(one.name))}</code>",
            build_badge(one.effect, _EFFECTS[one.effect])
            + (f" {build_badge('costs', make_visible(one.cost))}" if one.cost not in ("", "free") else ""),
            escape(_LEVELS.get(one.level, one.level)),
        ]
        for one in offers[:_FIRST_TOOLS]
    ]
    more = f"<p>and {len(offers) - _FIRST_TOOLS:,} more</p>" if len(offers) > _FIRST_TOOLS else ""
    words = "".join(
        build_quote(make_visible(one.name), make_visible(one.description))
        for one in offers[:_FIRST_TOOLS]
        if one.description
    )
    said = build_fold("What the site says about them", words) if words else ""
    return (
        f'<div role="status"><p>{count_words(len(offers), "tool")}, read now. None was called.</p></div>'
        f"{build_table(('Tool', 'Effect', 'Before a call'), rows)}{more}{said}"
    )


def _build_lock(source: ConsoleSource, request: PageRequest, url: str, found: Sequence[str] | Problem) -> Page:
    locked = source.list_locked() if source.list_locked is not None else ()
    cards = []
    for name, count in locked:
        shown = make_visible(show_url(name))
        result = ""
        if name == url:
            result = _build_differences(found)
        form = (
            f"{request.open_form('/lock', [('url', name)])}"
            f'<button class="small" aria-label="Compare {escape(shown)} with the lock">Compare now</button></form>'
        )
        cards.append(
            f'<section class="card" aria-label="{escape(shown)}"><div class="row"><div class="grow">'
            f'<h2 class="plain">{escape(shown)}</h2><p class="muted">{count_words(count, "tool")} pinned</p></div>'
            f"{form}</div>{result}</section>"
        )
    empty = (
        f'<div class="card empty"><p>There is no lock in {escape(make_visible(source.lock_name))}.</p>'
        "<p><code>toolwire lock URL</code> pins the tools of a site: a change is then noticed before a call.</p></div>"
    )
    heading = build_heading("Lock", f"The tools as you approved them, in {make_visible(source.lock_name)}.")
    return Page("Lock", f"{heading}{''.join(cards) or empty}")


def _build_differences(found: Sequence[str] | Problem) -> str:
    if isinstance(found, Problem):
        return build_notice(make_visible(found.message), "destroys", role="alert")
    if not found:
        return build_notice("The site is as it was locked.", "safe", role="status")
    lines = "".join(f"<li>{escape(make_visible(line))}</li>" for line in found)
    text = f"{count_words(len(found), 'line differs', 'lines differ')} from the lock."
    return f'{build_notice(text, "costs", role="status")}<ul class="value-list">{lines}</ul>'
