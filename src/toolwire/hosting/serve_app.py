"""Build the app that ``toolwire serve`` runs, in this process or in a worker process."""
# GW-04

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import monotonic
from typing import NamedTuple

from toolwire.client.connection.options import ApproveCommand
from toolwire.client.transport.network import SyncNetwork
from toolwire.console.caller_inbox import add_caller_inbox
from toolwire.core.errors import UsageError
from toolwire.core.long_call import CallEngine, is_long
from toolwire.core.model import RateLimit
from toolwire.core.toolbox import Toolbox
from toolwire.engines.local_engine import PollingEngine
from toolwire.gateway import UpstreamLimits, merge_toolboxes
from toolwire.gateway.gateway_front import GatewayFront, Service
from toolwire.gateway.personal_toolbox import PersonalToolbox
from toolwire.gateway.sign_in_notice import SIGN_IN_PATH
from toolwire.gateway.sign_in_pages import SignInPages, SignInUpstream
from toolwire.hosting.targets.url_options import read_url_options
from toolwire.limits import LocalRates, RulesByCaller, Windows
from toolwire.opentool.method_toolbox import MethodToolbox
from toolwire.opentool.object_toolbox import ObjectToolbox
from toolwire.opentool.serve_object import build_app as opentool_app
from toolwire.server import App
from toolwire.server.access.api_keys import ApiKeyCallers, parse_api_key
from toolwire.server.access.browser_session import PeopleSignIn
from toolwire.server.access.callers import Callers, CombinedCallers
from toolwire.server.access.host_guard import HostGuard
from toolwire.server.access.tool_rights import may_use_upstream
from toolwire.server.build import apply_caller_rules, build_server, combine_callers, find_rates, open_rates
from toolwire.server.limit_options import read_server_limits
from toolwire.server.page.browser_request import LoginPlace
from toolwire.stores.consent.open import is_in_database
from toolwire.stores.paths import find_decisions_place, find_state_places, name_in_redis
from toolwire.telemetry.logs import log_json

from .caller_consent import find_inbox, find_receipt_keys, find_webhook_faults
from .gateway_callers import open_caller_vault, read_identity
from .gateway_sign_in import OpenSignIn, open_sign_in
from .open_upstreams import open_toolboxes
from .operators import find_operators, list_idle_rules
from .serve_settings import SETTINGS, ServeSettings, choose_lasting_state, list_caller_rules, read_settings
from .telemetry_services import build_telemetry_services
from .token_options import build_callers

FACTORY = f"{__name__}:build_app_from_environment"


def build_app_from_environment() -> App:
    """Return the app for the settings in the environment, and remove them from it: they hold keys."""
    return open_app(read_settings(os.environ.pop(SETTINGS)))


def open_app(settings: ServeSettings, approve_command: ApproveCommand | None = None) -> App:
    """Return the app that serves what ``settings`` name; see ``prepare``."""
    return prepare(settings, approve_command).app


class Prepared(NamedTuple):
    """What is served: the settings with a state that lasts as long as the tools need it, the toolboxes, the app."""

    settings: ServeSettings
    boxes: Sequence[Toolbox]
    app: App


def prepare(settings: ServeSettings, approve_command: ApproveCommand | None = None, *, stdio: bool = False) -> Prepared:
    """Return what ``settings`` serve, with all that they name opened; ``open_toolboxes`` has the errors.

    With ``stdio``, it is served to one program alone, and without pages.
    """
    # Made here even if other processes serve: what is wrong with it is said before anything listens, or is renewed.
    if settings.server.receipts:
        settings = choose_lasting_state(settings)
    boxes = open_toolboxes(settings, approve_command, for_user=stdio)
    if any(is_long(tool) for box in boxes for tool in box.catalog().tools):
        settings = choose_lasting_state(settings)
    # Pages are for HTTP alone.
    return Prepared(settings, boxes, build_served_app(settings, boxes, None) if stdio else build_app(settings, boxes))


def build_app(settings: ServeSettings, toolboxes: Sequence[Toolbox], *, engine: CallEngine | None = None) -> App:
    """Return the app that serves all ``toolboxes`` as one, with a console if a key or a person may open it.

    ``engine`` gets long calls; see ``open_engine``.

    Raises:
        DefinitionError: two of them have a tool of the same id, or the ledger cannot be opened.
    """
    served = _build_served(settings, toolboxes, engine)
    app = served.app
    rules = RulesByCaller(list_caller_rules(settings))
    operators = find_operators([parse_api_key(key) for key in settings.api_keys], rules)
    if settings.has_inbox and served.callers.needs_credentials:
        add_inbox(app, settings, served.callers, served.sign_in)
    people = settings.sign_in
    if people is not None and not (people.operators or (people.provider and people.provider.operator_groups)):
        people = None
    if not operators and people is None:
        return app
    # It brings the console, which few servers have.
    from .console_changes import build_upstream_changes
    from .operator_console import (
        Operators,
        ServedUpstream,
        add_console,
        build_limit_finder,
        build_operator_finder,
        list_rule_rows,
    )

    known = Operators(operators, rules=rules)
    if people is not None and (sign_in := served.sign_in) is not None:
        groups = () if people.provider is None else people.provider.operator_groups
        find_person = build_operator_finder(sign_in.find_user, people.operators, groups)
        known = Operators(operators, find_person, sign_in.login_path, rules)
    known = known._replace(changes=build_upstream_changes(settings.gateway_record))
    places = find_state_places(settings.server.state)
    upstreams = [
        ServedUpstream(one.name, one.target, box, list_rule_rows(one))
        for one, box in zip(settings.upstreams, toolboxes, strict=False)
    ]
    limits = {one.name: RateLimit.parse(one.rate) for one in settings.upstreams if one.rate}
    inbox = find_inbox(settings)
    add_console(
        app,
        known,
        upstreams=upstreams,
        places=places,
        ledger=str(settings.server.ledger or places.ledger or "") or None,
        rates=find_rates(settings.server),
        find_limit=build_limit_finder(app.catalog, rules, limits),
        hosts=tuple(settings.server.hosts),
        find_faults=lambda: [*find_webhook_faults(inbox), *list_idle_rules(settings.upstreams, toolboxes)],
        public_url=settings.server.public_url,
    )
    return app


class _Served(NamedTuple):
    """The app that serves, its callers, and where people sign in at it, if anywhere."""

    app: App
    callers: Callers
    sign_in: OpenSignIn | None


def build_served_app(settings: ServeSettings, toolboxes: Sequence[Toolbox], engine: CallEngine | None) -> App:
    """Return the app that serves all ``toolboxes`` as one, with nothing beside it that exports what is measured.

    Raises:
        DefinitionError: two of them have a tool of the same id, or the ledger cannot be opened.
    """
    return _build_served(settings, toolboxes, engine, exports=False).app


def _build_served(
    settings: ServeSettings, toolboxes: Sequence[Toolbox], engine: CallEngine | None, *, exports: bool = True
) -> _Served:
    engine = open_engine(settings) if engine is None else engine
    if settings.log == "json":
        log_json()
    keys = [parse_api_key(key) for key in settings.api_keys]
    rules = RulesByCaller(list_caller_rules(settings))
    callers = build_callers(settings.tokens)
    sign_in = None
    if settings.sign_in is not None:
        sign_in = open_sign_in(settings.sign_in, settings.server.state, rules)
        # The challenge of the last source goes out, and that of people says where to sign in.
        callers = CombinedCallers(*filter(None, (callers, sign_in.server.callers)))
    options = replace(
        settings.server,
        api_keys=keys,
        limits=read_server_limits(settings.limits),
        callers=callers,
        caller_rules=list_caller_rules(settings),
        bundles={name: one.build_bundle(name) for name, one in settings.bundles.items()},
        consent=settings.consent,
        inbox=find_inbox(settings) or "",
        receipt_keys=find_receipt_keys(settings),
        engine=engine,
    )
    match toolboxes:
        case [ObjectToolbox() | MethodToolbox() as toolbox] if not settings.upstreams:
            app = opentool_app(toolbox, options)
        case _:
            app = build_server(merge_targets(settings, toolboxes, _open_upstream_windows(settings)), options)
    if sign_in is not None:
        app.pages.people = PeopleSignIn(
            sign_in.find_user, LoginPlace(sign_in.login_path, bool(keys or settings.tokens))
        )
    known = apply_caller_rules(combine_callers(ApiKeyCallers(keys), callers), rules)
    services = build_telemetry_services(settings, app) if exports else ()
    if sign_in is not None or services or any(isinstance(toolbox, PersonalToolbox) for toolbox in toolboxes):
        app.add_front(_build_front(settings, toolboxes, known, services, sign_in))
    return _Served(app, known, sign_in)


def open_engine(settings: ServeSettings) -> CallEngine | None:
    """Return what offers long calls to workers, or None: then this process runs its own.

    Raises:
        DefinitionError: ``wake`` is no Redis.
        UsageError: other processes could not read the calls.
    """
    # ST-03
    if not settings.server.wake and settings.works:
        return None
    ledger = find_state_places(settings.server.state).ledger
    if ledger is None:
        raise UsageError(
            "--wake and --no-work leave calls to other processes, which read them from the state. Set --state."
        )
    if not settings.server.wake:
        return PollingEngine()
    from toolwire.engines.docket import DocketEngine  # only the extra brings it

    return DocketEngine(settings.server.wake, is_worker=settings.works, most=settings.jobs, name=name_in_redis(ledger))


def _open_upstream_windows(settings: ServeSettings) -> Windows | None:
    """Return where the calls of upstreams are counted, or None if none has a rate."""
    if not any(upstream.rate for upstream in settings.upstreams):
        return None
    return open_rates(settings.server)


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
                rate=RateLimit.parse(upstream.rate) if upstream.rate else None,
                running=upstream.running,
                trusted=upstream.agree if isinstance(upstream.agree, bool) else frozenset(upstream.agree),
                approvers=upstream.approvers,
            )
            for number, upstream in upstreams.items()
        },
        windows=windows,
        local=LocalRates(settings.server.rates_fail, settings.server.rates_replicas, monotonic),
    )


def _build_front(
    settings: ServeSettings,
    toolboxes: Sequence[Toolbox],
    callers: Callers,
    services: Sequence[Service],
    sign_in: OpenSignIn | None,
) -> GatewayFront:
    """Return the pages on which ``callers`` sign in to upstreams, with ``services`` beside them.

    ``sign_in`` is where people sign in at the gateway itself.
    """
    is_personal = any(isinstance(toolbox, PersonalToolbox) for toolbox in toolboxes)
    return GatewayFront(
        {SIGN_IN_PATH: _build_pages(settings, toolboxes, callers, sign_in).answer} if is_personal else {},
        HostGuard(hosts=settings.server.hosts, origins=settings.server.origins),
        public_url=settings.server.public_url,
        stores_tokens=any(one.account == "exchange" for one in settings.upstreams),
        services=services,
        sign_in=None if sign_in is None else sign_in.server,
    )


def _build_pages(
    settings: ServeSettings, toolboxes: Sequence[Toolbox], callers: Callers, sign_in: OpenSignIn | None
) -> SignInPages:
    upstreams: dict[str, SignInUpstream] = {}
    vault = open_caller_vault(settings.key_file, settings.server.state)
    for upstream, toolbox in zip(settings.upstreams, toolboxes, strict=True):
        if isinstance(toolbox, PersonalToolbox) and upstream.account == "caller":
            access = read_url_options(upstream.remote, [upstream.target]).access
            upstreams[upstream.name] = SignInUpstream(
                toolbox=toolbox,
                open_network=partial(SyncNetwork, **access),
                identity=read_identity(upstream.client_id, upstream.client_secret_env),
                scopes=frozenset(upstream.scopes or ()),
            )
    rules = RulesByCaller(list_caller_rules(settings))
    return SignInPages(
        upstreams,
        callers,
        vault,
        may_use=lambda caller, name: may_use_upstream(rules.find(caller.name, caller.group).bound, name),
        find_user=None if sign_in is None else sign_in.find_user,
        login_path="" if sign_in is None else sign_in.login_path,
        takes_keys=bool(settings.api_keys or settings.tokens) or sign_in is None,
    )


def add_inbox(app: App, settings: ServeSettings, callers: Callers, sign_in: OpenSignIn | None = None) -> App:
    """Add to ``app`` the inbox page of its ``callers``; people who sign in by ``sign_in`` need no key there.

    Raises:
        DefinitionError: the place of the questions cannot be used.
    """
    place = find_state_places(settings.server.state).inbox or find_decisions_place()
    return add_caller_inbox(
        app,
        place if is_in_database(place) else Path(place),
        callers=callers,
        api_keys=[parse_api_key(key) for key in settings.api_keys],
        hosts=settings.server.hosts,
        public_url=settings.server.public_url,
        find_user=None if sign_in is None else sign_in.find_user,
        login_path="" if sign_in is None else sign_in.login_path,
        caller_rules=list_caller_rules(settings),
    )
