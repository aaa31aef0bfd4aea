"""Build the page that asks a question: the rows that a terminal shows, as HTML without scripts.

Rules:
- The first button denies, because Enter presses the first one. No button has the focus.
- A long text is folded and its size is shown; it is never shortened. A text with hidden characters is marked.
"""
# D-19, D-21

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Final

from toolwire.core.check import Question
from toolwire.framing.visible_text import make_visible, make_visible_json

from .display import DisplayRow, build_display_rows, confirmation_text, find_secrets, needs_typed_confirmation

PAGE_HEADERS: Final[Mapping[str, str]] = {
    "Content-Type": "text/html; charset=utf-8",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; "
    "frame-ancestors 'none'; base-uri 'none'",
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""The header fields of each response: no frames, no resources from elsewhere, no caching."""
# D-19

_STYLE: Final = """
body{font:1rem/1.5 system-ui,sans-serif;max-width:44rem;margin:2rem auto;padding:0 1rem;color:#111;background:#fff}
dt{font-weight:600;margin-top:.6rem}dd{margin:0;overflow-wrap:anywhere}
pre{white-space:pre-wrap;overflow-wrap:anywhere;margin:0;max-height:60vh;overflow:auto}
.warning,[data-hidden]{background:#fff3cd;border-left:.3rem solid #b36b00;padding-left:.5rem}small{color:#444}
button{font:inherit;padding:.5rem 1.2rem;margin:.5rem .5rem 0 0}textarea{width:100%;height:10rem;font-family:monospace}
@media (prefers-color-scheme:dark){body{color:#eee;background:#111}
.warning,[data-hidden]{background:#3a2c00}small{color:#bbb}}
"""


def build_question_page(question: Question, token: str, note: str = "") -> str:
    """Return the page that asks ``question``. The answer must bring back ``token``; ``note`` stands at the top."""
    rows = "".join(_build_row(row) for row in build_display_rows(question))
    alert = f'<p class="warning" role="alert">{escape(make_visible(note))}</p>' if note else ""
    return _build_page("May this be called?", f"{alert}<dl>{rows}</dl>{_build_form(question, token)}")


def build_final_page(sentence: str) -> str:
    """Return the page that is shown after an answer."""
    return _build_page(sentence, "<p>You can close this page.</p>")


def _build_page(title: str, body: str) -> str:
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body><main><h1>{escape(title)}</h1>"
        f"{body}</main></body></html>"
    )


def _build_row(row: DisplayRow) -> str:
    note = f"<small>{escape(row.note)}</small>" if row.note else ""
    marked = ' data-hidden="yes"' if row.note.endswith("hidden") else ""
    kind = "warning" if row.kind == "warning" else row.kind
    text = f"<pre>{escape(row.text)}</pre>"
    if row.is_long:
        text = f'<details data-long="yes"><summary>{escape(row.note)}: show all of it</summary>{text}</details>'
    return f'<dt class="{kind}">{escape(row.label)} {note}</dt><dd class="{kind}"{marked}>{text}</dd>'


def _build_form(question: Question, token: str) -> str:
    text = escape(confirmation_text(question))
    typed = (
        f'<p><label>Type <b>{text}</b> to allow it: <input name="confirm" autocomplete="off"></label></p>'
        if needs_typed_confirmation(question)
        else ""
    )
    always = (
        '<p><label><input type="checkbox" name="always" value="yes"> Do not ask again for this tool</label></p>'
        if question.always_allowed
        else ""
    )
    # XL-042: the user's layer is set where the user thinks of it. Both choices only tighten.
    later = (
        f'<p><label>Later calls of {escape(make_visible(question.call.tool.name))} at this site: <select name="later">'
        '<option value="">as until now</option><option value="per-call">always ask me</option>'
        '<option value="deny">never call it, do not ask</option></select></label></p>'
        if question.can_keep_level
        else ""
    )
    # Secrets stay out of the page: a browser may keep what stands in a form.
    secrets = find_secrets(question)
    editable = {name: value for name, value in question.call.arguments.items() if name not in secrets}
    arguments = escape(make_visible_json(editable, indent=1))
    return (
        f'<form method="post" autocomplete="off"><input type="hidden" name="token" value="{escape(token)}">'
        f'{typed}{always}{later}<p><button name="answer" value="deny">Deny</button>'
        '<button name="answer" value="allow">Allow this call</button></p>'
        '<p><label>Why not (the assistant is told): <input name="reason" maxlength="500"></label></p>'
        "<details><summary>Change the arguments</summary>"
        f'<label>As JSON; they are checked again.<textarea name="arguments">\n{arguments}</textarea></label>'
        "</details></form>"
    )
