"""Build the inbox: each question that waits, as every approver shows it, with the form that answers it once.

Rules:
- An answer counts for the question that was shown, once, and only until its time ends.
- To allow a call that destroys something, the operator types the words that the page shows.
- The stored rows of a question are what the user sees; what is read back from them only builds the form of the answer.
  A value that was masked or cannot be read stands in no field.
"""
# CO-02, CC-05, D-19

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from hashlib import sha256
from typing import Final, NamedTuple, Protocol

from toolwire.consent.bounds_fields import ALWAYS, build_bounds_fields, read_bounds
from toolwire.consent.display import ACTION, DisplayRow, confirmation_text
from toolwire.consent.origin_display import show_site
from toolwire.consent.question_groups import QuestionGroup, describe_differences, group_questions, mark_differing
from toolwire.consent.question_page import (
    build_answer_buttons,
    build_later_part,
    build_question_heading,
    build_reason_part,
    build_typed_words,
    build_waiting_parts,
)
from toolwire.core.check import Answer, Question, SimilarTool
from toolwire.core.errors import DefinitionError
from toolwire.core.model import Approval, Call, Json, Tool
from toolwire.framing.html import NO_HTML, Html, escape_text, join_html
from toolwire.framing.html_call import build_moment
from toolwire.framing.html_page import build_alert, build_notice
from toolwire.limits import RulesByCaller
from toolwire.server.access.browser_session import BrowserSession
from toolwire.stores.consent.approvals import PendingQuestion, build_answer_record

from .page import Page, PageRequest, Redirect, build_empty_card, build_heading, count_words
from .source import ConsoleSource

_REASON_CHARS = 500
GROUPS: Final = "groups"
"""The detail of a session that holds the groups of its user."""


class Questions(Protocol):
    """The questions that wait, of all callers or of one."""

    def list_pending(self) -> Sequence[PendingQuestion]:
        """Return the questions that still wait, oldest first."""
        ...

    def explain_refusal(self, asked: PendingQuestion, /) -> str:
        """Return why a question that is shown cannot be answered here, or an empty text if it can."""
        ...

    def answer(self, asked: PendingQuestion, answer: Answer, /) -> bool:
        """Store the answer to a question, and return whether it still waited."""
        ...


def list_session_groups(session: BrowserSession, rules: RulesByCaller) -> frozenset[str]:
    """Return the groups that the user of a session belongs to now."""
    # PL-03: those of a user who is signed in at the server; of a key, that of the file which lists its owner.
    found: frozenset[str] = session.details.get(GROUPS, frozenset()) if session.has_account else frozenset()
    return found | rules.find_member_groups(session.name)


def can_answer(rules: RulesByCaller, session: BrowserSession, asked: PendingQuestion) -> bool:
    """Return whether the user of a session may answer a question."""
    return rules.can_answer(
        session.name,
        asked.principal,
        has_account=session.has_account,
        approvers=asked.approvers,
        groups=list_session_groups(session, rules),
    )


class InboxWords(NamedTuple):
    """Where an inbox is and what it says; ``help_html`` stands below an empty one. ``channel`` is for the log."""

    path: str
    title: str
    help_html: Html
    channel: str


OPERATOR_INBOX: Final = InboxWords(
    "/inbox",
    "Inbox",
    Html(
        "Programs that cannot ask you themselves put their questions here: <code>toolwire call --ask store</code>, and "
        "servers with <code>--consent inbox</code>."
    ),
    "console",
)


def build_inbox(questions: Questions, request: PageRequest, words: InboxWords = OPERATOR_INBOX) -> Page:
    """Return the questions that wait, the oldest first: a new one appears at the end, and moves nothing."""
    return _build(questions, request, words, "", "")


def answer_question(questions: Questions, request: PageRequest, words: InboxWords = OPERATOR_INBOX) -> Page | Redirect:
    """Store the answer in the form, or return the page that says what is wrong with it."""
    id_, path = request.get("id"), words.path
    asked = next((one for one in questions.list_pending() if one.id == id_), None)
    if asked is None:
        return Redirect(path, "over")
    if refusal := questions.explain_refusal(asked):
        return _build(questions, request, words, id_, refusal)._replace(status=403)
    if request.get("answer") != "allow":
        answer = Answer(allowed=False, reason=request.get("reason").strip()[:_REASON_CHARS], channel=words.channel)
        return Redirect(path, "denied" if questions.answer(asked, answer) else "over")
    question = read_waiting_question(asked.rows, always_allowed=asked.always_allowed, similar=asked.similar)
    wanted = confirmation_text(question)
    if question.call.tool.destructive and request.get("confirm").strip() != wanted:
        return _build(questions, request, words, id_, f"To allow this call, type: {wanted}")
    try:
        bounds = read_bounds(question, request.list_first_values(), datetime.now().astimezone())
        always = bounds is not None or request.get(ALWAYS) == "yes"
        is_stored = questions.answer(asked, Answer(allowed=True, always=always, bounds=bounds, channel=words.channel))
    except DefinitionError as error:
        return _build(questions, request, words, id_, str(error))
    note = "allowed-later" if always else "allowed"
    return Redirect(path, note if is_stored else "over")


def store_answer(source: ConsoleSource, asked: PendingQuestion, answer: Answer, name: str) -> bool:
    """Store the answer of the user ``name`` and record it; return whether the question still waited."""
    answer = replace(answer, decided_by=name)
    if not source.approvals.answer(asked.id, answer, principal=asked.principal or None):
        return False
    # FU-60: a server asked for its caller. A program that asked its own user records the decision itself.
    if asked.principal or source.stores_actions:
        source.audit.append(build_answer_record(asked, answer, time.time()))
    return True


def _build(questions: Questions, request: PageRequest, words: InboxWords, wrong: str, fault: str) -> Page:
    groups = group_questions(questions.list_pending())
    # One question needs no heading of its task: it names all that a heading would.
    is_grouped = any(len(group.questions) > 1 for group in groups)
    level = 3 if is_grouped else 2

    def build_card(group: QuestionGroup[PendingQuestion], one: PendingQuestion) -> Html:
        shown = replace(one, rows=mark_differing(one.rows, group.differing.get(one.id, frozenset())))
        refusal, same = questions.explain_refusal(one), group.differing.get(one.id)
        about = NO_HTML if same is None else build_notice(describe_differences(same))
        return _build_card(
            request, shown, words.path, fault if one.id == wrong else "", refusal, about=about, level=level
        )

    cards = join_html(
        Html(
            f"{_build_group_heading(group) if is_grouped else NO_HTML}"
            f"{join_html(build_card(group, one) for one in group.questions)}"
        )
        for group in groups
    )
    heading = build_heading(words.title, "Each answer applies once, to exactly the call that is shown.")
    cards = cards or build_empty_card("No pending questions.", words.help_html)
    html = Html(f'{heading}<div data-list="inbox">{cards}</div>')
    return Page(words.title, html, ("inbox",), status=400 if fault else 200, width="")


def _build_group_heading(group: QuestionGroup[PendingQuestion]) -> Html:
    """Return the heading of one task. Its key is the same for as long as the task asks."""
    key = sha256(group.words.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    number = count_words(len(group.questions), "call")
    return Html(f'<h2 data-key="task-{escape_text(key)}">{escape_text(number)} at {escape_text(group.words)}</h2>')


def _build_card(
    request: PageRequest, asked: PendingQuestion, path: str, fault: str, refusal: str, *, about: Html, level: int
) -> Html:
    question = read_waiting_question(asked.rows, always_allowed=asked.always_allowed, similar=asked.similar)
    tool = question.call.tool
    action = next((row.text for row in asked.rows if row.label == ACTION), "")
    entered = request.list_first_values() if fault else {}
    typed = build_typed_words(confirmation_text(question)) if tool.destructive else NO_HTML
    later = NO_HTML if asked.always_allowed is False else build_bounds_fields(question, entered)
    fields = Html(
        f"{typed}{build_answer_buttons(destructive=tool.destructive)}{build_later_part(later, entered)}"
        f"{build_reason_part()}"
    )
    form = request.build_form(path, fields, [("id", asked.id)])
    return Html(
        f'<article class="card" data-key="{escape_text(asked.id)}" data-over="This question is over: it was answered '
        f'elsewhere, or its time has ended." aria-label="{escape_text(tool.name)}">{build_alert(fault)}'
        f"{build_question_heading(action, tool.name, show_site(question.site), level=level)}{about}"
        f'<p class="muted">asked {build_moment(asked.asked_at)}, may be answered until '
        f"{build_moment(asked.expires_at)}</p>{build_waiting_parts(asked.rows, level=level + 1)}"
        f"{build_notice(refusal, 'costs') if refusal else form}</article>"
    )


def read_waiting_question(
    rows: Sequence[DisplayRow], *, always_allowed: bool | None, similar: Sequence[SimilarTool] = ()
) -> Question:
    """Return the question that ``rows`` show, with the arguments that can be read from them.

    ``similar`` are the tools that a permission may cover too.
    """
    facts = {row.label: row.text for row in rows if row.kind == "part"}
    arguments: dict[str, Json] = {}
    secrets = set[str]()
    for row in rows:
        if row.kind == "argument":
            try:
                arguments[row.label] = json.loads(row.text)
            except (ValueError, RecursionError):  # a secret, which is masked, or a file, which is shown by its name
                arguments[row.label] = row.text
                secrets.add(row.label)
    tool = Tool(
        name=facts.get("tool", "") or "a tool",
        description="",
        destructive=facts.get("destroys something", "yes") == "yes",
    )
    return Question(
        Call(tool, arguments),
        facts.get("site", "") or facts.get("program", ""),
        facts.get("sends", ""),
        Approval.PER_CALL,
        always_allowed=always_allowed,
        secrets=frozenset(secrets),
        find_similar=lambda: similar,
    )
