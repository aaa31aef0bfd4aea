"""Create an ASGI application from tools and settings."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from multiprocessing import parent_process
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from toolwire.core.codec import Codec
from toolwire.core.errors import DefinitionError
from toolwire.core.http import JSON_HEADERS, Response
from toolwire.core.ledger import Ledger
from toolwire.core.long_call import CallEngine
from toolwire.core.toolbox import Toolbox
from toolwire.define import Toolkit
from toolwire.framing import jsontext
from toolwire.limits import LocalRates, RulesByCaller, Windows
from toolwire.protocols import BUILTIN, STRICT_JSONRPC
from toolwire.stores.consent.open import is_in_database
from toolwire.stores.limits.open import open_windows
from toolwire.stores.paths import (
    WAKE_VARIABLE,
    NoHomeError,
    find_decisions_place,
    find_state_places,
    is_postgres_url,
    name_in_redis,
)

from .access.api_keys import ApiKeyCallers
from .access.caller_rules import CallersWithRules
from .access.callers import Callers, CombinedCallers
from .access.host_guard import HostGuard
from .app import App
from .asking.decision_log import DecisionLog
from .asking.inbox import Inbox, QuestionHandler
from .asking.permissions import CallerPermissions
from .asking.receipts import open_receipt_verifier
from .asking.restored_state import ask_after_restore
from .build_app import build_app
from .limits import ServerLimits
from .long_calls.long_calls import open_long_calls
from .options import ServerOptions, SessionUse, accept_options
from .parts import ServerParts
from .route_table import NO_DOCUMENTS, Document
from .run.function_toolbox import FunctionToolbox
from .run.idempotency import open_ledger

if TYPE_CHECKING:
    from toolwire.stores.sessions.session_rows import SessionRows

    from .access.protected_resource import ProtectedResource
    from .run.long_results import ResultStore

_CACHED_FOR_AN_HOUR = (b"cache-control", b"public, max-age=3600")


@accept_options(ServerOptions)
def asgi(target: Toolkit | Toolbox, options: ServerOptions) -> App:
    """Return an ASGI application that serves ``target`` on every protocol.

    It raises DefinitionError if ``target`` is neither a toolkit nor a Toolbox, if a state, store or folder cannot be
    opened, if the options for receipts or the inbox cannot be used, or if a key, host or origin can never match a
    request.
    """
    if not isinstance(target, Toolkit) and not (hasattr(target, "catalog") and hasattr(target, "run")):
        raise DefinitionError(f"asgi needs a Toolkit or a Toolbox, not {type(target).__name__}.")
    threads = (options.limits or ServerLimits()).threads
    return build_server(FunctionToolbox(target, threads=threads) if isinstance(target, Toolkit) else target, options)


def build_server(toolbox: Toolbox, options: ServerOptions, *, codecs: Sequence[Codec] = ()) -> App:
    """Return the application that serves ``toolbox`` with ``codecs``, by default those of all protocols.

    Raises:
        DefinitionError: as ``asgi`` does.
    """
    rules = RulesByCaller(options.caller_rules) if options.caller_rules else None
    places = find_state_places(options.state)
    place = places.ledger if options.ledger is None else options.ledger
    wake = find_wake(options)
    engine = open_queue_engine(wake, place) if wake and options.engine is None else options.engine
    limits = options.limits if options.limits is not None else ServerLimits()
    keys = ApiKeyCallers(options.api_keys)
    parts = ServerParts(
        callers=apply_caller_rules(combine_callers(keys, options.callers), rules),
        guard=HostGuard(hosts=options.hosts, origins=options.origins),
        limits=limits,
        ledger=open_ledger(place, limits),
        rates=open_rates(options),
        local_rates=LocalRates(options.rates_fail, options.rates_replicas, time.monotonic),
        rules=rules,
        documents=_build_documents(options.client_document),
        resource=_find_resource(options.callers),
        sign_in=getattr(options.callers, "security_scheme", None),
        takes_keys=keys.needs_credentials,
        is_removed=keys.is_removed if keys.needs_credentials else None,
        check_accepted=getattr(options.callers, "check_accepted", None),
        confirmations=options.confirmations or places.confirmations,
        inbox=choose_inbox(options, places.inbox, rules),
        permissions=CallerPermissions(places.inbox),
        decisions=DecisionLog(places.inbox),
        receipts=open_receipt_verifier(
            options.receipts, options.receipt_keys, audience=options.receipt_audience, place=places.receipts
        ),
        sessions=choose_session_use(options.sessions, places.sessions),
        session_rows=open_session_rows(places.sessions, limits),
        results=_open_results(places.sessions) if options.result_limit != 0 and places.sessions else None,
        long_calls=open_long_calls(_find_long_calls(place)),
        engine=engine,
        ask_restored=ask_after_restore(places.inbox, max(limits.recorded_s, limits.keep_s)),
    )
    return build_app(toolbox, options, parts, codecs=codecs or (STRICT_JSONRPC if options.strict_jsonrpc else BUILTIN))


def find_wake(options: ServerOptions) -> str:
    """Return the URL of the Redis that hands long calls to other processes, or ``""``."""
    return options.wake or os.environ.get(WAKE_VARIABLE, "")


def find_rates(options: ServerOptions) -> str:
    """Return where calls are counted, as ``open_windows`` takes it."""
    return options.rates or find_wake(options) or find_state_places(options.state).rates


def open_rates(options: ServerOptions) -> Windows:
    """Return where calls are counted.

    A Redis can serve several servers. They count for themselves if each has a database as its state, or if the Redis
    was named for the queue of long calls alone; else all that name it share their limits, on whatever hosts they run.

    Raises:
        DefinitionError: the place cannot count calls.
    """
    places = find_state_places(options.state)
    state = _find_long_calls(places.ledger if options.ledger is None else options.ledger)
    is_own = not options.rates or is_postgres_url(str(state))
    owner = name_in_redis(state) if state and is_own else ""
    return open_windows(find_rates(options), fail=options.rates_fail, owner=owner)


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


def _open_results(place: str) -> ResultStore:
    """Return where the long results of MCP hosts are kept for all processes: where these share sessions."""
    from toolwire.stores.sessions.session_rows import open_results  # loads sqlite3

    from .run.long_results import MAX_BYTES, STORED_S  # QF-10

    return open_results(place, stored_s=STORED_S, most_bytes=MAX_BYTES)


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


def open_queue_engine(url: str, ledger: Ledger | Path | str | None) -> CallEngine:
    """Return what offers long calls through the Redis at ``url``, and runs those that it brings.

    Raises:
        DefinitionError: ``url`` is no Redis, or other processes could not read the calls in ``ledger``.
    """
    # ST-03
    place = _find_long_calls(ledger)
    if place is None:
        text = "wake (TOOLWIRE_WAKE) offers calls to other processes, which read them in the state: name one."
        raise DefinitionError(text)
    from toolwire.engines.docket import DocketEngine  # only the extra brings it

    return DocketEngine(url, name=name_in_redis(place))


def _find_long_calls(ledger: Ledger | Path | str | None) -> Path | str | None:
    """Return where long calls are kept: in the file or database of the ledger, or in memory beside another one."""
    return ledger if isinstance(ledger, str | Path) else None


def choose_inbox(options: ServerOptions, place: str, rules: RulesByCaller | None) -> Inbox | None:
    """Return the inbox of a server whose ``consent``, or the ``rules`` for one of whose callers, need one.

    It is ``inbox`` of the options, or in that place, or in ``place``. ``open_inbox`` lists the errors.
    """
    given = options.inbox
    if isinstance(given, Inbox):  # PL-03: a gateway gives one for the tools that have approvers, too
        return given
    if options.consent != "inbox" and (rules is None or not rules.has_inbox):
        return None
    return open_inbox(given or place, on_question=options.on_question)


def open_inbox(
    place: Path | str = "",
    *,
    page_url: str = "",
    on_question: QuestionHandler | None = None,
    self_approval: bool = True,
) -> Inbox:
    """Return the inbox in ``place``, by default where ``toolwire approvals`` looks.

    ``page_url`` is the address of its page, and ``on_question`` gets each new question. Without ``self_approval``, no
    permission counts that a caller's own user may have given.

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
        raise NoHomeError("This user has no home folder for the inbox's questions. Set another location with --state.")
    return Inbox(
        chosen,
        is_default=chosen == own,
        page_url=page_url,
        on_question=on_question,
        self_approval=self_approval,
    )


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


def apply_caller_rules(callers: Callers, rules: RulesByCaller | None) -> Callers:
    """Return ``callers`` with the scopes and in the groups that ``rules`` give them."""
    if rules is None or not (rules.has_scopes or rules.groups):
        return callers
    return CallersWithRules(callers, rules)


def combine_callers(keys: ApiKeyCallers, callers: Callers | None) -> Callers:
    """Return the callers of a server: owners of keys, those that ``callers`` finds, or all if there are neither."""
    if callers is None:
        return keys
    return CombinedCallers(keys, callers) if keys.needs_credentials else callers
