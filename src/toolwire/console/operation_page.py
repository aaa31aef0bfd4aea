"""Build the pages about a running server: the health of its upstreams, its calls with progress, and its limits."""
# CO-02

from __future__ import annotations

from html import escape

from toolwire.core.health import UpstreamHealth
from toolwire.framing.html_call import build_moment, build_progress, build_state
from toolwire.framing.html_page import build_badge, build_table
from toolwire.framing.visible_text import make_visible

from .page import Page, PageRequest, Redirect, build_heading, count_words
from .source import CallRow, ConsoleSource, LimitRow

_HEALTH = {
    "ok": ("safe", "answers"),
    "waiting": ("costs", "not reached yet"),
    "failing": ("destroys", "fails"),
    "paused": ("destroys", "paused"),
}
_OVER = frozenset({"ended", "cancelled", "interrupted"})
_TEXT_CHARS = 300
_ROWS = 100


def build_upstreams(source: ConsoleSource, _request: PageRequest) -> Page:
    """Return the upstreams and their health."""
    found = source.list_upstreams() if source.list_upstreams is not None else ()
    rows = [_list_upstream_cells(row) for row in found]
    table = build_table(("Upstream", "State", "Tools", "Calls", "Last answer took", "Last failure"), rows)
    heading = build_heading("Upstreams", "One that fails leaves the others alone. It is tried again by itself.")
    html = f'{heading}<div class="card" data-part="upstreams">{table if rows else "<p>There is none.</p>"}</div>'
    return Page("Upstreams", html, ("upstreams",))


def build_calls(source: ConsoleSource, request: PageRequest) -> Page:
    """Return the calls that run, the long ones with their progress, and the long ones that ended last."""
    calls = source.list_calls() if source.list_calls is not None else ()
    rows = [_list_call_cells(request, call) for call in calls[:_ROWS]]
    table = build_table(("Tool", "State", "Caller", "Began", ""), rows)
    empty = '<p class="empty">No long call runs, and none has ended lately.</p>'
    heading = build_heading("Calls", "What runs now, and the long calls that ended lately.")
    number = source.count_running() if source.count_running is not None else None
    now = "" if number is None else f"<p>{count_words(number, 'call runs', 'calls run')} now in this process.</p>"
    html = f'{heading}<div data-part="running">{now}{_build_running(source)}</div>'
    if source.list_calls is None:
        return Page("Calls", html, ("running",))
    kept = f'<h2>Long calls</h2><div class="card" data-part="calls">{table if rows else empty}</div>'
    return Page("Calls", f"{html}{kept}", ("calls", "running"))


def _build_running(source: ConsoleSource) -> str:
    """Return the calls that wait for their tools and are no long ones, the oldest first; no arguments of them."""
    calls = source.list_running()[:_ROWS] if source.list_running is not None else ()
    if not calls:
        return ""
    cells = [
        [
            f"<code>{escape(make_visible(call.tool))}</code>",
            escape(make_visible(call.caller)) or "not known",
            build_moment(call.started_at),
            f"<code>{escape(make_visible(call.id[:_TEXT_CHARS]))}</code>",
        ]
        for call in calls
    ]
    return f'<div class="card">{build_table(("Tool", "Caller", "Began", "Id"), cells)}</div>'


def cancel_call(source: ConsoleSource, request: PageRequest) -> Redirect:
    """Tell a call to end."""
    cancelled = source.cancel_call is not None and source.cancel_call(request.get("id"))
    return Redirect("/calls", "cancelled" if cancelled else "not-there")


def build_limits(source: ConsoleSource, _request: PageRequest) -> Page:
    """Return the limits, and how much of each is used."""
    rows = [_list_limit_cells(row) for row in source.list_limits()] if source.list_limits is not None else []
    table = build_table(("Limit", "Used", "Of"), rows)
    empty = '<p class="empty">No counted limit is in use.</p>'
    notes = "".join(f"<li>{escape(make_visible(note))}</li>" for note in source.limit_notes)
    always = f'<div class="card"><h2>What always holds</h2><ul class="value-list">{notes}</ul></div>' if notes else ""
    heading = build_heading("Limits", "How much may still be called before a limit stops it.")
    return Page("Limits", f'{heading}<div class="card">{table if rows else empty}</div>{always}')


def _list_upstream_cells(row: UpstreamHealth) -> list[str]:
    late = "" if row.latency_ms is None else f"{row.latency_ms:,.0f} ms"
    note = escape(make_visible(row.last_failure[:_TEXT_CHARS])) if row.failures else ""
    when = f" <small>{build_moment(row.last_failure_at)}</small>" if row.last_failure_at is not None else ""
    failures = f" <small>{count_words(row.failures, 'failure')}</small>" if row.failures else ""
    failures += f" <small>{row.running:,} running</small>" if row.running else ""
    return [
        f"<b>{escape(make_visible(row.name))}</b>",
        build_badge(*_HEALTH[row.state]),
        f"{row.tools:,}",
        f"{row.calls:,}{failures}",
        late,
        f"{note}{when}",
    ]


def _list_call_cells(request: PageRequest, call: CallRow) -> list[str]:
    name = make_visible(call.tool)
    state = build_state(call.state)
    if call.state not in _OVER and call.progress is not None:
        state += f" {build_progress(call.progress, call.tool)}"
    if call.message:
        state += f" <small>{escape(make_visible(call.message[:_TEXT_CHARS]))}</small>"
    button = ""
    if call.can_cancel and call.state not in _OVER:
        button = (
            f"{request.open_form('/calls', [('id', call.id)])}"
            f'<button class="danger small" aria-label="End the call of {escape(name)}">End it</button></form>'
        )
    return [
        f"<code>{escape(name)}</code>",
        state,
        escape(make_visible(call.caller)),
        build_moment(call.started_at),
        button,
    ]


def _list_limit_cells(row: LimitRow) -> list[str]:
    share = row.used / row.most if row.most else 0.0
    label = f"{make_visible(row.what)}: {row.used:,.0f} of {row.most:,.0f}"
    bar = f'<meter max="{row.most:g}" value="{row.used:g}" aria-label="{escape(label)}"></meter>'
    full = f" {build_badge('costs', 'used up')}" if share >= 1 else ""
    return [
        f"<code>{escape(make_visible(row.what))}</code>",
        f"{row.used:,.0f} {bar}{full}",
        f"{row.most:,.0f} {escape(row.per)}",
    ]
