"""Let users decide about calls whose clients cannot ask, on an inbox page or with ``toolwire approvals``.

Rules:
- A question stays in the inbox for five minutes. If the same caller repeats the call, both share the question.
- A yes counts once, for exactly the call that was shown. A no counts for the same call for one minute.
- A permission for later calls covers one caller and one definition of one tool, if the tool's policy allows that. If
  the user revokes it, calls need consent again.
- Each caller can add at most ten questions a minute in one process. At most 200 questions wait at a time, and at most
  50 for one caller.
"""
# CC-05, GW-04

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from toolwire.core.check import Answer, Question
from toolwire.core.errors import DefinitionError
from toolwire.core.model import Approval, Call, Json, Kind, Problem
from toolwire.stores.consent.open import is_in_database, open_approvals
from toolwire.stores.outage_log import OutageLog, list_store_errors

from .permissions import THIS_SERVER, CallerPermissions, UpstreamTool

if TYPE_CHECKING:  # loads sqlite3
    from toolwire.consent.grant import GrantKey
    from toolwire.consent.prompt_limit import PromptLimit
    from toolwire.stores.consent.approvals import Approvals, ResumableCall

MAX_WAITING: Final = 200
MAX_WAITING_EACH: Final = 50
"""What one process can add for a caller in five minutes. Several processes thus leave room for other callers."""
CONNECTION: Final = "inbox"
"""The connection name under which permissions from the callers' inboxes are stored."""
PAGE_URL: ContextVar[str] = ContextVar("PAGE_URL", default="")
"""The URL of the inbox page, as the caller of this request reaches the server."""
_MAX_CALLERS: Final = 1_000
_log = logging.getLogger("toolwire")


class QuestionNotice(NamedTuple):
    """A new question: who is asked, about which tool, until when (in seconds since 1970), and where."""

    id: str
    tool: str
    site: str
    principal: str
    expires_at: float
    url: str
    arguments: Mapping[str, Json]


AnswerHandler: TypeAlias = Callable[[Answer], object]
"""Gets the answer that decides about a call, who gave it, and where."""


def ignore_answer(_answer: Answer) -> None:
    """Do nothing."""


QuestionHandler: TypeAlias = Callable[[QuestionNotice], None]
"""Gets each new question. It returns at once: the call waits for it."""


class Inbox:
    """The questions of one server that wait in ``place`` until a user answers them.

    ``place`` is a folder or the URL of a PostgreSQL database. ``clock`` returns seconds and never goes back.
    ``page_url`` is the URL of the inbox page, and the only one that ``on_question`` is given. ``on_question`` gets each
    new question. Without ``self_approval``, a permission does not count if the caller's own user could have given it.
    """

    def __init__(
        self,
        place: Path | str,
        *,
        is_default: bool,
        clock: Callable[[], float] = time.monotonic,
        page_url: str = "",
        on_question: QuestionHandler | None = None,
        self_approval: bool = True,
    ) -> None:
        """Open the store.

        Raises:
            DefinitionError: the place cannot be used.
        """
        self._place = place
        self._outages = OutageLog(_log, "Questions can be stored again.")
        self._approvals: Approvals = open_approvals(place)
        self.is_remote: bool = is_in_database(place)
        # D-26: a URL can contain a password, and callers see this text. The operator finds the URL in TOOLWIRE_STATE.
        is_short = is_default or self.is_remote
        self._command = "toolwire approvals" if is_short else f"toolwire approvals --path {place}"
        self._clock = clock
        self._page_url = page_url
        self._on_question = on_question
        # PL-03: a permission from before the operator forbade it no longer counts.
        self.permissions: CallerPermissions = CallerPermissions(
            place, CONNECTION if self_approval else f"{CONNECTION} of others"
        )
        self._limits: OrderedDict[str, PromptLimit] = OrderedDict()
        self._lock = threading.Lock()

    @property
    def on_question(self) -> QuestionHandler | None:
        """The function that gets each new question."""
        return self._on_question

    def find_refusal(
        self,
        call: Call,
        subject: bytes,
        reasons: Sequence[str],
        *,
        upstream: UpstreamTool | None = None,
        always_allowed: bool | None = False,
        on_answer: AnswerHandler = ignore_answer,
    ) -> Problem | None:
        """Return None if the user has allowed ``call``, and spend the answer. Otherwise return why it does not run now.

        ``subject`` is the digest of what the answer covers, and ``upstream`` says whose tool it is. ``on_answer`` gets
        the answer. If an earlier permission covers the call, its answer has the channel ``permission``.
        ``always_allowed`` says whether the tool's policy lets an answer also cover later calls. None means only within
        bounds.
        """
        try:
            refusal = self._ask(
                call, subject.hex(), reasons, upstream, always_allowed=always_allowed, on_answer=on_answer
            )
        except list_store_errors(DefinitionError) as error:
            message = "A call of %s was refused: its question cannot be stored (%s)."
            self._outages.record_failure(message, call.tool.id, error)
            text = f"{call.tool.name} did not run: the question to its user cannot be stored now."
            return Problem(kind=Kind.OVERLOADED, message=text, can_retry=True, retry_after_ms=5_000)
        self._outages.record_success()
        return refusal

    def list_open(self) -> frozenset[str]:
        """Return the ids of the questions that still wait. It blocks.

        Raises:
            OSError, sqlite3.Error: the store cannot be asked.
        """
        return self._approvals.list_open()

    def is_answered(self, id_: str) -> bool:
        """Return whether a question has an unused answer. It blocks, and raises what ``list_open`` raises."""
        return self._approvals.is_answered(id_)

    def add_call(self, waiting: ResumableCall) -> None:
        """Remember that a long call resumes when a question is over. It blocks, and raises as ``list_open``."""
        self._approvals.add_call(waiting)

    def list_over_calls(self, limit: int) -> Sequence[tuple[ResumableCall, bool]]:
        """Return the long calls whose questions are over, and whether each was answered. It raises as ``list_open``."""
        return self._approvals.list_over_calls(limit)

    def list_waits(self, call_id: str) -> Sequence[ResumableCall]:
        """Return the questions that long calls wait for. It blocks, and raises what ``list_open`` raises."""
        return self._approvals.list_waits(call_id)

    def remove_call(self, waiting: ResumableCall) -> None:
        """Forget a long call that has been resumed. It blocks, and raises what ``list_open`` raises."""
        self._approvals.remove_call(waiting)

    def _ask(
        self,
        call: Call,
        binding: str,
        reasons: Sequence[str],
        upstream: UpstreamTool | None,
        *,
        always_allowed: bool | None,
        on_answer: AnswerHandler,
    ) -> Problem | None:
        name = call.tool.name
        key = None if always_allowed is False else self.permissions.build_key(call, upstream)
        if key is not None and (earlier := self.permissions.spend(key, call)) is not None:
            on_answer(earlier)
            return None
        id_ = self._approvals.find(binding)
        if id_ is None:
            is_over_limit = self._is_over_limit(call)
            if is_over_limit or self._is_full(call.context.principal):
                reason = "was asked too often in the last minute" if is_over_limit else "has too many open questions"
                text = f"{name} did not run: its user {reason}. Call it again in a minute."
                return Problem(kind=Kind.RATE_LIMITED, message=text, can_retry=True, retry_after_ms=60_000)
            id_ = self._add_question(call, binding, reasons, upstream, key, always_allowed=always_allowed)
        answer = self._approvals.take(id_, binding, call)
        if answer is None:
            return self._build_refusal(name, id_)
        on_answer(answer)
        if answer.allowed:
            if answer.always and key is not None:
                self.permissions.add(key, call, answer.bounds, upstream)
            return None
        reason = f": {answer.reason}" if answer.reason else ""
        details = {"denied": True, "reason": answer.reason} if answer.reason else {"denied": True}
        return Problem(
            kind=Kind.DENIED, message=f"{name} was not called: its user did not allow it{reason}.", details=details
        )

    def _add_question(
        self,
        call: Call,
        binding: str,
        reasons: Sequence[str],
        upstream: UpstreamTool | None,
        key: GrantKey | None,
        *,
        always_allowed: bool | None,
    ) -> str:
        name, principal = call.tool.name, call.context.principal
        site, where = THIS_SERVER, ""
        if upstream is not None and (upstream.site != THIS_SERVER or upstream.name):
            from toolwire.consent.origin_display import name_programs  # only a gateway shows programs

            # Two upstreams can have the same origin, so the user sees which one it is and where the call goes.
            site, where = upstream.site, name_programs(f" at {upstream.name or upstream.site} ({upstream.target})")
        question = Question(
            call,
            site,
            f"{name}{where}, for {principal}",
            Approval.PER_CALL,
            always_allowed=always_allowed,
            reasons=tuple(reasons),
            principal=principal,
            binding=binding,
            find_similar=lambda: self.permissions.list_similar(key, upstream),
        )
        id_ = self._approvals.ask(question, () if upstream is None else upstream.approvers)
        if self._on_question is not None:
            until = self._approvals.find_end(id_)
            # AT-34: other users read it, so it must not contain an address that a caller's request chose.
            self._on_question(QuestionNotice(id_, name, site, principal, until, self._page_url, call.arguments))
        return id_

    def find_page(self) -> str:
        """Return the URL of the inbox page as this request's caller knows it, or an empty string without a page."""
        return self._page_url or PAGE_URL.get()

    def _build_refusal(self, name: str, id_: str) -> Problem:
        page = self.find_page()
        if page:
            # The command is for the operator. A caller on another machine uses the page.
            text = (
                f"{name} did not run: its user must decide at {page}, within five minutes. Then send the "
                "same call again."
            )
            return Problem(kind=Kind.UNCONFIRMED, message=text, details={"inbox": {"id": id_, "url": page}})
        text = (
            f"{name} did not run: its user must decide within five minutes, with `{self._command} allow "
            f"{id_}` (`{self._command}` shows the call). Then send the same call again."
        )
        return Problem(kind=Kind.UNCONFIRMED, message=text, details={"inbox": {"id": id_}})

    def _is_full(self, principal: str) -> bool:
        approvals = self._approvals
        return len(approvals.list_open()) >= MAX_WAITING or approvals.count_open(principal) >= MAX_WAITING_EACH

    def _is_over_limit(self, call: Call) -> bool:
        """Return whether the caller of ``call`` asks too often. The limit leaves room for other callers."""
        from toolwire.consent.prompt_limit import PromptLimit  # only an inbox needs it

        principal = call.context.principal
        with self._lock:  # With a database, each call queries in its own thread.
            limit = self._limits.pop(principal, None) or PromptLimit(self._clock)
            self._limits[principal] = limit
            if len(self._limits) > _MAX_CALLERS:
                self._limits.popitem(last=False)
            return limit.reserve_prompt() > 0.0
