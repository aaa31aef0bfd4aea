"""Build the pages of a caller's inbox: the questions, the permissions for later calls, and the own answers.

Rules:
- A caller sees the own questions, and those of callers whose rules name it. The id of any other question is like one
  that does not exist.
- Who signs in with the key or token that a program calls with does not answer the questions of that program.
- An event of another caller is not told.
"""
# GW-04, AT-35

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from toolwire.consent.decision_record import ChainedDecision, Decision
from toolwire.consent.grant import Grant
from toolwire.consent.origin_display import name_programs
from toolwire.core.check import Answer
from toolwire.framing.html import Html, show_text
from toolwire.framing.html_call import build_moment
from toolwire.framing.html_page import build_badge, build_code, build_table
from toolwire.framing.visible_text import make_visible
from toolwire.limits import USER_PREFIX, RulesByCaller
from toolwire.limits.caller_rules import list_rule_names
from toolwire.server.access.browser_session import BrowserSession
from toolwire.stores.consent.approvals import PendingQuestion

from . import inbox_page, permissions_page
from .inbox_page import can_answer, list_session_groups
from .page import Page, PageRequest, Redirect, SignInWords, build_heading, build_part
from .page_tables import PageTables
from .source import NO_CALLER_RULES, ConsoleSource

CHANNEL: Final = "inbox"
"""What the log of decisions says of an answer that a caller gave here."""
_WORDS: Final = SignInWords(
    "inbox",
    "Sign in to your inbox",
    "Your API key or token for this server. It is checked once and not stored.",
    "This server does not accept this key.",
)
_APPROVERS_TOPIC: Final = "inbox-approvers"
"""The topic of all questions, for the users of groups: it tells no more than that there are others."""
_LAST: Final = 50
_STREAMS_EACH: Final = 20
_KINDS: Final = {"allowed": "safe", "denied": "destroys"}


@dataclass(frozen=True, slots=True)
class _Inbox:
    """The questions and permissions that one session sees: the own ones, and those that it answers for others."""

    source: ConsoleSource
    rules: RulesByCaller
    session: BrowserSession

    def list_pending(self) -> Sequence[PendingQuestion]:
        """Return the questions that still wait, oldest first."""
        approvals, own = self.source.approvals, self.session.name
        if not self.rules.deciders and not list_session_groups(self.session, self.rules):
            return approvals.list_pending(own)
        return [one for one in approvals.list_pending() if one.principal == own or self._can_answer(one)]

    def explain_refusal(self, asked: PendingQuestion) -> str:
        """Return why this session cannot answer a question that it sees, or an empty text if it can."""
        # AT-35
        if self._can_answer(asked):
            return ""
        if asked.approvers:
            return (
                f"You cannot answer this question. It is for the users of {make_visible(', '.join(asked.approvers))}."
            )
        names = sorted(self.rules.find(asked.principal).answered_by)
        who = f"{', '.join(names)}, or an operator" if names else "an operator of this server"
        if self.session.has_account:
            return f"You cannot answer this question, because your own app makes this call. It is for {who}."
        text = (
            "You cannot answer this question here, because the program that asks uses the same key or token. "
            f"It is for {who}."
        )
        if asked.principal.startswith(USER_PREFIX) and self.rules.find(asked.principal).self_approval:
            return f"{text} Or sign in with your account instead of a token."
        return text

    def answer(self, asked: PendingQuestion, answer: Answer) -> bool:
        """Store the answer and record it; return whether the question still waited and is theirs to answer."""
        return not self.explain_refusal(asked) and inbox_page.store_answer(
            self.source, asked, answer, self.session.name
        )

    def list_grants(self) -> Sequence[Grant]:
        """Return the permissions for the own calls, and for those of the callers for whom this session answers."""
        own = self.session.name
        return [
            one
            for one in self.source.grants.list_grants()
            if one.key.principal == own or self._answers_for(one.key.principal)
        ]

    def revoke(self, id_: str) -> bool:
        """Take one of them back and record it, and return whether there was one."""
        found = next((one.key for one in self.list_grants() if one.id == id_), None)
        if found is None or not self.source.grants.revoke(id_):
            return False
        record = Decision(
            at=time.time(),
            principal=self.session.name,
            caller=found.principal,
            connection=CHANNEL,
            tool=found.tool.partition(" ")[0],
            binding=id_,
            decision="revoked",
            channel=CHANNEL,
            site=found.origin,
        )
        self.source.audit.append(record)
        return True

    def _can_answer(self, asked: PendingQuestion) -> bool:
        return can_answer(self.rules, self.session, asked)

    def _answers_for(self, principal: str) -> bool:
        return self.rules.can_answer(self.session.name, principal, has_account=self.session.has_account)


def build_caller_tables(source: ConsoleSource, rules: RulesByCaller = NO_CALLER_RULES) -> PageTables:
    """Return the pages for callers, over the stores of ``source``. The name of a session is that of its caller.

    ``rules`` say who answers for whom.
    """

    def open_inbox(request: PageRequest) -> _Inbox:
        return _Inbox(source, rules, request.session)

    def build_questions(request: PageRequest) -> Page:
        page = inbox_page.build_inbox(open_inbox(request), request, _CALLER_INBOX)
        return page._replace(topics=_find_topics(rules, request.session))

    def answer_question(request: PageRequest) -> Page | Redirect:
        return inbox_page.answer_question(open_inbox(request), request, _CALLER_INBOX)

    def build_permissions(request: PageRequest) -> Page:
        return permissions_page.build_permissions(open_inbox(request), request)

    def revoke_permission(request: PageRequest) -> Redirect:
        return permissions_page.revoke_permission(open_inbox(request), request)

    def list_places(request: PageRequest) -> list[tuple[str, str]]:
        count = len(open_inbox(request).list_pending())
        first = ("/", f"Questions ({count})" if count else "Questions")
        return [first, ("/permissions", "Permissions"), ("/answers", "Your answers")]

    return PageTables(
        pages={
            "/": build_questions,
            "/permissions": build_permissions,
            "/answers": lambda request: build_answers(source, request),
        },
        actions={"/": answer_question, "/permissions": revoke_permission},
        list_places=list_places,
        read_topics=lambda: _read_by_topic(source, rules),
        find_topics=lambda session: _find_topics(rules, session),
        name="inbox",
        words=_WORDS,
        streams_each=_STREAMS_EACH,
    )


def name_topic(principal: str) -> str:
    """Return the topic of the questions of a caller. It tells others nothing."""
    return f"inbox-{sha256(principal.encode()).hexdigest()[:16]}"


def _read_by_topic(source: ConsoleSource, rules: RulesByCaller) -> Mapping[str, object]:
    """Return what each caller's questions are now, for the topics of those who see them."""
    # With the number of all: a question that was asked and answered between two looks has changed the page too.
    found: dict[str, list[object]] = {}
    found[_APPROVERS_TOPIC] = [source.approvals.count_stored(), source.approvals.list_open()]
    for principal, state in source.approvals.list_by_caller().items():
        for topic in (name_topic(principal), *map(_name_decider_topic, rules.find(principal).answered_by)):
            found.setdefault(topic, []).append((principal, state))
    return found


def _find_topics(rules: RulesByCaller, session: BrowserSession) -> tuple[str, ...]:
    names = [one for one in list_rule_names(session.name)[:-1] if one in rules.deciders]
    more = (_APPROVERS_TOPIC,) if list_session_groups(session, rules) else ()
    return (name_topic(session.name), *more, *map(_name_decider_topic, names))


def _name_decider_topic(name: str) -> str:
    """Return the topic of the questions that those called ``name`` answer for others."""
    return name_topic(f"answered by {name}")


def build_answers(source: ConsoleSource, request: PageRequest) -> Page:
    """Return the last answers of the caller."""
    rows = [_list_cells(one) for one in source.audit.list_answers(request.session.name, _LAST)]
    about = f"The last answers that you gave here, up to {_LAST}."
    table = build_table(("When", "Tool", "Site", "For", "Answer"), rows, "None yet.")
    html = Html(f"{build_heading('Your answers', about)}{build_part('answers', table)}")
    return Page("Your answers", html, (name_topic(request.session.name),))


def _list_cells(one: ChainedDecision) -> list[Html]:
    record = one.record
    words = {
        "allowed": "allowed, and later calls" if record.always else "allowed once",
        "denied": "not allowed",
        "revoked": "permission taken back",
    }
    return [
        build_moment(record.at),
        build_code(record.tool),
        show_text(name_programs(record.site)),
        show_text(record.caller or record.principal),
        build_badge(_KINDS.get(record.decision, "reads"), words.get(record.decision, make_visible(record.decision))),
    ]


_CALLER_INBOX: Final = inbox_page.InboxWords(
    path="/",
    title="Questions",
    help_html=Html(
        "When one of your programs calls a tool that needs your consent, the question appears here. You "
        "can leave this page open."
    ),
    channel=CHANNEL,
)
