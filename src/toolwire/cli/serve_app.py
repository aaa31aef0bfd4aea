"""Build the app that ``toolwire serve`` runs, in this process or in a worker process."""

from __future__ import annotations

import json
import logging
import os
import secrets
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache, partial
from hashlib import sha256
from pathlib import Path
from threading import Thread
from time import monotonic
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from toolwire.client.calls.retry import DEFAULT_RETRIES
from toolwire.client.calls.session import Session
from toolwire.client.connection.connect import (
    PendingConnection,
    build_upstream_options,
    connect_for_caller,
    connect_upstream,
)
from toolwire.client.connection.options import ConnectOptions
from toolwire.client.connection.remote import Remote
from toolwire.client.transport.key_fetcher import build_key_fetcher
from toolwire.client.transport.limits import DEFAULT_LIMITS
from toolwire.client.transport.network import Network, SyncNetwork
from toolwire.consent import ClientRules
from toolwire.core.connect_error import ConnectError
from toolwire.core.errors import ToolwireError
from toolwire.core.long_call import CallEngine
from toolwire.core.model import Json, Kind, Problem, RateLimit, Secret
from toolwire.core.toolbox import Toolbox
from toolwire.engines.state_search import StateSearch
from toolwire.gateway import CallerConsent, UpstreamLimits, Webhook, Webhooks, merge_toolboxes
from toolwire.gateway.gateway_app import GatewayApp, Service
from toolwire.gateway.personal_toolbox import PersonalToolbox
from toolwire.gateway.sign_in_notice import SIGN_IN_PATH, SignInNotices
from toolwire.gateway.sign_in_pages import SignInPages, SignInUpstream
from toolwire.gateway.signed_decisions import SignedDecisions
from toolwire.gateway.upstream import RUNNING
from toolwire.gateway.waiting_toolbox import WaitingToolbox
from toolwire.limits import CallerRules, ClientRateLimits, LocalRates, RatesFail, RulesByCaller, Windows
from toolwire.opentool.method_toolbox import MethodToolbox
from toolwire.opentool.object_toolbox import ObjectToolbox
from toolwire.opentool.serve_object import build_app as opentool_app
from toolwire.protocols.openapi.document import arazzo
from toolwire.protocols.openapi.document.loading import load_document
from toolwire.server import App, asgi
from toolwire.server.access.api_keys import ApiKeyCallers, parse_api_key
from toolwire.server.access.callers import Callers, CombinedCallers
from toolwire.server.access.host_guard import HostGuard
from toolwire.server.access.people import PeopleSignIn
from toolwire.server.app import SessionUse
from toolwire.server.asgi import apply_scopes, combine_callers, open_inbox
from toolwire.server.limits import THREADS
from toolwire.server.run.host_consent import HostConsent
from toolwire.server.run.inbox import Inbox
from toolwire.server.run.receipt_keys import KeyFetcher
from toolwire.server.run.receipts import Receipts, open_receipt_verifier
from toolwire.stores.consent.open import is_in_database, open_decisions
from toolwire.stores.consent.receipt_keys import StoredReceiptKeys
from toolwire.stores.credentials.caller_vault import CallerVault
from toolwire.stores.credentials.files import CredentialStore
from toolwire.stores.limits.open import open_windows
from toolwire.stores.paths import (
    STATE_VARIABLE,
    StatePlaces,
    find_decisions_place,
    find_state_folder,
    find_state_places,
)
from toolwire.telemetry.logs import log_json

from .exits import UsageError
from .gateway_callers import open_caller_vault, read_exchange, read_identity
from .gateway_sign_in import ClientSettings, OpenSignIn, SignInSettings, open_sign_in
from .limit_options import read_server_limits
from .metrics_address import build_metrics_services
from .operators import find_operators
from .targets.local_target import open_code
from .targets.open_target import UrlOptions, read_url_options
from .targets.target import Target, UrlTarget, read_target
from .terminal.command_prompt import confirm_command
from .token_options import TokenOptions, build_callers

if TYPE_CHECKING:
    from toolwire.console.front import ConsoleFront

SETTINGS = "TOOLWIRE_SERVE"
INBOX_PATH = "/inbox"
"""Where the inbox page of a caller is, below the address of the server."""
OPENING_S = 5.0
"""How long the upstreams of a gateway have to answer before it serves without those that have not."""

ServeConsent: TypeAlias = HostConsent | Literal[""]
"""Who asks; ``""`` trusts hosts without forms with own tools, and refuses them those of other servers."""
_QUESTIONS_A_MINUTE = 1_000_000  # there are many callers, and the client of each asks
REMOTE_OPTIONS = (
    "key",
    "key_env",
    "header",
    "header_env",
    "protocol",
    "include",
    "tag",
    "path",
    "method",
    "match",
    "safe_only",
    "no_deprecated",
    "server",
    "overlay",
    "follow",
    "any_version",
    "document_bytes",
    "allow_private",
    "allow_http",
    "ca_file",
    "include_site_description",
)
# A secret of this process: it never leaves the process.
_HOST_CONFIRMATION = secrets.token_urlsafe(32)
_PASSED_ON = (
    "hosts",
    "origins",
    "state",
    "ledger",
    "rates_fail",
    "rates_replicas",
    "strict_jsonrpc",
    "private",
    "debug",
    "confirmations",
    "receipts",
    "receipt_audience",
    "sessions",
    "ask_wait",
)
"""The settings that the application takes by the same names."""

FACTORY = f"{__name__}:build_app_from_environment"

_log = logging.getLogger("toolwire")


UpstreamAccount: TypeAlias = Literal["gateway", "caller", "exchange"]
"""Whose credentials an upstream is called with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamSettings:
    """One upstream of a gateway: its name, its target, and its own options about remote targets.

    ``scopes`` are what a caller needs to see its tools, instead of what the tools declare; ``None`` leaves that.
    ``rate`` (such as ``100/1m``, or empty) and ``running`` are its limits for all callers together, and ``timeout_s``
    is how long one call may take. ``account`` says whose credentials are used: those of the gateway, those of the
    caller, who signs in there (as ``client_id``, if the gateway is registered), or those that the caller's token is
    exchanged for.
    """

    name: str
    target: str
    scopes: Sequence[str] | None = None
    agree: bool = False
    remote: Mapping[str, Any] = field(default_factory=dict, repr=False)
    account: UpstreamAccount = "gateway"
    client_id: str = ""
    client_secret_env: str = ""
    exchange: Mapping[str, Any] = field(default_factory=dict)
    rate: str = ""
    running: int = RUNNING
    timeout_s: float = DEFAULT_LIMITS.total_s


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookSettings:
    """Where questions are told: ``secret_env`` names the variable with the secret. See ``Webhook``."""

    url: str = field(repr=False)
    secret_env: str
    arguments: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CallerSettings:
    """The rules of a gateway for one caller, as its file has them; ``None`` or an empty text leaves what holds."""

    scopes: Sequence[str] | None = None
    rate: str = ""
    running: int | None = None
    questions: str = ""
    webhook: WebhookSettings | None = None

    def build_rules(self) -> CallerRules:
        """Return the rules as a server takes them."""
        scopes = None if self.scopes is None else frozenset(self.scopes)
        rate = RateLimit.parse(self.rate) if self.rate else None
        return CallerRules(scopes=scopes, rate=rate, running=self.running, inbox=self.questions == "inbox")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeSettings:
    """What to serve, and to which callers. Workers get it by the environment: other users can read a command line."""

    targets: Sequence[str]
    api_keys: Sequence[str] = field(default=(), repr=False)
    hosts: Sequence[str] = ()
    origins: Sequence[str] = ()
    document: str | None = None
    workflows: str | None = None
    state: str = field(default="", repr=False)
    ledger: str | None = None
    limits: Sequence[str] = ()
    rates: str = ""
    rates_fail: RatesFail = "open"
    rates_replicas: int = 1
    wake: str = field(default="", repr=False)
    works: bool = True
    jobs: int = 10
    client_document: str = ""
    tokens: TokenOptions = field(default_factory=TokenOptions)
    log: str = "text"
    strict_jsonrpc: bool = False
    private: bool = False
    metrics_address: str = ""
    agree: bool = False
    consent: ServeConsent = ""
    ask_wait: float = 0.0
    webhook: WebhookSettings | None = None
    receipts: Receipts = ""
    receipt_keys: str = ""
    receipt_audience: str = ""
    confirmations: str = field(default="", repr=False)
    remote: Mapping[str, Any] = field(default_factory=dict, repr=False)
    upstreams: Sequence[UpstreamSettings] = ()
    callers: Mapping[str, CallerSettings] = field(default_factory=dict)
    key_file: str = ""
    public_url: str = ""
    sign_in: SignInSettings | None = None
    debug: bool = False
    sessions: SessionUse = "needed"
    is_one_process: bool = True

    @property
    def holds_calls(self) -> bool:
        """Whether a call may wait in this process for an answer of its caller: not where there are several workers."""
        # MC-09: the answer may come to another worker.
        return self.is_one_process and self.sessions != "none"

    @property
    def has_inbox(self) -> bool:
        """Whether users decide in the inbox about calls of clients that cannot ask them, or of some callers."""
        return self.consent == "inbox" or any(one.questions == "inbox" for one in self.callers.values())

    def to_json(self) -> str:
        """Return the settings as JSON, for ``read_settings``."""
        return json.dumps(asdict(self))


def read_settings(text: str) -> ServeSettings:
    """Return the settings that ``to_json`` wrote."""
    data: dict[str, Any] = json.loads(text)
    upstreams = tuple(UpstreamSettings(**one) for one in data.pop("upstreams", ()))
    callers = {
        name: CallerSettings(webhook=_read_webhook(one.pop("webhook", None)), **one)
        for name, one in data.pop("callers", {}).items()
    }
    data["webhook"] = _read_webhook(data.pop("webhook", None))
    sign_in = _read_sign_in(data.pop("sign_in", None))
    tokens = TokenOptions(**data.pop("tokens", {}))
    return ServeSettings(tokens=tokens, upstreams=upstreams, callers=callers, sign_in=sign_in, **data)


def _read_sign_in(data: dict[str, Any] | None) -> SignInSettings | None:
    if data is None:
        return None
    clients = {name: ClientSettings(**one) for name, one in data.pop("clients").items()}
    return SignInSettings(**data, clients=clients)


def _read_webhook(data: dict[str, Any] | None) -> WebhookSettings | None:
    return None if data is None else WebhookSettings(**data)


def list_remote_options(arguments: Namespace) -> dict[str, Any]:
    """Return the options about remote targets as JSON data, so that a worker can read them again."""
    # An overlay stays a path: the text of a large one would not fit into the environment.
    return {name: getattr(arguments, name) for name in REMOTE_OPTIONS}


def build_app_from_environment() -> App | GatewayApp | ConsoleFront:
    """Return the app for the settings in the environment, and remove them from it: they hold keys."""
    settings = read_settings(os.environ.pop(SETTINGS))
    return build_app(settings, open_toolboxes(settings))


def build_app(
    settings: ServeSettings, toolboxes: Sequence[Toolbox], *, engine: CallEngine | None = None
) -> App | GatewayApp | ConsoleFront:
    """Return the app that serves all ``toolboxes`` as one, with a console if a key or a person may open it.

    ``engine`` gets long calls; see ``open_engine``.

    Raises:
        DefinitionError: two of them have a tool of the same id, or the ledger cannot be opened.
    """
    served = _build_served(settings, toolboxes, engine)
    app: App | GatewayApp | ConsoleFront = served.app
    rules = RulesByCaller(list_caller_rules(settings))
    operators = find_operators([parse_api_key(key) for key in settings.api_keys], rules)
    if settings.has_inbox and served.callers.needs_credentials:
        from .caller_inbox import add_inbox  # brings the pages of the console, which few servers have

        app = add_inbox(app, settings, served.callers, served.sign_in)
    people = () if settings.sign_in is None or served.sign_in is None else settings.sign_in.operators
    if not operators and not people:
        return app
    # It brings the console, which few servers have.
    from .operator_console import Operators, add_console, build_limit_finder, build_operator_finder

    known = Operators(operators)
    if people and (sign_in := served.sign_in) is not None:
        known = Operators(operators, build_operator_finder(sign_in.find_user, people), sign_in.login_path)
    places = find_state_places(settings.state)
    upstreams = [(one.target, box) for one, box in zip(settings.upstreams, toolboxes, strict=False)]
    limits = {one.name: RateLimit.parse(one.rate) for one in settings.upstreams if one.rate}
    return add_console(
        app,
        known,
        upstreams=upstreams,
        places=places,
        ledger=settings.ledger or places.ledger,
        rates=settings.rates or places.rates,
        find_limit=build_limit_finder(app.catalog, rules, limits),
        hosts=settings.hosts,
        find_faults=partial(_find_webhook_faults, find_inbox(settings)),
        public_url=settings.public_url,
    )


class _Served(NamedTuple):
    """The app that serves, its callers, and where people sign in at it, if anywhere."""

    app: App | GatewayApp
    callers: Callers
    sign_in: OpenSignIn | None


def build_served_app(
    settings: ServeSettings, toolboxes: Sequence[Toolbox], engine: CallEngine | None
) -> App | GatewayApp:
    """Return the app that serves all ``toolboxes`` as one.

    Raises:
        DefinitionError: two of them have a tool of the same id, or the ledger cannot be opened.
    """
    return _build_served(settings, toolboxes, engine).app


def _build_served(settings: ServeSettings, toolboxes: Sequence[Toolbox], engine: CallEngine | None) -> _Served:
    engine = open_engine(settings) if engine is None else engine
    match toolboxes:
        case [ObjectToolbox() | MethodToolbox()] if settings.client_document:
            raise UsageError("--client-document goes with a toolkit, not with a class alone.")
        case [ObjectToolbox() | MethodToolbox()] if settings.workflows is not None:
            raise UsageError("--workflows goes with a toolkit, not with a class alone.")
        case [ObjectToolbox() | MethodToolbox() as toolbox] if not settings.upstreams:
            serve: Callable[..., App] = partial(opentool_app, toolbox)
        case _:
            merged = merge_targets(settings, toolboxes, _open_upstream_windows(settings))
            word = _HOST_CONFIRMATION if settings.consent == "hints" else ""
            recipes = None if settings.workflows is None else read_workflows(Path(settings.workflows))
            document = settings.client_document
            serve = partial(
                asgi,
                merged,
                client_document=document,
                host_confirmation=word,
                workflows=recipes,
                caller_rules=list_caller_rules(settings),
                engine=engine,
            )
    if settings.log == "json":
        log_json()
    keys = [parse_api_key(key) for key in settings.api_keys]
    rules = RulesByCaller(list_caller_rules(settings))
    callers = build_callers(settings.tokens)
    sign_in = None
    if settings.sign_in is not None:
        sign_in = open_sign_in(settings.sign_in, settings.state, rules)
        # The challenge of the last source goes out, and that of people says where to sign in.
        callers = CombinedCallers(*filter(None, (callers, sign_in.server.callers)))
    app = serve(
        api_keys=keys,
        callers=callers,
        consent=settings.consent or "hints",
        receipt_keys=_find_receipt_keys(settings),
        rates=settings.rates or settings.wake,
        inbox=find_inbox(settings) or "",
        limits=read_server_limits(settings.limits),
        **{name: getattr(settings, name) for name in _PASSED_ON},
    )
    if sign_in is not None:
        app.people = PeopleSignIn(sign_in.find_user, sign_in.login_path, bool(keys or settings.tokens))
    known = apply_scopes(combine_callers(ApiKeyCallers(keys), callers), rules)
    is_personal = any(isinstance(toolbox, PersonalToolbox) for toolbox in toolboxes)
    if not is_personal and not settings.metrics_address and sign_in is None:
        return _Served(app, known, None)
    services = build_metrics_services(settings.metrics_address, app)
    if not is_personal:
        guard = HostGuard(hosts=settings.hosts, origins=settings.origins)
        server = None if sign_in is None else sign_in.server
        front = GatewayApp(app, {}, guard, public_url=settings.public_url, services=services, sign_in=server)
        return _Served(front, known, sign_in)
    return _Served(build_gateway_app(settings, toolboxes, app, known, services, sign_in), known, sign_in)


def list_caller_rules(settings: ServeSettings) -> dict[str, CallerRules]:
    """Return the rules for callers by name."""
    return {name: one.build_rules() for name, one in settings.callers.items()}


def choose_lasting_state(settings: ServeSettings) -> ServeSettings:
    """Return ``settings`` with a folder of this user for the state, if they name none: one for these targets."""
    # ST-01: long calls and receipts must outlive the process. Other calls are then recorded there too.
    if find_state_places(settings.state) != StatePlaces():
        return settings
    if settings.state or os.environ.get(STATE_VARIABLE):  # "memory" was asked for
        return settings
    folder = Path.cwd()
    named = [str(folder / text) if (folder / text).exists() else text for text in settings.targets]
    name = sha256(json.dumps(named or [one.target for one in settings.upstreams]).encode()).hexdigest()[:16]
    return replace(settings, state=str(find_state_folder() / "servers" / name))


def open_engine(settings: ServeSettings) -> CallEngine | None:
    """Return what offers long calls to workers, or None: then this process runs its own.

    Raises:
        DefinitionError: ``wake`` is no Redis.
        UsageError: other processes could not read the calls.
    """
    # ST-03
    if not settings.wake and settings.works:
        return None
    if find_state_places(settings.state).ledger is None:
        raise UsageError("--wake and --no-work leave calls to other processes, which read them in the state: name one.")
    if not settings.wake:
        return StateSearch()
    from toolwire.engines.docket import DocketEngine  # only the extra brings it

    return DocketEngine(settings.wake, is_worker=settings.works, most=settings.jobs)


def read_workflows(path: Path) -> Json:
    """Return the data of the Arazzo document at ``path``.

    Raises:
        UsageError: it cannot be read.
    """
    try:
        with path.open("rb") as opened:
            text = opened.read(arazzo.MAX_BYTES + 1)
    except OSError as error:
        raise UsageError(f"The workflows {path} cannot be read: {error.strerror}.") from error
    if len(text) > arazzo.MAX_BYTES:
        raise UsageError(f"The workflows {path} are larger than {arazzo.MAX_BYTES:,} bytes.")
    loaded = load_document(text, name=str(path))
    if isinstance(loaded, Problem):
        raise UsageError(f"The document of workflows {path} {loaded.message.rstrip('.')}.")
    return loaded.data


def _open_upstream_windows(settings: ServeSettings) -> Windows | None:
    """Return where the calls of upstreams are counted, or None if none has a rate."""
    if not any(upstream.rate for upstream in settings.upstreams):
        return None
    return open_windows(settings.rates or find_state_places(settings.state).rates, fail=settings.rates_fail)


def merge_targets(settings: ServeSettings, toolboxes: Sequence[Toolbox], windows: Windows | None = None) -> Toolbox:
    """Return all ``toolboxes`` as one, with the names, scopes and limits that ``settings`` gives its upstreams.

    Their calls are counted in ``windows``, or in this process.

    Raises:
        DefinitionError: two of them have a tool of the same id.
    """
    upstreams = dict(enumerate(settings.upstreams))
    return merge_toolboxes(
        toolboxes,
        # GW-01: a caller may not see every upstream, so the title names none.
        title="Gateway" if upstreams else ", ".join(toolbox.catalog().title for toolbox in toolboxes),
        names={number: upstream.name for number, upstream in upstreams.items()},
        scopes={number: upstream.scopes for number, upstream in upstreams.items() if upstream.scopes is not None},
        limits={
            number: UpstreamLimits(
                rate=RateLimit.parse(upstream.rate) if upstream.rate else None, running=upstream.running
            )
            for number, upstream in upstreams.items()
        },
        windows=windows,
        local=LocalRates(settings.rates_fail, settings.rates_replicas, monotonic),
    )


def open_toolboxes(settings: ServeSettings) -> Sequence[Toolbox]:
    """Return the toolbox of each upstream, or else of each target, in order. ``open_toolbox`` lists the errors.

    An upstream that cannot be reached has a toolbox without tools, which connects later, while it is served.
    """
    if settings.upstreams:
        return _open_upstreams(settings)
    targets = [read_target(text) for text in settings.targets]
    threads = read_server_limits(settings.limits).threads
    if settings.document is None:
        urls = [target.text for target in targets if isinstance(target, UrlTarget)]
        options = read_url_options(Namespace(**settings.remote), urls) if settings.remote else None
        asking = build_caller_consent(settings)
        receipts = find_state_places(settings.state).receipts
        return [
            open_toolbox(
                target,
                options=options,
                agree=settings.agree,
                asking=asking,
                receipts=receipts,
                holds_calls=settings.holds_calls,
                threads=threads,
            )
            for target in targets
        ]
    if len(targets) > 1:
        raise UsageError("--document describes one class: serve that alone, or give each class a load().")
    return [open_toolbox(targets[0], Path(settings.document), threads=threads)]


def _open_upstreams(settings: ServeSettings) -> Sequence[Toolbox]:
    """Return the toolboxes of all upstreams. Web sites are opened at the same time: a slow one delays no other."""
    upstreams = settings.upstreams
    opened: list[Toolbox | ToolwireError | None] = [None] * len(upstreams)

    def open_one(number: int) -> None:
        try:
            opened[number] = open_upstream(upstreams[number], settings)
        except ToolwireError as error:
            opened[number] = error

    # Daemons, so that a site which hangs does not keep a command from ending.
    sites = [number for number, one in enumerate(upstreams) if one.target.startswith(("http://", "https://"))]
    threads = [Thread(target=open_one, args=(number,), daemon=True) for number in sites]
    for thread in threads:
        thread.start()
    for number in set(range(len(upstreams))).difference(sites):  # code is loaded, and a question asked, one by one
        open_one(number)
    until = monotonic() + OPENING_S
    for thread in threads:
        thread.join(max(0.0, until - monotonic()))
    boxes = [_keep_opened(one, upstreams[number], settings) for number, one in enumerate(opened)]
    return add_callers(settings, boxes)


def add_callers(settings: ServeSettings, boxes: Sequence[Toolbox]) -> Sequence[Toolbox]:
    """Return ``boxes``; each whose upstream is called with the credentials of its callers connects for each of them.

    Raises:
        UsageError: callers would have no names.
    """
    # GW-02
    refuse_nameless_callers(settings)
    if all(upstream.account == "gateway" for upstream in settings.upstreams):
        return boxes
    scopes = {one.name: frozenset(one.scopes or ()) for one in settings.upstreams}
    vault = open_caller_vault(settings.key_file, settings.state)
    notices = SignInNotices(
        settings.public_url,
        lambda call, name: call.context.scopes is None or call.context.scopes >= scopes[name],
    )
    return [
        box if upstream.account == "gateway" else _build_personal(settings, upstream, box, vault, notices)
        for upstream, box in zip(settings.upstreams, boxes, strict=True)
    ]


def refuse_nameless_callers(settings: ServeSettings) -> None:
    """Check that callers have names where an upstream is called with their credentials.

    Raises:
        UsageError: they have none.
    """
    if settings.api_keys or settings.tokens or settings.sign_in is not None:
        return
    if personal := next((upstream for upstream in settings.upstreams if upstream.account != "gateway"), None):
        text = "is called with the credentials of its callers, so callers need keys or tokens: api-key-file or jwks."
        raise UsageError(f"The upstream {personal.name} {text} Or people sign in: [sign-in].")


def _build_personal(
    settings: ServeSettings, upstream: UpstreamSettings, shared: Toolbox, vault: CallerVault, notices: SignInNotices
) -> PersonalToolbox:
    options = read_url_options(Namespace(**upstream.remote), [upstream.target])
    receipts = find_state_places(settings.state).receipts
    asking = build_caller_consent(settings, upstream.name)
    shared_options = build_url_options(
        upstream.target,
        build_gateway_session(receipts),
        options,
        agree=upstream.agree,
        asking=asking,
        timeout_s=upstream.timeout_s,
        retries=0,
        holds_calls=settings.holds_calls,
    )

    def connect(principal: str, access: CredentialStore | Secret) -> PendingConnection:
        return connect_for_caller(shared_options, build_gateway_session(receipts, principal), access)

    return PersonalToolbox(
        upstream.name,
        upstream.target,
        shared,
        connect=connect,
        vault=vault,
        notices=notices,
        exchange=read_exchange(upstream.exchange) if upstream.account == "exchange" else None,
        transport=Network(**options.access) if upstream.account == "exchange" else None,
    )


def build_gateway_app(
    settings: ServeSettings,
    toolboxes: Sequence[Toolbox],
    app: App,
    callers: Callers,
    services: Sequence[Service] = (),
    sign_in: OpenSignIn | None = None,
) -> GatewayApp:
    """Return ``app`` with the pages on which ``callers`` sign in to upstreams, and ``services`` beside it.

    ``sign_in`` is where people sign in at the gateway itself.
    """
    upstreams: dict[str, SignInUpstream] = {}
    vault = open_caller_vault(settings.key_file, settings.state)
    for upstream, toolbox in zip(settings.upstreams, toolboxes, strict=True):
        if isinstance(toolbox, PersonalToolbox) and upstream.account == "caller":
            access = read_url_options(Namespace(**upstream.remote), [upstream.target]).access
            upstreams[upstream.name] = SignInUpstream(
                toolbox=toolbox,
                open_network=partial(SyncNetwork, **access),
                identity=read_identity(upstream.client_id, upstream.client_secret_env),
                scopes=frozenset(upstream.scopes or ()),
            )
    pages = SignInPages(
        upstreams,
        callers,
        vault,
        find_user=None if sign_in is None else sign_in.find_user,
        login_path="" if sign_in is None else sign_in.login_path,
        takes_keys=bool(settings.api_keys or settings.tokens) or sign_in is None,
    )
    return GatewayApp(
        app,
        {SIGN_IN_PATH: pages.answer},
        HostGuard(hosts=settings.hosts, origins=settings.origins),
        public_url=settings.public_url,
        keeps_tokens=any(one.account == "exchange" for one in settings.upstreams),
        services=services,
        sign_in=None if sign_in is None else sign_in.server,
    )


def _keep_opened(
    opened: Toolbox | ToolwireError | None, upstream: UpstreamSettings, settings: ServeSettings
) -> Toolbox:
    """Return the toolbox that was opened, or one that connects later where a server could not be reached by now."""
    match opened:
        case ConnectError(kind=Kind.DENIED):
            raise opened
        case None | ConnectError():
            why = f"The upstream {upstream.name} has not answered yet." if opened is None else str(opened)
            _log.warning("%s It is tried again, and the others are served meanwhile.", why)
            return WaitingToolbox(f"The upstream {upstream.name}", partial(open_upstream, upstream, settings))
        case ToolwireError():
            raise opened
        case _:
            return opened


def open_upstream(upstream: UpstreamSettings, settings: ServeSettings) -> Toolbox:
    """Return the toolbox of ``upstream``. ``open_toolbox`` lists the errors; each names the upstream."""
    try:
        target = read_target(upstream.target)
        urls = [upstream.target] if isinstance(target, UrlTarget) else []
        options = read_url_options(Namespace(**upstream.remote), urls)
        if not urls and options != UrlOptions():
            raise UsageError("its options are for URLs, and its target is none.")
        return open_toolbox(
            target,
            options=options,
            agree=upstream.agree,
            asking=build_caller_consent(settings, upstream.name),
            receipts=find_state_places(settings.state).receipts,
            holds_calls=settings.holds_calls,
            timeout_s=upstream.timeout_s,
            # GW-05: the deadline is one for the whole call, and the client of the caller knows best what to repeat.
            retries=0,
        )
    except ConnectError as error:
        raise ConnectError(f"The upstream {upstream.name}: {error}", error.probes, error.kind) from error
    except ToolwireError as error:
        raise UsageError(f"The upstream {upstream.name}: {error}") from error


def open_toolbox(
    target: Target,
    document: Path | None = None,
    *,
    options: UrlOptions | None = None,
    agree: bool = False,
    asking: CallerConsent | None = None,
    receipts: str = "",
    holds_calls: bool = True,
    timeout_s: float = DEFAULT_LIMITS.total_s,
    retries: int = DEFAULT_RETRIES.retries,
    threads: int = THREADS,
) -> Toolbox:
    """Return the toolbox of ``target``. A call of a remote tool that needs consent must be confirmed by its caller.

    ``options`` are for a URL. ``agree`` lets tools run without a question that only their site declares harmless.
    ``asking`` answers for the callers. ``receipts`` is the folder that keeps those that the gateway signs. With
    ``holds_calls``, what a server asks in the middle of a call is passed on to its caller.
    ``timeout_s`` is how long one request of a call may take, ``retries`` how often it is repeated where that is safe.
    Code has at most ``threads`` threads for its plain functions.

    Raises:
        ConnectError: nothing was found at a URL.
        DefinitionError: a class cannot be served, or does not fit its document.
        UsageError: a file or a module cannot be loaded, or is no class that a document describes.
    """
    if not isinstance(target, UrlTarget):
        return open_code(target, document, threads=threads)
    if document is not None:
        raise UsageError("--document is for a class on this machine; a server describes itself.")
    options = options or UrlOptions()
    session = build_gateway_session(receipts)
    return connect_upstream(
        build_url_options(
            target.text,
            session,
            options,
            agree=agree,
            asking=asking,
            timeout_s=timeout_s,
            retries=retries,
            holds_calls=holds_calls,
        )
    )


def build_gateway_session(receipts: str, principal: str = "me") -> Session:
    """Return the session of a connection that calls for callers: for all, or for the one with the name ``principal``.

    ``receipts`` is the place that keeps the receipts that the gateway signs.
    """
    return Session(  # the limits that the site declares hold
        principal=principal,
        limits=ClientRateLimits(tool=None, connection=None),
        rules=ClientRules(questions_a_minute=_QUESTIONS_A_MINUTE),
        # CC-06: a site that requires receipts gets one of the gateway: its word that its caller decided.
        receipt_key=StoredReceiptKeys(find_state_folder()).find_current,
        audit=SignedDecisions(Path(receipts)) if receipts else None,
    )


def build_url_options(
    url: str,
    session: Session,
    options: UrlOptions,
    *,
    agree: bool = False,
    asking: CallerConsent | None = None,
    timeout_s: float = DEFAULT_LIMITS.total_s,
    retries: int = DEFAULT_RETRIES.retries,
    holds_calls: bool = True,
) -> ConnectOptions:
    """Return the options of a connection to ``url`` for the callers of this server; see ``open_toolbox``."""
    return build_upstream_options(
        url,
        session,
        approve=CallerConsent() if asking is None else asking,
        agree=(lambda _: True) if agree else None,
        api_key=options.key,
        protocol=options.protocol,
        selection=options.selection,
        access=options.access,
        headers=options.headers,
        include_site_description=options.include_site_description,
        approve_command=confirm_command,
        timeout_s=timeout_s,
        retries=retries,
        holds_calls=holds_calls,
    )


def build_caller_consent(settings: ServeSettings, upstream: str = "") -> CallerConsent:
    """Return what answers for the callers of remote tools: their confirmation, by a receipt or in the inbox if set so.

    ``upstream`` is the name of the upstream in the file of a gateway.

    Raises:
        DefinitionError: the keys of receipts, or a place, cannot be used.
    """
    places = find_state_places(settings.state)
    return CallerConsent(
        host_confirmation=_HOST_CONFIRMATION if settings.consent == "hints" else "",
        confirmations=settings.confirmations,
        receipts=open_receipt_verifier(
            settings.receipts,
            _find_receipt_keys(settings),
            audience=settings.receipt_audience,
            place=places.receipts,
        ),
        inbox=find_inbox(settings),
        # GW-06: who decided what, for as long as the state is kept.
        audit=open_decisions(places.inbox) if settings.upstreams and places.inbox else None,
        upstream=upstream,
    )


def find_inbox(settings: ServeSettings) -> Inbox | None:
    """Return the inbox of the server, or None if its users decide nowhere else; one for all that asks there.

    Raises:
        DefinitionError: the place cannot be used.
    """
    if not settings.has_inbox:
        return None
    places = find_state_places(settings.state)
    page = f"{settings.public_url.rstrip('/')}{INBOX_PATH}" if settings.public_url else ""
    place = places.inbox or find_decisions_place()
    callers = tuple((name, one.webhook) for name, one in settings.callers.items() if one.webhook is not None)
    where = str(place if is_in_database(place) else Path(place).absolute())
    return _open_inbox(where, page, settings.webhook, callers, settings.remote.get("ca_file") or "")


@lru_cache(maxsize=8)
def _open_inbox(
    place: str,
    page_url: str,
    every: WebhookSettings | None,
    callers: tuple[tuple[str, WebhookSettings], ...],
    ca_file: str,
) -> Inbox:
    # The upstreams and the server itself share it, with its limits for each caller and its queue of messages.
    told: Webhooks | None = None
    if every is not None or callers:
        told = Webhooks(
            None if every is None else _build_webhook(every),
            callers={name: _build_webhook(one) for name, one in callers},
            ca_file=ca_file or None,
        )
    return open_inbox(place, page_url=page_url, on_question=told)


def _find_webhook_faults(inbox: Inbox | None) -> list[str]:
    """Return what is wrong with the webhooks of this process now, as sentences for operators."""
    told = None if inbox is None else inbox.on_question
    return [told.fault] if isinstance(told, Webhooks) and told.fault else []


def _build_webhook(settings: WebhookSettings) -> Webhook:
    """Return the webhook with its secret.

    Raises:
        UsageError: the environment has no such variable.
        DefinitionError: the URL or the secret cannot be used.
    """
    secret = os.environ.get(settings.secret_env)
    if secret is None:
        raise UsageError(f"The environment has no variable {settings.secret_env} to take the secret of a webhook from.")
    return Webhook(url=settings.url, secret=Secret(secret), arguments=settings.arguments)


def _find_receipt_keys(settings: ServeSettings) -> str | KeyFetcher:
    """Return the file with the keys of receipts, or what fetches them from a URL."""
    where = settings.receipt_keys
    if not where.startswith(("http://", "https://")):
        return where
    return build_key_fetcher(where, ca_file=settings.remote.get("ca_file"))


def count_asking_tools(toolboxes: Sequence[Toolbox]) -> int:
    """Return how many tools of remote toolboxes need the consent of their callers."""
    return sum(
        toolbox.needs_consent(tool) or bool(tool.ask_when)
        for toolbox in (one.shared if isinstance(one, PersonalToolbox) else one for one in toolboxes)
        if isinstance(toolbox, Remote)
        for tool in toolbox.tools
    )
