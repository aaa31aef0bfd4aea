"""Build the pages of what holds for later calls: permissions that the user gave, and rules that only tighten."""
# CO-02, CC-03, XL-042

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from toolwire.consent.grant import Grant, Permission, group_permissions
from toolwire.consent.origin_display import name_programs
from toolwire.core.errors import DefinitionError
from toolwire.core.model import Approval
from toolwire.core.url_origin import complete_url, get_origin
from toolwire.framing.html import NO_HTML, Html, escape_text, join_html, show_text
from toolwire.framing.html_call import build_moment
from toolwire.framing.html_page import (
    build_alert,
    build_badge,
    build_check,
    build_code,
    build_input,
    build_select,
    build_submit,
    build_table,
)
from toolwire.framing.visible_text import make_visible
from toolwire.stores.consent.preferences import EVERY_TOOL, EVERY_WRITE, STORED_LEVELS, StoredLevel

from .page import Page, PageRequest, Redirect, build_heading, build_part, count_words
from .source import ConsoleSource

_EVERY = {EVERY_TOOL: "every tool", EVERY_WRITE: "every tool that changes something"}
_LEVELS = {Approval.PER_CALL: ("changes", "ask me each time"), Approval.DENY: ("destroys", "never call it")}
_FILE_RULES = {
    "run": ("safe", "runs without a question"),
    "ask": ("changes", "asks each time"),
    "never": ("destroys", "never called"),
}
_NAME_CHARS = 200
_PAGE_DIGITS = 9

MAX_ROWS = 100
"""How many permissions one page shows."""


class Permissions(Protocol):
    """The permissions for later calls, of all callers or of one."""

    def list_grants(self) -> Sequence[Grant]:
        """Return the valid grants, oldest first."""
        ...

    def revoke(self, id_: str, /) -> bool:
        """Take one back, and return whether there was one."""
        ...


def build_permissions(grants: Permissions, request: PageRequest) -> Page:
    """Return the permissions with their bounds, and a button to take each one back."""
    permissions = group_permissions(grants.list_grants())
    number = _read_page(request, len(permissions))
    first = (number - 1) * MAX_ROWS
    rows = [_list_cells(request, one) for one in permissions[first : first + MAX_ROWS]]
    header = ("Tool", "Site", "Covers", "Covered so far", "Given", "Ends", "")
    empty = (
        "There are no permissions: each call that needs consent asks. To allow later calls, use “Later "
        "calls” in a question."
    )
    html = Html(
        f"{build_heading('Permissions', 'These calls run without a question. If you revoke one, they ask again.')}"
        f"{build_part('permissions', build_table(header, rows, empty))}"
        f"{_link_pages(request, number, len(permissions))}"
    )
    return Page("Permissions", html, ("permissions",))


def revoke_permission(grants: Permissions, request: PageRequest) -> Redirect:
    """Take one permission back: all grants of its row."""
    id_ = request.get("id")
    row = next((one for one in group_permissions(grants.list_grants()) if one.id == id_), None)
    done = [grants.revoke(one.id) for one in row.grants] if row is not None else []
    return Redirect("/permissions", "revoked" if any(done) else "not-there")


def _read_page(request: PageRequest, count: int) -> int:
    """Return which page of ``count`` permissions is asked for, from 1; the last one where it is beyond."""
    text = request.query.get("page", "")
    asked = int(text) if text.isascii() and text.isdigit() and len(text) < _PAGE_DIGITS else 1
    return max(1, min(asked, -(-count // MAX_ROWS)))


def _link_pages(request: PageRequest, number: int, count: int) -> Html:
    last = -(-count // MAX_ROWS)
    if last <= 1:
        return NO_HTML
    links = join_html(
        request.build_link("/permissions", words, "button", page=str(other))
        for other, words in ((number - 1, "Older"), (number + 1, "Newer"))
        if 1 <= other <= last
    )
    about = f"Page {number:,} of {last:,}, {count:,} permissions"
    return Html(
        f'<nav class="actions" aria-label="Pages of the permissions"><span>{escape_text(about)}</span>{links}</nav>'
    )


def build_rules(source: ConsoleSource, request: PageRequest) -> Page:
    """Return the user's own levels, and the form that adds one."""
    return _build_rules(source, request, "")


def change_rule(source: ConsoleSource, request: PageRequest) -> Page | Redirect:
    """Set or delete a level."""
    site, tool, level = (request.get(name).strip() for name in ("site", "tool", "level"))
    if request.get("change") == "delete":
        return Redirect("/rules", "no-rule" if source.preferences.unset(site, tool) else "not-there")
    try:
        origin = get_origin(complete_url(site)) if site else ""
    except DefinitionError:
        origin = ""
    kind = request.get("kind")
    name = kind if kind in _EVERY else tool
    if not origin:
        return _build_rules(
            source, request, f"{make_visible(site[:_NAME_CHARS]) or 'Nothing'} is not a valid server address."
        )
    if not name or len(name) > _NAME_CHARS:
        return _build_rules(source, request, "Name the tool, or choose all tools.")
    if level not in STORED_LEVELS:
        return _build_rules(source, request, "Choose a rule: ask each time, or never call.")
    source.preferences.set(origin, name, Approval(level))
    return Redirect("/rules", "rule")


def _list_cells(request: PageRequest, row: Permission) -> list[Html]:
    origin, programs = show_text(name_programs(row.key.origin)), show_text(name_programs(row.connections))
    about = f"Take back: {make_visible(row.tool)}"
    return [
        build_code(row.tool),
        Html(f"{origin}<br><small>{programs}</small>"),
        escape_text(row.covers),
        _build_uses(row),
        build_moment(row.grants[0].given_at),
        build_moment(row.expires_at),
        request.build_button("/permissions", [("id", row.id)], "Take back", about, "danger small"),
    ]


def _build_uses(row: Permission) -> Html:
    # QF-03
    if not row.use_count:
        return Html('<span class="muted">nothing yet</span>')
    amounts = f", {row.amounts}" if row.amounts else ""
    calls = escape_text(f"{count_words(row.use_count, 'call')}{amounts}")
    return Html(f"{calls}, last {build_moment(row.last_used_at)}")


def _list_rule_cells(request: PageRequest, rule: StoredLevel) -> list[Html]:
    words = _EVERY.get(rule.tool)
    hidden = [("site", rule.site), ("tool", rule.tool), ("change", "delete")]
    about = f"Delete the rule: {words or make_visible(rule.tool)}"
    return [
        show_text(name_programs(rule.site)),
        escape_text(words) if words else build_code(rule.tool),
        build_badge(*_LEVELS[rule.level]),
        request.build_button("/rules", hidden, "Delete", about),
    ]


def _build_rules(source: ConsoleSource, request: PageRequest, fault: str) -> Page:
    rows = [_list_rule_cells(request, one) for one in source.preferences.list_levels()]
    empty = "You have no rules. Each server’s own approval level applies."
    table = build_table(("Site", "Tool", "Your rule", ""), rows, empty)
    about = "A rule can only be stricter than the server: it asks more often, or never calls."
    html = Html(
        f"{build_heading('Rules', about)}{build_alert(fault)}{build_part('rules', table)}"
        f"{_build_file_rules(source)}{_build_rule_form(request)}"
    )
    return Page("Rules", html, ("rules",), status=400 if fault else 200)


def _build_file_rules(source: ConsoleSource) -> Html:
    """Return the rules of the gateway's file, which are changed there."""
    # QF-02
    if not source.file_rules:
        return NO_HTML
    rows = [
        [show_text(one.upstream), build_code(one.words), build_badge(*_FILE_RULES[one.kind])]
        for one in source.file_rules
    ]
    about = escape_text("These rules come from the gateway file. The requirements of servers and users also apply.")
    table = build_table(("Upstream", "Calls of", "Rule"), rows)
    return Html(f'<div class="card"><h2>Rules of the file</h2><p class="muted">{about}</p>{table}</div>')


def _build_rule_form(request: PageRequest) -> Html:
    choices = [("", "the tool named below"), *_EVERY.items()]
    site = Html(' required inputmode="url" spellcheck="false"')
    tool = Html(' maxlength="200" spellcheck="false"')
    ask = build_check("level", "per-call", Html("Ask me before each call"), is_checked=True, is_one_of=True)
    never = build_check("level", "deny", Html("Never call it, and do not ask"), is_one_of=True)
    fields = Html(
        f"{build_input('Site', 'site', request.get('site'), 'such as shop.example', site)}"
        f"{build_select('It is about', 'kind', choices, request.get('kind'))}"
        f"{build_input('Tool', 'tool', request.get('tool'), more=tool)}"
        f"<fieldset><legend>What happens</legend>{ask}{never}</fieldset>{build_submit('Add the rule')}"
    )
    return Html(f'<div class="card"><h2>Add a rule</h2>{request.build_form("/rules", fields)}</div>')
