"""Open what ``toolwire serve`` and a gateway serve: code, servers and the upstreams of each caller."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from threading import Thread
from time import monotonic

from toolwire.client.calls.receipt_signing import FindKey
from toolwire.client.calls.retry import DEFAULT_RETRIES
from toolwire.client.calls.session import Session
from toolwire.client.connection.connect import (
    Opening,
    PendingConnection,
    connect_for_caller,
    connect_upstream,
)
from toolwire.client.connection.options import ApproveCommand, ConnectOptions
from toolwire.client.connection.remote import Remote
from toolwire.client.connection.upstream_questions import ask_caller
from toolwire.client.transport.limits import DEFAULT_LIMITS
from toolwire.client.transport.network import Network
from toolwire.client.transport.program_limits import CommandAgreement, ProgramLimits
from toolwire.client.transport.server_command import read_server_command
from toolwire.consent import NO_PREFERENCES, ClientRules, Preferences
from toolwire.consent.operator_rules import OperatorRules
from toolwire.consent.policy import EVERY
from toolwire.consent.session_marks import CALLER_IDLE_S, SessionMarks
from toolwire.core.codec import ConnectError
from toolwire.core.errors import ToolwireError, UsageError
from toolwire.core.model import Call, Kind, Secret
from toolwire.core.resources import COMPLETE_RESULTS
from toolwire.core.toolbox import Toolbox
from toolwire.core.url_display import name_server
from toolwire.core.url_origin import get_origin
from toolwire.gateway import CallerConsent
from toolwire.gateway.caller_consent import SignedDecisions
from toolwire.gateway.personal_toolbox import CallerPlace, PersonalToolbox
from toolwire.gateway.reconnecting_toolbox import ReconnectingToolbox
from toolwire.gateway.sign_in_notice import SignInNotices
from toolwire.hosting.targets.load_code import open_code
from toolwire.hosting.targets.url_options import UrlOptions, read_returns, read_url_options
from toolwire.limits import ClientRateLimits, RulesByCaller
from toolwire.server.access.tool_rights import may_use_upstream
from toolwire.server.limit_options import read_server_limits
from toolwire.server.limits import THREADS
from toolwire.stores.consent.agreed_digests import open_agreed_commands
from toolwire.stores.consent.operator_trust import OperatorTrust
from toolwire.stores.consent.receipt_keys import StoredReceiptKeys
from toolwire.stores.credentials.caller_vault import CallerVault
from toolwire.stores.credentials.files import CredentialStore
from toolwire.stores.paths import NoHomeError, find_state_folder, find_state_places, has_credentials_place

from .caller_consent import build_caller_consent
from .gateway_callers import open_caller_vault, read_exchange
from .operators import build_trust, read_upstream_rules
from .serve_settings import ServeSettings, UpstreamSettings, list_caller_rules
from .targets.load_code import find_mcp_command
from .targets.target import Target, UrlTarget, read_target

OPENING_S = 5.0
"""How long the upstreams of a gateway have to answer before it serves without those that have not."""

_QUESTIONS_A_MINUTE = 1_000_000  # there are many callers, and the client of each asks

_log = logging.getLogger("toolwire")


def open_toolboxes(
    settings: ServeSettings, approve_command: ApproveCommand | None = None, *, for_user: bool = False
) -> Sequence[Toolbox]:
    """Return the toolbox of each upstream, or else of each target, in order. ``open_toolbox`` lists the errors.

    An upstream that cannot be reached has a toolbox without tools, which connects later, while it is served.
    ``approve_command`` says whether a program may run that the user has not agreed to before; without it, none may.
    With ``for_user``, this user alone is served, so targets are called with the user's own sign-ins.
    """
    if settings.upstreams:
        return _open_upstreams(settings, approve_command)
    targets = [read_target(text) for text in settings.targets]
    threads = read_server_limits(settings.limits).threads
    if settings.document is None:
        urls = [target.text for target in targets if isinstance(target, UrlTarget)]
        options = read_url_options(settings.remote, urls)
        calls = UpstreamCalls(
            agree=settings.agree,
            returns=read_returns(settings.returns),
            marks=SessionMarks(monotonic, idle_s=CALLER_IDLE_S),
            asking=build_caller_consent(settings),
            receipts=find_state_places(settings.server.state).receipts,
            can_wait_for_answers=settings.can_wait_for_answers,
            timeout_s=settings.remote.timeout,
            credentials=_find_own(is_used=for_user or bool(settings.remote.account)),
            approve_command=approve_command,
        )
        return [open_toolbox(target, options=options, calls=calls, threads=threads) for target in targets]
    if len(targets) > 1:
        raise UsageError("--document describes a single class. Serve only that class, or give each class a load().")
    return [open_toolbox(targets[0], Path(settings.document), threads=threads)]


def _open_upstreams(settings: ServeSettings, approve_command: ApproveCommand | None) -> Sequence[Toolbox]:
    """Return the toolboxes of all upstreams. Sites and programs are opened at the same time: none delays another."""
    marks = SessionMarks(monotonic, idle_s=CALLER_IDLE_S)
    opens = [
        _OpeningUpstream(one, partial(open_upstream, one, settings, approve_command, marks))
        for one in settings.upstreams
    ]
    until = 0.0
    for one in opens:  # code is loaded, and a question asked, one by one
        one.start()
        until = monotonic() + OPENING_S
    for one in opens:
        one.wait(until - monotonic())
    boxes = [_open_or_reconnect(one) for one in opens]
    return add_callers(settings, boxes, marks)


class _OpeningUpstream:
    """Opens ``upstream`` by ``open_``: what is known in a thread, and else at once. ``outcome`` is None until then."""

    def __init__(self, upstream: UpstreamSettings, open_: Callable[..., Toolbox]) -> None:
        self.upstream = upstream
        self.outcome: Toolbox | ToolwireError | None = None
        self._open = open_
        self._opening = Opening()
        self._thread: Thread | None = None

    def start(self) -> None:
        """Begin; what cannot be opened without its user is open or has failed then."""
        if not _is_known(self.upstream):
            self._run()
            return
        # A daemon, so that a site which hangs does not keep a command from ending.
        self._thread = Thread(target=self._run, daemon=True)
        self._thread.start()

    def wait(self, seconds: float) -> None:
        """Wait for the outcome, at most so long."""
        if self._thread is not None:
            self._thread.join(max(0.0, seconds))

    def open_later(self) -> Toolbox:
        """Return what is being opened, or else open it now."""
        if self._opening.is_abandoned:  # the lifespan has begun again
            self.outcome, self._thread, self._opening = None, None, Opening()
        thread, self._thread = self._thread, None
        if thread is not None and self.outcome is None:  # what still opens is not begun a second time
            thread.join()
        if self.outcome is None or isinstance(self.outcome, ToolwireError):
            return self._open(opening=self._opening)
        return self.outcome

    def abandon(self) -> None:
        """End what is being opened; that may take a few seconds."""
        self._opening.abandon()

    def _run(self) -> None:
        try:
            self.outcome = self._open(opening=self._opening)
        except ToolwireError as error:
            self.outcome = error


def _is_known(upstream: UpstreamSettings) -> bool:
    """Return whether ``upstream`` is a site, or a program that needs no question before it runs."""
    try:
        if not isinstance(read_target(upstream.target), UrlTarget):
            return False
        if upstream.target.startswith(("http://", "https://")) or upstream.agreed_command:
            return True
        command = read_server_command(upstream.target)
        return command is not None and open_agreed_commands(find_state_folder()).has(command.digest)
    except ToolwireError:  # opening it says what is wrong
        return False


def add_callers(
    settings: ServeSettings, boxes: Sequence[Toolbox], marks: SessionMarks | None = None
) -> Sequence[Toolbox]:
    """Return ``boxes``; each whose upstream is called with the credentials of its callers connects for each of them.

    ``marks`` are what the callers have read at all upstreams.

    Raises:
        UsageError: callers would have no names.
    """
    for upstream, box in zip(settings.upstreams, boxes, strict=True):
        for fault in list_api_faults(upstream, box):
            _log.warning("%s", fault)
    # GW-02
    refuse_nameless_callers(settings)
    if all(upstream.account == "gateway" for upstream in settings.upstreams):
        return boxes
    scopes = {one.name: frozenset(one.scopes or ()) for one in settings.upstreams}
    rules = RulesByCaller(list_caller_rules(settings))
    vault = open_caller_vault(settings.key_file, settings.server.state)

    def may_see(call: Call, name: str) -> bool:
        context = call.context
        has_scopes = context.scopes is None or context.scopes >= scopes[name]
        return has_scopes and may_use_upstream(rules.find(context.principal, context.group).bound, name)

    notices = SignInNotices(settings.server.public_url, may_see)
    return [
        box if upstream.account == "gateway" else _build_personal(settings, upstream, box, vault, notices, marks)
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
        raise UsageError(f"The upstream {personal.name} {text} Or let users sign in: [sign-in].")


def _build_personal(
    settings: ServeSettings,
    upstream: UpstreamSettings,
    shared: Toolbox,
    vault: CallerVault,
    notices: SignInNotices,
    marks: SessionMarks | None,
) -> PersonalToolbox:
    options = read_url_options(upstream.remote, [upstream.target])
    calls = _build_calls(upstream, settings, marks=marks)
    session = calls.build_session()
    shared_options = build_url_options(upstream.target, session, options, calls)

    def connect(principal: str, access: CredentialStore | Secret, place: CallerPlace) -> PendingConnection:
        options = replace(shared_options, account=place.account)
        if get_origin(place.url) != get_origin(upstream.target):
            # PL-01: whatever the document says by then, what a caller gave for this API goes to no other.
            options = replace(options, selection=replace(options.selection, server=place.url))
        return connect_for_caller(options, calls.build_session(principal), access)

    return PersonalToolbox(
        upstream.name,
        upstream.target,
        shared,
        account=upstream.remote.account,
        connect=connect,
        vault=vault,
        notices=notices,
        exchange=read_exchange(upstream.exchange) if upstream.account == "exchange" else None,
        transport=Network(**options.access) if upstream.account == "exchange" else None,
    )


def list_api_faults(upstream: UpstreamSettings, box: Toolbox) -> list[str]:
    """Return a sentence for each reason why calls will fail at an upstream with an OpenAPI document."""
    # PL-01
    if not isinstance(box, Remote) or box.protocol != "openapi":
        return []
    name, is_caller = f"The upstream {upstream.name}", upstream.account == "caller"
    api = box.peer.api_url or box.peer.url
    if api != box.peer.url and not is_caller:
        return [f'{name} describes an API at another origin, so its calls fail. Allow it with server = "{api}".']
    elsewhere: set[str] = set()
    several: list[str] = []
    for tool in box.tools:
        facts = tool.hints["openapi"]
        if facts["origin"] != get_origin(api):
            elsewhere.add(facts["origin"])
        alternatives = facts.get("security", ())
        if is_caller and alternatives and all(len(one) > 1 for one in alternatives):
            several.append(tool.name)
    whose = "a caller's credentials go" if is_caller else "calls go"
    faults = [
        (
            f"{name} has tools at {origin}, but {whose} only to {get_origin(api)}. Leave these tools out with "
            "match or path."
        )
        for origin in sorted(elsewhere)
    ]
    if several:
        text = (
            f"{name} has tools that need several keys at once, but a caller gives only one: {', '.join(several[:5])}."
        )
        faults.append(f"{text} Leave them out with match.")
    return faults


def _open_or_reconnect(opening: _OpeningUpstream) -> Toolbox:
    """Return the toolbox that was opened, or one that connects later where a server could not be reached by now."""
    upstream = opening.upstream
    match opened := opening.outcome:
        case ConnectError(kind=Kind.DENIED):
            raise opened
        case None | ConnectError():
            name = f"The upstream {upstream.name}"

            def explain(error: ToolwireError) -> str:
                # PL-04: callers and logs get the name, because an address can hold a secret.
                text = str(error).removeprefix(f"{name}: ")
                hidden = name_server(text, get_origin(upstream.target), f"the upstream {upstream.name}")
                return str(error) if hidden == text else hidden

            why = f"{name} has not answered yet." if opened is None else explain(opened)
            _log.warning("%s It is tried again, and the others are served meanwhile.", why)
            return ReconnectingToolbox(name, opening.open_later, why, explain, opening.abandon)
        case ToolwireError():
            raise opened
        case _:
            return opened


def open_upstream(
    upstream: UpstreamSettings,
    settings: ServeSettings,
    approve_command: ApproveCommand | None = None,
    marks: SessionMarks | None = None,
    opening: Opening | None = None,
) -> Toolbox:
    """Return the toolbox of ``upstream``. ``open_toolbox`` lists the errors; each names the upstream.

    ``marks`` are what the callers have read at all upstreams. Another thread can abandon ``opening`` meanwhile.
    """
    try:
        target = read_target(upstream.target)
        urls = [upstream.target] if isinstance(target, UrlTarget) else []
        options = read_url_options(upstream.remote, urls)
        if not urls and options != UrlOptions():
            raise UsageError("its options are for URLs, but its target is not a URL.")
        calls = _build_calls(upstream, settings, approve_command, marks=marks)
        return open_toolbox(target, options=options, calls=replace(calls, opening=opening))
    except ConnectError as error:
        raise ConnectError(f"The upstream {upstream.name}: {error}", error.probes, error.kind) from error
    except ToolwireError as error:
        raise UsageError(f"The upstream {upstream.name}: {error}") from error


def _build_calls(
    upstream: UpstreamSettings,
    settings: ServeSettings,
    approve_command: ApproveCommand | None = None,
    *,
    marks: SessionMarks | None,
) -> UpstreamCalls:
    asking = build_caller_consent(settings, upstream.name)
    places = find_state_places(settings.server.state)
    has_rules = bool(upstream.run or upstream.ask or upstream.never)
    return UpstreamCalls(
        name=upstream.name,
        agree=upstream.agree,
        rules=read_upstream_rules(upstream, asking) if has_rules else None,
        returns=read_returns(f"{EVERY}={one}" for one in upstream.returns),
        marks=marks,
        trust=OperatorTrust(places.inbox, upstream.name) if places.inbox else None,
        asking=asking,
        receipts=places.receipts,
        can_wait_for_answers=settings.can_wait_for_answers,
        timeout_s=upstream.timeout_s,
        # GW-05: the deadline is one for the whole call, and the client of the caller knows best what to repeat.
        retries=0,
        credentials=_find_own(is_used=upstream.account == "gateway" and bool(upstream.remote.account)),
        approve_command=_build_agreement(upstream, approve_command),
    )


def _find_own(*, is_used: bool) -> CredentialStore | None:
    """Return the sign-ins of the user who serves. Callers share them only if an option names the account."""
    # QF-08
    if not (is_used and has_credentials_place()):
        return None
    from toolwire.client.login.saved_credentials import open_credentials  # loads the code of sign-in

    return open_credentials()


def _build_agreement(upstream: UpstreamSettings, ask: ApproveCommand | None) -> CommandAgreement:
    limits = {name.replace("-", "_"): most for name, most in upstream.program_limits.items()}
    return CommandAgreement(upstream.agreed_command, ProgramLimits(**limits), ask, f"The upstream {upstream.name}")


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamCalls:
    """How remote tools are called for the callers of this server.

    ``name`` is what the file calls the server. ``agree`` lets tools run without a question that only their site
    declares harmless: all, or those it names. ``rules`` are those of the operator, ``returns`` what the tools return,
    and ``marks`` what the callers have read. ``trust`` is what operators trust in the console. ``asking`` answers for
    the callers. ``receipts`` is the folder that keeps those that the gateway signs. With ``can_wait_for_answers``,
    what a server asks in the middle of a call is passed on to its caller. ``timeout_s`` is how long one request of a
    call may take, ``retries`` how often it is repeated where that is safe. ``credentials`` are used for the calls.
    ``approve_command`` says whether a program may run that the user has not agreed to before; without it, none may.
    Another thread can abandon ``opening`` while the server is connected to.
    """

    name: str = ""
    agree: bool | Sequence[str] = False
    rules: OperatorRules | None = None
    returns: Preferences = NO_PREFERENCES
    marks: SessionMarks | None = None
    trust: OperatorTrust | None = None
    asking: CallerConsent = field(default_factory=CallerConsent)
    receipts: str = ""
    can_wait_for_answers: bool = True
    timeout_s: float = DEFAULT_LIMITS.total_s
    retries: int = DEFAULT_RETRIES.retries
    credentials: CredentialStore | None = None
    approve_command: ApproveCommand | None = None
    opening: Opening | None = None

    def build_session(self, principal: str = "me") -> Session:
        """Return the session of a connection for all callers, or for the one with the name ``principal``."""
        session = build_gateway_session(self.receipts, principal, returns=self.returns)
        session.operator = self.rules
        session.trust = self.trust
        session.marks = self.marks or session.marks
        return session


def open_toolbox(
    target: Target,
    document: Path | None = None,
    *,
    options: UrlOptions | None = None,
    calls: UpstreamCalls | None = None,
    threads: int = THREADS,
) -> Toolbox:
    """Return the toolbox of ``target``. A call of a remote tool that needs consent must be confirmed by its caller.

    ``options`` and ``calls`` are for a URL. Code has at most ``threads`` threads for its plain functions.

    Raises:
        ConnectError: nothing was found at a URL.
        DefinitionError: a class cannot be served, or does not fit its document.
        UsageError: a file or a module cannot be loaded, or is no class that a document describes.
    """
    calls = calls or UpstreamCalls()
    if not isinstance(target, UrlTarget):
        command = find_mcp_command(target) if document is None else None
        if command is None:
            if calls.rules is not None or calls.agree not in (False, True):
                # QF-02: a rule that does nothing must not look like one that holds.
                raise UsageError(
                    "run, ask, never and names in agree are for other servers. For code, declare approval=."
                )
            return open_code(target, document, threads=threads)
        # FU-56: the user has named this file as code to run, and its server says what its own tools do.
        name = f"The upstream {calls.name}" if calls.name else ""
        agreement = CommandAgreement("", ask=lambda _: True, name=name)
        target, calls = UrlTarget(command), replace(calls, agree=True, approve_command=agreement)
    if document is not None:
        raise UsageError("--document is for local classes. A server describes itself.")
    url_options = build_url_options(target.text, calls.build_session(), options or UrlOptions(), calls)
    return connect_upstream(url_options, calls.opening)


def build_gateway_session(receipts: str, principal: str, *, returns: Preferences = NO_PREFERENCES) -> Session:
    """Return the session of a connection that calls for callers: for all, or for the one with the name ``principal``.

    ``receipts`` is the place that keeps the receipts that the gateway signs. ``returns`` says which of its
    tools return private data, or untrusted text.
    """
    return Session(  # the limits that the site declares hold
        principal=principal,
        preferences=returns,
        limits=ClientRateLimits(tool=None, connection=None),
        rules=ClientRules(questions_a_minute=_QUESTIONS_A_MINUTE),
        # CC-06: a site that requires receipts gets one of the gateway: its word that its caller decided.
        receipt_key=_find_receipt_key(),
        audit=SignedDecisions(Path(receipts)) if receipts else None,
    )


def _find_receipt_key() -> FindKey | None:
    try:
        return StoredReceiptKeys(find_state_folder()).find_current
    except NoHomeError:  # RE-05: a server has no user, and then no key
        return None


def build_url_options(url: str, session: Session, options: UrlOptions, calls: UpstreamCalls) -> ConnectOptions:
    """Return the options of a connection to ``url`` for the callers of this server."""
    return ConnectOptions(
        url,
        session=session,
        name=calls.name,
        approve=calls.asking,
        agree=build_trust(calls.agree or (), calls.rules),
        api_key=options.key,
        credential_store=calls.credentials,
        account=options.account,
        protocol=options.protocol,
        selection=options.selection,
        **options.access,
        headers=options.headers,
        include_site_description=options.include_site_description,
        approve_command=calls.approve_command,
        timeout_s=calls.timeout_s,
        retries=calls.retries,
        provide_input=ask_caller if calls.can_wait_for_answers else None,
        caps=COMPLETE_RESULTS,  # a client of the server in front cuts what its own model cannot take
    )


def count_asking_tools(toolboxes: Sequence[Toolbox]) -> int:
    """Return how many tools of remote toolboxes need the consent of their callers."""
    return sum(
        toolbox.needs_consent(tool) or bool(tool.ask_when)
        for toolbox in (one.shared if isinstance(one, PersonalToolbox) else one for one in toolboxes)
        if isinstance(toolbox, Remote)
        for tool in toolbox.tools
    )
