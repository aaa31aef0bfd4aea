"""Build the HTML pages that people see: one stylesheet, one frame, and one function for each part of a page.

Rules:
- A function takes text and escapes it. What is HTML already has the type ``Html``, and a name that ends with ``html``.
- A page has no inline script and loads nothing from elsewhere. Its policy allows this stylesheet by its digest.
- A consequence is a colour, a sign and a word, never a colour alone.
"""
# FU-32, D-23, D-25

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Sequence
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Final
from urllib.parse import urlencode

from toolwire.core.http import Headers, Response

from .html import NO_HTML, Html, escape_text, join_html, read_html_file, show_text

NO_STORE: Final = (b"cache-control", b"no-store")
_PAGE_HEADERS: Final[Headers] = (
    (b"content-type", b"text/html; charset=utf-8"),
    (b"x-frame-options", b"DENY"),
    (b"x-content-type-options", b"nosniff"),
    # The address of a page may hold a code, which no other site may see. Without any referrer, a browser would not say
    # where a form comes from either (Origin: null).
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
)
# FD-06: a wire between two ends. It is in the page itself, because its policy allows no image.
_LOGO: Final = Html(
    '<svg class="logo" viewBox="0 0 24 24" aria-hidden="true"><rect width="24" height="24" rx="7"/>'
    '<path d="M6 16C13 16 11 8 18 8"/><circle cx="6" cy="16" r="2.5"/><circle cx="18" cy="8" r="2.5"/></svg>'
)
_CURRENT: Final = Html(' aria-current="page"')
_SIGNS: Final = {"reads": "○", "changes": "●", "costs": "◆", "destroys": "▲", "safe": "✓"}


@cache
def load_style() -> Html:
    """Return the stylesheet that all pages share. Light or dark follows the system's setting."""
    return read_html_file(Path(__file__).with_name("page.css"))


@cache
def _name_style() -> str:
    """Return the stylesheet as a source of a Content-Security-Policy, for a page that has it inline."""
    return f"'sha256-{b64encode(sha256(load_style().encode()).digest()).decode()}'"


def build_policy(*, form: str = "'self'", script: str = "", shows_media: bool = False, is_live: bool = False) -> str:
    """Return the Content-Security-Policy of a page: no frames, nothing from elsewhere, no inline script.

    ``form`` lists the origins that its forms may lead to, ``script`` the sources of its scripts. With ``shows_media``,
    it may show images and play sounds that are in the page itself. With ``is_live``, its script may ask its own server
    for news.
    """
    scripts = f"script-src {script}; " if script else ""
    scripts += "connect-src 'self'; " if is_live else ""
    media = "img-src data:; media-src data:; " if shows_media else ""
    return (
        f"default-src 'none'; style-src {_name_style()}; {scripts}{media}form-action {form}; frame-ancestors 'none'; "
        "base-uri 'none'"
    )


def build_page_headers(policy: str) -> Headers:
    """Return the header fields of a page with the Content-Security-Policy ``policy``, all but how it is stored."""
    return ((b"content-security-policy", policy.encode("latin-1", "replace")), *_PAGE_HEADERS)


def write_page(page: Html, status: int = 200, *, policy: str = "", more: Headers = ()) -> Response:
    """Return the response with a whole page, which nobody stores; without a ``policy``, it has no script."""
    fields = (*build_page_headers(policy or build_policy()), NO_STORE, *more)
    return Response(status, fields, page.encode("utf-8", "replace"))


def build_html_page(
    title: str,
    html: Html,
    *,
    product: str = "toolwire",
    home: str = "",
    place: str = "",
    navigation_html: Html = NO_HTML,
    account_html: Html = NO_HTML,
    foot: str = "",
    width: str = "",
    script: str = "",
) -> Html:
    """Return a whole page with ``html`` in its ``main``.

    ``product`` and ``place`` are in the header, ``home`` is the address of the product's name; ``width`` is ``narrow``,
    ``wide`` or empty; ``script`` is the address of a script file. ``navigation_html`` is that of ``build_navigation``.
    """
    name = Html(f"{_LOGO}{escape_text(product)}")
    brand = Html(f'<span class="brand">{name}</span>')
    brand = Html(f'<a class="brand" href="{escape_text(home)}">{name}</a>') if home else brand
    where = Html(f'<span class="place">{escape_text(place)}</span>') if place else NO_HTML
    account = Html(f'<div class="account">{account_html}</div>') if account_html else NO_HTML
    footer = Html(f'<footer class="foot">{escape_text(foot)}</footer>') if foot else NO_HTML
    scripts = Html(f'<script src="{escape_text(script)}" defer></script>') if script else NO_HTML
    return Html(
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape_text(title)}</title><style>{load_style()}</style>{scripts}</head>"
        f'<body class="{escape_text(width)}"><a class="skip" href="#main">To the content</a>'
        f'<header class="top">{brand}{where}{navigation_html}{account}</header><main id="main">{html}</main>{footer}'
        "</body></html>"
    )


def build_navigation(places: Iterable[tuple[str, str]], current: str) -> Html:
    """Return the links to the pages of a product; each place is an address and its words, ``current`` an address."""
    links = join_html(
        Html(f'<a href="{escape_text(address)}"{_CURRENT if address == current else ""}>{escape_text(words)}</a>')
        for address, words in places
    )
    return Html(f'<nav aria-label="Pages">{links}</nav>')


def build_badge(kind: str, words: str) -> Html:
    """Return a badge; ``kind`` is ``reads``, ``changes``, ``costs``, ``destroys`` or ``safe``."""
    sign = Html(f'<span aria-hidden="true">{escape_text(_SIGNS[kind])}</span>')
    return Html(f'<span class="badge {escape_text(kind)}">{sign}{escape_text(words)}</span>')


def build_notice(text: str, kind: str = "", *, role: str = "") -> Html:
    """Return a notice; ``role`` is ``alert`` or ``status`` where a screen reader must say it at once."""
    roles = Html(f' role="{escape_text(role)}"') if role else NO_HTML
    return Html(f'<p class="notice {escape_text(kind)}"{roles}>{escape_text(text)}</p>')


def build_alert(text: str) -> Html:
    """Return a notice of what is wrong, which a screen reader says at once; nothing without ``text``."""
    return build_notice(text, "destroys", role="alert") if text else NO_HTML


def build_facts(rows: Iterable[tuple[str, Html]]) -> Html:
    """Return a list of facts; each row is a label and its value."""
    facts = join_html(Html(f"<dt>{escape_text(label)}</dt><dd>{html}</dd>") for label, html in rows)
    return Html(f'<dl class="facts">{facts}</dl>')


def build_table(header: Sequence[str], rows: Iterable[Sequence[Html]], empty: str = "") -> Html:
    """Return a table, or the text ``empty`` without any row; on a narrow screen each row is a card.

    A column of buttons has an empty header.
    """
    body = join_html(Html(f"<tr>{_build_cells(header, row)}</tr>") for row in rows)
    if empty and not body:
        return build_empty(empty)
    heads = join_html(
        Html(f'<th scope="col">{escape_text(name)}</th>') if name else Html("<td></td>") for name in header
    )
    table = Html(f'<table class="cards"><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>')
    return Html(f'<div class="scroll" tabindex="0">{table}</div>')


def _build_cells(header: Sequence[str], row: Sequence[Html]) -> Html:
    return join_html(
        Html(f'<td data-label="{escape_text(name)}">{html}</td>') for name, html in zip(header, row, strict=True)
    )


def build_empty(text: str) -> Html:
    """Return what stands in place of a table or a list that has nothing."""
    return Html(f'<p class="empty">{escape_text(text)}</p>')


def build_list(items: Iterable[Html], kind: str = "value-list") -> Html:
    """Return a list; ``kind`` ``badges`` is for badges, ``items`` for links."""
    parts = join_html(Html(f"<li>{item}</li>") for item in items)
    return Html(f'<ul class="{escape_text(kind)}">{parts}</ul>')


def build_lines(parts: Sequence[Html]) -> Html:
    """Return ``parts``, each on a line."""
    return Html(f"{parts[0]}{join_html(Html(f'<br>{one}') for one in parts[1:])}") if parts else NO_HTML


def build_link(address: str, words: str, kind: str = "") -> Html:
    """Return a link; ``kind`` is empty, or ``button`` and what else says how a button looks."""
    style = Html(f' class="{escape_text(kind)}"') if kind else NO_HTML
    return Html(f'<a{style} href="{escape_text(address)}">{escape_text(words)}</a>')


def build_login_link(login_path: str, goal: str, *, is_only: bool) -> Html:
    """Return the link to the page of a server where people sign in, which leads to ``goal`` afterwards.

    It is a button if that ``is_only`` way in.
    """
    address = f"{login_path}?{urlencode({'next': goal})}"
    return Html(f"<p>{build_link(address, 'Sign in with your account', 'button primary' if is_only else '')}</p>")


def build_code(text: str) -> Html:
    """Return a name of a program, such as that of a tool."""
    return Html(f"<code>{show_text(text)}</code>")


def build_quote(source: str, text: str) -> Html:
    """Return words of someone else in the frame that marks them; ``source`` says whose they are."""
    caption = Html(f"<figcaption>{escape_text(source)}</figcaption>")
    return Html(f'<figure class="said">{caption}<blockquote>{escape_text(text)}</blockquote></figure>')


def build_code_block(text: str, label: str) -> Html:
    """Return a block of code that the keyboard can scroll; ``label`` names it."""
    named = Html(f'tabindex="0" role="region" aria-label="{escape_text(label)}"')
    return Html(f'<pre class="block" {named} data-copy>{escape_text(text)}</pre>')


def build_fold(summary: str, html: Html, *, is_open: bool = False, kind: str = "") -> Html:
    """Return a part that the user opens; ``kind`` ``fold`` is for a long value."""
    style = Html(f' class="{escape_text(kind)}"') if kind else NO_HTML
    opened = Html(" open") if is_open else NO_HTML
    return Html(f"<details{style}{opened}><summary>{escape_text(summary)}</summary>{html}</details>")


@cache
def load_script(name: str, module: str) -> bytes:
    """Return the script ``name``, which is beside the file ``module``, after the part that all scripts share."""
    return Path(__file__).with_name("page.js").read_bytes() + Path(module).with_name(name).read_bytes()


def build_form(action: str, html: Html, hidden: Iterable[tuple[str, str]] = (), *, more: Html = NO_HTML) -> Html:
    """Return a form that posts to ``action``, to the page itself if that is empty; ``more`` are attributes."""
    target = Html(f' action="{escape_text(action)}"') if action else NO_HTML
    return Html(f'<form method="post"{target} autocomplete="off"{more}>{build_hidden_fields(hidden)}{html}</form>')


def build_hidden_fields(fields: Iterable[tuple[str, str]]) -> Html:
    """Return hidden fields of a form."""
    return join_html(
        Html(f'<input type="hidden" name="{escape_text(name)}" value="{escape_text(value)}">') for name, value in fields
    )


def build_input(label: str, name: str, value: str = "", hint: str = "", more: Html = NO_HTML) -> Html:
    """Return a field with its label and a ``hint``; ``more`` are attributes."""
    filled = Html(f' value="{escape_text(value)}"') if value else NO_HTML
    field = Html(f'<input name="{escape_text(name)}"{filled}{more}>')
    return Html(f'<p class="field"><label>{_build_label(label, hint)}{field}</label></p>')


def build_select(label: str, name: str, choices: Iterable[tuple[str, str]], chosen: str) -> Html:
    """Return a field with one of ``choices``, each a value and its words."""
    field = Html(f'<select name="{escape_text(name)}">{build_options(choices, chosen)}</select>')
    return Html(f'<p class="field"><label>{escape_text(label)}{field}</label></p>')


def build_options(choices: Iterable[tuple[str, str]], chosen: str) -> Html:
    """Return the options of a select field; each choice is a value and its words."""
    return join_html(_build_option(value, words, is_chosen=value == chosen) for value, words in choices)


def _build_option(value: str, words: str, *, is_chosen: bool) -> Html:
    chosen = Html(" selected") if is_chosen else NO_HTML
    return Html(f'<option value="{escape_text(value)}"{chosen}>{escape_text(words)}</option>')


def build_check(name: str, value: str, html: Html, *, is_checked: bool = False, is_one_of: bool = False) -> Html:
    """Return a box to tick, or a radio button if it ``is_one_of`` several."""
    kind = Html("radio" if is_one_of else "checkbox")
    box = Html(f'<input type="{kind}" name="{escape_text(name)}" value="{escape_text(value)}"')
    return Html(f'<label class="check">{box}{" checked" if is_checked else ""}> <span>{html}</span></label>')


def build_submit(words: str) -> Html:
    """Return the only button of a form."""
    return Html(f'<div class="actions"><button class="primary">{escape_text(words)}</button></div>')


def _build_label(label: str, hint: str) -> Html:
    return Html(f"{escape_text(label)}{Html(f' <small>{escape_text(hint)}</small>') if hint else ''}")
