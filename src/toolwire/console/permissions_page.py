"""Build the pages of what holds for later calls: permissions that the user gave, and rules that only tighten."""
# CO-02, CC-03, XL-042

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Protocol

from toolwire.consent.grant import Grant, Permission, group_permissions
from toolwire.consent.origin_display import name_programs
from toolwire.core.errors import DefinitionError
from toolwire.core.model import Approval
from toolwire.core.url_origin import complete_url, get_origin
from toolwire.framing.html_call import build_moment
from toolwire.framing.html_page import build_badge, build_notice, build_table
from toolwire.framing.visible_text import make_visible
from toolwire.stores.consent.preferences import EVERY_TOOL, EVERY_WRITE, KEPT_LEVELS

from .page import Page, PageRequest, Redirect, build_heading
from .source import ConsoleSource

_EVERY = {EVERY_TOOL: "every tool", EVERY_WRITE: "every tool that changes something"}
_LEVELS = {Approval.PER_CALL: ("changes", "ask me each time"), Approval.DENY: ("destroys", "never call it")}
_NAME_CHARS = 200
_PAGE_DIGITS = 9

MOST_ROWS = 100
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
    first = (number - 1) * MOST_ROWS
    rows = [_list_cells(request, one) for one in permissions[first : first + MOST_ROWS]]
    header = ("Tool", "Site", "Covers", "Given", "Ends", "")
    empty = (
        '<p class="empty">Nothing is allowed for later calls: each one that needs consent asks. '
        "“Later calls” in a question allows more, within bounds.</p>"
    )
    html = (
        f"{build_heading('Permissions', 'These calls run without a question. What you take back asks again at once.')}"
        f'<div class="card" data-part="permissions">{build_table(header, rows) if rows else empty}</div>'
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
    return max(1, min(asked, -(-count // MOST_ROWS)))


def _link_pages(request: PageRequest, number: int, count: int) -> str:
    last = -(-count // MOST_ROWS)
    if last <= 1:
        return ""
    links = [
        f'<a class="button" href="{escape(request.link("/permissions", page=str(other)))}">{word}</a>'
        for other, word in ((number - 1, "Older"), (number + 1, "Newer"))
        if 1 <= other <= last
    ]
    about = f"Page {number:,} of {last:,}, {count:,} permissions"
    return f'<nav class="actions" aria-label="Pages of the permissions"><span>{about}</span>{"".join(links)}</nav>'


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
            source, request, f"{make_visible(site[:_NAME_CHARS]) or 'Nothing'} is no address of a site."
        )
    if not name or len(name) > _NAME_CHARS:
        return _build_rules(source, request, "Name the tool, or choose every tool.")
    if level not in KEPT_LEVELS:
        return _build_rules(source, request, "Choose what happens: ask each time, or never.")
    source.preferences.set(origin, name, Approval(level))
    return Redirect("/rules", "rule")


def _list_cells(request: PageRequest, row: Permission) -> list[str]:
    name = make_visible(row.tool)
    return [
        f"<code>{escape(name)}</code>",
        f"{escape(make_visible(name_programs(row.key.origin)))}<br><small>{escape(make_visible(name_programs(row.connections)))}</small>",
        escape(row.covers),
        build_moment(row.grants[0].given_at),
        build_moment(row.expires_at),
        (
            f"{request.open_form('/permissions', [('id', row.id)])}"
            f'<button class="danger small" aria-label="Take back: {escape(name)}">Take back</button></form>'
        ),
    ]


def _build_rules(source: ConsoleSource, request: PageRequest, fault: str) -> Page:
    rows = []
    for one in source.preferences.list_levels():
        words = _EVERY.get(one.tool) or make_visible(one.tool)
        hidden = [("site", one.site), ("tool", one.tool), ("change", "delete")]
        rows.append(
            [
                escape(make_visible(name_programs(one.site))),
                escape(words) if one.tool in _EVERY else f"<code>{escape(words)}</code>",
                build_badge(*_LEVELS[one.level]),
                (
                    f"{request.open_form('/rules', hidden)}"
                    f'<button class="small" aria-label="Delete the rule: {escape(words)}">Delete</button></form>'
                ),
            ]
        )
    table = build_table(("Site", "Tool", "Your rule", ""), rows)
    empty = '<p class="empty">You have no rule: each site’s own level holds.</p>'
    alert = build_notice(fault, "destroys", role="alert") if fault else ""
    about = "A rule can only be stricter than the site: it asks more often, or never calls."
    html = (
        f"{build_heading('Rules', about)}{alert}"
        f'<div class="card" data-part="rules">{table if rows else empty}</div>{_build_rule_form(request)}'
    )
    return Page("Rules", html, ("rules",), status=400 if fault else 200)


def _build_rule_form(request: PageRequest) -> str:
    site, tool = (escape(request.get(name)) for name in ("site", "tool"))
    kinds = "".join(
        f'<option value="{escape(value)}"{" selected" if value == request.get("kind") else ""}>{words}</option>'
        for value, words in (("", "the tool named below"), *_EVERY.items())
    )
    return (
        f'<div class="card"><h2>Add a rule</h2>{request.open_form("/rules")}'
        f'<p class="field"><label>Site <small>such as shop.example</small><input name="site" value="{site}" required '
        'inputmode="url" spellcheck="false"></label></p>'
        f'<p class="field"><label>It is about<select name="kind">{kinds}</select></label></p>'
        f'<p class="field"><label>Tool<input name="tool" value="{tool}" maxlength="200" spellcheck="false"></label></p>'
        "<fieldset><legend>What happens</legend>"
        '<label class="check"><input type="radio" name="level" value="per-call" checked> '
        "<span>Ask me before each call</span></label>"
        '<label class="check"><input type="radio" name="level" value="deny"> '
        "<span>Never call it, and do not ask</span></label></fieldset>"
        '<div class="actions"><button class="primary">Add the rule</button></div></form></div>'
    )
