"""Create an ASGI application from tools and settings."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from multiprocessing import parent_process
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from toolwire.core.errors import DefinitionError
from toolwire.core.http import JSON_HEADERS, Response
from toolwire.core.ledger import Ledger
from toolwire.core.long_call import CallEngine
from toolwire.core.model import Json
from toolwire.core.toolbox import Toolbox
from toolwire.core.url_origin import read_origin
from toolwire.define import Toolkit
from toolwire.framing import jsontext
from toolwire.limits import CallerRules, LocalRates, RatesFail, RulesByCaller
from toolwire.protocols import BUILTIN, STRICT_JSONRPC
from toolwire.stores.consent.open import is_in_database
from toolwire.stores.limits.open import open_windows
from toolwire.stores.paths import WAKE_VARIABLE, NoHomeError, find_decisions_place, find_state_places
from toolwire.telemetry.calls import Telemetry
from toolwire.validation import Authorizer

from .access.api_keys import ApiKey, ApiKeyCallers
from .access.caller_scopes import CallersWithScopes
from .access.callers import Callers, CombinedCallers
from .access.host_guard import HostGuard
from .app import ANY_TELEMETRY, App, SessionUse
from .limits import ServerLimits
from .route_table import NO_DOCUMENTS, Document
from .run.confirmation import ConfirmationQuestion
from .run.decision_log import DecisionLog
from .run.function_toolbox import FunctionToolbox
from .run.host_consent import HostConsent
from .run.idempotency import open_ledger
from .run.inbox import Inbox, TellQuestion
from .run.long_calls import open_long_calls
from .run.question_waits import MAX_WAIT_S
from .run.receipt_keys import KeyFetcher
from .run.receipts import Receipts, open_receipt_verifier

if TYPE_CHECKING:
    from toolwire.stores.sessions.session_rows import SessionRows

    from .access.protected_resource import ProtectedResource

NO_CALLER_RULES: Mapping[str, CallerRules] = {}
_CACHED_FOR_AN_HOUR = (b"cache-control", b"public, max-age=3600")


def asgi(
    target: Toolkit | Toolbox,
    *,
    api_keys: Iterable[str | ApiKey] = (),
    hosts: Iterable[str] = (),
    origins: Iterable[str] = (),
    limits: ServerLimits | None = None,
    state: Path | str = "",
    wake: str = "",
    ledger: Ledger | Path | str | None = None,
    rates: str = "",
    rates_fail: RatesFail = "open",
    rates_replicas: int = 1,
    callers: Callers | None = None,
    authorizer: Authorizer | None = None,
    telemetry: Telemetry = ANY_TELEMETRY,
    strict_jsonrpc: bool = False,
    debug: bool = False,
    require_confirmation: ConfirmationQuestion | None = None,
    client_document: str = "",
    host_confirmation: str = "",
    confirmations: Path | str = "",
    ask_hosts: bool = True,
    consent: HostConsent = "hints",
    inbox: Path | str | Inbox = "",
    ask_wait: float = 0.0,
    on_question: TellQuestion | None = None,
    receipts: Receipts = "",
    receipt_keys: Path | str | KeyFetcher = "",
    receipt_audience: str = "",
    workflows: Json = None,
    private: bool = False,
    caller_rules: Mapping[str, CallerRules] = NO_CALLER_RULES,
    sessions: SessionUse | None = None,
    engine: CallEngine | None = None,
    public_url: str = "",
) -> App:
    """Return an ASGI application that serves ``target`` on every protocol.

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

    ``host_confirmation`` is a secret word of this process that stands for the confirmation of MCP clients that cannot
    be asked (they declare no forms): with it, their calls are left to what they ask their users themselves. Give the
    same word to ``toolwire.gateway.CallerConsent``.

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

    ``workflows`` is an Arazzo document, as data, with recipes: tasks of several calls, whose steps name tools by their
    names. It is published beside the OpenAPI document, and clients show it.

    ``sessions`` says which MCP clients of up to 2025-11-25 get a session, in which this server can ask their users,
    tell of changes and be told to stop a call: ``all`` gives one to each, ``needed`` to clients that show forms, and
    ``none`` to none. The processes of one state share their sessions. In memory, a session lives in one process: then
    there are none by default where this process seems to be one of several workers, and ``all`` elsewhere.

    ``public_url`` is the address by which users call this server, such as ``https://tools.example``. OpenTool's
    document states it. Without it, the audience of signed tokens says it, if that is a URL.

    Raises:
        DefinitionError: the state, ``wake``, the ledger, the store of ``rates`` or the folder of ``confirmations``
            cannot be opened, ``consent``, ``sessions``, ``rates_fail`` or ``rates_replicas`` are not valid, or no
            authorization server would accept a document from ``client_document``; a recipe of ``workflows`` does not
            fit the tools; or the options of receipts or of the inbox cannot be used; ``target`` is neither a
            toolkit nor a Toolbox; or a key, a host or an origin could never be that of a request.
    """
    # XL-066, A-12, A-53, XL-056, XL-113
    if not isinstance(target, Toolkit) and not (hasattr(target, "catalog") and hasattr(target, "run")):
        raise DefinitionError(f"asgi serves a Toolkit or a Toolbox, not {type(target).__name__}.")
    rules = RulesByCaller(caller_rules) if caller_rules else None
    places = find_state_places(state)
    place = places.ledger if ledger is None else ledger
    wake = wake or os.environ.get(WAKE_VARIABLE, "")
    if wake and engine is None:
        engine = open_wake_engine(wake, place)
    documents = _build_documents(client_document)
    local_rates = LocalRates(rates_fail, rates_replicas, time.monotonic)
    limits = limits if limits is not None else ServerLimits()
    toolbox = FunctionToolbox(target, threads=limits.threads) if isinstance(target, Toolkit) else target
    guard = HostGuard(hosts=hosts, origins=origins)
    keys = ApiKeyCallers(api_keys)
    if workflows is not None:
        _check_workflows(workflows, toolbox)
    return App(
        toolbox,
        callers=apply_scopes(combine_callers(keys, callers), rules),
        guard=guard,
        limits=limits,
        codecs=STRICT_JSONRPC if strict_jsonrpc else BUILTIN,
        ledger=open_ledger(place, limits),
        rates=open_windows(rates or wake or places.rates, fail=rates_fail),
        local_rates=local_rates,
        authorizer=authorizer,
        telemetry=telemetry,
        debug=debug,
        require_confirmation=require_confirmation,
        documents=documents,
        resource=_find_resource(callers),
        sign_in=getattr(callers, "security_scheme", None),
        takes_keys=keys.needs_credentials,
        host_confirmation=host_confirmation,
        confirmations=confirmations or places.confirmations,
        ask_hosts=ask_hosts,
        consent=consent,
        inbox=choose_inbox(consent, inbox, places.inbox, rules=rules, on_question=on_question),
        decisions=DecisionLog(places.inbox),
        ask_wait=check_ask_wait(ask_wait),
        is_removed=keys.is_removed if keys.needs_credentials else None,
        receipts=open_receipt_verifier(receipts, receipt_keys, audience=receipt_audience, place=places.receipts),
        workflows=workflows,
        private=private,
        rules=rules,
        public_url=check_public_url(public_url),
        sessions=choose_session_use(sessions, places.sessions),
        session_rows=open_session_rows(places.sessions, limits),
        long_calls=open_long_calls(_find_long_calls(place)),
        engine=engine,
    )


def open_session_rows(place: str, limits: ServerLimits) -> SessionRows | None:
    """Return where several processes share MCP sessions and what changes in them; None if each is alone.

    Raises:
        DefinitionError: the place cannot be used.
    """
    if not place:
        return None
    from toolwire.stores.sessions.session_rows import SessionBounds, open_sessions  # loads sqlite3

    bounds = SessionBounds(limits.sessions, limits.sessions_each, limits.session_idle_s, limits.session_s)
    return open_sessions(place, bounds)


def choose_session_use(sessions: SessionUse | None, place: str = "") -> SessionUse:
    """Return ``sessions``; if it is None, ``all``, but ``none`` where several processes seem to run without a place.

    ``place`` is where processes share sessions, empty if each has its own.
    """
    # MC-10: the next request of a session may come to another worker, which does not know it.
    if sessions is not None:
        return sessions
    # I-26: without a session, the message that cancels a call cannot be matched to it.
    if place:
        return "all"
    is_one_of_many = parent_process() is not None or "gunicorn" in os.environ.get("SERVER_SOFTWARE", "")
    return "none" if is_one_of_many else "all"


def open_wake_engine(url: str, ledger: Ledger | Path | str | None) -> CallEngine:
    """Return what offers long calls through the Redis at ``url``, and runs those that it brings.

    Raises:
        DefinitionError: ``url`` is no Redis, or other processes could not read the calls in ``ledger``.
    """
    # ST-03
    if _find_long_calls(ledger) is None:
        text = "wake (TOOLWIRE_WAKE) offers calls to other processes, which read them in the state: name one."
        raise DefinitionError(text)
    from toolwire.engines.docket import DocketEngine  # only the extra brings it

    return DocketEngine(url)


def _find_long_calls(ledger: Ledger | Path | str | None) -> Path | str | None:
    """Return where long calls are kept: in the file or database of the ledger, or in memory beside another one."""
    return ledger if isinstance(ledger, str | Path) else None


def _check_workflows(workflows: Json, toolbox: Toolbox) -> None:
    """Check that each step of ``workflows`` is a call of a tool of ``toolbox``.

    Raises:
        DefinitionError: it is not; the text has the first fault.
    """
    # OQ-2: a client leaves out what does not fit, and the author would not notice.
    from toolwire.protocols.openapi.workflows import find_fault  # few servers have recipes, and this reads documents

    fault = find_fault(workflows, toolbox.catalog())
    if fault:
        raise DefinitionError(f"The workflows do not fit the tools. {fault}")


def choose_inbox(
    consent: str,
    inbox: Path | str | Inbox,
    place: str,
    *,
    rules: RulesByCaller | None = None,
    on_question: TellQuestion | None = None,
) -> Inbox | None:
    """Return the inbox of a server whose ``consent``, or the rules for one of whose callers, need one.

    It is ``inbox``, or in that place, or in ``place``. ``open_inbox`` lists the errors.
    """
    if consent != "inbox" and (rules is None or not rules.has_inbox):
        return None
    return inbox if isinstance(inbox, Inbox) else open_inbox(inbox or place, on_question=on_question)


def check_ask_wait(seconds: float) -> float:
    """Return ``seconds``, how long a call may wait for its user.

    Raises:
        DefinitionError: it is not from 0 to 300.
    """
    if not 0 <= seconds <= MAX_WAIT_S:
        raise DefinitionError(f"ask_wait is from 0 to {MAX_WAIT_S:g} seconds, not {seconds!r}.")
    return seconds


def open_inbox(place: Path | str = "", *, page_url: str = "", on_question: TellQuestion | None = None) -> Inbox:
    """Return the inbox in ``place``, by default where ``toolwire approvals`` looks.

    ``page_url`` is the address of its page, and ``on_question`` gets each new question.

    Raises:
        DefinitionError: the place cannot be used.
    """
    own: Path | str | None = None
    with suppress(NoHomeError):  # RE-05: a place that is named needs no home
        own = find_decisions_place()
    if str(place):
        chosen: Path | str = str(place) if is_in_database(place) else Path(place)
    elif own is not None:
        chosen = own
    else:
        raise NoHomeError("This user has no home folder for the questions of the inbox: name a place with --state.")
    return Inbox(chosen, is_default=chosen == own, page_url=page_url, on_question=on_question)


def check_public_url(url: str) -> str:
    """Return ``url`` without a slash at its end.

    Raises:
        DefinitionError: it is not the URL of a server.
    """
    if url and read_origin(url) is None:
        raise DefinitionError(f"public_url is the address of this server, such as https://tools.example, not {url!r}.")
    return url.rstrip("/")


def _find_resource(callers: Callers | None) -> ProtectedResource | None:
    """Return what ``callers`` say of where their tokens come from, as signed tokens do."""
    resource: ProtectedResource | None = getattr(callers, "protected_resource", None)
    return resource


def _build_documents(client_document: str) -> Mapping[str, Document]:
    """Return the document that tells authorization servers who toolwire is, by the path of its URL."""
    if not client_document:
        return NO_DOCUMENTS
    # XL-113: few servers are clients of others, and the modules of sign-ins take long to import.
    from toolwire.auth.client_identity import resolve_document_url, write_document  # see above

    url = resolve_document_url(client_document, loopback=True)
    body = jsontext.write(write_document(url))
    return {urlsplit(url).path: Response(200, (*JSON_HEADERS, _CACHED_FOR_AN_HOUR), body)}


def apply_scopes(callers: Callers, rules: RulesByCaller | None) -> Callers:
    """Return ``callers`` with the scopes that ``rules`` give them."""
    return callers if rules is None or not rules.has_scopes else CallersWithScopes(callers, rules)


def combine_callers(keys: ApiKeyCallers, callers: Callers | None) -> Callers:
    """Return the callers of a server: owners of keys, those that ``callers`` finds, or all if there are neither."""
    if callers is None:
        return keys
    return CombinedCallers(keys, callers) if keys.needs_credentials else callers
