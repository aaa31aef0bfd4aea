"""Build the page on which a user answers what a server asks while a call runs, as HTML without scripts.

Rules:
- The first button says no, because Enter presses the first one.
- A page of another site is a link that the user follows, or not; nothing opens it.
"""
# MC-09, D-19

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape

from toolwire.core.model import Json
from toolwire.core.user_input import FieldKind, InputField, InputRequest
from toolwire.framing.html_page import build_code_block, build_hidden_fields, build_html_page, build_notice, build_quote
from toolwire.framing.visible_text import make_visible

from .input_display import NO_SECRETS, describe_asker, describe_field, describe_page, show_value

_PREFIX = "field "


def build_input_page(asked: InputRequest, token: str, entered: Mapping[str, Json]) -> str:
    """Return the page that asks ``asked``. The answer must bring back ``token``; ``entered`` was entered before."""
    faults = [f"{name}: {fault}" for name, fault in asked.faults.items()]
    alert = build_notice(make_visible("; ".join(faults)), "destroys", role="alert") if faults else ""
    heading, parts = build_input_parts(asked, [("token", token)], entered)
    html = f'{alert}<div class="card"><h1>{heading}</h1>{parts}</div>'
    foot = "toolwire asks on this machine. Nothing is sent before you answer."
    return build_html_page("A site asks you", html, place="asks you during a call", foot=foot)


def build_input_parts(
    asked: InputRequest, hidden: Iterable[tuple[str, str]], entered: Mapping[str, Json], *, action: str = ""
) -> tuple[str, str]:
    """Return the heading and the rest of the question: the form goes to ``action``, or to the page itself."""
    quote = build_quote("The site's words", asked.message) if asked.message else ""
    about = f"<p>{escape(describe_asker(asked))}</p>"
    heading = f"Answer {escape(make_visible(asked.tool))}?"
    return heading, f"{about}{quote}{_build_form(asked, hidden, entered, action)}"


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
) -> str:
    target = f' action="{escape(action)}"' if action else ""
    if asked.url:
        link = f'<a href="{escape(asked.url)}" target="_blank" rel="noopener noreferrer">Open {escape(asked.host)}</a>'
        inner = f"<p>{escape(describe_page(asked))}</p>{build_code_block(asked.url, 'The page')}<p>{link}</p>"
        done = "I am done on that page"
    else:
        inner = build_notice(NO_SECRETS, "costs") + "".join(
            _build_field(one, entered.get(one.name, one.default)) for one in asked.fields
        )
        done = "Send this"
    return (
        f'<form method="post"{target} autocomplete="off">{build_hidden_fields(hidden)}'
        f'<button class="first" name="answer" value="decline" tabindex="-1">No</button>{inner}'
        '<div class="actions bar"><button name="answer" value="decline">No, send nothing</button>'
        '<button name="answer" value="cancel">Not now</button>'
        f'<button class="primary" name="answer" value="accept">{done}</button></div></form>'
    )


def _build_field(one: InputField, value: Json) -> str:
    name, label = escape(_PREFIX + one.name), escape(make_visible(one.label))
    about = " ".join(part for part in (describe_field(one), make_visible(one.description)) if part)
    head = f"{label} <small>{escape(about)}</small>"
    if one.kind is FieldKind.CHOICES:
        chosen = value if isinstance(value, list) else []
        boxes = "".join(
            f'<label class="check"><input type="checkbox" name="{name}" value="{escape(choice.value)}"'
            f"{' checked' if choice.value in chosen else ''}> {escape(make_visible(choice.title))}</label>"
            for choice in one.choices
        )
        return f"<fieldset><legend>{head}</legend>{boxes}</fieldset>"
    if one.kind in (FieldKind.CHOICE, FieldKind.BOOLEAN):
        pairs = [(choice.value, choice.title) for choice in one.choices] or [("yes", "yes"), ("no", "no")]
        now = show_value(value) if isinstance(value, bool) else value
        options = '<option value=""></option>' + "".join(
            f'<option value="{escape(key)}"{" selected" if key == now else ""}>{escape(make_visible(title))}</option>'
            for key, title in pairs
        )
        return f'<p class="field"><label>{head}<select name="{name}">{options}</select></label></p>'
    text = "" if value is None else value if isinstance(value, str) else show_value(value)
    return (
        f'<p class="field"><label>{head}<input name="{name}" value="{escape(text)}" spellcheck="false" '
        'autocomplete="off"></label></p>'
    )
