"""Do what operators of a server ask for, and keep in the audit log who did it.

Rules:
- A record is written after the action, with the name of the operator. It holds no argument and no reason.
- The console of a user alone keeps no such records: the program that asked records the decision.
"""
# CO-02, D-38

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

from toolwire.consent.decision_record import Decision
from toolwire.consent.grant import Grant
from toolwire.core.check import Answer
from toolwire.core.dataclass import dataclass
from toolwire.stores.consent.approvals import PendingQuestion

from . import operation_page, permissions_page
from .page import Page, PageRequest, Redirect
from .source import ConsoleSource

CHANNEL: Final = "console"


def record_action(
    source: ConsoleSource, operator: str, decision: str, tool: str, *, site: str = "", subject: str = ""
) -> None:
    """Keep in the audit log that ``operator`` took ``decision`` about ``tool``; ``subject`` is the id of what it is."""
    if source.keeps_actions:
        record = Decision(
            at=time.time(),
            principal=operator,
            connection=CHANNEL,
            tool=tool,
            binding=subject,
            decision=decision,
            channel=CHANNEL,
            site=site,
        )
        source.audit.append(record)


@dataclass(frozen=True, slots=True)
class AllQuestions:
    """The questions of all callers, for one operator."""

    source: ConsoleSource
    operator: str

    def list_pending(self) -> Sequence[PendingQuestion]:
        """Return the questions that still wait, oldest first."""
        return self.source.approvals.list_pending()

    def answer(self, asked: PendingQuestion, answer: Answer) -> bool:
        """Store the answer to a question, and return whether it still waited."""
        if not self.source.approvals.answer(asked.id, answer):
            return False
        facts = {row.label: row.text for row in asked.rows if row.kind == "part"}
        decision = "allowed" if answer.allowed else "denied"
        tool, site = facts.get("tool", ""), facts.get("site", "")
        record_action(self.source, self.operator, decision, tool, site=site, subject=asked.id)
        return True


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
        tool, site = ("", "") if key is None else (key.tool.partition(" ")[0], key.origin)
        record_action(self.source, self.operator, "revoked", tool, site=site, subject=id_)
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
    calls = source.list_calls() if source.keeps_actions and source.list_calls is not None else ()
    tool = next((one.tool for one in calls if one.id == id_), "")
    done = operation_page.cancel_call(source, request)
    if done.note == "cancelled":
        record_action(source, request.session.name, "cancelled", tool, subject=id_)
    return done
