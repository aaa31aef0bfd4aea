"""Define the options of a server, each once: ``asgi``, the command line and the integrations take them from here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import wraps
from inspect import cleandoc, signature
from pathlib import Path
from typing import TYPE_CHECKING, Concatenate, Literal, ParamSpec, TypeAlias, TypeVar, get_args

from toolwire.core.command_option import define_option, read_whole_number
from toolwire.core.errors import DefinitionError
from toolwire.core.suggestion import find_nearest
from toolwire.core.url_origin import read_origin

from .limits import QUESTION_WAIT_S

MIN_RESULT = 1_000
MAX_RESULT = 10_000_000

if TYPE_CHECKING:  # every command reads the options of a server, and most run none
    from toolwire.core.ledger import Ledger
    from toolwire.core.long_call import CallEngine
    from toolwire.limits import CallerRules, RatesFail, ToolBundle
    from toolwire.telemetry.calls import Telemetry
    from toolwire.validation import Authorizer

    from .access.api_keys import ApiKey
    from .access.callers import Callers
    from .asking.confirmation import ConfirmationQuestion
    from .asking.host_consent import HostConsent
    from .asking.inbox import Inbox, QuestionHandler
    from .asking.receipt_keys import KeyFetcher
    from .asking.receipts import Receipts
    from .limits import ServerLimits

SessionUse: TypeAlias = Literal["needed", "all", "none"]
"""Which MCP clients of up to 2025-11-25 get a session: those that show forms, all, or none."""
FindMode: TypeAlias = Literal["auto", "always", "never"]
"""When a server lists ``find``, ``describe`` and ``call`` instead of its tools."""


def _check_limit(text: str) -> str:
    from .limit_options import check_limit  # brings the server, which few commands need

    return check_limit(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    """The options of ``asgi`` and of everything else that serves tools.

    With ``api_keys``, calls and lists need a key; ``/``, ``/health``, ``llm.json`` and the OpenAPI document stay open,
    because clients discover tools without credentials. With ``private``, only known callers learn which tools there
    are: the OpenAPI document and the page need a key too, and each shows what its caller may use. ``hosts`` are the
    accepted host names besides those of this machine, ``origins`` the web origins whose pages may call.

    ``state`` is where everything is kept that must last: ``"memory"`` of this process, a folder, which survives
    restarts and serves the processes of one machine, or a URL such as ``postgresql://host/database``, for several
    machines. It holds calls, rate limits, confirmations, receipts, MCP sessions and the questions of the inbox. ``""``
    means the environment variable TOOLWIRE_STATE, and memory without it. ``ledger``, ``rates`` and ``confirmations``
    keep one thing elsewhere. ``ledger`` records calls with an idempotency key: the path of an SQLite file, or the URL
    of a PostgreSQL. ``rates`` is where calls are counted against the limits of their tools: a folder or a URL such as
    ``redis://host``, which several processes share. While that store cannot be reached,
    ``rates_fail`` says what happens to tools with a limit: ``open`` counts in this process alone, by the limit divided
    by ``rates_replicas``, the number of processes that share the store; ``closed`` refuses their calls with 503;
    ``closed-for-destructive`` does so for destructive tools only.

    ``wake``, or the environment variable TOOLWIRE_WAKE, is the URL of a Redis that offers long calls to the processes
    of all machines, this one among them. Rate limits are counted there too, unless ``rates`` names a place. Losing it
    costs speed and no call.

    ``caller_rules`` are rules by the name of a caller: the owner of a key, the subject of a token, or who signed in;
    ``*`` is every other one. They say which scopes the caller has, how often it calls, and how many calls it may have
    at a time.

    ``callers`` is another way to identify callers, such as signed tokens; with ``api_keys`` too, either is accepted. A
    caller sees and calls the tools that the caller's scopes allow. ``authorizer`` knows the page on which a user grants
    what a tool requires. ``telemetry`` receives spans and metrics instead of the providers of this process.

    With ``strict_jsonrpc``, a response of OpenTool has a result or an error, never both; some of its clients cannot
    read that. With ``debug``, callers get developer messages, such as the exception of a tool: only for servers whose
    callers are their developers.

    ``require_confirmation`` returns the question to ask before a call runs, or ``""``. Such a call is answered with 428
    and runs when it is sent again with the word of that response; ``ask_about_destructive`` asks before each
    destructive tool. Each word is valid once. ``confirmations`` is a folder for these words that all processes of this
    machine share, such as several workers; without it, a word is valid in the process that issued it.

    With ``ask_hosts``, a call of an MCP client that shows forms (elicitation) is asked about in that client if its tool
    needs consent, by its policy or by ``ask_when``. ``consent`` says what becomes of such a call if the client shows
    none: ``hints`` trusts it to ask its user, by the hints of the tool; ``refuse`` refuses the call; ``inbox`` refuses
    it until a user has allowed it with ``toolwire approvals``, and then lets it run once. ``inbox`` names another place
    for these questions than ``state``, or than that of ``toolwire approvals`` where the state is in memory.
    ``ask_wait`` is how many seconds, at most 300, such a call waits for the answer before it is refused; a request can
    name another time (``Prefer: wait=30``), and then its question goes to the inbox on every protocol. ``on_question``
    gets each new question; ``toolwire.gateway.Webhooks`` sends them on.

    With ``receipts="required"``, a call that needs consent runs, on every protocol, only with a receipt: the proof that
    its user allowed exactly this call, signed by a key of ``receipt_keys``, a file with a JWK Set or
    ``build_key_fetcher(URL)`` for one that is published. ``receipt_audience`` is the host and port by which clients
    call this server; without it, a request must name one of ``hosts`` or the socket that gets it. The receipts are
    kept in ``state``, if that lasts.

    ``client_document`` is the URL at which this application describes toolwire to authorization servers: an https
    origin that leads here, or a URL below it. Sign in with ``toolwire login --client-document``.

    ``engine`` gets the long calls that are accepted, to be run by workers on other machines, instead of the one of
    ``wake``; without either, this process runs them. Long calls are kept where the ledger is.

    ``sessions`` says which MCP clients of up to 2025-11-25 get a session, in which this server can ask their users,
    tell of changes and be told to stop a call: ``all`` gives one to each, ``needed`` to clients that show forms, and
    ``none`` to none. The processes of one state share their sessions. In memory, a session lives in one process: then
    there are none by default where this process seems to be one of several workers, and ``all`` elsewhere.

    ``bundles`` are some of the tools by name, each at the URL ``/bundles/NAME`` on every protocol; ``ToolBundle`` is in
    ``toolwire.limits``. They are no limit: what a caller may use, ``caller_rules`` say.

    ``public_url`` is the address by which users call this server, such as ``https://tools.example``. OpenTool's
    document states it. Without it, the audience of signed tokens says it, if that is a URL.

    With ``find="always"``, every protocol lists three tools instead of all: ``find`` searches the tools by words,
    ``describe`` shows definitions, and ``call`` calls a tool by its name, with the same checks, question and record as
    a call of the tool itself. With ``auto``, MCP lists these three if all tools together take more than about 8,000
    tokens; clients that search by themselves still get the whole list, and so does a client that cannot show forms if
    it is trusted to ask its user about some tool. ``pins`` are tools that are listed beside them.

    With ``result_limit``, an MCP host gets the first part of a result that has more characters, and its model reads the
    rest with the tool ``read_result``, which is listed too. Other toolwire clients and other protocols get the whole.
    By default only hosts that toolwire knows do, and only of calls that read; 0 turns that off.

    Raises:
        DefinitionError: ``consent``, ``sessions``, ``find``, ``ask_wait``, ``result_limit`` or ``public_url`` is not
            valid.
    """

    # XL-066, A-12, A-53, XL-056, XL-113

    api_keys: Iterable[str | ApiKey] = define_option(
        (), name="api-key", metavar="KEY", help="an API key that callers can use; repeat for more keys", is_secret=True
    )
    hosts: Iterable[str] = define_option(
        (),
        name="allow-host",
        metavar="NAME",
        help="accept requests for this host name, besides localhost; repeat for more",
        settings="program",
    )
    origins: Iterable[str] = define_option(
        (),
        name="allow-origin",
        metavar="ORIGIN",
        help="allow calls from pages of this web origin (CORS)",
        settings="program",
    )
    limits: ServerLimits | None = define_option(
        None,
        name="limit",
        cli_default=[],
        metavar="NAME=VALUE",
        read=_check_limit,
        help="change a server limit, such as tool_s=300; see 'Limits' in the docs",
        settings="program",
    )
    state: Path | str = define_option(
        "",
        metavar="WHERE",
        help="where to store data (TOOLWIRE_STATE, or memory); memory, a folder, or postgresql://HOST/DATABASE for"
        " several machines; --ledger and --rates override it",
        is_path=True,
        settings="program",
        is_secret=True,
    )
    wake: str = define_option(
        "",
        metavar="URL",
        help="a Redis that wakes workers and counts rate limits; it passes long calls to the workers on all"
        " machines. Without it, long calls start later and none is lost (default: TOOLWIRE_WAKE)",
        settings="program",
        is_secret=True,
    )
    ledger: Ledger | Path | str | None = define_option(
        None,
        metavar="WHERE",
        help="store calls that have an idempotency key here; an SQLite file or postgresql://HOST/DATABASE",
        is_path=True,
        settings="program",
        is_secret=True,
    )
    rates: str = define_option(
        "",
        metavar="WHERE",
        help="count calls for rate limits here; a folder, redis://HOST or postgresql://HOST",
        is_path=True,
        settings="program",
        is_secret=True,
    )
    rates_fail: RatesFail = define_option(
        "open",
        choices=("open", "closed-for-destructive", "closed"),
        help="what to do while --rates is unreachable; open: count in each process, closed: refuse calls of tools"
        " with a limit (open)",
        settings="program",
    )
    rates_replicas: int = define_option(
        1,
        cli_default=None,
        metavar="N",
        read=read_whole_number(1, 1_000, "number of processes"),
        help="the number of processes that share --rates; while it is unreachable, each allows 1/N of a limit (the"
        " number of workers)",
        settings="program",
    )
    callers: Callers | None = None
    authorizer: Authorizer | None = None
    telemetry: Telemetry | None = None
    strict_jsonrpc: bool = define_option(
        False, help="OpenTool: send a result or an error, never both", is_harmless=True, settings="program"
    )
    debug: bool = False
    require_confirmation: ConfirmationQuestion | None = None
    client_document: str = define_option(
        "", metavar="URL", help="publish the OAuth client metadata document at this URL"
    )
    confirmations: Path | str = field(default="", repr=False)
    ask_hosts: bool = True
    consent: HostConsent = define_option(
        "",
        choices=("hints", "refuse", "inbox"),
        help="when an MCP client cannot show consent forms; hints: trust the client to ask its user, refuse:"
        " refuse the call, inbox: the user decides with `toolwire approvals` (hints for your own tools, refuse"
        " for tools of other servers)",
        strict="refuse",
        settings="program",
    )
    inbox: Path | str | Inbox = field(default="", repr=False)
    ask_wait: float = define_option(
        0,
        metavar="SECONDS",
        read=read_whole_number(0, QUESTION_WAIT_S, "number of seconds"),
        help="how long a call waits for an answer in the inbox; then it is refused (0: it does not wait)",
    )
    on_question: QuestionHandler | None = None
    receipts: Receipts = define_option(
        "",
        choices=("required",),
        help="require a receipt for calls that need consent; a receipt is a signed decision of the user",
        strict="required",
        settings="program",
    )
    receipt_keys: Path | str | KeyFetcher = define_option(
        "", metavar="FILE|URL", help="the public keys that verify receipts; a JWK Set", is_path=True, settings="program"
    )
    receipt_audience: str = define_option(
        "",
        metavar="HOST",
        help="the host and port at which clients call this server; receipts must name it (default: --allow-host,"
        " or the socket)",
        settings="program",
    )
    private: bool = define_option(
        False,
        help="show documents and pages to known callers only; each caller sees the tools that they are allowed to use",
        strict=True,
        settings="program",
    )
    caller_rules: Mapping[str, CallerRules] = field(default_factory=dict)
    bundles: Mapping[str, ToolBundle] = field(default_factory=dict)
    sessions: SessionUse | None = define_option(
        None,
        cli_default="",
        choices=("needed", "all", "none"),
        help="which MCP clients get a session; needed: clients that can show forms (all; none with --workers and"
        " without --state)",
        settings="program",
    )
    engine: CallEngine | None = None
    public_url: str = ""
    find: FindMode = define_option(
        "auto",
        choices=("auto", "always", "never"),
        help="list find, describe and call instead of all tools; auto: on MCP, if all tools take more than about"
        " 8,000 tokens (auto)",
        is_harmless=True,
        settings="program",
    )
    pins: Iterable[str] = define_option(
        (), name="pin", metavar="NAME", help="with --find, list this tool too", is_harmless=True, settings="program"
    )

    result_limit: int | None = define_option(
        None,
        metavar="CHARACTERS",
        read=read_whole_number(0, MAX_RESULT, "number of characters"),
        help="give an MCP host the first part of a longer result, and the tool read_result for the rest; 0: the whole"
        " (only known hosts, of what can be read again)",
        is_harmless=True,
        settings="program",
    )

    def __post_init__(self) -> None:
        # A wrong option fails where it is written, before anything is opened. The class is frozen, so what an iterable
        # gives only once is kept through object.
        if self.find not in ("auto", "always", "never"):
            raise DefinitionError(f'find must be "auto", "always" or "never", not {self.find!r}.')
        for name in ("api_keys", "hosts", "origins", "pins"):
            given: object = getattr(self, name)
            if isinstance(given, Iterable) and not isinstance(given, str):  # else whoever reads it says what is wrong
                object.__setattr__(self, name, tuple(given))
        _check_consent(self.consent, asks=self.ask_hosts)
        if self.sessions not in (None, *get_args(SessionUse)):
            raise DefinitionError(f'sessions must be "needed", "all" or "none", not {self.sessions!r}.')
        if self.result_limit is not None and (
            type(self.result_limit) is not int
            or not (self.result_limit == 0 or MIN_RESULT <= self.result_limit <= MAX_RESULT)
        ):
            text = f"result_limit is 0, or from {MIN_RESULT:,} to {MAX_RESULT:,} characters,"
            raise DefinitionError(f"{text} not {self.result_limit!r}.")
        if not 0 <= self.ask_wait <= QUESTION_WAIT_S:
            raise DefinitionError(f"ask_wait must be from 0 to {QUESTION_WAIT_S:g} seconds, not {self.ask_wait!r}.")
        if self.public_url and read_origin(self.public_url) is None:
            text = "is the address of this server, such as https://tools.example"
            raise DefinitionError(f"public_url {text}, not {self.public_url!r}.")
        object.__setattr__(self, "public_url", self.public_url.rstrip("/"))


def _check_consent(consent: str, *, asks: bool) -> None:
    if consent not in ("", "hints", "refuse", "inbox"):
        raise DefinitionError(f'consent must be "hints", "refuse" or "inbox", not {consent!r}.')
    if consent in ("refuse", "inbox") and not asks:
        text = "is about hosts that cannot be asked: leave out ask_hosts=False."
        raise DefinitionError(f'consent="{consent}" {text}')


T = TypeVar("T")
A = TypeVar("A")
P = ParamSpec("P")


def accept_options(
    options: Callable[P, ServerOptions],
) -> Callable[[Callable[[T, ServerOptions], A]], Callable[Concatenate[T, P], A]]:
    """Return a decorator: a function of a target and ``ServerOptions`` then takes their fields by name."""

    def decorate(serve: Callable[[T, ServerOptions], A]) -> Callable[Concatenate[T, P], A]:
        known = signature(options).parameters

        @wraps(serve)
        def serve_with_options(target: T, /, *args: P.args, **kwargs: P.kwargs) -> A:
            if unknown := next((name for name in kwargs if name not in known), ""):
                near = find_nearest(unknown, known)
                hint = f": did you mean {near!r}?" if near else "."
                raise TypeError(f"{serve.__name__} has no option {unknown!r}{hint}")
            return serve(target, options(*args, **kwargs))

        own = signature(serve)
        (target, *_), named = own.parameters.values(), known.values()
        serve_with_options.__signature__ = own.replace(parameters=[target, *named])  # type: ignore[attr-defined]  # help() and editors read it
        serve_with_options.__doc__ = "\n\n".join(cleandoc(one.__doc__ or "") for one in (serve, options))
        return serve_with_options

    return decorate
