"""Define the values that all of toolwire shares: tools, calls, results.

Rules:
- Values are frozen.
- Nothing here depends on a protocol. What only one protocol needs to know of a tool is in ``Tool.hints``.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Generator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from hmac import compare_digest
from types import MethodType
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, NamedTuple, NoReturn, TypeAlias, TypeVar, cast

from .errors import DefinitionError, ToolwireError
from .lazy_mapping import LazyField
from .no_user_input import NoUserInput

T = TypeVar("T")

Json: TypeAlias = Any
"""A JSON value: None, bool, int, float, str, or a list or dict of them."""

Schema: TypeAlias = Mapping[str, Any]
"""A JSON Schema (draft 2020-12) as plain data."""


class Approval(StrEnum):
    """How much consent a call needs, from least to most."""

    # XL-040

    AUTO = "auto"
    PER_CALL = "per-call"
    DENY = "deny"


class Cost(StrEnum):
    """What a call costs the user, as the server declares it."""

    # XL-031

    FREE = "free"
    CREDITS = "credits"
    PAID = "paid"


_WINDOW = re.compile(r"([1-9][0-9]{0,5})(ms|s|m|h|d)")
_UNIT_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class RateLimit:
    """At most ``max`` calls in any ``window`` for one user of one tool. Write ``window`` as ``"30s"`` or ``"1m"``.

    Raises:
        ValueError: ``max`` is not 1 to 1,000,000, or ``window`` is not 100 ms to 30 days.
    """

    # XL-060

    max: int
    window: str

    def __post_init__(self) -> None:
        if type(self.max) is not int or not 1 <= self.max <= 1_000_000:
            raise ValueError(f"a rate limit's max must be an integer from 1 to 1,000,000, not {self.max!r}")
        if not 0.1 <= self.window_s <= 30 * 86_400:
            raise ValueError(f'a rate limit\'s window must be from "100ms" to "30d", not {self.window!r}')

    @classmethod
    def parse(cls, text: str) -> RateLimit:
        """Return the limit in ``text``, which has the form ``MAX/WINDOW``, such as ``60/1m``.

        Raises:
            ValueError: ``text`` has another form, or a part of it is out of range.
        """
        number, slash, window = text.partition("/")
        if not (slash and number.isascii() and number.isdigit() and len(number) <= 7):
            raise ValueError(f'a rate must be written as calls and a window, such as "60/1m", not {text[:40]!r}')
        return cls(max=int(number), window=window)

    @property
    def window_s(self) -> float:
        """The window in seconds."""
        match = _WINDOW.fullmatch(self.window)
        if match is None:
            raise ValueError(f'a rate limit\'s window must be written like "30s" or "1m", not {self.window!r}')
        return int(match[1]) * _UNIT_S[match[2]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Authorization:
    """A token that a tool needs from the caller: the provider's ID and the token's OAuth scopes."""

    # OTC-016

    id: str
    scopes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirements:
    """What a call needs besides its arguments. By default, nothing."""

    # OTC-013

    authorization: tuple[Authorization, ...] = ()
    secrets: tuple[str, ...] = ()
    user_id: bool = False

    def __bool__(self) -> bool:
        return bool(self.authorization or self.secrets or self.user_id)


NO_REQUIREMENTS = Requirements()
"""No requirements, as most tools have."""


class Condition(NamedTuple):
    """For which arguments a call is asked about: those where ``op`` holds for the value at ``pointer`` and ``value``.

    ``pointer`` is a JSON Pointer into the arguments. ``op`` is eq, ne, lt, le, gt, ge, in, matches or present.
    """

    # CC-01

    pointer: str
    op: str
    value: Json = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A function that can be called.

    - ``input_schema``: the JSON Schema of an object, the arguments.
    - ``output_schema``: ``{}`` for any value, or ``None`` if the tool returns nothing.
    - ``approval``: the declared policy. With ``None``, clients ask the user.
    - ``ask_when``: conditions on the arguments. A call that meets one needs consent, even with ``approval="auto"``.
    - ``question``: the author's text for the user. ``{/name}`` inserts an argument.
    - ``blanket_allowed``: whether one answer can also cover later calls. With None, the server does not use x-llm.
    - ``safe``: whether a call only reads.
    - ``claimed_safe``: whether only the server says so. The tool is then treated as one that changes something.
    - ``scopes``: the scopes that a caller needs to see and call the tool.
    - ``timeout_s``: the time limit of a call, in seconds. With ``None``, the server decides.
    - ``long``: whether a call continues after its caller disconnects.
    - ``keep_s``: how long the result of a long call is stored, in seconds. With ``None``, the server decides.
    - ``reports``: whether the tool can send progress.
    - ``original_name``: the server's name for the tool, if ``name`` had to differ. Otherwise ``""``.
    """

    name: str
    description: str = ""
    toolkit: str = ""
    version: str = "1.0.0"
    input_schema: Schema = field(default_factory=dict)
    output_schema: Schema | None = field(default_factory=dict)
    output_name: str = "result"
    safe: bool = False
    claimed_safe: bool = False
    approval: Approval | None = None
    ask_when: tuple[Condition, ...] = ()
    question: str = ""
    blanket_allowed: bool | None = False
    destructive: bool = False
    idempotent: bool = False
    hint: str = ""
    cost: Cost | None = None
    rate_limit: RateLimit | None = None
    requirements: Requirements = NO_REQUIREMENTS
    scopes: tuple[str, ...] = ()
    timeout_s: float | None = None
    long: bool = False
    keep_s: float | None = None
    streams: bool = False
    reports: bool = False
    deprecated: bool = False
    original_name: str = ""
    hints: Mapping[str, Any] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """``Toolkit.name@version``, which is unique in a catalog. Hyphens become underscores."""
        # OTC-001, A-47
        return f"{self.toolkit}.{self.name}".replace("-", "_") + f"@{self.version}"

    @property
    def parameters(self) -> Mapping[str, Schema]:
        """The schema of each argument by name, in declared order. A schema that is not an object becomes ``{}``."""
        properties = self.input_schema.get("properties")
        if not isinstance(properties, Mapping):
            return {}
        return {name: schema if isinstance(schema, Mapping) else {} for name, schema in properties.items()}

    @property
    def required_parameters(self) -> tuple[str, ...]:
        """The names of the required arguments."""
        required = self.input_schema.get("required")
        return tuple(name for name in required if isinstance(name, str)) if isinstance(required, list | tuple) else ()


if not TYPE_CHECKING:
    Tool.input_schema = LazyField(Tool.input_schema)
    Tool.output_schema = LazyField(Tool.output_schema)


_READ_STORED: Final = {name: vars(Tool)[name].slot.__get__ for name in ("input_schema", "output_schema")}


def get_stored_schemas(tool: Tool) -> dict[str, Any]:
    """Return ``input_schema`` and ``output_schema`` of ``tool`` by name, as they are stored: none is built."""
    return {name: read(tool) for name, read in _READ_STORED.items()}


def copy_tool(tool: Tool, **changes: Any) -> Tool:
    """Return a copy of ``tool`` with ``changes`` of its fields.

    ``dataclasses.replace`` would build a schema that waits for its first use; here it goes on waiting.
    """
    return replace(tool, **{**get_stored_schemas(tool), **changes})


class Secret:
    """A string that is never printed. ``repr``, ``str`` and ``format`` return ``***``."""

    # D-26

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """Return the string. Use it only where it is sent."""
        return self._text

    def __repr__(self) -> str:
        return "***"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and compare_digest(self._text.encode(), other._text.encode())

    def __hash__(self) -> int:
        return hash((Secret, self._text))

    def __deepcopy__(self, memo: dict[int, Any]) -> Secret:
        return self

    def __reduce__(self) -> str:
        raise TypeError("a Secret cannot be pickled")


LOG_LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
"""The levels of messages of a log, from the least to the most urgent, as RFC 5424 names them."""

LISTENING_EVENT = "listening"
"""The event of a Progress that says that a server has taken the stream on which a client listens to it."""

DEFAULT_LOG_LEVEL = "info"
"""From which level on messages are sent to a caller who wants some and names none."""

LOG_EVENT = "log"
"""The event of a Progress that is a message of a log: an object with ``level``, ``data`` and perhaps ``logger``."""

PROGRESS_EVENT = "progress"
"""The event of a Progress that says how far a tool is, and is no item of its result."""

Report: TypeAlias = Callable[["Progress"], Awaitable[None]]
"""Receive one piece of progress. A coroutine awaits what it returns."""


class UserAnswer(NamedTuple):
    """What a user answered to the question of this server about a call, and where: ``page`` or ``form``.

    ``later`` is what they chose for later calls, in the words of the form.
    """

    channel: str
    allowed: bool
    later: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """The context of a call: the caller, and what the tool requires besides the arguments.

    A tool with a parameter of this type gets the context of its call. It contains only the tokens and secrets that the
    tool requires.

    - ``principal``: the caller's name.
    - ``scopes``: what the caller may do. ``None`` means that the caller has no scopes and can call everything.
    - ``client_id``: the caller's OAuth client, or empty.
    - ``group``: the group whose rules apply because of the caller's claims.
    - ``traceparent``, ``trace_id``: the call's W3C trace context and trace ID.
    - ``confirmation``: the one-time token that confirms the call, or empty.
    - ``state``: what the toolkit's lifespan yielded.
    """

    # OTC-023

    principal: str = "anonymous"
    scopes: frozenset[str] | None = None
    client_id: str = ""
    group: str = ""
    call_id: str = ""
    trace_id: str = ""
    traceparent: str = ""
    tokens: Mapping[str, Secret] = field(default_factory=dict)
    secrets: Mapping[str, Secret] = field(default_factory=dict)
    user_id: str | None = None
    user_info: Mapping[str, Any] = field(default_factory=dict)
    # Where ``progress`` goes; None if the caller does not listen.
    report: Report | None = field(default=None, repr=False, compare=False)
    # The least urgent messages of a log that the caller wants; empty if it wants none.
    log_level: str = field(default="", repr=False, compare=False)
    # GR-02: whether the caller takes each item of a stream as it comes, and needs no list of them at the end.
    takes_items: bool = field(default=False, repr=False, compare=False)
    is_over: Callable[[], bool] | None = field(default=None, repr=False, compare=False)
    confirmation: str = field(default="", repr=False, compare=False)
    # FU-60: what the user answered where this server asked; that a client of its own asked says nothing here.
    user_answer: UserAnswer | None = field(default=None, repr=False, compare=False)
    # CC-06: what the caller's client signed about the decision of its user, and the host by which it was called.
    receipt: str = field(default="", repr=False, compare=False)
    host: str = field(default="", repr=False, compare=False)
    state: Any = field(default=None, repr=False, compare=False)
    # Whether the client of the call shows forms to its user and leaves consent to the server, so that it may ask.
    can_ask: bool = field(default=False, repr=False, compare=False)
    # Whether the client cannot be asked so, and must bring a confirmation with each call that needs consent.
    must_confirm: bool = field(default=False, repr=False, compare=False)
    # Whether it can confirm nothing either, so that its user can only decide elsewhere.
    needs_inbox: bool = field(default=False, repr=False, compare=False)
    # GW-04: how many seconds its call waits for that decision.
    inbox_wait_s: float = field(default=0.0, repr=False, compare=False)
    # GW-04: the id of the long call that goes on by itself after that decision; empty for other calls.
    inbox_call_id: str = field(default="", repr=False, compare=False)
    # Whether the client shows its user a page to open, and has not been told that of the inbox for this call.
    opens_pages: bool = field(default=False, repr=False, compare=False)
    # QF-10: the characters above which the model of the client reads a result in parts; 0 if it reads each whole.
    part_characters: int = field(default=0, repr=False, compare=False)
    # Whether tools may ask the user of the client, and how the user answered so far.
    takes_input: bool = field(default=False, repr=False, compare=False)
    input_responses: Mapping[str, Any] | None = field(default=None, repr=False, compare=False)
    ask_user: Callable[[Any, str, str], Any] | None = field(default=None, repr=False, compare=False)
    # LC-02: how many seconds the caller waits for the end of a long call; None leaves that to the server.
    wait_s: float | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        # FU-59: a plain text is kept as a Secret, so that it is printed nowhere.
        for name in ("tokens", "secrets"):
            given: Mapping[str, Any] = getattr(self, name)
            if given and any(type(one) is not Secret for one in given.values()):
                object.__setattr__(self, name, {key: _read_secret(one, name, key) for key, one in given.items()})

    def token(self, provider: str) -> Secret:
        """Return the token for ``provider``.

        Raises:
            DefinitionError: the tool does not declare that it requires this token.
        """
        # OTC-016
        found = self.tokens.get(provider)
        if found is None:
            needed = f"requirements=Requirements(authorization=(Authorization(id={provider!r}),))"
            raise DefinitionError(f"The call contains no token for {provider!r}. Pass {needed} to the tool.")
        return found

    def secret(self, id: str) -> Secret:  # noqa: A002 - what the protocol calls it
        """Return the secret ``id``.

        Raises:
            DefinitionError: the tool does not declare that it requires this secret.
        """
        found = self.secrets.get(id)
        if found is None:
            needed = f"requirements=Requirements(secrets=({id!r},))"
            raise DefinitionError(f"The call contains no secret {id!r}. Pass {needed} to the tool.")
        return found

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            text = f"{type(self).__name__!r} object has no attribute {name!r}"
            raise AttributeError(f"{text}: {_OTHER_WORDS[name]}" if name in _OTHER_WORDS else text)

    @property
    def is_cancelled(self) -> bool:
        """Whether the call was cancelled: its caller disconnected, or its time limit passed.

        Coroutines are cancelled automatically. A plain function runs in a thread, which cannot be stopped. If it runs
        long, check this property regularly, and return when it is true. The return value is then ignored.
        """
        return self.is_over is not None and self.is_over()

    async def ask(self, form: type[T], question: str, *, name: str = "") -> T | NoUserInput:
        """Return the user's answer to ``question``, as a ``form``, or ``NoUserInput``.

        ``form`` is a pydantic model or a dataclass with flat fields: strings, numbers, booleans, dates and choices.
        Only an MCP client that shows forms can ask the user, and for a long tool, the page at ``/``. For other callers,
        this returns ``NoUserInput`` at once. ``name`` identifies the question for the client. By default, it is made
        from the question.

        The function stops at this line until the user has answered. Then it runs again from the start, including
        everything before ``ask``. Change data only after the last question.

        Raises:
            DefinitionError: ``form`` contains another type of field, or the tool asks more than ten questions.
        """
        # MC-09
        return self.ask_sync(form, question, name=name)

    def ask_sync(self, form: type[T], question: str, *, name: str = "") -> T | NoUserInput:
        """Do the same as ``ask``, in a plain function."""
        if self.ask_user is None:
            return NoUserInput("cannot_ask", question)
        answer: T | NoUserInput = self.ask_user(form, question, name)
        return answer

    def progress(self, value: Json) -> Awaitable[None]:
        """Send ``value``, JSON data, to the caller while the tool runs. It is dropped if the protocol cannot stream.

        In a coroutine, await the return value. It waits while the caller reads slowly. A plain function just calls this
        method. It returns when ``value`` has been passed on.
        """
        return COMPLETED if self.report is None else self.report(Progress(value, PROGRESS_EVENT))

    def report_progress(
        self, progress: float, total: float | None = None, message: str | None = None
    ) -> Awaitable[None]:
        """Send ``progress`` of ``total``, with a ``message``, as an object. See ``progress``."""
        # FU-56
        members = {"progress": progress, "total": total, "message": message}
        return self.progress({name: value for name, value in members.items() if value is not None})

    def debug(self, message: Json, *, logger: str = "") -> Awaitable[None]:
        """Send ``message`` to the caller's log at the level debug. See ``log``."""
        return self.log(message, level="debug", logger=logger)

    def info(self, message: Json, *, logger: str = "") -> Awaitable[None]:
        """Send ``message`` to the caller's log at the level info. See ``log``."""
        return self.log(message, logger=logger)

    def warning(self, message: Json, *, logger: str = "") -> Awaitable[None]:
        """Send ``message`` to the caller's log at the level warning. See ``log``."""
        return self.log(message, level="warning", logger=logger)

    def error(self, message: Json, *, logger: str = "") -> Awaitable[None]:
        """Send ``message`` to the caller's log at the level error. See ``log``."""
        return self.log(message, level="error", logger=logger)

    def log(self, message: Json, *, level: str = "info", logger: str = "") -> Awaitable[None]:
        """Send ``message``, a string or other JSON data, to the caller's log while the tool runs.

        Only MCP has such a log. The message is dropped over other protocols, and if the caller did not ask for this
        ``level`` (one of ``LOG_LEVELS``). The call's secrets are removed from it. In a coroutine, await the return
        value. A plain function just calls this method.

        Raises:
            ValueError: ``level`` is not one of ``LOG_LEVELS``.
        """
        # MC-06
        if level not in LOG_LEVELS:
            raise ValueError(f"level must be one of {', '.join(LOG_LEVELS)}, not {level!r}")
        if self.report is None or not reaches_level(level, self.log_level):
            return COMPLETED
        named = {"logger": logger} if logger else {}
        return self.report(Progress({"level": level, **named, "data": message}, LOG_EVENT))


_OTHER_WORDS: Mapping[str, str] = {
    "elicit": "write `await context.ask(Form, question)`",
    "sample": "a tool cannot ask the model of its caller; return what it needs to go on",
    "request_id": "write `context.call_id`",
    "session_id": "write `context.call_id`, or `context.principal` for the caller",
    "lifespan_context": "write `context.state`",
    "request_context": "write `context.state` for what the lifespan yielded",
    "get_state": "write `context.state`",
}
"""What to write here for what other MCP frameworks call so."""


def _read_secret(value: Any, name: str, key: str) -> Secret:
    if isinstance(value, Secret):
        return value
    if not isinstance(value, str):
        raise DefinitionError(f"{name}[{key!r}] of a Context must be a Secret or a string, not {type(value).__name__}.")
    return Secret(value)


class _Completed:
    """An awaitable that finishes at once, any number of times."""

    __slots__ = ()

    def __await__(self) -> Generator[None, None, None]:
        yield from ()


COMPLETED: Awaitable[None] = _Completed()
"""Nothing to wait for."""

ANONYMOUS = Context()


# A named tuple takes a third of the time of a frozen dataclass, and one is made for each call.
class Call(NamedTuple):
    """One call of a tool. ``call_id`` names it in responses and logs; the server makes one if the caller gave none.

    ``key`` is the caller's idempotency key: a call with a key runs once, however often it is sent; a call without is
    never recorded. A protocol with call ids gives the id as both; for other protocols the ``Idempotency-Key`` header
    is both.
    """

    tool: Tool
    arguments: Mapping[str, Json]
    call_id: str = ""
    context: Context = ANONYMOUS
    key: str = ""


make_call: Final = cast(
    "Callable[[tuple[Tool, Mapping[str, Json], str, Context, str]], Call]", MethodType(tuple.__new__, Call)
)
"""Make a ``Call`` from a tuple of all fields, in half the time of ``Call(...)``."""


class Kind(StrEnum):
    """The reason why a call has no value. The kinds are the same in every protocol.

    ``ACCEPTED`` is not a failure. The long call continues and has no value yet.
    """

    MALFORMED = "malformed"
    UNSUPPORTED_TYPE = "unsupported_type"
    TOO_LARGE = "too_large"
    TOO_SLOW = "too_slow"
    NOT_FOUND = "not_found"
    WRONG_METHOD = "wrong_method"
    UNKNOWN_TOOL = "unknown_tool"
    INVALID_ARGUMENTS = "invalid_arguments"
    MISSING_REQUIREMENTS = "missing_requirements"
    UNAUTHORIZED = "unauthorized"
    FORBIDDEN = "forbidden"
    MISDIRECTED = "misdirected"
    DENIED = "denied"
    UNCONFIRMED = "unconfirmed"
    CONFLICT = "conflict"
    ACCEPTED = "accepted"
    RATE_LIMITED = "rate_limited"
    OVERLOADED = "overloaded"
    TOOL_FAILED = "tool_failed"
    TIMEOUT = "timeout"
    CANCELLED = "cancelled"
    INTERRUPTED = "interrupted"
    UNREACHABLE = "unreachable"
    BAD_ANSWER = "bad_answer"
    INTERNAL = "internal"


AFTER_START = frozenset({Kind.TOOL_FAILED, Kind.TIMEOUT, Kind.CANCELLED, Kind.INTERRUPTED, Kind.INTERNAL})
"""The kinds that mean that the tool had started. Whether it did its work is then as the tool says, or unknown."""


@dataclass(frozen=True, slots=True)
class Value:
    """What a tool returned, as JSON data.

    ``notes`` are facts about the value for programs, such as ``{"truncated": True}``. Comparison and ``repr`` ignore
    them. Type checkers narrow a result on ``result.ok is True``.
    """

    value: Json
    notes: Mapping[str, Json] | None = field(default=None, compare=False, repr=False)

    ok: ClassVar[Literal[True]] = True

    def unwrap(self) -> Json:
        """Return the value. A Problem raises CallError instead."""
        return self.value


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Why a call has no value, in one sentence that tells the user what to do.

    - ``developer_message``: for the server's log. Models and users never see it.
    - ``can_retry``: ``False`` unless the tool or server says otherwise.
    - ``retry_after_ms``: when to retry, in milliseconds.
    - ``parameter_errors``: what is wrong with each refused argument, by name.
    - ``details``: JSON data for programs.
    """

    # OTC-028..032

    kind: Kind
    message: str
    developer_message: str | None = None
    can_retry: bool = False
    retry_after_ms: int | None = None
    additional_prompt_content: str | None = None
    parameter_errors: Mapping[str, str] = field(default_factory=dict)
    details: Mapping[str, Json] = field(default_factory=dict)

    ok: ClassVar[Literal[False]] = False

    def unwrap(self) -> NoReturn:
        """Raise CallError with this problem. Use it if your program cannot continue after a failed call."""
        raise CallError(self)

    if not TYPE_CHECKING:  # type checkers say it by themselves: a Problem has no value

        def __getattr__(self, name: str) -> object:
            text = f"'Problem' object has no attribute {name!r}"
            if name in {"value", "notes"}:
                text += f": the call failed ({self.message}) Look at `result.ok` first, or use `result.unwrap()`."
            raise AttributeError(text)


class CallError(ToolwireError):
    """A call that failed, raised by ``result.unwrap()``. ``problem`` says why."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(f"{problem.kind.value}: {problem.message}")
        self.problem = problem


Result: TypeAlias = Value | Problem
"""The result of a call: a ``Value``, or a ``Problem`` that says why there is none."""


def reaches_level(level: object, wanted: str) -> bool:
    """Return whether a message of ``level`` is for a caller who wants those from ``wanted`` on; ``""`` wants none."""
    return wanted in LOG_LEVELS and level in LOG_LEVELS and LOG_LEVELS.index(level) >= LOG_LEVELS.index(wanted)


@dataclass(frozen=True, slots=True)
class Progress:
    """A part that a running tool sends before its result. ``event`` is its name in protocols that name events."""

    value: Json
    event: str = "data"
