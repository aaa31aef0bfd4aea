"""Ask a gateway's callers for consent, because a gateway has no user of its own.

Rules:
- A call that the gateway's own client would ask about gets a challenge and does not run. The same call with the
  challenge's one-time token runs once, within five minutes.
- A token is valid only for the same caller, arguments, site and tool, as the tool is defined now.
- The challenge states why consent is needed. A client that has asked its user about exactly this call, with these
  reasons, sends the token without a second question.
- If a site requires a receipt, the gateway signs with its own key, if it has one, that its caller decided. It never
  signs just because a host is trusted.
- If a site itself requires a confirmation, the caller is not asked, and the call is refused.
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
        """Share ``confirmations``, a folder or the URL of a PostgreSQL database, with the gateway's other processes.

        With ``receipts``, a caller must also send a receipt. In ``inbox``, the users of hosts that cannot confirm
        decide. ``permissions`` contains what other users allowed in forms for later calls. ``audit`` records each
        decision: who made it, where, and for which caller. ``upstream`` is the gateway's name for the server. A
        confirmation for one upstream is not valid for another one at the same site. ``approvers`` maps patterns of tool
        names to the groups that answer questions about those tools in the inbox. Nobody else can.

        Raises:
            DefinitionError: the place cannot be used.
        """
        words = ConfirmationTokens(confirmations) if words is None else words
        self._confirmations = Confirmations(words, receipts=receipts, inbox=inbox, permissions=permissions)
        self._audit = audit
        self._upstream = upstream
        self._approvers = approvers

    def __call__(self, question: Question) -> Answer | Awaitable[Answer]:
        """Allow a call that its caller has confirmed. Otherwise end it with what the caller must confirm.

        The answer is awaitable if it comes from a database.
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
        # CC-06: if receipts are required, a host's own word proves nothing.
        if self._confirmations.receipts is None and compare_digest(word, HOST_CONFIRMATION.encode()):
            # The gateway does not know what the host showed, so it signs nothing.
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
        # FU-60: in the inbox, somebody other than the caller can have decided.
        given = answers[-1] if answers else Answer(allowed=problem is None, channel=find_channel(call))
        self._record_answer(question, decision, given.channel, given.decided_by)
        return Answer(
            allowed=problem is None,
            channel=given.channel,
            problem=problem,
            decided_by=given.decided_by,
        )

    def _name_site(self, question: Question) -> str:
        """Return the tool's owner as a caller's user may see it, without a program's command."""
        if question.program and self._upstream:
            return f"{self._upstream}, a program that this server runs"
        return show_site(question.site)

    def _list_similar(self, question: Question) -> Callable[[], Sequence[SimilarTool]]:
        # PL-03: one group's answer does not cover another group's tool.
        approvers = self._find_approvers(question.call.tool.name)
        return lambda: [one for one in question.find_similar() if self._find_approvers(one.name) == approvers]

    def _find_approvers(self, tool: str) -> tuple[str, ...]:
        """Return the groups that answer questions about ``tool``, or no groups if its caller's user answers them."""
        return find_approvers(self._approvers, tool)

    def record_rule(self, call: Call, decision: str) -> None:
        """Record that a rule in the gateway file decided about ``call``, without a question."""
        # QF-02
        about = Decided(call, self._upstream)
        # Callers that cannot be told apart must not fill the disk with refusals.
        is_kept = decision != "denied" or call.context.principal != ANONYMOUS.principal
        self._record(about, decision, _FILE_CHANNEL, _FILE, is_kept=is_kept)

    def _record_answer(self, question: Question, decision: str, channel: str, decided_by: str = "") -> None:
        # GW-06: the session of a shared connection has no principal, but the call has one.
        about = Decided(question.call, question.connection, question.site, question.binding)
        self._record(about, decision, channel, decided_by, is_kept=decision != "asked")

    def _record(self, about: Decided, decision: str, channel: str, decided_by: str, *, is_kept: bool) -> None:
        """Log the decision of ``decided_by``, or else of the caller. Record it in the audit log if there is one."""
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
    """The subject of a decision."""

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
    """A gateway's decisions. Those with a receipt go to the decision log in ``folder``, the others stay in memory."""

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
