"""Build a Toolbox and an application from an object or its class, and from a document if there is one."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeAlias

from toolwire.core.errors import DefinitionError
from toolwire.core.ledger import Ledger
from toolwire.limits import LocalRates, RatesFail
from toolwire.protocols import BUILTIN
from toolwire.protocols.opentool import CODEC, STRICT
from toolwire.server import App, ServerLimits
from toolwire.server.access.api_keys import ApiKey, ApiKeyCallers
from toolwire.server.access.callers import Callers
from toolwire.server.access.host_guard import HostGuard
from toolwire.server.app import SessionUse
from toolwire.server.asgi import (
    check_ask_wait,
    check_public_url,
    choose_inbox,
    choose_session_use,
    combine_callers,
    open_session_rows,
)
from toolwire.server.limits import THREADS
from toolwire.server.run.decision_log import DecisionLog
from toolwire.server.run.host_consent import HostConsent
from toolwire.server.run.idempotency import open_ledger
from toolwire.server.run.inbox import Inbox, TellQuestion
from toolwire.server.run.receipt_keys import KeyFetcher
from toolwire.server.run.receipts import Receipts, open_receipt_verifier
from toolwire.stores.limits.open import open_windows
from toolwire.stores.paths import find_state_places

from .description import Given, describe, load_description
from .document_check import check_against, has_call
from .method_toolbox import MethodToolbox
from .object_toolbox import ANY, ObjectToolbox
from .wire import add_stop, build_codec

Box: TypeAlias = ObjectToolbox | MethodToolbox


def build_toolbox(target: Any, document: Given | None = None, *, version: str = "1.0.0", threads: int = THREADS) -> Box:
    """Return the Toolbox of ``target``: a Tool, an object with a method for each function, or a class of either.

    The ``document`` beside it counts, else the one that it loads. ``version`` is that of a tool without any. Plain
    functions run in at most ``threads`` threads.

    Raises:
        DefinitionError: it cannot be made without arguments, has nothing to call, or does not fit its document; the
            text names every difference.
    """
    tool = _instantiate(target)
    given = document if document is not None else load_description(tool)
    if not has_call(tool) and given is None:
        text = "give it call(self, name, arguments), or a document with a function for each of its methods"
        raise DefinitionError(f"{type(tool).__name__} cannot be served: {text}.")
    faults = check_against(tool, given) if given is not None else ()
    if faults:
        raise DefinitionError("The code and its document do not fit.\n" + "\n".join(f"- {fault}" for fault in faults))
    description = describe(given, version=version, title=type(tool).__name__)
    kind = ObjectToolbox if has_call(tool) else MethodToolbox
    return kind(tool, description, threads=threads)


def build_app(
    box: Box,
    *,
    api_keys: Iterable[str | ApiKey] = (),
    admin_key: str | None = None,
    stop: Callable[[], None] | None = None,
    hosts: Iterable[str] = (),
    origins: Iterable[str] = (),
    limits: ServerLimits | None = None,
    state: Path | str = "",
    ledger: Ledger | Path | str | None = None,
    rates: str = "",
    rates_fail: RatesFail = "open",
    rates_replicas: int = 1,
    callers: Callers | None = None,
    strict_jsonrpc: bool = False,
    debug: bool = False,
    confirmations: Path | str = "",
    consent: HostConsent = "hints",
    inbox: Path | str | Inbox = "",
    ask_wait: float = 0.0,
    on_question: TellQuestion | None = None,
    receipts: Receipts = "",
    receipt_keys: Path | str | KeyFetcher = "",
    receipt_audience: str = "",
    private: bool = False,
    sessions: SessionUse | None = None,
    public_url: str = "",
) -> App:
    """Return the app that serves ``box`` on every protocol, on OpenTool's as its SDKs do.

    With both ``admin_key`` and ``stop`` there is a ``/opentool/stop``; see ``toolwire.asgi`` for the rest.
    """
    base = STRICT if strict_jsonrpc else CODEC
    any_name = box.any if isinstance(box, ObjectToolbox) else ANY
    places = find_state_places(state)
    own = build_codec(box.document, any_name, base)
    if admin_key is not None and stop is not None:
        own = add_stop(own, admin_key, stop)
    codecs = [own if one.name == own.name else one for one in BUILTIN]
    limits = limits if limits is not None else ServerLimits()
    guard = HostGuard(hosts=hosts, origins=origins)
    known = combine_callers(ApiKeyCallers(api_keys), callers)
    local_rates = LocalRates(rates_fail, rates_replicas, time.monotonic)
    return App(
        box,
        callers=known,
        guard=guard,
        limits=limits,
        codecs=codecs,
        ledger=open_ledger(places.ledger if ledger is None else ledger, limits),
        rates=open_windows(rates or places.rates, fail=rates_fail),
        local_rates=local_rates,
        debug=debug,
        confirmations=confirmations or places.confirmations,
        consent=consent,
        inbox=choose_inbox(consent, inbox, places.inbox, on_question=on_question),
        ask_wait=check_ask_wait(ask_wait),
        receipts=open_receipt_verifier(receipts, receipt_keys, audience=receipt_audience, place=places.receipts),
        private=private,
        decisions=DecisionLog(places.inbox),
        public_url=check_public_url(public_url),
        sessions=choose_session_use(sessions, places.sessions),
        session_rows=open_session_rows(places.sessions, limits),
    )


def _instantiate(target: Any) -> Any:
    if not inspect.isclass(target):
        return target
    try:
        inspect.signature(target).bind()
    except TypeError as error:
        text = f"{error}; make one, and serve that, or use main({target.__name__})"
        raise DefinitionError(f"{target.__name__} cannot be made without arguments: {text}.") from error
    return target()
