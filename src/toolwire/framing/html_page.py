"""Build the HTML pages that people see: one stylesheet, one frame, and one function for each part of a page.

Rules:
- Every function takes text and escapes it; a parameter that takes HTML is named ``html``.
- A page has no inline script and loads nothing from elsewhere. Its policy allows this stylesheet by its digest.
- A consequence is a colour, a sign and a word, never a colour alone.
"""
# FU-32, D-23, D-25

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Sequence
from functools import cache
from hashlib import sha256
from html import escape
from typing import Final

from toolwire.core.http import Headers

from .page_file import load_style

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
_CURRENT: Final = ' aria-current="page"'
_SIGNS: Final = {"reads": "○", "changes": "●", "costs": "◆", "destroys": "▲", "safe": "✓"}


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


def build_html_page(
    title: str,
    html: str,
    *,
    product: str = "toolwire",
    home: str = "",
    place: str = "",
    navigation_html: str = "",
    account_html: str = "",
    foot: str = "",
    width: str = "",
    script: str = "",
) -> str:
    """Return a whole page with ``html`` in its ``main``.

    ``product`` and ``place`` are in the header, ``home`` is the address of the product's name; ``width`` is ``narrow``,
    ``wide`` or empty; ``script`` is the address of a script file. ``navigation_html`` is that of ``build_navigation``.
    """
    name = escape(product)
    brand = f'<a class="brand" href="{escape(home)}">{name}</a>' if home else f'<span class="brand">{name}</span>'
    where = f'<span class="place">{escape(place)}</span>' if place else ""
    account = f'<div class="account">{account_html}</div>' if account_html else ""
    footer = f'<footer class="foot">{escape(foot)}</footer>' if foot else ""
    scripts = f'<script src="{escape(script)}" defer></script>' if script else ""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{load_style()}</style>{scripts}</head>"
        f'<body class="{width}"><a class="skip" href="#main">To the content</a>'
        f'<header class="top">{brand}{where}{navigation_html}{account}</header><main id="main">{html}</main>{footer}'
        "</body></html>"
    )


def build_navigation(places: Iterable[tuple[str, str]], current: str) -> str:
    """Return the links to the pages of a product; each place is an address and its words, ``current`` an address."""
    links = "".join(
        f'<a href="{escape(address)}"{_CURRENT if address == current else ""}>{escape(words)}</a>'
        for address, words in places
    )
    return f'<nav aria-label="Pages">{links}</nav>'


def build_badge(kind: str, words: str) -> str:
    """Return a badge; ``kind`` is ``reads``, ``changes``, ``costs``, ``destroys`` or ``safe``."""
    return f'<span class="badge {kind}"><span aria-hidden="true">{_SIGNS[kind]}</span>{escape(words)}</span>'


def build_notice(text: str, kind: str = "", *, role: str = "") -> str:
    """Return a notice; ``role`` is ``alert`` or ``status`` where a screen reader must say it at once."""
    roles = f' role="{role}"' if role else ""
    return f'<p class="notice {kind}"{roles}>{escape(text)}</p>'


def build_facts(rows: Iterable[tuple[str, str]]) -> str:
    """Return a list of facts; each row is a label and HTML."""
    return f'<dl class="facts">{"".join(f"<dt>{escape(label)}</dt><dd>{html}</dd>" for label, html in rows)}</dl>'


def build_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table of HTML cells; on a narrow screen each row is a card. A column of buttons has an empty header."""
    heads = "".join(f'<th scope="col">{escape(name)}</th>' if name else "<td></td>" for name in header)
    lines = (
        "".join(f'<td data-label="{escape(name)}">{html}</td>' for name, html in zip(header, row, strict=True))
        for row in rows
    )
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    table = f'<table class="cards"><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>'
    return f'<div class="scroll" tabindex="0">{table}</div>'


def build_quote(source: str, text: str) -> str:
    """Return words of someone else in the frame that marks them; ``source`` says whose they are."""
    caption = f"<figcaption>{escape(source)}</figcaption>"
    return f'<figure class="said">{caption}<blockquote>{escape(text)}</blockquote></figure>'


def build_code_block(text: str, label: str) -> str:
    """Return a block of code that the keyboard can scroll; ``label`` names it."""
    return f'<pre class="block" tabindex="0" role="region" aria-label="{escape(label)}" data-copy>{escape(text)}</pre>'


def build_fold(summary: str, html: str, *, is_open: bool = False, kind: str = "") -> str:
    """Return a part that the user opens; ``kind`` ``fold`` is for a long value."""
    style = f' class="{kind}"' if kind else ""
    opened = " open" if is_open else ""
    return f"<details{style}{opened}><summary>{escape(summary)}</summary>{html}</details>"


def build_hidden_fields(fields: Iterable[tuple[str, str]]) -> str:
    """Return hidden fields of a form."""
    return "".join(f'<input type="hidden" name="{escape(name)}" value="{escape(value)}">' for name, value in fields)
