"""Put an application together from a Toolbox, options, and the parts that the options open."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from toolwire.core.catalog import Catalog
from toolwire.core.check import ALLOW
from toolwire.core.codec import NO_PAGE, Codec, Site
from toolwire.core.model import Approval, Call
from toolwire.core.toolbox import KnowsUpstreams, Toolbox, find_consent_handling, find_output_judge, list_caller_checks
from toolwire.framing.tool_description import fits_budget
from toolwire.protocols import BUILTIN
from toolwire.stores.limits.open import open_windows
from toolwire.telemetry.calls import Telemetry
from toolwire.validation import (
    build_arguments_check,
    build_requirements_check,
    check_requirements,
    check_scopes,
    filter_visible,
)

from .access.admission import Admission
from .access.key_sessions import KeySessions
from .access.page_callers import PageCallers
from .access.tool_rights import narrow_for_call, open_bundles, open_rights
from .app import App
from .asking.confirmation import (
    HOST_CONFIRMATION,
    ConfirmationCheck,
    ConfirmationQuestion,
    Confirmations,
    ConfirmationTokens,
    build_confirmation_check,
)
from .asking.host_consent import ConsentNotice, build_host_question, build_reasons, find_later
from .asking.inbox_waiters import InboxWaiters, leave_long_calls
from .asking.receipts import KEYS_PATH
from .asking.user_asker import InputStates
from .deadline_scheduler import DeadlineScheduler
from .long_calls.long_calls import LongCalls, open_long_calls
from .mcp.requests import McpRequests
from .mounted_tables import MountedTables
from .options import ServerOptions
from .parts import ServerParts
from .route_table import Document, has_long_tools, list_scopes
from .run.call_headers import CallHeaders
from .run.call_runner import CallRunner
from .run.idempotency import IdempotencyRunner, open_ledger
from .run.own_tools import OwnTools
from .run.rate_count import build_rate_counter
from .run.service import Service


def build_app(
    toolbox: Toolbox, options: ServerOptions, parts: ServerParts, *, codecs: Sequence[Codec] = BUILTIN
) -> App:
    """Return the application that serves ``toolbox`` with ``codecs``."""
    callers, limits, rules, inbox, receipts = parts.callers, parts.limits, parts.rules, parts.inbox, parts.receipts
    scheduler, is_private = DeadlineScheduler(), options.private and callers.needs_credentials
    # Calls that only read are recorded in memory, so that no disk and no full ledger stops them
    # (docs/decisions/0012).
    idempotency = IdempotencyRunner(
        open_ledger(parts.ledger, limits), open_ledger(None, limits), wait_s=limits.repeat_s
    )
    rates = parts.rates if parts.rates is not None else open_windows("")
    words = ConfirmationTokens(parts.confirmations)
    asked = _choose_question(toolbox, options, of_all=receipts is not None)
    asked, ask_unknown = _split_restored(asked, parts.ask_restored)
    authorizer, rights = options.authorizer, open_rights(rules, toolbox)
    bundles = open_bundles(options.bundles, toolbox)
    narrow = partial(narrow_for_call, rights, bundles)
    build_confirmation = partial(_build_confirmation, toolbox, options, parts, words, narrow)
    confirm = build_confirmation(asked)
    limit = _find_part_characters(options, parts)
    served = toolbox if limit == 0 else _cut_long_results(toolbox, limit, parts)
    service = Service(
        served,
        # In this order: a caller without the right learns nothing about the arguments, and no user must confirm a call
        # that cannot run.
        checks=(
            *(() if rights is None else (rights.check_tool,)),
            *((check_scopes,) if callers.needs_credentials else ()),
            *list_caller_checks(toolbox),
            check_requirements if authorizer is None else build_requirements_check(authorizer),
            build_arguments_check(),
            *(() if rights is None else (rights.check_arguments,)),
            confirm if inbox is None else leave_long_calls(confirm),
        ),
        limits=limits,
        scheduler=scheduler,
        idempotency=idempotency,
        count=build_rate_counter(rates, parts.local_rates, rules),
        debug=options.debug,
        inputs=InputStates(words, asked),
        rules=rules,
        # PL-02: the rules may have changed since a call was accepted.
        # GW-04: its user decides while it waits, so the confirmation is looked for each time that it goes on.
        checks_of_accepted=(
            *(() if parts.check_accepted is None else (parts.check_accepted,)),
            *(() if rights is None else (rights.check,)),
            *(() if inbox is None else (_confirm_by_inbox(confirm),)),
        ),
    )
    if ask_unknown is not None:
        service.add_key_check(build_confirmation(ask_unknown))
    if options.find != "never":
        service.add_own_tools(OwnTools(toolbox, served, narrow))
    long_calls = LongCalls(
        open_store=open_long_calls(None) if parts.long_calls is None else parts.long_calls,
        engine=parts.engine,
        execute=service.run_accepted,
        limits=limits,
        inbox=inbox,
        is_removed=parts.is_removed,
        toolbox=toolbox,
    )
    service.add_long_calls(long_calls)
    if has_long_tools(toolbox.catalog()):  # a server of such tools does not begin without their store
        long_calls.prepare()
    runner = CallRunner(
        service,
        CallHeaders(
            find_own_host=None if receipts is None else parts.guard.find_own_host,
            has_inbox=inbox is not None,
            inbox_wait_s=options.ask_wait,
            rules=rules,
        ),
        None if inbox is None else InboxWaiters(inbox),
        options.telemetry or Telemetry(),
        idempotency,
    )
    admission = Admission(parts.guard, callers, service, rights, is_private=is_private)
    tables = MountedTables(
        toolbox,
        codecs,
        _describe_site(toolbox, options, parts, is_private=is_private),
        partial(_build_documents, parts, is_private=is_private),
        runner.observe_calls,
        bundles,
    )
    sessions = McpRequests(
        toolbox.catalog,
        lambda: service.draining,
        limits,
        scheduler,
        use=parts.sessions,
        rows=parts.session_rows,
    )
    notice = (
        ConsentNotice(toolbox, options.consent, needs_receipts=receipts is not None)
        if options.ask_hosts or receipts is not None
        else None
    )
    return App(
        toolbox,
        tables=tables,
        admission=admission,
        pages=PageCallers(
            admission, KeySessions(callers, words.derive_key(b"key sessions"), place=parts.confirmations)
        ),
        sessions=sessions,
        runner=runner,
        long_calls=long_calls,
        limits=limits,
        scheduler=scheduler,
        lifespans=(rates, idempotency, toolbox, long_calls, sessions, notice, tables),
    )


def _cut_long_results(toolbox: Toolbox, characters: int | None, parts: ServerParts) -> Toolbox:
    from .run.long_results import LongResults, MemoryResults  # QF-10

    store = MemoryResults() if parts.results is None else parts.results
    return LongResults(toolbox, characters, store, parts.limits.recorded_s)


def _find_part_characters(options: ServerOptions, parts: ServerParts) -> int | None:
    """Return what ``Site.part_characters`` says: by default, nothing is cut that another process might have to read."""
    is_shared = parts.results is not None or parts.sessions != "none"
    return options.result_limit if is_shared or options.result_limit is not None else 0


def _choose_question(toolbox: Toolbox, options: ServerOptions, *, of_all: bool) -> ConfirmationQuestion | None:
    """Return the question that the server requires of every caller, else the one for a host that shows forms."""
    required = options.require_confirmation
    if not options.ask_hosts and not of_all:
        return required
    ask_host = build_host_question(find_consent_handling(toolbox), of_all=of_all)
    return ask_host if required is None else lambda call: required(call) or ask_host(call)


def _split_restored(
    asked: ConfirmationQuestion | None, restored: ConfirmationQuestion | None
) -> tuple[ConfirmationQuestion | None, ConfirmationQuestion | None]:
    """Return what is asked before a call, and what is asked only if the ledger does not know its key."""
    # PL-07: a call that is asked about anyway is asked about once.
    if restored is None:
        return asked, None

    def ask(call: Call) -> str:
        question = "" if asked is None else asked(call)
        return restored(call) or question if question or call.tool.long else ""

    return ask, lambda call: "" if ask(call) else restored(call)


def _build_confirmation(
    toolbox: Toolbox,
    options: ServerOptions,
    parts: ServerParts,
    words: ConfirmationTokens,
    narrow: Callable[[Call, Catalog], Catalog],
    asked: ConfirmationQuestion | None,
) -> ConfirmationCheck:
    """Return the check that refuses a call until it is confirmed; ``narrow`` leaves what its caller is offered."""
    required = options.require_confirmation
    return build_confirmation_check(
        asked,
        Confirmations(words, receipts=parts.receipts, inbox=parts.inbox, permissions=parts.permissions),
        build_reasons(required, of_all=parts.receipts is not None),
        lambda call: False if required is not None and required(call) else find_later(call),
        decisions=parts.decisions,
        handles_consent=find_consent_handling(toolbox),
        find_upstream=toolbox.find_upstream if isinstance(toolbox, KnowsUpstreams) else None,
        list_tools=lambda call: filter_visible(narrow(call, toolbox.catalog()), call.context.scopes).tools,
    )


def _confirm_by_inbox(confirm: ConfirmationCheck) -> ConfirmationCheck:
    """Return ``confirm`` for calls whose users decide in the inbox alone."""
    return lambda call: confirm(call) if call.context.needs_inbox else ALLOW


def _describe_site(toolbox: Toolbox, options: ServerOptions, parts: ServerParts, *, is_private: bool) -> Site:
    """Return what the codecs know of the server, wherever it is mounted."""
    resource = parts.resource
    return Site(
        keys=parts.callers.needs_credentials,
        # CC-06: where receipts are required, what a host says of itself proves nothing.
        host_confirmation=HOST_CONFIRMATION if options.consent == "hints" and parts.receipts is None else "",
        requires_confirmation=options.consent in ("refuse", "inbox"),
        has_sessions=True,
        private=is_private,
        can_offload=True,
        find_inbox_page=NO_PAGE if parts.inbox is None else parts.inbox.find_page,
        sign_in=parts.sign_in,
        takes_keys=parts.takes_keys,
        public_url=options.public_url or ("" if resource is None else resource.base_url),
        judge_output=find_output_judge(toolbox),
        shorten=build_shortener(options),
        model_lists=open_model_lists(options, needs_receipts=parts.receipts is not None),
        part_characters=_find_part_characters(options, parts),
        keeps_writes=parts.results is not None,
    )


def _build_documents(parts: ServerParts, root: str, catalog: Catalog, *, is_private: bool) -> Mapping[str, Document]:
    """Return the documents of a server whose ``catalog`` is mounted at ``root``, which need no credentials."""
    documents = parts.documents
    if parts.receipts is not None:
        documents = {**documents, f"{root}{KEYS_PATH}": parts.receipts.publish}
    if parts.resource is not None:
        # The names of scopes may say which tools there are.
        scopes = () if is_private else list_scopes(catalog)
        documents = {**documents, **parts.resource.build_documents(scopes, catalog.title)}
    return documents


class ModelLists(NamedTuple):
    """The lists of a server with ``find="auto"``, for clients that give them to a model as they are.

    ``pins`` are listed beside the three tools. ``asks_all``: the server itself asks about each call that needs consent.
    ``asks_by_form``: it asks where its client shows forms.
    """

    # FI-01

    pins: tuple[str, ...]
    asks_all: bool
    asks_by_form: bool

    def needs_short(self, catalog: Catalog, *, shows_forms: bool) -> bool:
        """Return whether ``catalog`` is too long for the model of a client that searches none by itself.

        A client that is trusted to ask its user does so by the hints of each tool, and remembers the answer for it. In
        a short list these would be the hints of ``call``, so that one answer would hold for all tools.
        """
        if fits_budget(catalog):
            return False
        return self.asks_all or (self.asks_by_form and shows_forms) or not _needs_consent(catalog)

    def shorten(self, catalog: Catalog) -> Catalog:
        """Return the short list of ``catalog``."""
        return shorten_list(catalog, self.pins)


def shorten_list(catalog: Catalog, pins: tuple[str, ...]) -> Catalog:
    """Return the list of ``find``, ``describe``, ``call`` and ``pins`` that stands for ``catalog``."""
    from toolwire.find import short_list  # a server that lists all its tools pays nothing for it

    return short_list.shorten_list(catalog, pins)


def open_model_lists(options: ServerOptions, *, needs_receipts: bool) -> ModelLists | None:
    """Return the lists of ``options``, or None if all clients get the same one."""
    if options.find != "auto":
        return None
    asks_all = options.consent in ("refuse", "inbox") or needs_receipts
    return ModelLists(tuple(options.pins), asks_all, asks_by_form=options.ask_hosts)


def build_shortener(options: ServerOptions) -> Callable[[Catalog], Catalog]:
    """Return what makes the list of every protocol."""
    pins = tuple(options.pins)
    return partial(shorten_list, pins=pins) if options.find == "always" else lambda catalog: catalog


def _needs_consent(catalog: Catalog) -> bool:
    from toolwire.consent import effective_level  # brings all of consent, which few servers need

    return any(effective_level(tool) is not Approval.AUTO for tool in catalog.tools)
