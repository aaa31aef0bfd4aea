"""Put the console at ``/console`` of a server, for the owners of keys that have its scope."""
# CO-02

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from time import time
from typing import Final, NamedTuple

from anyio import from_thread

from toolwire.client.calls.agreements import ClaimedRead
from toolwire.client.connection.remote import Remote
from toolwire.consent.tool_facts import list_ways_out
from toolwire.console import CallRow, ConnectionRow, Console, ConsoleSource, LimitRow, ToolRow
from toolwire.console.app import build_operator_tables
from toolwire.console.operator_actions import record_action
from toolwire.console.page import SignInWords
from toolwire.console.page_tables import FindSessionUser
from toolwire.console.sessions import SESSION_S, SessionUser
from toolwire.console.source import NO_CALLER_RULES, FileRuleRow, UpstreamChanges
from toolwire.core.catalog import Catalog
from toolwire.core.health import list_health
from toolwire.core.model import Approval, Kind, Problem, RateLimit, Tool
from toolwire.core.toolbox import Toolbox
from toolwire.framing.visible_text import make_visible
from toolwire.gateway.personal_toolbox import PersonalToolbox
from toolwire.gateway.reconnecting_toolbox import ReconnectingToolbox
from toolwire.limits import USER_PREFIX, RulesByCaller, read_user_name
from toolwire.server.access.browser_session import FindUser
from toolwire.server.app import App
from toolwire.stores.consent.open import open_used_nonces
from toolwire.stores.ledger.call_overview import CallOverview
from toolwire.stores.limits.sqlite_windows import CountOverview
from toolwire.stores.paths import StatePlaces, find_decisions_place, is_postgres_url

from .operators import digest_key, list_rules, read_upstream_rules
from .serve_settings import UpstreamSettings

ROOT: Final = "/console"
FindLimit = Callable[[str], "tuple[str, RateLimit] | None"]
_NOTES: Final = ("Limits that were not used during their window are not listed.",)
_IN_MEMORY: Final = (
    "This page cannot read the counts of limits. They are shown if the server stores them in a folder or "
    "PostgreSQL (--state)."
)
_WORDS: Final = SignInWords(
    "console",
    "Sign in to the console",
    "Your API key for this server. It needs the scope toolwire:console.",
    "This key does not belong to an operator of this server.",
)
CHANGED_MEANWHILE: Final = "The server has changed some of these tools meanwhile. Check them again."
_MAX_WINDOW_S: Final = 86_400.0
_MAX_CALLS: Final = 100


class Operators(NamedTuple):
    """Who may open a console: names by the digests of their keys, and people who sign in at ``login_path``.

    ``rules`` say whose questions they may answer.
    ``changes`` are how they change the upstreams of a gateway, if they can.
    """

    keys: Mapping[str, str]
    find_person: FindSessionUser | None = None
    login_path: str = ""
    rules: RulesByCaller = NO_CALLER_RULES
    changes: UpstreamChanges | None = None


class ServedUpstream(NamedTuple):
    """An upstream of a gateway: its name, its target, its tools, and the rules of the file about them."""

    name: str
    target: str
    toolbox: Toolbox
    rules: Sequence[FileRuleRow]


def add_console(
    app: App,
    operators: Operators,
    *,
    upstreams: Sequence[ServedUpstream],
    places: StatePlaces,
    ledger: str | None,
    rates: str,
    find_limit: FindLimit,
    hosts: Sequence[str],
    find_faults: Callable[[], Sequence[str]] = tuple,
    public_url: str = "",
) -> None:
    """Add to ``app`` the console for ``operators``.

    ``upstreams`` are those of a gateway. ``rates`` is where calls are counted, empty for the
    memory of the process; ``find_limit`` returns what a key of a count means, and its limit. ``find_faults`` returns
    what is wrong with the server now, as sentences. ``public_url`` is its address for its users.
    """
    calls = CallOverview(ledger) if ledger else None
    is_counted = bool(rates) and (not _is_url(rates) or is_postgres_url(rates))
    counts = CountOverview(rates)
    # By name, because two upstreams can have one target and another account.
    named = {one.name: one.toolbox for one in upstreams}

    def list_connections() -> list[ConnectionRow]:
        return [ConnectionRow(url=one.name, name=one.name, access="an upstream") for one in upstreams]

    def list_site_tools(name: str) -> list[ToolRow] | Problem:
        box = named.get(name)
        return Problem(kind=Kind.NOT_FOUND, message="There is no such upstream.") if box is None else _list_tools(box)

    def trust_tools(name: str, digests: Collection[str], operator: str) -> str:
        trusted = _trust_claims(_find_remote(named.get(name)), digests)
        if isinstance(trusted, str):
            return trusted
        for one in trusted:
            record_action(source, operator, "agreed", one.tool.id, site=one.key.origin, subject=one.key.definition)
        return ""

    def try_upstream(name: str) -> bool:
        box = named.get(name)
        waiting = box.shared if isinstance(box, PersonalToolbox) else box
        return isinstance(waiting, ReconnectingToolbox) and waiting.try_now()

    source = ConsoleSource(
        place=places.inbox if _is_url(places.inbox) else Path(places.inbox) if places.inbox else find_decisions_place(),
        list_connections=list_connections if upstreams else None,
        list_site_tools=list_site_tools,
        trust_tools=trust_tools,
        list_upstreams=(lambda: list_health(app)) if upstreams else None,
        try_upstream=try_upstream,
        upstream_changes=operators.changes,
        list_calls=None if calls is None else lambda: list_calls(calls),
        count_running=lambda: app.active_calls,
        list_running=lambda: list_running(app),
        cancel_call=None if calls is None else calls.ask_cancel,
        list_limits=(lambda: list_limits(counts, find_limit)) if is_counted else None,
        find_faults=find_faults,
        file_rules=[rule for one in upstreams for rule in one.rules],
        limit_notes=_NOTES if is_counted else (*_NOTES, _IN_MEMORY),
        stores_actions=True,
        rules=operators.rules,
    )
    # Workers share the keys, and so the secret: each of them knows the sessions of the others. Where people are let in,
    # there may be no key, so the secret is of the state too.
    own = b"" if operators.find_person is None else open_used_nonces(source.place).key
    secret = sha256(own + "\0".join(["console", *sorted(operators.keys)]).encode()).digest()
    tables = replace(
        build_operator_tables(source),
        words=_WORDS,
        find_user=operators.find_person,
        login_path=operators.login_path,
        takes_keys=bool(operators.keys),
        key_names=frozenset(operators.keys.values()),
    )

    def find_known(key: str) -> str | None:
        return operators.keys.get(digest_key(key))

    console = Console(
        source,
        find_known,
        root=ROOT,
        hosts=hosts,
        secret=secret,
        public_url=public_url,
        tables=tables,
        find_known=find_known,
    )
    app.add_front(console)


def _find_remote(box: Toolbox | None) -> Remote | None:
    """Return the connection of an upstream that all its callers share, or None if there is none yet."""
    shared = box.shared if isinstance(box, PersonalToolbox) else box
    reached = shared.toolbox if isinstance(shared, ReconnectingToolbox) else shared
    return reached if isinstance(reached, Remote) else None


def _list_tools(box: Toolbox) -> list[ToolRow] | Problem:
    """Return the tools of an upstream as its server defines them now. None is called."""
    remote = _find_remote(box)
    if remote is None:
        return [describe_tool(name, tool, tool.approval) for name, tool in box.catalog().names.items()]
    read = from_thread.run(remote.refresh)
    if isinstance(read, Problem):
        return read
    claims = {one.tool.id: one for one in remote.find_claims()}
    rows: list[ToolRow] = []
    for name, tool in remote.catalog().names.items():
        row, claim = describe_tool(name, tool, remote.find_level(tool)), claims.get(tool.id)
        if claim is not None:
            row = replace(row, untrusted=claim.key.definition, notes=list_trust_notes(tool, claim.changes))
        rows.append(row)
    return rows


def _trust_claims(remote: Remote | None, digests: Collection[str]) -> list[ClaimedRead] | str:
    """Trust exactly the tools that were shown with ``digests``, and return them, or why that cannot be."""
    # QF-01
    if remote is None:
        return "This upstream has not been reached yet. Try again later."
    read = from_thread.run(remote.refresh)
    if isinstance(read, Problem):
        return read.message
    chosen = [one for one in remote.find_claims() if one.key.definition in digests]
    if {one.key.definition for one in chosen} != set(digests):
        return CHANGED_MEANWHILE
    try:
        from_thread.run(remote.trust_claims, chosen)
    except ConnectionError as error:
        return f"The trust cannot be stored now ({error}). Try again."
    return chosen


def list_trust_notes(tool: Tool, changes: Sequence[str]) -> tuple[str, ...]:
    """Return how ``tool`` can carry data out, and how it has changed since it was trusted."""
    return (*list_ways_out(tool), *(f"changed since you trusted or approved it: {one}" for one in changes))


def list_rule_rows(upstream: UpstreamSettings) -> list[FileRuleRow]:
    """Return the rules of the file about the tools of ``upstream``, to be shown."""
    return [
        FileRuleRow(upstream=upstream.name, kind=kind, words=rule.words)
        for kind, rule in list_rules(read_upstream_rules(upstream))
    ]


def build_operator_finder(find_user: FindUser, names: Iterable[str], groups: Iterable[str] = ()) -> FindSessionUser:
    """Return what finds the operator who is signed in at a browser: one of the people in ``names`` or ``groups``.

    A name is that with which the person signs in, or their name in calls (``user:NAME:DIGITS``).
    """
    known, known_groups = frozenset(names), frozenset(groups)

    async def find_operator(headers: Sequence[tuple[bytes, bytes]]) -> SessionUser | Problem | None:
        user = await find_user(headers)
        if user is None:
            return None
        principal = user.caller.name
        is_named = not known.isdisjoint((principal, read_user_name(principal)))
        if principal.startswith(USER_PREFIX) and (is_named or not known_groups.isdisjoint(user.groups)):
            return SessionUser(principal, SESSION_S, has_account=True, groups=user.groups)
        text = f"You are signed in as {make_visible(user.name)}, who is not an operator of this server."
        return Problem(kind=Kind.FORBIDDEN, message=text)

    return find_operator


def build_limit_finder(
    catalog: Callable[[], Catalog], rules: RulesByCaller, upstreams: Mapping[str, RateLimit]
) -> FindLimit:
    """Return a function that returns what a key of a count means, and its limit; None if nothing limits it now."""

    def find_limit(key: str) -> tuple[str, RateLimit] | None:
        match key.split("\0"):
            case ["", name] if name in upstreams:
                return f"all calls of the upstream {name}", upstreams[name]
            case [principal, ""] if (rate := rules.find(principal).rate) is not None:
                return f"all calls of {principal}", rate
            case [principal, _, tool_id]:
                tool = next((one for one in catalog().tools if one.id == tool_id), None)
                if tool is not None and tool.rate_limit is not None:
                    return f"{tool.name}, called by {principal or 'anyone'}", tool.rate_limit
            case _:
                pass  # a count of an earlier version, or of an upstream that is gone
        return None

    return find_limit


def list_limits(counts: CountOverview, find_limit: FindLimit) -> list[LimitRow]:
    """Return the limits that were used lately, the most used first."""
    rows = []
    for key, times in counts.list_times(_MAX_WINDOW_S).items():
        found = find_limit(key)
        if found is not None:
            what, limit = found
            used = sum(ago < limit.window_s for ago in times)
            rows.append(LimitRow(what=what, used=used, most=limit.max, per=f"in {limit.window}"))
    return sorted((row for row in rows if row.used), key=lambda row: -row.used / row.most)[:_MAX_CALLS]


def list_calls(calls: CallOverview) -> list[CallRow]:
    """Return the newest long calls of all callers."""
    return [
        CallRow(
            id=status.id,
            tool=status.tool,
            caller=principal,
            state=status.state.value,
            started_at=status.created_at,
            progress=status.progress,
            message="is being cancelled" if status.cancel_asked and not status.state.is_final else status.message,
            can_cancel=not status.cancel_asked,
        )
        for principal, status in calls.list_recent(_MAX_CALLS)
    ]


def list_running(app: App) -> list[CallRow]:
    """Return the calls that wait for their tools now, the oldest first."""
    now = time()
    return [
        CallRow(id=one.id, tool=one.tool, caller=one.caller, state="running", started_at=now - one.running_s)
        for one in app.list_running(_MAX_CALLS)
    ]


def describe_tool(name: str, tool: Tool, level: Approval | None) -> ToolRow:
    """Return ``tool``, listed as ``name``, as a page shows it; ``level`` is the consent that a call of it needs."""
    return ToolRow(
        name=name,
        description=tool.description.strip().partition("\n")[0],
        effect="destroys" if tool.destructive else "reads" if tool.safe else "changes",
        cost=str(tool.cost or ""),
        level="" if level is None else level.value,
    )


def _is_url(place: str) -> bool:
    return "://" in place
