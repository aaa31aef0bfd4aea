"""Build the forms of pages and their fields. A form posts; what it carries along is in hidden fields."""
# FU-32, D-25

from __future__ import annotations

from collections.abc import Iterable

from .html import NO_HTML, Html, escape_text, join_html


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
