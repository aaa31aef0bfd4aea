"""Build the inbox: each question that waits, as every approver shows it, with the form that answers it once.

Rules:
- An answer counts for the question that was shown, once, and only until its time ends.
- To allow a call that destroys something, the operator types the words that the page shows.
"""
# CO-02, CC-05, D-19

from __future__ import annotations

from datetime import datetime
from html import escape

from toolwire.consent.bounds_form import ALWAYS, build_bounds_fields, read_bounds
from toolwire.consent.display import confirmation_text
from toolwire.consent.question_page import (
    build_answer_buttons,
    build_typed_words,
    build_waiting_parts,
)
from toolwire.consent.waiting_question import read_waiting_question
from toolwire.core.check import Answer
from toolwire.core.errors import DefinitionError
from toolwire.framing.html_page import build_fold, build_notice
from toolwire.stores.consent.approvals import PendingQuestion

from .page import Page, PageRequest, Redirect, build_heading, build_moment
from .source import ConsoleSource

_REASON_CHARS = 500


def build_inbox(source: ConsoleSource, request: PageRequest) -> Page:
    """Return the questions that wait, the oldest first: a new one appears at the end, and moves nothing."""
    return _build(source, request, "", "")


def answer_question(source: ConsoleSource, request: PageRequest) -> Page | Redirect:
    """Store the answer in the form, or return the page that says what is wrong with it."""
    id_ = request.get("id")
    asked = next((one for one in source.approvals.list_pending() if one.id == id_), None)
    if asked is None:
        return Redirect("/inbox", "over")
    if request.get("answer") != "allow":
        answer = Answer(allowed=False, reason=request.get("reason").strip()[:_REASON_CHARS], channel="console")
        return Redirect("/inbox", "denied" if source.approvals.answer(id_, answer) else "over")
    question = read_waiting_question(asked.rows, always_allowed=asked.always_allowed)
    wanted = confirmation_text(question)
    if question.call.tool.destructive and request.get("confirm").strip() != wanted:
        return _build(source, request, id_, f"To allow this, type: {wanted}")
    bounds, always = None, False
    if asked.always_allowed:
        try:
            bounds = read_bounds(question, _first_values(request), datetime.now().astimezone())
        except DefinitionError as error:
            return _build(source, request, id_, str(error))
        always = bounds is not None or request.get(ALWAYS) == "yes"
    answer = Answer(allowed=True, always=always, bounds=bounds, channel="console")
    if not source.approvals.answer(id_, answer):
        return Redirect("/inbox", "over")
    return Redirect("/inbox", "allowed-later" if always else "allowed")


def _build(source: ConsoleSource, request: PageRequest, wrong: str, fault: str) -> Page:
    waiting = source.approvals.list_pending()
    cards = "".join(_build_card(request, one, fault if one.id == wrong else "") for one in waiting)
    empty = (
        '<div class="card empty" data-key="empty"><p>Nothing waits for you.</p><p>Programs that cannot ask you '
        "themselves put their questions here: <code>toolwire call --ask store</code>, and servers with "
        "<code>--consent inbox</code>.</p></div>"
    )
    heading = build_heading("Inbox", "Each answer is for exactly the call that is shown, once.")
    html = f'{heading}<div data-list="inbox">{cards or empty}</div>'
    return Page("Inbox", html, ("inbox",), status=400 if fault else 200, width="")


def _build_card(request: PageRequest, asked: PendingQuestion, fault: str) -> str:
    question = read_waiting_question(asked.rows, always_allowed=asked.always_allowed)
    tool = question.call.tool
    entered = _first_values(request) if fault else {}
    alert = build_notice(fault, "destroys", role="alert") if fault else ""
    typed = build_typed_words(confirmation_text(question)) if tool.destructive else ""
    later = build_bounds_fields(question, entered) if asked.always_allowed else ""
    reason = '<p><label>Why not <small>The assistant is told.</small><input name="reason" maxlength="500"></label></p>'
    heading = f"May <code>{escape(tool.name)}</code> be called at {escape(question.site)}?"
    return (
        f'<article class="card" data-key="{escape(asked.id)}" data-over="This question is over: it was answered '
        f'elsewhere, or its time has ended." aria-label="{escape(tool.name)}">{alert}<h2>{heading}</h2>'
        f'<p class="muted">asked {build_moment(asked.asked_at)}, may be answered until '
        f"{build_moment(asked.expires_at)}</p>{build_waiting_parts(asked.rows, level=3)}"
        f"{request.open_form('/inbox', [('id', asked.id)])}{typed}"
        f"{build_answer_buttons(destructive=tool.destructive)}"
        f"{build_fold('Later calls', later, is_open=bool(entered.get(ALWAYS))) if later else ''}"
        f"{build_fold('Say why not', reason)}</form></article>"
    )


def _first_values(request: PageRequest) -> dict[str, str]:
    return {name: values[0] for name, values in request.form.items() if values}
