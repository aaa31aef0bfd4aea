"""Build the page that asks a question: the rows that a terminal shows, as HTML without scripts.

Rules:
- The first button denies, because Enter presses the first one. No button has the focus.
- A long text is folded and its size is shown; it is never shortened. A text with hidden characters is marked.
- Words of the site stand in a frame that says so; no sentence of ours stands there.
"""
# D-19, D-21, FU-32

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from toolwire.core.check import Question
from toolwire.core.model import Json, Tool
from toolwire.framing.html import NO_HTML, Html, escape_text, join_html, show_text
from toolwire.framing.html_page import (
    NO_STORE,
    build_alert,
    build_badge,
    build_code,
    build_code_block,
    build_fold,
    build_form,
    build_html_page,
    build_list,
    build_notice,
    build_page_headers,
    build_policy,
    build_quote,
)
from toolwire.framing.html_value import build_value
from toolwire.framing.visible_text import make_visible, make_visible_json

from .bounds_fields import ALWAYS, build_bounds_fields
from .display import (
    ACTION,
    DisplayRow,
    build_display_rows,
    confirmation_text,
    find_unshown,
    needs_typed_confirmation,
)
from .origin_display import CAREFUL, show_site
from .question_groups import DIFFERS

PAGE_HEADERS: Final = (*build_page_headers(build_policy()), NO_STORE)
"""The header fields of each response: no frames, no resources from elsewhere, no caching."""
# D-19

NOTHING_ENTERED: Final[Mapping[str, str]] = MappingProxyType({})

_COSTS: Final = {"free": "costs nothing", "credits": "costs credits", "paid": "costs money"}
_IN_BODY: Final = "in the body"


def build_question_page(
    question: Question, token: str, note: str = "", entered: Mapping[str, str] = NOTHING_ENTERED
) -> Html:
    """Return the page that asks ``question``. The answer must bring back ``token``; ``note`` stands at the top.

    ``entered`` is what the user entered before, if that could not be read.
    """
    name = make_visible(question.call.tool.name)
    site = make_visible(question.program) or show_site(question.site)
    alert = build_alert(make_visible(note))
    heading = build_question_heading(build_display_rows(question)[0].text, name, site, level=1)
    form = build_question_form(question, [("token", token)], entered)
    html = Html(f'{alert}<div class="card">{heading}{build_question_parts(question)}{form}</div>')
    return build_html_page(f"May {name} be called?", html, place="asks you before a call", foot=_FOOT)


_FOOT: Final = "toolwire asks on this machine. Nothing is sent before you answer."


def build_question_heading(action: str, tool: str, site: str, *, level: int = 2) -> Html:
    """Return a heading that says what happens, and the question itself; ``action`` is the text of the first row.

    A question that was stored by an earlier version has no ``action``: then the question is the heading.
    """
    ask = Html(f"May {build_code(tool)} be called at {escape_text(site)}?")
    if not action:
        return Html(f"<h{level}>{ask}</h{level}>")
    words, colon, values = action.partition(": ")
    what = Html(f"{escape_text(words)}: <bdi>{escape_text(values)}</bdi>") if colon else escape_text(words)
    return Html(f'<h{level} class="action">{what}</h{level}><p>{ask}</p>')


def build_question_parts(question: Question, *, level: int = 2) -> Html:
    """Return everything that the user must see about ``question``, without heading and form.

    ``level`` is that of its own headings.
    """
    rows = build_display_rows(question)
    about = make_visible(question.call.tool.description.strip().partition("\n")[0])
    values = list(question.call.arguments.values())
    unshown = find_unshown(question)
    hidden = [name in unshown for name in question.call.arguments]
    about_html = build_quote(_SITE_SAYS, about) if about else NO_HTML
    return _build_parts(
        rows, build_tool_badges(question.call.tool), about_html, zip(values, hidden, strict=True), level
    )


def build_waiting_parts(rows: Sequence[DisplayRow], *, level: int = 2) -> Html:
    """Return the same for a question of which only the ``rows`` are kept, as ``build_display_rows`` made them."""
    facts = {row.label: row for row in rows if row.kind == "part"}
    badges = [build_badge("destroys", "destroys something")]
    if facts.get("destroys something", _NO_ROW).text != "yes":
        badges = [build_badge("changes", "may change something")]
    cost = facts.get("costs", _NO_ROW).text
    badges += _build_cost_badges("" if cost == "not declared" else cost)
    about = facts.get("tool", _NO_ROW).note
    about_html = build_quote(_SITE_SAYS, about) if about else NO_HTML
    return _build_parts(rows, badges, about_html, [_read_value(row) for row in rows if row.kind == "argument"], level)


# AT-52: a caption is ours. What a server calls itself could pose as one.
_SITE_SAYS: Final = "The site says"
_SITE_WORDS: Final = "In the site's own words"
_ABOVE: Final = ("tool", ACTION)
_SITES: Final = ("site", "program")
_QUOTED: Final = (*_SITES, "the site asks")
_NO_ROW: Final = DisplayRow("part", "", "")


def _read_value(row: DisplayRow) -> tuple[Json, bool]:
    """Return the value of an argument, and whether the row shows something else than the value."""
    try:
        return json.loads(row.text), False
    except (ValueError, RecursionError):
        return None, True


def _build_parts(
    rows: Sequence[DisplayRow],
    badges: Sequence[Html],
    about_html: Html,
    values: Iterable[tuple[Json, bool]],
    level: int,
) -> Html:
    warnings = join_html(
        build_notice(f"{row.label.capitalize()}: {row.text}", "costs") for row in rows if row.kind == "warning"
    )
    terms = join_html(
        _build_row(row, _build_text(row)) for row in rows if row.kind == "part" and row.label not in _ABOVE
    )
    return Html(
        f"{build_list(badges, 'badges')}{about_html}{warnings}{_build_arguments(rows, values, level)}"
        f'<h{level}>On these terms</h{level}><dl class="facts terms">{terms}</dl>'
    )


def build_tool_badges(tool: Tool) -> list[Html]:
    """Return badges for what a call of ``tool`` does, in colour, sign and word."""
    if tool.destructive:
        effect = build_badge("destroys", "destroys something")
    else:
        effect = build_badge("reads", "only reads") if tool.safe else build_badge("changes", _name_change(tool))
    return [effect, *_build_cost_badges(str(tool.cost or ""))]


def _name_change(tool: Tool) -> str:
    """Return what is known of a tool that may change something: nothing, where its server does not declare it."""
    mcp = tool.hints.get("mcp")
    annotations = mcp.get("annotations") if isinstance(mcp, Mapping) else None
    if tool.claimed_safe:
        return "says that it only reads"
    is_silent = isinstance(annotations, Mapping) and not isinstance(annotations.get("readOnlyHint"), bool)
    return "may change something: not declared" if is_silent and tool.approval is None else "changes something"


def _build_cost_badges(cost: str) -> list[Html]:
    kind = "reads" if cost == "free" else "costs"
    return [build_badge(kind, _COSTS.get(cost, cost))] if cost else []


def build_final_page(sentence: str, next_step: str = "") -> Html:
    """Return the page that is shown after an answer; ``next_step`` says what follows from it."""
    more = Html(f"<p>{escape_text(next_step)}</p>") if next_step else NO_HTML
    html = Html(f'<div class="card"><h1>{escape_text(sentence)}</h1>{more}<p>You can close this page.</p></div>')
    return build_html_page(sentence, html, width="narrow")


def _build_arguments(rows: Sequence[DisplayRow], values: Iterable[tuple[Json, bool]], level: int) -> Html:
    """Return the arguments as people read them, and folded the exact texts that a terminal shows."""
    shown = [row for row in rows if row.kind == "argument"]
    if not shown:
        return NO_HTML
    if all(row.note.startswith(_IN_BODY) for row in shown):  # where all of them are is said once: by what is sent
        shown = [row._replace(note=row.note.removeprefix(_IN_BODY).lstrip("; ")) for row in shown]
    facts = join_html(
        _build_row(row, _build_argument(row, value, is_unshown=is_unshown))
        for row, (value, is_unshown) in zip(shown, values, strict=True)
    )
    exact = "\n".join(f"{row.label} = {row.text}" for row in shown)
    fold = build_fold("The exact values, as JSON", build_code_block(exact, "The exact values"))
    return Html(f'<h{level}>What is sent</h{level}><dl class="facts">{facts}</dl>{fold}')


def _build_argument(row: DisplayRow, value: Json, *, is_unshown: bool) -> Html:
    if is_unshown:
        return escape_text(row.text)
    html = build_value(value)
    if row.is_long and "<details" not in html:
        return build_fold(f"{row.note}: show all of it", html, kind="fold")
    return html


def _build_row(row: DisplayRow, html: Html) -> Html:
    note = Html(f" <small>{escape_text(row.note)}</small>") if row.note and row.label not in _QUOTED else NO_HTML
    differs = Html(' data-differs="yes"') if row.note.endswith(DIFFERS) else NO_HTML
    is_hidden = row.note.removesuffix(f"; {DIFFERS}").endswith("hidden")
    is_hidden |= row.kind == "argument" and CAREFUL in row.note
    marked = Html(' data-hidden="yes"') if is_hidden else NO_HTML
    return Html(f"<dt{differs}>{escape_text(row.label)}{note}</dt><dd{differs}{marked}>{html}</dd>")


def _build_text(row: DisplayRow) -> Html:
    if row.label == "the site asks":
        return build_quote(_SITE_WORDS, row.text)
    text = Html(f'<span class="value">{escape_text(row.text)}</span>')
    if row.label in _SITES and row.note:
        return Html(f"{text}{build_quote(_SITE_WORDS, row.note)}")
    return build_fold(f"{row.note}: show all of it", text, kind="fold") if row.is_long else text


def build_question_form(
    question: Question,
    hidden: Iterable[tuple[str, str]],
    entered: Mapping[str, str] = NOTHING_ENTERED,
    *,
    action: str = "",
) -> Html:
    """Return the form that answers ``question``: to ``action``, or to the page itself, with the ``hidden`` fields."""
    tool = question.call.tool
    typed = build_typed_words(confirmation_text(question)) if needs_typed_confirmation(question) else NO_HTML
    buttons = build_answer_buttons(destructive=tool.destructive)
    return build_form(action, Html(f"{typed}{buttons}{_build_choices(question, entered)}"), hidden)


def build_typed_words(words: str) -> Html:
    """Return the field in which the user types ``words`` to allow a call that destroys something."""
    return Html(
        f'<p class="notice destroys"><label>Type <b>{escape_text(words)}</b> to allow it'
        '<input name="confirm" autocomplete="off" spellcheck="false"></label></p>'
    )


def build_answer_buttons(*, destructive: bool) -> Html:
    """Return the two buttons of a question, the safe one first."""
    style = Html("danger" if destructive else "primary")
    return Html(
        '<div class="actions bar"><button name="answer" value="deny">Not now</button>'
        f'<button class="{style}" name="answer" value="allow">Allow this call</button></div>'
    )


def _build_choices(question: Question, entered: Mapping[str, str]) -> Html:
    """Return the folded parts of the form: more calls, why not, and other arguments."""
    name = show_text(question.call.tool.name)
    bounds = NO_HTML if question.always_allowed is False else build_bounds_fields(question, entered)
    # Secrets stay out of the page: a browser may keep what stands in a form.
    unshown = find_unshown(question)
    editable = {name: value for name, value in question.call.arguments.items() if name not in unshown}
    arguments = escape_text(make_visible_json(editable, indent=1))
    # XL-042: the user's layer is set where the user thinks of it. Both choices only tighten.
    level = Html(
        f'<p class="field"><label>Later calls of {name} at this site <select name="later">'
        '<option value="">as until now</option><option value="per-call">always ask me</option>'
        '<option value="deny">never call it, do not ask</option></select></label></p>'
    )
    change = Html(
        "<p><label>The arguments as JSON <small>They are checked again.</small>"
        f'<textarea name="arguments" spellcheck="false">\n{arguments}</textarea></label></p>'
    )
    later = Html(f"{bounds}{level if question.can_keep_level else ''}")
    return join_html(
        (
            build_later_part(later, entered),
            build_reason_part(),
            build_fold("Change the arguments", change),
        )
    )


def build_later_part(html: Html, entered: Mapping[str, str]) -> Html:
    """Return the folded part of a question about later calls, open if the user chose something; nothing without it."""
    return build_fold("Later calls", html, is_open=bool(entered.get(ALWAYS))) if html else NO_HTML


def build_reason_part() -> Html:
    """Return the folded part of a question in which the user says why not."""
    label = Html("Why not <small>The assistant is told.</small>")
    return build_fold("Say why not", Html(f'<p><label>{label}<input name="reason" maxlength="500"></label></p>'))
