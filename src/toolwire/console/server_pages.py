"""Build the pages about a running server: the health of its upstreams, its calls with progress, and its limits."""
# CO-02

from __future__ import annotations

from toolwire.core.health import UpstreamHealth
from toolwire.framing.html import NO_HTML, Html, escape_text, show_text
from toolwire.framing.html_call import build_call_state, build_moment
from toolwire.framing.html_page import (
    build_alert,
    build_badge,
    build_check,
    build_code,
    build_fold,
    build_input,
    build_list,
    build_select,
    build_submit,
    build_table,
)
from toolwire.framing.visible_text import make_visible

from .page import Page, PageRequest, Redirect, build_heading, build_part, count_words
from .source import CallRow, ConsoleSource, LimitRow, NewUpstream

_HEALTH = {
    "ok": ("safe", "answers"),
    "waiting": ("costs", "not reached yet"),
    "failing": ("destroys", "fails"),
    "paused": ("destroys", "paused"),
}
_OVER = frozenset({"ended", "cancelled", "interrupted"})
_TEXT_CHARS = 300
_ROWS = 100


def build_upstreams(source: ConsoleSource, request: PageRequest, fault: str = "") -> Page:
    """Return the upstreams and their health, with ``fault`` above if a change was refused."""
    found = source.list_upstreams() if source.list_upstreams is not None else ()
    can_change = source.upstream_changes is not None
    rows = [_list_upstream_cells(row, request, can_change=can_change) for row in found]
    table = build_table(
        ("Upstream", "State", "Tools", "Calls", "Last answer took", "Last failure"), rows, "There is none."
    )
    heading = build_heading("Upstreams", "If one fails, the others continue. It is retried automatically.")
    form = _build_upstream_form(request) if can_change else NO_HTML
    alert = build_alert(make_visible(fault)) if fault else NO_HTML
    return Page("Upstreams", Html(f"{heading}{alert}{build_part('upstreams', table)}{form}"), ("upstreams",))


def add_upstream(source: ConsoleSource, request: PageRequest) -> Page | Redirect:
    """Add the upstream in the form to the file of the gateway, or return the page with the reason why not."""
    # PL-08
    changes = source.upstream_changes
    if changes is None:
        return Redirect("/upstreams", "not-there")
    upstream = NewUpstream(
        name=request.get("name").strip(),
        url=request.get("url").strip(),
        scopes=tuple(request.get("scopes").split()),
        by_caller=request.get("account") == "caller",
        whole_document=request.get("include") == "all",
    )
    fault = changes.add(request.session.name, upstream)
    return build_upstreams(source, request, fault) if fault else Redirect("/upstreams", "upstream-added")


def remove_upstream(source: ConsoleSource, request: PageRequest) -> Page | Redirect:
    """Remove the upstream in the form from the file of the gateway, or return the page with the reason why not."""
    # PL-08
    changes = source.upstream_changes
    if changes is None:
        return Redirect("/upstreams", "not-there")
    fault = changes.remove(request.session.name, request.get("name"))
    return build_upstreams(source, request, fault) if fault else Redirect("/upstreams", "upstream-removed")


def try_upstream(source: ConsoleSource, request: PageRequest) -> Redirect:
    """Try at once to reach an upstream that has not been reached yet."""
    is_tried = source.try_upstream is not None and source.try_upstream(request.get("name"))
    return Redirect("/upstreams", "tried" if is_tried else "not-there")


def build_calls(source: ConsoleSource, request: PageRequest) -> Page:
    """Return the calls that run, the long ones with their progress, and the long ones that ended last."""
    calls = source.list_calls() if source.list_calls is not None else ()
    rows = [_list_call_cells(request, call) for call in calls[:_ROWS]]
    table = build_table(
        ("Tool", "State", "Caller", "Began", ""), rows, "No long call is running, and none has finished recently."
    )
    heading = build_heading("Calls", "Running calls, and long calls that finished recently.")
    now = NO_HTML
    if source.count_running is not None:
        words = count_words(source.count_running(), "call runs", "calls run")
        now = Html(f"<p>{escape_text(words)} now in this process.</p>")
    html = Html(f'{heading}<div data-part="running">{now}{_build_running(source)}</div>')
    if source.list_calls is None:
        return Page("Calls", html, ("running",))
    return Page("Calls", Html(f"{html}{build_part('calls', table, 'Long calls')}"), ("calls", "running"))


def _build_running(source: ConsoleSource) -> Html:
    """Return the calls that wait for their tools and are no long ones, the oldest first; no arguments of them."""
    calls = source.list_running()[:_ROWS] if source.list_running is not None else ()
    if not calls:
        return NO_HTML
    cells = [
        [
            build_code(call.tool),
            show_text(call.caller or "not known"),
            build_moment(call.started_at),
            build_code(call.id[:_TEXT_CHARS]),
        ]
        for call in calls
    ]
    return Html(f'<div class="card">{build_table(("Tool", "Caller", "Began", "Id"), cells)}</div>')


def cancel_call(source: ConsoleSource, request: PageRequest) -> Redirect:
    """Tell a call to end."""
    cancelled = source.cancel_call is not None and source.cancel_call(request.get("id"))
    return Redirect("/calls", "cancelled" if cancelled else "not-there")


def build_limits(source: ConsoleSource, _request: PageRequest) -> Page:
    """Return the limits, and how much of each is used."""
    rows = [_list_limit_cells(row) for row in source.list_limits()] if source.list_limits is not None else []
    table = build_table(("Limit", "Used", "Of"), rows, "No limit with a count is in use.")
    notes = build_list(show_text(note) for note in source.limit_notes)
    always = Html(f'<div class="card"><h2>What always holds</h2>{notes}</div>') if source.limit_notes else NO_HTML
    heading = build_heading("Limits", "How many calls are left before a limit applies.")
    return Page("Limits", Html(f'{heading}<div class="card">{table}</div>{always}'))


def _build_upstream_form(request: PageRequest) -> Html:
    name = Html(' required maxlength="32" pattern="[A-Za-z][A-Za-z0-9_\\-]*" autocapitalize="none" spellcheck="false"')
    url = Html(' type="url" required maxlength="2000" autocapitalize="none" spellcheck="false"')
    accounts = [("", "none: it needs no key"), ("caller", "each caller's own")]
    whole = Html("Take all operations of an OpenAPI document, not only those that it offers to models")
    fields = Html(
        f"{build_input('Name', 'name', request.get('name'), 'such as tasks', name)}"
        f"{build_input('Address', 'url', request.get('url'), 'such as https://tasks.example/mcp', url)}"
        f"{build_select('Account at this server', 'account', accounts, request.get('account'))}"
        f"{build_input('Scopes that callers need', 'scopes', request.get('scopes'), 'empty: it is for every caller')}"
        f"{build_check('include', 'all', whole, is_checked=request.get('include') == 'all')}"
        f"{build_submit('Add the upstream')}"
    )
    about = Html(
        '<p class="muted">The gateway connects to it first. A program, a file or a key of this machine is added in the'
        " terminal: <code>toolwire gateway add</code>.</p>"
    )
    form = request.build_form("/upstreams/add", fields)
    return Html(f'<div class="card"><h2>Add an upstream</h2>{about}{form}</div>')


def _list_upstream_cells(row: UpstreamHealth, request: PageRequest, *, can_change: bool) -> list[Html]:
    late = NO_HTML if row.latency_ms is None else Html(f"{row.latency_ms:,.0f} ms")
    note = show_text(row.last_failure[:_TEXT_CHARS])
    when = Html(f" <small>{build_moment(row.last_failure_at)}</small>") if row.last_failure_at is not None else NO_HTML
    failures = escape_text(count_words(row.failures, "failure"))
    counts = Html(f" <small>{failures}</small>") if row.failures else NO_HTML
    since = NO_HTML
    if row.failing_since is not None and row.state != "ok":
        since = Html(f" <small>since {build_moment(row.failing_since)}</small>")
    button = NO_HTML
    if row.state == "waiting":
        about = f"Try now to reach {make_visible(row.name)}"
        button = request.build_button("/upstreams", [("name", row.name)], "Try now", about)
    running = Html(f" <small>{row.running:,} running</small>") if row.running else NO_HTML
    remove = NO_HTML
    if can_change:
        about = f"Remove {make_visible(row.name)} from the gateway"
        words = "It is removed from the file, and its tools from the lists."
        sure = request.build_button("/upstreams/remove", [("name", row.name)], "Remove it", about, "danger small")
        remove = build_fold("Remove", Html(f"<p>{escape_text(words)}</p>{sure}"))
    return [
        Html(f"<b>{show_text(row.name)}</b>{remove}"),
        Html(f"{build_badge(*_HEALTH[row.state])}{since}{button}"),
        Html(f"{row.tools:,}"),
        Html(f"{row.calls:,}{counts}{running}"),
        late,
        Html(f"{note}{when}"),
    ]


def _list_call_cells(request: PageRequest, call: CallRow) -> list[Html]:
    is_open = call.state not in _OVER
    can_cancel = call.can_cancel and is_open
    about = f"End the call of {make_visible(call.tool)}"
    return [
        build_code(call.tool),
        build_call_state(
            call.state, call.tool, call.message[:_TEXT_CHARS], progress=call.progress if is_open else None
        ),
        show_text(call.caller),
        build_moment(call.started_at),
        request.build_button("/calls", [("id", call.id)], "End it", about, "danger small") if can_cancel else NO_HTML,
    ]


def _list_limit_cells(row: LimitRow) -> list[Html]:
    used_part = row.used / row.most if row.most else 0.0
    label = f"{make_visible(row.what)}: {row.used:,.0f} of {row.most:,.0f}"
    bar = Html(f'<meter max="{row.most:g}" value="{row.used:g}" aria-label="{escape_text(label)}"></meter>')
    full = Html(f" {build_badge('costs', 'used up')}") if used_part >= 1 else NO_HTML
    return [
        build_code(row.what),
        Html(f"{row.used:,.0f} {bar}{full}"),
        Html(f"{row.most:,.0f} {escape_text(row.per)}"),
    ]
