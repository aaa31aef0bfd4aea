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

    Callers:

    - ``api_keys``: API keys. Calls and tool lists then need one. ``/``, ``/health``, ``llm.json`` and the OpenAPI
      document stay open, because clients discover tools without credentials.
    - ``private``: also require credentials for the OpenAPI document and the page. Each caller sees only the tools that
      they may use.
    - ``callers``: another way to identify callers, such as signed tokens. With ``api_keys``, either is accepted.
      Callers see and call the tools that their scopes allow.
    - ``caller_rules``: rules by the caller's name: the owner of a key, the subject of a token, or a user who signed in.
      ``*`` stands for everyone else. A rule sets the caller's scopes, rate limit and number of concurrent calls.
    - ``hosts``: the accepted host names, in addition to this machine's.
    - ``origins``: the web origins whose pages may call.
    - ``public_url``: the URL at which users call this server, such as ``https://tools.example``. The OpenTool document
      states it. Default: the audience of signed tokens, if that is a URL.
    - ``authorizer``: finds the page on which a user grants what a tool requires.
    - ``client_document``: the URL at which this application describes toolwire to authorization servers. It must be an
      HTTPS origin that leads here, or a URL below it. Sign in with ``toolwire login --client-document``.

    What is stored, and where:

    - ``state``: where to store what must survive a call: calls, rate limits, confirmations, receipts, MCP sessions and
      pending questions. Pass ``"memory"``, a folder for the processes of one machine, or a URL such as
      ``postgresql://host/database`` for several machines. Default: the environment variable TOOLWIRE_STATE, then
      memory.
    - ``ledger``: store calls with an idempotency key elsewhere, in an SQLite file or a PostgreSQL database. Long calls
      are also stored there.
    - ``rates``: count rate limits elsewhere, in a folder or at a URL such as ``redis://host``.
    - ``rates_fail``: what to do while that store is unreachable. ``open`` lets each process allow its share of a limit.
      ``closed`` refuses calls of tools with a limit (503). ``closed-for-destructive`` refuses them for destructive
      tools only.
    - ``rates_replicas``: the number of processes that share ``rates``. While it is unreachable, each process allows the
      limit divided by this number.
    - ``confirmations``: a folder for one-time confirmation tokens, shared by this machine's processes. Without it, a
      token is valid only in the process that issued it.
    - ``wake``: the URL of a Redis that hands long calls to the processes of all machines. Default: the environment
      variable TOOLWIRE_WAKE. It also counts rate limits, unless ``rates`` is set. If it fails, calls are slower, but
      none is lost.
    - ``engine``: hands long calls to workers on other machines, instead of ``wake``. Without either, this process runs
      them.

    Consent:

    - ``ask_hosts``: if a call of an MCP client needs consent, ask in the client, if it can show forms (elicitation).
    - ``consent``: what to do if it cannot. ``hints`` trusts the client to ask its user. ``refuse`` refuses the call.
      ``inbox`` refuses it until the user allows it with ``toolwire approvals``, and then lets it run once.
    - ``inbox``: where to store those questions. Default: ``state``, or the store of ``toolwire approvals`` if the state
      is in memory.
    - ``ask_wait``: how long such a call waits for the answer, from 0 to 300 seconds. A request can set its own time
      (``Prefer: wait=30``). Its question then goes to the inbox over every protocol.
    - ``on_question``: called with each new question. ``toolwire.gateway.Webhooks`` sends questions to a URL.
    - ``require_confirmation``: returns the question to ask before a call, or ``""``. The server answers such a call
      with 428 and a one-time token. The call runs when it is sent again with the token. ``ask_about_destructive`` asks
      before each call of a destructive tool.
    - ``receipts``: with ``"required"``, a call that needs consent must bring a receipt: signed proof that the user
      allowed exactly this call. Receipts are stored in ``state``, unless that is memory.
    - ``receipt_keys``: the keys that sign receipts: a file with a JWK Set, or ``build_key_fetcher(URL)``.
    - ``receipt_audience``: the host and port at which clients call this server. Without it, a request must name one of
      ``hosts`` or the socket that receives it.

    Tools and results:

    - ``bundles``: named groups of tools, each at ``/bundles/NAME`` over every protocol. See
      ``toolwire.limits.ToolBundle``. To restrict callers, use ``caller_rules`` instead.
    - ``find``: with ``"always"``, every protocol lists three tools instead of all: ``find`` searches the tools,
      ``describe`` returns definitions, and ``call`` calls a tool, with the same checks as a direct call. With
      ``"auto"``, only MCP does this, and only above about 8,000 tokens of tools. Clients with a search of their own
      still get the whole list. So do clients that cannot show forms and are trusted to ask their user.
    - ``pins``: the tools that are listed as well.
    - ``result_limit``: the number of characters of a result that an MCP host gets at once. Its model reads the rest
      with the tool ``read_result``. Other toolwire clients and other protocols get the whole result. By default, only
      hosts that toolwire knows are limited, and without a state only for tools that read. 0 turns this off.
    - ``sessions``: which MCP clients up to 2025-11-25 get an MCP session: ``all``, ``needed`` (clients that show forms)
      or ``none``. In a session, the server can ask the user, notify of changes and receive cancellations. Processes
      that share a state share sessions. If the state is in memory and there seem to be several workers, the default is
      ``none``, otherwise ``all``.

    Other:

    - ``telemetry``: the OpenTelemetry providers to use instead of the process's.
    - ``strict_jsonrpc``: an OpenTool response contains a result or an error, never both. Some OpenTool clients cannot
      read that.
    - ``debug``: send developer messages, such as a tool's exception, to callers. Use it only if the callers are the
      server's developers.

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
        " (only known hosts, and nothing that could be lost)",
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
