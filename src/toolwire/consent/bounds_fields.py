"""Build and read the part of the question page that sets how far an "always" goes.

Rules:
- The defaults are the tightest: ask each time and, within bounds, only the shown value and ten calls.
- Fields contain no secrets, because a grant is stored and a browser can remember form fields.
"""
# CC-03, D-19

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Final

from toolwire.core.check import Question, SimilarTool
from toolwire.core.condition import SUM
from toolwire.core.grant_bounds import GrantBounds
from toolwire.core.model import Condition, Json
from toolwire.framing.html import NO_HTML, Html, escape_text, join_html, show_text
from toolwire.framing.html_page import build_check, build_code, build_input, build_options
from toolwire.framing.visible_text import make_visible, make_visible_json

from .bound_text import (
    ANY,
    UPPER,
    build_bounds,
    find_default_least,
    list_absent,
    parse_bound,
    parse_least,
    parse_until,
    parse_uses,
)
from .display import find_secrets
from .grant import GRANT_LIFETIME

ALWAYS: Final = "always"
"""The field that says whether later calls need consent: ``yes``, ``bounds`` or empty."""

_KINDS: Final = {
    "": "this value only",
    "any": "any value",
    "<=": "at most",
    ">=": "at least",
    "in": "one of",
    "within": "inside the folder",
}
_USES: Final = "bound uses"
_UNTIL: Final = "bound until"
_USES_GIVEN: Final = "10"
_UNSEEN: Final = "bound unseen"
_SIMILAR: Final = "similar"
_MAX_SHOWN: Final = 60
_MAX_NAMES: Final = 500


def build_bounds_fields(question: Question, entered: Mapping[str, str]) -> Html:
    """Return the fields. ``entered`` is what the user entered before."""
    chosen = entered.get(ALWAYS, "")
    ends = Html(
        f"It ends after {escape_text(GRANT_LIFETIME)}, when the site changes the tool, or when you take it back: "
        "<code>toolwire approvals</code>."
    )
    choices = (
        ("", Html("Ask me each time <small>As until now.</small>")),
        *(
            [("yes", Html(f"Do not ask again for {build_code(question.call.tool.name)} <small>{ends}</small>"))]
            if question.always_allowed
            else []
        ),
        (
            "bounds",
            Html("Do not ask again within the bounds below <small>Any other call is asked about as before.</small>"),
        ),
    )
    radios = join_html(
        build_check(ALWAYS, value, html, is_checked=value == chosen, is_one_of=True) for value, html in choices
    )
    rows = join_html(_build_row(number, name, value, entered) for number, name, value in _list_arguments(question))
    uses, until = entered.get(_USES, _USES_GIVEN), entered.get(_UNTIL, "")
    plain, day = Html(' autocomplete="off"'), Html(' type="date"')
    return Html(
        f"<fieldset><legend>With the button above</legend>{radios}</fieldset>"
        f"<fieldset><legend>The bounds</legend>{rows}"
        f"{_build_unseen(question, entered)}"
        f"{build_input('How many later calls', _USES, uses, f'{ANY} for any number', plain)}"
        f"{build_input('Until the end of this day', _UNTIL, until, 'At most 30 days.', day)}</fieldset>"
        f"{_build_similar(question, entered)}"
    )


def _build_similar(question: Question, entered: Mapping[str, str]) -> Html:
    """Return the choice of other tools that the same bounds can cover, or nothing if there are none."""
    # QF-01, QF-03: the site's words are shown with its name, as in a question about one of these tools.
    similar = question.find_similar()
    if not similar:
        return NO_HTML
    every = build_check(_SIMILAR, "all", Html("All of these"), is_checked=entered.get(_SIMILAR) == "all")
    each = join_html(
        build_check(name, "yes", _describe_similar(one), is_checked=entered.get(name) == "yes")
        for one in similar
        for name in (_name_similar(one),)
    )
    return Html(
        "<fieldset><legend>Other tools with the same effect, within the same bounds</legend>"
        "<p><small>Each one asks again as soon as the site changes it. New tools ask.</small></p>"
        f"{every}{each}</fieldset>"
    )


def _describe_similar(one: SimilarTool) -> Html:
    needs = f" You are asked unless a condition limits {', '.join(one.destinations)}." if one.destinations else ""
    changes = "".join(f" Changed since you approved it: {change}." for change in one.changes)
    notes = make_visible(f"{needs}{changes}".strip())
    return Html(f"{build_code(one.name)} <small>{show_text(one.text)} {escape_text(notes)}</small>")


def _name_similar(one: SimilarTool) -> str:
    return f"{_SIMILAR} {one.definition}"


def _build_unseen(question: Question, entered: Mapping[str, str]) -> Html:
    """Return the choice about arguments that this call does not contain, or nothing if there are none."""
    absent = list_absent(question)
    if not absent:
        return NO_HTML
    names = escape_text(", ".join(make_visible(name) for name in absent)[:_MAX_NAMES])
    html = Html(f"Also calls with arguments that this one does not have <small>{names}</small>")
    return build_check(_UNSEEN, "yes", html, is_checked=entered.get(_UNSEEN) == "yes")


def read_bounds(question: Question, form: Mapping[str, str], now: datetime) -> GrantBounds | None:
    """Return the bounds in ``form``, or None if the user chose none. ``now`` has the user's time zone.

    Raises:
        DefinitionError: an entry cannot be read.
    """
    if form.get(ALWAYS) != "bounds":
        return None
    conditions: list[Condition | None] = []
    for number, name, value in _list_arguments(question):
        entry = _write_entry(form.get(f"bound {number}", ""), form.get(f"value {number}", ""))
        conditions.append(condition := parse_bound(name, value, entry))
        if condition is not None and condition.op in UPPER and (least := form.get(f"least {number}", "").strip()):
            conditions.append(parse_least(name, value, least))
        if most := form.get(f"sum {number}", "").strip():
            conditions.append(parse_bound(name, value, f"{SUM} {most}"))
    uses, until = parse_uses(form.get(_USES, "")), parse_until(now, form.get(_UNTIL, ""))
    # Only what the user saw counts. A tool that changed meanwhile has a different digest and is left out.
    is_all = form.get(_SIMILAR) == "all"
    tools = [one.definition for one in question.find_similar() if is_all or form.get(_name_similar(one)) == "yes"]
    return build_bounds(conditions, uses, until, unseen=form.get(_UNSEEN) == "yes", tools=tools)


def _list_arguments(question: Question) -> Iterator[tuple[int, str, Json]]:
    secrets = find_secrets(question)
    for number, (name, value) in enumerate(question.call.arguments.items()):
        if name not in secrets:
            yield number, name, value


def _write_entry(kind: str, value: str) -> str:
    """Return the text that the user would have typed at a terminal."""
    return {"": "", "any": ANY}.get(kind, f"{kind} {value}")


def _build_row(number: int, name: str, value: Json, entered: Mapping[str, str]) -> Html:
    text = make_visible_json(value)
    shown = escape_text(text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}...")
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    kinds = [kind for kind in _KINDS if kind not in (("within",) if is_number else ("<=", ">="))]
    chosen = entered.get(f"bound {number}", "")
    options = build_options(((kind, _KINDS[kind]) for kind in kinds), chosen)
    label = show_text(name)
    return Html(
        f'<p class="field"><label><code>{label}</code> <small>now {shown}</small>'
        f'<select name="bound {number}">{options}</select></label>'
        f'<input name="value {number}" value="{escape_text(entered.get(f"value {number}", ""))}" autocomplete="off"'
        f' spellcheck="false" aria-label="The bound of {label}" placeholder="such as 50, or Ada, Bob">'
        f"{_build_least(number, label, value, entered) if is_number else NO_HTML}</p>"
    )


def _build_least(number: int, label: Html, value: Json, entered: Mapping[str, str]) -> Html:
    """Return the fields for the lower bound next to "at most", and for the largest sum."""
    # AT-49, QF-03
    most = escape_text(entered.get(f"sum {number}", ""))
    least = escape_text(entered.get(f"least {number}", str(find_default_least(value))))
    return Html(
        f'<label><small>With "at most": at least</small><input name="least {number}" value="{least}"'
        f' autocomplete="off" inputmode="decimal" aria-label="The lower bound of {label}"></label>'
        f'<label><small>All these calls together: at most</small><input name="sum {number}" value="{most}"'
        f' autocomplete="off" inputmode="decimal" aria-label="The largest sum of {label}"></label>'
    )
