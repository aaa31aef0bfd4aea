"""Build the pages of a caller's inbox: the own questions, the own permissions for later calls, and the own answers.

Rules:
- A caller sees and answers the own questions alone. The id of another caller's question is like one that does not
  exist.
- An event of another caller is not told.
"""
# GW-04

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from hashlib import sha256
from html import escape
from typing import Final

from toolwire.consent.decision_record import ChainedDecision, Decision
from toolwire.consent.grant import Grant
from toolwire.core.check import Answer
from toolwire.core.dataclass import dataclass
from toolwire.framing.html_call import build_moment
from toolwire.framing.html_page import build_badge, build_table
from toolwire.framing.visible_text import make_visible
from toolwire.stores.consent.approvals import PendingQuestion

from . import inbox_page, permissions_page
from .page import Page, PageRequest, Redirect, SignInWords, build_heading
from .page_tables import PageTables
from .source import ConsoleSource

CHANNEL: Final = "inbox"
"""What the log of decisions says of an answer that a caller gave here."""
_WORDS: Final = SignInWords(
    "inbox",
    "Sign in to your inbox",
    "Your key or token for this server. It is checked once, and not kept.",
    "This server does not know this key.",
)
_LAST: Final = 50
_STREAMS_EACH: Final = 20
_KINDS: Final = {"allowed": "safe", "denied": "destroys"}
_EMPTY: Final = (
    '<div class="card empty" data-key="empty"><p>Nothing waits for you.</p><p>When one of your programs calls a tool '
    "that needs your consent, the question appears here. This page can stay open.</p></div>"
)


@dataclass(frozen=True, slots=True)
class _OwnQuestions:
    """The questions of one caller, and their answers, which are recorded."""

    source: ConsoleSource
    principal: str

    def list_pending(self) -> Sequence[PendingQuestion]:
        """Return the questions of the caller that still wait."""
        return self.source.approvals.list_pending(self.principal)

    def answer(self, asked: PendingQuestion, answer: Answer) -> bool:
        """Store the answer, and return whether the question still waited."""
        if not self.source.approvals.answer(asked.id, answer, principal=self.principal):
            return False
        facts = {row.label: row.text for row in asked.rows if row.kind == "part"}
        record = Decision(
            at=time.time(),
            principal=self.principal,
            connection=CHANNEL,
            tool=facts.get("tool", ""),
            binding=asked.id,
            decision="allowed" if answer.allowed else "denied",
            channel=CHANNEL,
            always=answer.always,
            site=facts.get("site", ""),
        )
        self.source.audit.append(record)
        return True


@dataclass(frozen=True, slots=True)
class _OwnGrants:
    """The permissions of one caller."""

    source: ConsoleSource
    principal: str

    def list_grants(self) -> Sequence[Grant]:
        """Return the permissions that the caller gave."""
        return [one for one in self.source.grants.list_grants() if one.key.principal == self.principal]

    def revoke(self, id_: str) -> bool:
        """Take one of them back, and return whether there was one."""
        return any(one.id == id_ for one in self.list_grants()) and self.source.grants.revoke(id_)


def build_caller_tables(source: ConsoleSource) -> PageTables:
    """Return the pages for callers, over the stores of ``source``. The name of a session is that of its caller."""

    def build_questions(request: PageRequest) -> Page:
        page = inbox_page.build_inbox(_find_own(source, request), request, _CALLER_INBOX)
        return page._replace(topics=(name_topic(request.session.name),))

    def answer_question(request: PageRequest) -> Page | Redirect:
        return inbox_page.answer_question(_find_own(source, request), request, _CALLER_INBOX)

    def build_permissions(request: PageRequest) -> Page:
        return permissions_page.build_permissions(_OwnGrants(source, request.session.name), request)

    def revoke_permission(request: PageRequest) -> Redirect:
        return permissions_page.revoke_permission(_OwnGrants(source, request.session.name), request)

    def list_places(request: PageRequest) -> list[tuple[str, str]]:
        count = len(source.approvals.list_pending(request.session.name))
        first = ("/", f"Questions ({count})" if count else "Questions")
        return [first, ("/permissions", "Permissions"), ("/answers", "Your answers")]

    def look() -> Mapping[str, object]:
        # With the number of all: a question that was asked and answered between two looks has changed the page too.
        return {name_topic(name): found for name, found in source.approvals.list_by_caller().items()}

    return PageTables(
        pages={
            "/": build_questions,
            "/permissions": build_permissions,
            "/answers": lambda request: build_answers(source, request),
        },
        actions={"/": answer_question, "/permissions": revoke_permission},
        list_places=list_places,
        look=look,
        find_topics=lambda session: (name_topic(session.name),),
        name="inbox",
        words=_WORDS,
        streams_each=_STREAMS_EACH,
    )


def name_topic(principal: str) -> str:
    """Return the topic of the questions of a caller. It tells others nothing."""
    return f"inbox-{sha256(principal.encode()).hexdigest()[:16]}"


def build_answers(source: ConsoleSource, request: PageRequest) -> Page:
    """Return the last answers of the caller."""
    rows = [_list_cells(one) for one in source.audit.list_answers(request.session.name, _LAST)]
    about = f"The last answers that you gave here, at most {_LAST}."
    table = build_table(("When", "Tool", "Site", "Answer"), rows) if rows else '<p class="empty">None yet.</p>'
    html = f'{build_heading("Your answers", about)}<div class="card" data-part="answers">{table}</div>'
    return Page("Your answers", html, (name_topic(request.session.name),))


def _list_cells(one: ChainedDecision) -> list[str]:
    record = one.record
    words = {"allowed": "allowed, and later calls" if record.always else "allowed once", "denied": "not allowed"}
    return [
        build_moment(record.at),
        f"<code>{escape(make_visible(record.tool))}</code>",
        escape(make_visible(record.site)),
        build_badge(_KINDS.get(record.decision, "reads"), words.get(record.decision, make_visible(record.decision))),
    ]


def _find_own(source: ConsoleSource, request: PageRequest) -> _OwnQuestions:
    return _OwnQuestions(source, request.session.name)


_CALLER_INBOX: Final = inbox_page.InboxWords(
    path="/",
    title="Questions",
    about="Each answer is for exactly the call that is shown, once.",
    empty=_EMPTY,
    channel=CHANNEL,
)
