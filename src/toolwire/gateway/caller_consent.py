"""Ask the callers of a gateway for consent: a gateway has no user of its own.

Rules:
- A call that the gateway's own client would ask about is answered with a challenge, and does not run. The same call
  with the challenge's word runs, once, within five minutes.
- A word is valid for one caller, one tool of one site as it is defined now, and the same arguments alone.
- The challenge says for which reasons consent is needed. A client that has asked its user about exactly this call, with
  these reasons, sends the word without a second question.
- Where a site wants a receipt, the gateway signs with its own key that its caller decided, if it has a key, but never
  on the word of a host that is trusted.
- What a site itself wants confirmed is not asked of the caller: such a call is refused as before.
"""
# XL-053, XL-056

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from hmac import compare_digest
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from toolwire.consent.consent_check import TRUST_ADVICE
from toolwire.consent.decision_record import Audit, ChainedDecision, Decision
from toolwire.consent.origin_display import show_site
from toolwire.core.check import Answer, Question, SimilarTool
from toolwire.core.model import ANONYMOUS, Call, Kind, Problem
from toolwire.framing import jsontext
from toolwire.server.asking.confirmation import HOST_CONFIRMATION, Confirmations, ConfirmationTokens
from toolwire.server.asking.decision_log import find_channel
from toolwire.server.asking.inbox import Inbox
from toolwire.server.asking.permissions import CallerPermissions, UpstreamTool
from toolwire.server.asking.receipts import ReceiptVerifier
from toolwire.stores.consent.memory import MemoryAudit

from .upstream import find_approvers

if TYPE_CHECKING:  # loads sqlite3, and few sites want receipts
    from toolwire.stores.consent.audit import StoredAudit

_HOST_CHANNEL = "host"
_FILE_CHANNEL = "file"
_FILE = "the gateway's file"
_log = logging.getLogger("toolwire.decisions")


class CallerConsent:
    """Answers questions for the callers of a gateway. Pass it to a connection as ``approve``.

    If the server has ``consent="hints"`` and an MCP client cannot show forms, the client decides whether to ask its
    user.
    """

    def __init__(
        self,
        words: ConfirmationTokens | None = None,
        *,
        confirmations: Path | str = "",
        receipts: ReceiptVerifier | None = None,
        inbox: Inbox | None = None,
        permissions: CallerPermissions | None = None,
        audit: Audit | None = None,
        upstream: str = "",
        approvers: Mapping[str, Sequence[str]] = MappingProxyType({}),
    ) -> None:
        """Share ``confirmations``, a folder or the URL of a PostgreSQL, with the other processes of the same gateway.

        With ``receipts``, a caller must send a receipt too. In ``inbox``, the users of hosts that can confirm nothing
        decide. ``permissions`` has what others allowed in forms for later calls. ``audit`` keeps each decision, with
        who took it, where, and for which caller. ``upstream`` is what the gateway calls the server: a confirmation for
        one upstream is none for another of the same site. ``approvers`` maps patterns of its tools to the groups that
        alone answer questions about them, in the inbox.

        Raises:
            DefinitionError: the place cannot be used.
        """
        words = ConfirmationTokens(confirmations) if words is None else words
        self._confirmations = Confirmations(words, receipts=receipts, inbox=inbox, permissions=permissions)
        self._audit = audit
        self._upstream = upstream
        self._approvers = approvers

    def __call__(self, question: Question) -> Answer | Awaitable[Answer]:
        """Allow a call whose caller has confirmed it; else let it end with what the caller is to confirm.

        The answer is awaitable where a database has it.
        """
        if self._confirmations.is_remote:
            return asyncio.to_thread(self._answer, question)
        return self._answer(question)

    async def ask_caller(self, question: Question) -> Problem | None:
        """Return what the caller must confirm about a call that was not accepted yet, or None."""
        answer = self(question)
        return (answer if isinstance(answer, Answer) else await answer).problem

    def _answer(self, question: Question) -> Answer:
        approvers = self._find_approvers(question.call.tool.name)
        call, subject = question.call, _digest(question, self._upstream)
        if approvers:
            # PL-03: neither the caller's client nor its host decides, whatever they asked their user.
            context = replace(call.context, can_ask=False, must_confirm=True, needs_inbox=True, confirmation="")
            call = call._replace(context=context)
        word = call.context.confirmation.encode()
        # CC-06: where receipts are required, what a host says of itself proves nothing.
        if self._confirmations.receipts is None and compare_digest(word, HOST_CONFIRMATION.encode()):
            # Nobody here knows what the host showed, so nothing is signed for it.
            self._record_answer(question, "allowed", _HOST_CHANNEL)
            return Answer(allowed=True, channel=_HOST_CHANNEL, unseen=True)
        # The user of a caller cannot trust tools with an option: the operator does, in the gateway's file.
        reasons = (*(one.removesuffix(TRUST_ADVICE) for one in question.reasons), *question.changes)
        text = " ".join(
            (f"{call.tool.name} is a tool of {self._name_site(question)}.", *reasons, "Do you allow this call?")
        )
        answers: list[Answer] = []
        problem = self._confirmations.find_refusal(
            call,
            subject,
            text,
            reasons,
            upstream=UpstreamTool(
                question.site,
                self._upstream,
                question.target,
                question.definition,
                approvers,
                self._list_similar(question),
            ),
            always_allowed=question.always_allowed,
            on_answer=answers.append,
        )
        decision = "allowed" if problem is None else "asked" if problem.kind is Kind.UNCONFIRMED else "refused"
        # FU-60: in the inbox, somebody else may have decided than the caller.
        given = answers[-1] if answers else Answer(allowed=problem is None, channel=find_channel(call))
        self._record_answer(question, decision, given.channel, given.decided_by)
        return Answer(
            allowed=problem is None,
            channel=given.channel,
            problem=problem,
            decided_by=given.decided_by,
        )

    def _name_site(self, question: Question) -> str:
        """Return whose tool it is, for the user of a caller: the command of a program is the operator's business."""
        if question.program and self._upstream:
            return f"{self._upstream}, a program that this server runs"
        return show_site(question.site)

    def _list_similar(self, question: Question) -> Callable[[], Sequence[SimilarTool]]:
        # PL-03: an answer of one group covers no tool of another.
        approvers = self._find_approvers(question.call.tool.name)
        return lambda: [one for one in question.find_similar() if self._find_approvers(one.name) == approvers]

    def _find_approvers(self, tool: str) -> tuple[str, ...]:
        """Return the groups that answer questions about ``tool``; none if its caller's user does."""
        return find_approvers(self._approvers, tool)

    def record_rule(self, call: Call, decision: str) -> None:
        """Record that a rule in the gateway file decided about ``call``, without a question."""
        # QF-02
        about = Decided(call, self._upstream)
        # Callers whom nobody can tell apart must not fill a disk with refusals.
        is_kept = decision != "denied" or call.context.principal != ANONYMOUS.principal
        self._record(about, decision, _FILE_CHANNEL, _FILE, is_kept=is_kept)

    def _record_answer(self, question: Question, decision: str, channel: str, decided_by: str = "") -> None:
        # GW-06: the session of a shared connection has no principal; the call has.
        about = Decided(question.call, question.connection, question.site, question.binding)
        self._record(about, decision, channel, decided_by, is_kept=decision != "asked")

    def _record(self, about: Decided, decision: str, channel: str, decided_by: str, *, is_kept: bool) -> None:
        """Log the decision of ``decided_by``, or else of the caller, and keep it in the audit log if there is one."""
        call = about.call
        fields = {
            "principal": call.context.principal,
            "connection": about.connection,
            "site": about.site,
            "tool": call.tool.id,
            "decision": decision,
            "decided_by": decided_by or call.context.principal,
            "channel": channel,
            "call_id": call.call_id,
            "trace_id": call.context.trace_id or None,
        }
        _log.info("%s: %s", decision, call.tool.id, extra={"fields": fields})
        if self._audit is None or not is_kept:
            return
        record = Decision(
            at=time.time(),
            principal=decided_by or call.context.principal,
            caller=call.context.principal if decided_by else "",
            connection=about.connection,
            tool=call.tool.id,
            binding=about.binding,
            decision=decision,
            channel=channel,
            site=about.site,
        )
        self._audit.append(record)


class Decided(NamedTuple):
    """What a decision is about."""

    call: Call
    connection: str
    site: str = ""
    binding: str = ""


def _digest(question: Question, upstream: str) -> bytes:
    call = question.call
    parts = [
        call.context.principal,
        upstream,
        question.connection,
        question.site,
        question.target,
        call.tool.id,
        question.definition,
        call.arguments,
        list(question.reasons),
        list(question.changes),
    ]
    return sha256(jsontext.write_canonical(parts)).digest()


class SignedDecisions:
    """The decisions of a gateway: with a receipt, in the log of decisions in ``folder``, the others only in memory."""

    # CC-06

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._recent = MemoryAudit()
        self._stored: StoredAudit | None = None

    def append(self, record: Decision) -> None:
        """Add ``record``."""
        if not record.receipt:
            self._recent.append(record)
            return
        if self._stored is None:
            from toolwire.stores.consent.audit import StoredAudit  # as above

            self._stored = StoredAudit(self._folder)
        self._stored.append(record)

    def entries(self) -> Iterable[ChainedDecision]:
        """Return the decisions that are only in memory, in order."""
        return self._recent.entries()
