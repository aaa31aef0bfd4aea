"""Do what operators of a server ask for, and keep in the audit log who did it.

Rules:
- A record is written after the action, with the names of the operator and of the caller. It holds no argument and no
  reason.
- In the console of a user alone, the program that asked its own user records the decision.
"""
# CO-02, D-38

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from toolwire.consent.decision_record import Decision
from toolwire.consent.grant import Grant
from toolwire.core.check import Answer
from toolwire.framing.visible_text import make_visible
from toolwire.limits.caller_rules import list_rule_names
from toolwire.server.access.browser_session import BrowserSession
from toolwire.stores.consent.approvals import PendingQuestion

from . import inbox_page, permissions_page, server_pages
from .page import Page, PageRequest, Redirect
from .source import ConsoleSource

CHANNEL: Final = "console"


def record_action(
    source: ConsoleSource,
    operator: str,
    decision: str,
    tool: str,
    *,
    site: str = "",
    subject: str = "",
    caller: str = "",
) -> None:
    """Keep in the audit log that ``operator`` took ``decision`` about ``tool``.

    ``subject`` is the id of what it is about, and ``caller`` whose it is.
    """
    if source.stores_actions:
        record = Decision(
            at=time.time(),
            principal=operator,
            connection=CHANNEL,
            tool=tool,
            binding=subject,
            decision=decision,
            channel=CHANNEL,
            site=site,
            caller=caller,
        )
        source.audit.append(record)


@dataclass(frozen=True, slots=True)
class AllQuestions:
    """The questions of all callers, for one operator."""

    source: ConsoleSource
    session: BrowserSession

    def list_pending(self) -> Sequence[PendingQuestion]:
        """Return the questions that still wait, oldest first."""
        return self.source.approvals.list_pending()

    def explain_refusal(self, asked: PendingQuestion) -> str:
        """Return why this operator cannot answer a question, or an empty text if they can."""
        # AT-35: an operator with a key may be a caller too, whose programs have that key.
        session, is_server = self.session, self.source.stores_actions
        name = session.name if session.has_account else f"key:{session.name}"
        own = {session.name, *list_rule_names(name)[:-1]} if is_server else set()
        groups = inbox_page.list_session_groups(session, self.source.rules) if is_server else frozenset(asked.approvers)
        if asked.approvers and groups.isdisjoint(asked.approvers):
            return (
                f"You cannot answer this question. It is for the users of {make_visible(', '.join(asked.approvers))}."
            )
        if own.isdisjoint(list_rule_names(asked.principal)[:-1]):
            return ""
        if not session.has_account:
            return (
                "You cannot answer this question, because the program that asks uses the same key. Another "
                "operator can."
            )
        # PL-03
        if self.source.rules.find(asked.principal).self_approval:
            return ""
        return "You cannot answer this question, because your own app makes this call. Another operator can."

    def answer(self, asked: PendingQuestion, answer: Answer) -> bool:
        """Store the answer to a question, and return whether it still waited and is theirs to answer."""
        return not self.explain_refusal(asked) and inbox_page.store_answer(
            self.source, asked, answer, self.session.name
        )


@dataclass(frozen=True, slots=True)
class AllGrants:
    """The permissions of all callers, for one operator."""

    source: ConsoleSource
    operator: str

    def list_grants(self) -> Sequence[Grant]:
        """Return all permissions."""
        return self.source.grants.list_grants()

    def revoke(self, id_: str) -> bool:
        """Take one of them back, and return whether there was one."""
        found = next((one for one in self.list_grants() if one.id == id_), None)
        if not self.source.grants.revoke(id_):
            return False
        key = None if found is None else found.key
        tool, site, caller = ("", "", "") if key is None else (key.tool.partition(" ")[0], key.origin, key.principal)
        record_action(self.source, self.operator, "revoked", tool, site=site, subject=id_, caller=caller)
        return True


def change_rule(source: ConsoleSource, request: PageRequest) -> Page | Redirect:
    """Set or delete a level, as a form says."""
    done = permissions_page.change_rule(source, request)
    if isinstance(done, Redirect) and done.note in ("rule", "no-rule"):
        level = "no level" if done.note == "no-rule" else request.get("level").strip()
        record_action(
            source, request.session.name, f"rule: {level}", request.get("tool"), site=request.get("site").strip()
        )
    return done


def cancel_call(source: ConsoleSource, request: PageRequest) -> Redirect:
    """Tell a call to end."""
    id_ = request.get("id")
    calls = source.list_calls() if source.stores_actions and source.list_calls is not None else ()
    tool, caller = next(((one.tool, one.caller) for one in calls if one.id == id_), ("", ""))
    done = server_pages.cancel_call(source, request)
    if done.note == "cancelled":
        record_action(source, request.session.name, "cancelled", tool, subject=id_, caller=caller)
    return done
