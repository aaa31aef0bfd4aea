"""Ask for a confirmation on the server before a call runs, even if the client has asked the user.

Rules:
- The first call gets a challenge and does not run. The same call with the challenge's one-time token runs.
- A token is valid once, for five minutes, and only for the same caller, tool and arguments.
- Processes that share a folder or a database accept each other's tokens. Each token is still valid only once.
- A database is queried in a thread, so that a hanging database delays only the calls that need it.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from hashlib import sha256
from hmac import compare_digest
from hmac import digest as hmac_digest
from pathlib import Path
from struct import Struct
from typing import NamedTuple, TypeAlias

from toolwire.core.check import ALLOW, Answer, Deny, SimilarTool, Verdict
from toolwire.core.codec import CONFIRMATION_FIELD, RECEIPT_FIELD
from toolwire.core.errors import DefinitionError
from toolwire.core.model import Call, Json, Kind, Problem, Tool, UserAnswer
from toolwire.core.toolbox import ToolUpstream
from toolwire.framing import jsontext
from toolwire.stores.consent.open import UsedNonces, open_used_nonces
from toolwire.stores.outage_log import OutageLog, list_store_errors

from .decision_log import DecisionLog, find_channel
from .inbox import AnswerHandler, Inbox, ignore_answer
from .permissions import (
    THIS_SERVER,
    CallerPermissions,
    UpstreamTool,
    can_offer_later,
    list_form_choices,
    list_own_similar,
)
from .receipts import ReceiptVerifier

CONFIRMATION = CONFIRMATION_FIELD
"""The header field of the word, on every protocol."""

ALREADY_VERIFIED = secrets.token_urlsafe(32)
"""Stands for the receipt of a call that a tool's question interrupted after it was proved. It never leaves."""

HOST_CONFIRMATION = secrets.token_urlsafe(32)
"""The confirmation of a call whose MCP host is trusted to ask its user. It never leaves this process."""

VALID_S = 300.0
_UNKEPT = "the decision of its user cannot be kept now"
_CLOCKS_DIFFER_S = 1.0
"""How far the clocks of two processes that share a database can differ, because each reads the time a little late."""
_NONCE_BYTES = 12
_SIGNATURE_BYTES = 20
_UNTIL = Struct(">d")
_BODY_BYTES = _NONCE_BYTES + _UNTIL.size + sha256().digest_size

ConfirmationQuestion: TypeAlias = Callable[[Call], str]
"""Returns the question to ask the user before a call runs, as one sentence, or ``""`` if none is needed."""

FindReasons: TypeAlias = Callable[[Call], Sequence[str] | None]
"""Returns the reasons for a question that asks only for consent, or None for any other question."""


_log = logging.getLogger("toolwire")


class DeferredVerdict(NamedTuple):
    """The verdict about a call is with a database, so ``decide`` blocks and must run in a thread."""

    decide: Callable[[], Verdict]


ConfirmationCheck: TypeAlias = Callable[[Call], Verdict | DeferredVerdict]
"""A check that can be asynchronous."""


def is_declined(call: Call) -> bool:
    """Return whether the user of ``call`` was asked by this server, and did not allow it."""
    answer = call.context.user_answer
    return answer is not None and not answer.allowed


def ask_about_destructive(call: Call) -> str:
    """Return a question for each call of a destructive tool."""
    return f"{call.tool.name} cannot be undone. Call it?" if call.tool.destructive else ""


class ConfirmationTokens:
    """Issues and redeems one-time tokens. Each is valid for one subject, once, until it expires.

    Tokens are signed, so issued tokens are not stored. Used ones are remembered. All processes that name the same
    ``place``, a folder of this machine or the URL of a PostgreSQL database, share the tokens. Without a place, they are
    valid only in this process. ``clock`` returns seconds. Processes that share tokens must share the clock.
    """

    def __init__(self, place: Path | str = "", *, clock: Callable[[], float] | None = None) -> None:
        """Start without words.

        Raises:
            DefinitionError: the place cannot be used.
        """
        self._spent: UsedNonces = open_used_nonces(place)
        self._clock = self._spent.now if clock is None else clock
        self.is_remote: bool = self._spent.is_remote

    def derive_key(self, purpose: bytes) -> bytes:
        """Return a secret key for another ``purpose``: the same in all processes that share the words."""
        return hmac_digest(self._spent.key, purpose, "sha256")

    def issue(self, subject: bytes) -> str:
        """Return a new token for ``subject``, a digest of what the token confirms."""
        body = secrets.token_bytes(_NONCE_BYTES) + _UNTIL.pack(self._clock() + VALID_S) + sha256(subject).digest()
        return urlsafe_b64encode(body + self._sign(body)).decode()

    def redeem(self, word: str, subject: bytes) -> bool:
        """Return whether ``word`` is valid for ``subject``. It is spent afterwards.

        Raises:
            ConnectionError: the database of the tokens cannot be reached.
        """
        try:
            raw = urlsafe_b64decode(word.encode("ascii"))
        except ValueError:
            return False
        body, signature = raw[:_BODY_BYTES], raw[_BODY_BYTES:]
        if len(body) != _BODY_BYTES or not compare_digest(signature, self._sign(body)):
            return False
        (until,) = _UNTIL.unpack_from(body, _NONCE_BYTES)
        now = self._clock()
        # A token that expires later than any new one was issued before a restart of the machine, which reset the clock.
        latest = now + VALID_S + (_CLOCKS_DIFFER_S if self.is_remote else 0.0)
        if not now < until <= latest or not self._spent.claim(body[:_NONCE_BYTES].hex(), until, now):
            return False
        # A token that is tried for another subject is spent as well, because it was stolen or mixed up.
        return body.endswith(sha256(subject).digest())

    def _sign(self, body: bytes) -> bytes:
        return hmac_digest(self._spent.key, self._spent.clock_id + body, "sha256")[:_SIGNATURE_BYTES]


class Confirmations:
    """Decides whether a call is confirmed: by its one-time token and, with ``receipts``, by a receipt for the token.

    With ``inbox``, the user of a host that cannot confirm decides there. ``permissions`` contains what other users
    allowed for later calls.
    """

    def __init__(
        self,
        words: ConfirmationTokens,
        *,
        receipts: ReceiptVerifier | None = None,
        inbox: Inbox | None = None,
        permissions: CallerPermissions | None = None,
    ) -> None:
        self.words = words
        self._outages = OutageLog(_log, "Confirmations can be verified again.")
        self.receipts = receipts
        self._inbox = inbox
        self._permissions = CallerPermissions() if permissions is None else permissions
        places = (words, receipts, inbox, permissions)
        self.is_remote: bool = any(one is not None and one.is_remote for one in places)
        """Whether any of them uses a database, which can be slow."""

    def find_refusal(
        self,
        call: Call,
        subject: bytes,
        question: str,
        reasons: Sequence[str] | None,
        *,
        upstream: UpstreamTool | None = None,
        always_allowed: bool | None = False,
        on_answer: AnswerHandler = ignore_answer,
    ) -> Problem | None:
        """Return None and spend the confirmation if ``call`` is confirmed, or else the Problem that asks ``question``.

        ``subject`` is the digest of what a confirmation is for. ``reasons`` is set if the question asks only for
        consent. ``upstream`` says whose tool it is. ``always_allowed`` says whether the tool's policy lets an answer
        also cover later calls. None means only within bounds. ``on_answer`` gets the answer that decides, if this
        server knows it: the answer in the inbox, or an earlier one.
        """
        try:
            refusal = self._find_refusal(
                call, subject, question, reasons, upstream, always_allowed=always_allowed, on_answer=on_answer
            )
        except list_store_errors(DefinitionError) as error:
            text = "A call of %s was refused: its confirmation cannot be verified (%s)."
            self._outages.record_failure(text, call.tool.id, error)
            return build_store_problem(call, "its confirmation cannot be verified now")
        self._outages.record_success()
        return refusal

    def _find_refusal(
        self,
        call: Call,
        subject: bytes,
        question: str,
        reasons: Sequence[str] | None,
        upstream: UpstreamTool | None,
        *,
        always_allowed: bool | None,
        on_answer: AnswerHandler,
    ) -> Problem | None:
        context = call.context
        if self.receipts is not None:
            return self._find_missing_proof(self.receipts, call, subject, question, reasons)
        # QF-03
        permissions, always_allowed = self._permissions, always_allowed if can_offer_later(call) else False
        can_keep = always_allowed is not False and not context.needs_inbox
        key = permissions.build_key(call, upstream) if can_keep else None
        if self.words.redeem(context.confirmation, subject):
            answer, choices = context.user_answer, {} if key is None else permissions.list_choices(call)
            if key is not None and answer is not None and answer.allowed and answer.later in choices:
                permissions.add(key, call, choices[answer.later], upstream)
                on_answer(Answer(allowed=True, always=True, channel=answer.channel))
            return None
        if self._inbox is not None and context.needs_inbox:
            why = reasons if reasons is not None else (question,)
            return self._inbox.find_refusal(
                call, subject, why, upstream=upstream, always_allowed=always_allowed, on_answer=on_answer
            )
        if key is None:
            return build_challenge(call, question, self.words.issue(subject), reasons=reasons)
        if (earlier := permissions.spend(key, call)) is not None:
            on_answer(earlier)
            return None
        later = list_form_choices(permissions.list_choices(call))
        return build_challenge(call, question, self.words.issue(subject), reasons=reasons, later=later)

    def spend(self, call: Call, subject: bytes) -> None:
        """Spend the token of ``call``, because its user said no. If that fails, the token still expires."""
        try:
            self.words.redeem(call.context.confirmation, subject)
        except ConnectionError as error:
            self._outages.record_failure("A refused confirmation of %s remains valid (%s).", call.tool.id, error)

    def _find_missing_proof(
        self,
        receipts: ReceiptVerifier,
        call: Call,
        subject: bytes,
        question: str,
        reasons: Sequence[str] | None,
    ) -> Problem | None:
        context = call.context
        is_proved = compare_digest(context.receipt.encode(), ALREADY_VERIFIED.encode())
        # First the receipt: a word must not be spent by a call that proves nothing.
        fault = "" if is_proved else receipts.find_fault(call)
        if not fault and not self.words.redeem(context.confirmation, subject):
            fault = "it was used before, or is too old"
        if not fault:
            if is_proved or receipts.record(call, subject):
                return None
            return build_store_problem(call, "its receipt cannot be stored now")
        terms = receipts.build_terms(call)
        return build_challenge(call, question, self.words.issue(subject), reasons=reasons, terms=terms, fault=fault)


def build_confirmation_check(
    ask: ConfirmationQuestion | None,
    confirmations: ConfirmationTokens | Confirmations,
    find_reasons: FindReasons = lambda _: None,
    allows_later: Callable[[Call], bool | None] = lambda _: False,
    *,
    decisions: DecisionLog | None = None,
    handles_consent: Callable[[Tool], bool] = lambda _: False,
    find_upstream: Callable[[Tool], ToolUpstream | None] | None = None,
    list_tools: Callable[[Call], Iterable[Tool]] = lambda _: (),
) -> ConfirmationCheck:
    """Return a check that refuses a call for which ``ask`` has a question until it brings the question's token.

    ``find_reasons`` returns the reasons of a question that asks only for consent. ``allows_later`` returns whether its
    answer can also cover later calls. ``decisions`` records what users decide, unless ``handles_consent`` says that the
    Toolbox does. ``find_upstream`` says which groups must answer questions about a tool. ``list_tools`` returns the
    tools that a call's caller is offered.
    """
    if isinstance(confirmations, ConfirmationTokens):
        confirmations = Confirmations(confirmations)
    log = DecisionLog() if decisions is None else decisions
    is_remote = confirmations.is_remote or log.is_remote

    def find_approvers(tool: Tool) -> ToolUpstream | None:
        upstream = None if find_upstream is None or handles_consent(tool) else find_upstream(tool)
        return upstream if upstream is not None and upstream.approvers else None

    def find_similar(call: Call) -> Sequence[SimilarTool]:
        # PL-03: one group's answer does not cover another group's tool.
        groups = find_approvers(call.tool)
        own = (one for one in list_tools(call) if not handles_consent(one) and find_approvers(one) == groups)
        return list_own_similar(call.tool, own)

    decision_check = _DecisionCheck(confirmations, log, find_reasons, allows_later, find_similar)

    def check(call: Call) -> Verdict | DeferredVerdict:
        upstream = find_approvers(call.tool)
        if upstream is not None:
            call = _leave_to_approvers(call)
        question = "" if ask is None or is_declined(call) else ask(call)
        if question:
            decide = partial(decision_check.decide, call, question, upstream)
        else:
            answer = call.context.user_answer
            if answer is None or (answer.allowed and _is_decided_elsewhere(call, answer, handles_consent)):
                return ALLOW
            decide = partial(decision_check.record, call, answer)
        return DeferredVerdict(decide) if is_remote else decide()

    return check


def _leave_to_approvers(call: Call) -> Call:
    """Return ``call`` so that neither its client nor its host can decide about it, whatever they asked their user."""
    # PL-03
    context = replace(call.context, can_ask=False, must_confirm=True, needs_inbox=True, confirmation="")
    return call._replace(context=context if is_declined(call) else replace(context, user_answer=None))


def _is_decided_elsewhere(call: Call, answer: UserAnswer, handles_consent: Callable[[Tool], bool]) -> bool:
    """Return whether the Toolbox or the inbox asks about ``call``, or nobody: a form without a word answers nothing."""
    return answer.channel != "page" or call.context.needs_inbox or handles_consent(call.tool)


class _DecisionCheck(NamedTuple):
    """Decides about calls, and records what their users decided."""

    confirmations: Confirmations
    decisions: DecisionLog
    find_reasons: FindReasons
    allows_later: Callable[[Call], bool | None]
    find_similar: Callable[[Call], Sequence[SimilarTool]]

    def decide(self, call: Call, question: str, upstream: ToolUpstream | None = None) -> Verdict:
        """Return whether ``call`` runs. If ``upstream`` has approvers, they answer the question."""
        reasons = self.find_reasons(call)
        always_allowed = self.allows_later(call) if can_offer_later(call) else False
        answers: list[Answer] = []
        subject = digest_call(call)
        whose = (
            _describe_own(call.tool, upstream, partial(self.find_similar, call))
            if always_allowed is not False or upstream
            else None
        )
        refusal = self.confirmations.find_refusal(
            call, subject, question, reasons, upstream=whose, always_allowed=always_allowed, on_answer=answers.append
        )
        answer = answers[-1] if answers else Answer(allowed=True, channel=find_channel(call))
        # The receipt was stored as the record of the decision.
        is_decided = (refusal is None or answers) and self.confirmations.receipts is None
        if is_decided and not self.decisions.record(call, subject.hex(), answer):
            return Deny(build_store_problem(call, _UNKEPT))
        if refusal is not None:
            return Deny(refusal)
        return ALLOW

    def record(self, call: Call, answer: UserAnswer) -> Verdict:
        """Record an answer to a question without a token, or a refusal. Return whether ``call`` runs."""
        subject = digest_call(call)
        if not answer.allowed and call.context.confirmation:
            self.confirmations.spend(call, subject)
        decision = Answer(allowed=answer.allowed, channel=answer.channel)
        if not self.decisions.record(call, subject.hex(), decision):
            return Deny(build_store_problem(call, _UNKEPT))
        return ALLOW if answer.allowed else Deny(_build_denial(call.tool.name))


async def decide_in_thread(undecided: DeferredVerdict) -> Verdict:
    """Return the verdict, without delaying the event loop."""
    return await asyncio.to_thread(undecided.decide)


def _build_denial(tool: str) -> Problem:
    """Return the problem of a call that its user did not allow."""
    text = f"{tool} was not called, because the user did not allow it."
    return Problem(kind=Kind.DENIED, message=text, details={"denied": True})


def build_store_problem(call: Call, what: str) -> Problem:
    """Return the refusal of a call because a store cannot be reached. ``what`` is part of the sentence."""
    text = f"{call.tool.name} did not run: {what}."
    return Problem(kind=Kind.OVERLOADED, message=text, can_retry=True, retry_after_ms=5_000)


def build_challenge(
    call: Call,
    question: str,
    word: str,
    *,
    reasons: Sequence[str] | None = None,
    terms: Mapping[str, Json] | None = None,
    fault: str = "",
    later: Sequence[str] = (),
) -> Problem:
    """Return the Problem that asks ``question`` and says how to send ``call`` again with ``word``.

    ``reasons`` is set if the question asks only for consent. A client that has asked its user about exactly this call,
    with these reasons, need not ask again. ``terms`` is what the client must sign, if anything. ``fault`` says what was
    wrong with this call's receipt. ``later`` lists a form's choices about later calls.
    """
    field = CONFIRMATION.decode()
    text = f"{call.tool.name} did not run: it needs confirmation. Send the same call again with the header {field}."
    details: dict[str, Json] = {"question": question, "word": word, "header": field, "valid_s": int(VALID_S)}
    if reasons is not None:
        details["reasons"] = list(reasons)
    if later:
        details["later"] = list(later)
    if terms is not None:
        text = f"{call.tool.name} did not run: it needs a receipt of its user's decision ({RECEIPT_FIELD.decode()}),"
        text = f"{text} and {fault}."
        details["receipt"] = {**terms, "header": RECEIPT_FIELD.decode()}
    return Problem(kind=Kind.UNCONFIRMED, message=text, details={"confirmation": details})


def _describe_own(
    tool: Tool, upstream: ToolUpstream | None, find_similar: Callable[[], Sequence[SimilarTool]]
) -> UpstreamTool:
    from toolwire.consent.tool_definition import build_definition, definition_hash  # most servers never ask

    name, approvers = ("", ()) if upstream is None else (upstream.name, upstream.approvers)
    definition = definition_hash(build_definition(tool))
    return UpstreamTool(THIS_SERVER, name, tool.name, definition, approvers, find_similar)


def digest_call(call: Call) -> bytes:
    """Return the digest of what a confirmation covers: the caller, the tool with its definition, and the arguments."""
    # CC-05: the definition too, so that a tool that changed meanwhile is asked about again.
    from toolwire.consent.tool_definition import build_definition, definition_hash  # most servers never ask

    definition = definition_hash(build_definition(call.tool))
    parts = [call.context.principal, call.tool.id, definition, call.arguments]
    return sha256(jsontext.write_canonical(parts)).digest()
