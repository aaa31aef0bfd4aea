"""Build the page on which a user answers what a server asks while a call runs, as HTML without scripts.

Rules:
- The first button says no, because Enter presses the first one.
- A page of another site is a link that the user follows, or not; nothing opens it.
"""
# MC-09, D-19

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from toolwire.core.model import Json
from toolwire.core.user_input import FieldKind, InputField, InputRequest
from toolwire.framing.html import NO_HTML, Html, escape_text, join_html, show_text
from toolwire.framing.html_page import (
    build_alert,
    build_check,
    build_code_block,
    build_form,
    build_html_page,
    build_notice,
    build_options,
    build_quote,
)
from toolwire.framing.visible_text import make_visible

from .input_display import NO_SECRETS, describe_asker, describe_field, describe_page, show_value

_PREFIX = "field "


def build_input_page(asked: InputRequest, token: str, entered: Mapping[str, Json]) -> Html:
    """Return the page that asks ``asked``. The answer must bring back ``token``; ``entered`` was entered before."""
    faults = [f"{name}: {fault}" for name, fault in asked.faults.items()]
    alert = build_alert(make_visible("; ".join(faults)))
    heading, parts = build_input_parts(asked, [("token", token)], entered)
    html = Html(f'{alert}<div class="card"><h1>{heading}</h1>{parts}</div>')
    foot = "toolwire asks on this machine. Nothing is sent before you answer."
    return build_html_page("A site asks you", html, place="asks you during a call", foot=foot)


def build_input_parts(
    asked: InputRequest, hidden: Iterable[tuple[str, str]], entered: Mapping[str, Json], *, action: str = ""
) -> tuple[Html, Html]:
    """Return the heading and the rest of the question: the form goes to ``action``, or to the page itself."""
    quote = build_quote("The site's words", asked.message) if asked.message else NO_HTML
    about = Html(f"<p>{escape_text(describe_asker(asked))}</p>")
    heading = Html(f"Answer {show_text(asked.tool)}?")
    return heading, Html(f"{about}{quote}{_build_form(asked, hidden, entered, action)}")


def read_form(asked: InputRequest, form: Mapping[str, Sequence[str]]) -> dict[str, Json]:
    """Return the content that a user entered on the page; an empty field is left out."""
    content: dict[str, Json] = {}
    for one in asked.fields:
        given = form.get(_PREFIX + one.name, [])
        if one.kind is FieldKind.CHOICES:
            if given or one.is_required:
                content[one.name] = list(given)
        elif given and given[0].strip():
            content[one.name] = one.parse(given[0])
    return content


def _build_form(
    asked: InputRequest, hidden: Iterable[tuple[str, str]], entered: Mapping[str, Json], action: str
) -> Html:
    if asked.url:
        words = Html(f"Open {escape_text(asked.host)}")
        link = Html(f'<a href="{escape_text(asked.url)}" target="_blank" rel="noopener noreferrer">{words}</a>')
        page = build_code_block(asked.url, "The page")
        inner = Html(f"<p>{escape_text(describe_page(asked))}</p>{page}<p>{link}</p>")
        done = Html("I am done on that page")
    else:
        fields = join_html(_build_field(one, entered.get(one.name, one.default)) for one in asked.fields)
        inner = Html(f"{build_notice(NO_SECRETS, 'costs')}{fields}")
        done = Html("Send this")
    html = Html(
        '<button class="first" name="answer" value="decline" tabindex="-1">No</button>'
        f"{inner}"
        '<div class="actions bar"><button name="answer" value="decline">No, send nothing</button>'
        '<button name="answer" value="cancel">Not now</button>'
        f'<button class="primary" name="answer" value="accept">{done}</button></div>'
    )
    return build_form(action, html, hidden)


def _build_field(one: InputField, value: Json) -> Html:
    name, label = escape_text(_PREFIX + one.name), show_text(one.label)
    about = " ".join(part for part in (describe_field(one), make_visible(one.description)) if part)
    head = Html(f"{label} <small>{escape_text(about)}</small>")
    if one.kind is FieldKind.CHOICES:
        chosen = value if isinstance(value, list) else []
        boxes = join_html(
            build_check(_PREFIX + one.name, choice.value, show_text(choice.title), is_checked=choice.value in chosen)
            for choice in one.choices
        )
        return Html(f"<fieldset><legend>{head}</legend>{boxes}</fieldset>")
    if one.kind in (FieldKind.CHOICE, FieldKind.BOOLEAN):
        pairs = [(choice.value, choice.title) for choice in one.choices] or [("yes", "yes"), ("no", "no")]
        now = show_value(value) if isinstance(value, bool) else value
        choices = [("", ""), *((key, make_visible(title)) for key, title in pairs)]
        options = build_options(choices, now if isinstance(now, str) else "")
        return Html(f'<p class="field"><label>{head}<select name="{name}">{options}</select></label></p>')
    text = "" if value is None else value if isinstance(value, str) else show_value(value)
    return Html(
        f'<p class="field"><label>{head}<input name="{name}" value="{escape_text(text)}" spellcheck="false" '
        'autocomplete="off"></label></p>'
    )
