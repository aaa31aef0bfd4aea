"""Leave the questions of a connection to the framework of an agent: it stops, its user decides, and the call runs then.

Rules:
- An approval is for what was shown: the request, its reasons, and one call of the model. It is used up by that call.
- Nothing is sent while a question waits. When the call runs after the answer, it passes all checks again; what has
  changed meanwhile is a new question.
- A question that comes to no adapter, such as that of a call by the program itself, is a no.
"""
# FU-22, XL-050

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable
from contextvars import ContextVar
from itertools import count
from threading import Lock
from typing import Any, Final, NamedTuple

from toolwire.consent import build_denial, build_display_rows
from toolwire.consent.tool_definition import build_definition, compute_digest, definition_hash, to_plain_json
from toolwire.core.check import Answer, Question
from toolwire.core.model import Json, Kind, Problem
from toolwire.core.toolbox import Toolbox

from .conversation import ModelResult
from .dialects import Provider
from .find_tools import choose_tools
from .tool_declarations import NamedCaller, describe_problem, read_call, run_named_call, run_named_call_sync

MAX_QUESTIONS: Final = 4
"""How many questions one call may have, such as for a redirect or for what its server asks; then it is denied."""

_MAX_CALLS: Final = 1_000
_MAX_CLAIMS: Final = 10_000
_CHANNEL: Final = "agent"


class Deferral:
    """Leaves questions to an agent framework. Pass it as ``connect(url, approve=deferral)``.

    Pass it to the adapter as well: ``build_tools(remote, deferral=deferral)``. It stores the newest 1,000 waiting
    calls. The user is asked again about a call that was dropped, such as after a restart.
    """

    def __init__(self) -> None:
        self._waiting: OrderedDict[str, tuple[Question, ...]] = OrderedDict()
        self._claimed: OrderedDict[str, None] = OrderedDict()
        self._lock = Lock()

    def __call__(self, question: Question) -> Answer:
        """Allow what the user approved in the framework; else let the call end, so that the framework can ask."""
        run = _RUN.get()
        name = question.call.tool.name
        if run is None or run.deferral is not self:
            text = (
                f"{name} was not called, because its user cannot be asked here. Use a tool from build_tools() instead."
            )
            return Answer(allowed=False, channel=_CHANNEL, problem=build_denial(text, reason="no user to ask"))
        id_ = identify_question(question)
        if id_ in run.approved:
            run.approved.discard(id_)  # once: a call that asks the same again was changed by its server
            return Answer(allowed=True, channel=_CHANNEL)
        if run.is_standing and question.always_allowed and not question.changes:
            return Answer(allowed=True, channel=_CHANNEL, unseen=True)
        run.question = question
        text = f"{name} was not called yet: its user must approve it first."
        return Answer(allowed=False, channel=_CHANNEL, problem=Problem(kind=Kind.DENIED, message=text))

    def find_question(self, call_id: str) -> Question | None:
        """Return the question about the model's call ``call_id``, or None if the call is not waiting.

        ``toolwire.consent.build_display_rows`` returns the rows to show to the user.
        """
        with self._lock:
            questions = self._waiting.get(call_id, ())
        return questions[-1] if questions else None

    def defer(self, call_id: str, questions: Iterable[Question]) -> None:
        """Store the call ``call_id`` until the user has answered ``questions``."""
        with self._lock:
            self._waiting[call_id] = tuple(questions)
            self._waiting.move_to_end(call_id)
            while len(self._waiting) > _MAX_CALLS:
                self._waiting.popitem(last=False)

    def take(self, call_id: str) -> tuple[Question, ...]:
        """Remove the waiting call ``call_id``, and return the questions that the user was shown."""
        with self._lock:
            return self._waiting.pop(call_id, ())

    def find_unclaimed(self, id_: str) -> str:
        """Return an ID for the question ``id_`` whose answer no call has claimed yet."""
        with self._lock:
            return next(one for number in count() if (one := f"{id_}-{number}") not in self._claimed)

    def claim(self, id_: str) -> bool:
        """Claim the answer to the question ``id_`` for one call. Return False if another call has claimed it."""
        with self._lock:
            if id_ in self._claimed:
                return False
            self._claimed[id_] = None
            while len(self._claimed) > _MAX_CLAIMS:
                self._claimed.popitem(last=False)
            return True

    def release(self, ids: Iterable[str]) -> None:
        """Release claimed answers, because the call that claimed them starts again."""
        with self._lock:
            for id_ in ids:
                self._claimed.pop(id_, None)


class _Run:
    """One run of a call by an adapter: what its user approved of it, and the question that it ended with."""

    __slots__ = ("approved", "deferral", "is_standing", "question")

    def __init__(self, deferral: Deferral, approved: Iterable[Question], *, is_standing: bool) -> None:
        self.deferral = deferral
        self.approved = {identify_question(one) for one in approved}
        self.is_standing = is_standing
        self.question: Question | None = None


_RUN: ContextVar[_Run | None] = ContextVar("toolwire_deferred_run", default=None)


class ModelToolCall(NamedTuple):
    """A model's call, with the declared name of the tool. ``id`` comes from the framework and is unique in a run."""

    name: str
    arguments: Json
    id: str = ""


def identify_call(name: str, arguments: Json) -> str:
    """Return the ID of a call that waits until the model repeats it, made from its tool and arguments."""
    return f"again {compute_digest([name, to_plain_json(arguments)])}"


def identify_question(question: Question) -> str:
    """Return the digest of what ``question`` shows.

    A repeated call that needs consent for the same reasons has the same digest. ``question.binding`` is new for each
    run of a call.
    """
    call, request = question.call, question.request
    return compute_digest(
        {
            "connection": question.connection,
            "principal": question.principal,
            "site": question.site,
            "credential": question.credential,
            "tool": call.tool.id,
            "definition": definition_hash(build_definition(call.tool)),
            "arguments": to_plain_json(call.arguments),
            "files": dict(question.files),
            "request": None if request is None else [request.method, request.url],
            "reasons": list(question.reasons),
            "changes": list(question.changes),
        }
    )


def describe_question(question: Question) -> dict[str, Json]:
    """Return ``question`` as JSON data for a user interface. An answer must contain its ``id``.

    ``text`` contains everything that the user must see, one line for each fact. Secrets are masked.
    """
    rows = build_display_rows(question)
    lines = [f"{row.label}: {row.text}" + (f" ({row.note})" if row.note else "") for row in rows]
    return {
        "id": identify_question(question),
        "tool": question.call.tool.name,
        "site": question.site,
        "destructive": question.call.tool.destructive,
        "text": "\n".join(lines),
    }


def approve(asked: object) -> dict[str, Json]:
    """Return the answer that allows the call in ``asked``, the data from ``describe_question``."""
    return {"id": _read_id(asked), "allowed": True}


def deny(asked: object, reason: str = "") -> dict[str, Json]:
    """Return the answer that denies the call in ``asked``. The model reads ``reason``."""
    return {"id": _read_id(asked), "allowed": False, "reason": reason}


def read_answer(answer: object, id_: str) -> ModelResult | None:
    """Return None if ``answer`` allows the question ``id_``, or else what the model reads instead of a result.

    Only the answer that ``approve`` made for exactly this question allows it.
    """
    if _read_member(answer, "allowed") is True and _read_member(answer, "id") == id_:
        return None
    reason = _read_member(answer, "reason")
    return build_denied_result(reason if isinstance(reason, str) else "")


def build_denied_result(reason: str = "") -> ModelResult:
    """Return the text that a model reads about a call that the user did not allow."""
    return describe_problem(build_denial("The user did not allow this call.", reason=reason))


CALL_AGAIN: Final = describe_problem(
    Problem(
        kind=Kind.DENIED,
        message=(
            "The tool was not called yet, because its user must approve the call. Call it again with the "
            "same arguments to ask the user."
        ),
    )
)
"""What a model reads of a call about which its framework can ask only when the model calls again."""


def _read_id(asked: object) -> str:
    id_ = _read_member(asked, "id")
    return id_ if isinstance(id_, str) else ""


def _read_member(data: object, name: str) -> Any:
    """Return the member ``name`` of a dict, or of an object that is read like one, or None."""
    get = getattr(data, "get", None)
    return get(name) if callable(get) else None


class ModelCalls:
    """Runs a model's calls over ``toolbox``. With a ``deferral``, questions go to the agent framework.

    With ``is_blocking``, ``toolbox`` is a blocking connection. The coroutines then never wait, and
    ``toolwire.core.toolbox.complete`` runs them. With ``images``, a result contains its images next to its text.
    """

    def __init__(
        self,
        toolbox: Toolbox | NamedCaller,
        provider: Provider,
        deferral: Deferral | None = None,
        *,
        images: bool = False,
        is_blocking: bool = False,
    ) -> None:
        self._toolbox: Any = toolbox
        self._provider, self._images, self._is_blocking = provider, images, is_blocking
        self.deferral = deferral

    async def run(
        self, call: ModelToolCall, approved: Iterable[Question] = (), *, is_standing: bool = False
    ) -> ModelResult | Question:
        """Run ``call`` and return its result, or the question that the user must answer first. Nothing is sent before.

        ``approved`` are the questions about this call that the user has allowed. ``is_standing`` means that the user
        has allowed all calls of the tool in the framework. It covers the calls for which the server permits a lasting
        answer.
        """
        if self.deferral is None:
            return await self._run(call)
        run = _Run(self.deferral, approved, is_standing=is_standing)
        token = _RUN.set(run)
        try:
            result = await self._run(call)
        finally:
            _RUN.reset(token)
        return result if run.question is None else run.question

    async def run_waiting(self, call: ModelToolCall, *, is_approved: bool) -> ModelResult | Question:
        """Run ``call``. If the user must be asked first, store it under its ID and return the question.

        ``is_approved`` means that the user has allowed the waiting call in the framework.
        """
        deferral = self.deferral
        approved = deferral.take(call.id) if deferral is not None and is_approved else ()
        outcome = await self.run(call, approved)
        if isinstance(outcome, ModelResult) or deferral is None:
            return outcome
        if len(approved) >= MAX_QUESTIONS:
            return build_denied_result("too many questions")
        deferral.defer(call.id, (*approved, outcome))
        return outcome

    async def run_asking(
        self, call: ModelToolCall, ask: Callable[[Question], Awaitable[ModelResult | None]]
    ) -> ModelResult:
        """Run ``call``, pass each question to ``ask``, and return the result.

        ``ask`` returns None to allow, or else what the model reads instead.
        """
        approved: list[Question] = []
        while True:
            outcome = await self.run(call, approved)
            if isinstance(outcome, ModelResult):
                return outcome
            if len(approved) >= MAX_QUESTIONS:
                return build_denied_result("too many questions")
            refusal = await ask(outcome)
            if refusal is not None:
                return refusal
            approved.append(outcome)

    def preview(self, name: str, arguments: Json) -> tuple[Question, ...]:
        """Return the question that a call would ask the user now. Nothing is asked, counted or sent."""
        catalog = self._toolbox.catalog()
        call = read_call(catalog, self._provider, name, arguments, choose_tools(self._toolbox, catalog))
        if isinstance(call, Problem) or not hasattr(self._toolbox, "find_question"):
            return ()
        question: Question | None = self._toolbox.find_question(call.tool.id, call.arguments)
        return () if question is None else (question,)

    async def _run(self, call: ModelToolCall) -> ModelResult:
        toolbox, provider, images = self._toolbox, self._provider, self._images
        if self._is_blocking:
            return run_named_call_sync(toolbox, provider, call.name, call.arguments, images=images)
        return await run_named_call(toolbox, provider, call.name, call.arguments, images=images)
