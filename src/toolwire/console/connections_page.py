"""Build the pages about other servers: the sites that are known and what they offer, and how they differ from the lock.

Rules:
- Nothing is fetched before the operator asks for it, and only from an address that the list has.
- What a site says stands in its own frame. Looking calls no tool.
"""
# CO-02

from __future__ import annotations

from collections.abc import Sequence

from toolwire.core.model import Kind, Problem
from toolwire.core.url_display import show_url
from toolwire.framing.html import NO_HTML, Html, escape_text, join_html, show_text
from toolwire.framing.html_page import (
    build_alert,
    build_badge,
    build_check,
    build_code,
    build_empty,
    build_fold,
    build_list,
    build_notice,
    build_quote,
    build_submit,
    build_table,
)
from toolwire.framing.visible_text import make_visible

from .page import Page, PageRequest, Redirect, build_empty_card, build_heading, count_words
from .source import ConnectionRow, ConsoleSource, ToolRow

_EFFECTS = {"reads": "only reads", "changes": "changes something", "destroys": "destroys something"}
_LEVELS = {"auto": "no question", "per-call": "asks each time", "deny": "never called", "always": "asks each time"}
_FIRST_TOOLS = 300
_TRUST = "trust "


def build_connections(source: ConsoleSource, request: PageRequest) -> Page:
    """Return the list of connections."""
    return _build(source, request, "", ())


def show_site_tools(source: ConsoleSource, request: PageRequest) -> Page | Redirect:
    """Return the list with what the site in the form offers now."""
    url = request.get("url")
    known = {row.url for row in source.list_connections()} if source.list_connections is not None else set()
    if url not in known or source.list_site_tools is None:
        return Redirect("/connections", "not-there")
    chosen = [name.removeprefix(_TRUST) for name in request.form if name.startswith(_TRUST)]
    fault = source.trust_tools(url, chosen, request.session.name) if chosen and source.trust_tools is not None else ""
    found = Problem(kind=Kind.CONFLICT, message=fault) if fault else source.list_site_tools(url)
    return _build(source, request, url, found)


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


def _build(source: ConsoleSource, request: PageRequest, url: str, site_tools: Sequence[ToolRow] | Problem) -> Page:
    rows = source.list_connections() if source.list_connections is not None else ()
    login = Html("<code>toolwire login URL</code> signs you in to one, and a call of a tool makes its site known.")
    empty = build_empty_card("There are no servers yet.", login)
    cards = join_html(_build_card(source, request, row, site_tools if row.url == url else None) for row in rows)
    about = "Servers and programs that you are signed in to, have rules for, or have called."
    return Page("Connections", Html(f"{build_heading('Connections', about)}{cards or empty}"))


def _build_card(
    source: ConsoleSource, request: PageRequest, row: ConnectionRow, site_tools: Sequence[ToolRow] | Problem | None
) -> Html:
    scopes = Html(f" <small>{show_text(', '.join(row.scopes))}</small>") if row.scopes else NO_HTML
    button = NO_HTML
    if source.list_site_tools is not None and (source.stores_actions or row.url.startswith(("http://", "https://"))):
        about = f"Look at what {make_visible(row.name or show_url(row.url))} offers"
        button = request.build_button("/connections", [("url", row.url)], "Look at its tools", about)
    found = NO_HTML if site_tools is None else _build_site_tools(site_tools)
    if source.trust_tools is not None and site_tools is not None and not isinstance(site_tools, Problem):
        found = Html(f"{found}{_build_trust(request, row.url, [one for one in site_tools if one.untrusted])}")
    return _build_site(row.name or row.url, Html(f"{escape_text(row.access)}{scopes}"), button, found)


def _build_site(url: str, about_html: Html, button_html: Html, html: Html) -> Html:
    """Return the card of a site: its address, what is known about it, a button, and what that has found."""
    shown = show_text(show_url(url))
    return Html(
        f'<section class="card" aria-label="{shown}"><div class="row"><div class="grow"><h2 class="plain">{shown}</h2>'
        f'<p class="muted">{about_html}</p></div>{button_html}</div>{html}</section>'
    )


def _build_site_tools(site_tools: Sequence[ToolRow] | Problem) -> Html:
    if isinstance(site_tools, Problem):
        return build_alert(make_visible(site_tools.message))
    if not site_tools:
        return build_empty("It offers no tools.")
    rows = [
        [build_code(one.name), _build_effect(one), escape_text(_LEVELS.get(one.level, one.level))]
        for one in site_tools[:_FIRST_TOOLS]
    ]
    more = Html(f"<p>and {len(site_tools) - _FIRST_TOOLS:,} more</p>") if len(site_tools) > _FIRST_TOOLS else NO_HTML
    words = join_html(
        build_quote(make_visible(one.name), make_visible(one.description))
        for one in site_tools[:_FIRST_TOOLS]
        if one.description
    )
    count = count_words(len(site_tools), "tool")
    words_html = build_fold("What the site says about them", words) if words else NO_HTML
    return Html(
        f'<div role="status"><p>{escape_text(count)}, read now. None was called.</p></div>'
        f"{build_table(('Tool', 'Effect', 'Before a call'), rows)}{more}{words_html}"
    )


def _build_trust(request: PageRequest, url: str, tools: Sequence[ToolRow]) -> Html:
    """Return the form that trusts ``tools`` once, each of which is ticked; nothing without any."""
    # QF-01
    if not tools:
        return NO_HTML
    each = join_html(
        build_check(f"{_TRUST}{one.untrusted}", "yes", _describe_untrusted(one), is_checked=True) for one in tools
    )
    fields = Html(
        "<fieldset><legend>The site says that these need no question. Nothing but its word shows that they do no"
        f" harm.</legend>{each}</fieldset>{build_submit('Let these run without a question')}"
    )
    return request.build_form("/connections", fields, [("url", url)])


def _describe_untrusted(one: ToolRow) -> Html:
    about = make_visible(one.description.strip().partition("\n")[0])
    notes = join_html(Html(f" <small>{escape_text(note)}</small>") for note in one.notes)
    return Html(f"{build_code(one.name)} <small>{escape_text(about)}</small>{notes}")


def _build_effect(tool: ToolRow) -> Html:
    effect = build_badge(tool.effect, _EFFECTS[tool.effect])
    is_free = tool.cost in ("", "free")
    return effect if is_free else Html(f"{effect} {build_badge('costs', make_visible(tool.cost))}")


def _build_lock(source: ConsoleSource, request: PageRequest, url: str, found: Sequence[str] | Problem) -> Page:
    cards = []
    for name, count in source.list_locked() if source.list_locked is not None else ():
        about = f"Compare {make_visible(show_url(name))} with the lock"
        button = request.build_button("/lock", [("url", name)], "Compare now", about)
        pinned = escape_text(f"{count_words(count, 'tool')} pinned")
        cards.append(_build_site(name, pinned, button, _build_differences(found) if name == url else NO_HTML))
    pins = Html("<code>toolwire lock URL</code> pins the tools of a site: a change is then noticed before a call.")
    empty = build_empty_card(f"{make_visible(source.lock_name)} contains no lock entry.", pins)
    heading = build_heading("Lock", f"The tools that you approved, from {make_visible(source.lock_name)}.")
    return Page("Lock", Html(f"{heading}{join_html(cards) or empty}"))


def _build_differences(found: Sequence[str] | Problem) -> Html:
    if isinstance(found, Problem):
        return build_alert(make_visible(found.message))
    if not found:
        return build_notice("The server has not changed since it was locked.", "safe", role="status")
    text = f"{count_words(len(found), 'line differs', 'lines differ')} from the lock."
    return Html(f"{build_notice(text, 'costs', role='status')}{build_list(show_text(line) for line in found)}")
