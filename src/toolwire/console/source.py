"""Define what a console shows: the stores of one folder, and functions that return the state of a running program.

``toolwire console`` and the ``/console`` of a gateway differ in the functions that they give, and in nothing else.
"""
# CO-02

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, Literal

from toolwire.core.health import UpstreamHealth
from toolwire.core.model import Problem
from toolwire.limits import RulesByCaller
from toolwire.stores.consent.approvals import Approvals
from toolwire.stores.consent.ended_sessions import EndedSessions
from toolwire.stores.consent.grants import StoredGrants
from toolwire.stores.consent.open import (
    Place,
    StoredDecisions,
    StoredLevels,
    open_approvals,
    open_decisions,
    open_ended_sessions,
    open_grants,
    open_levels,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionRow:
    """A known server or program. ``url`` identifies it, and ``access`` says how it is used, such as ``signed in``.

    ``name`` is shown instead of the URL, if it is set.
    """

    url: str
    access: str
    name: str = ""
    scopes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRow:
    """A tool that a server offers. ``level`` decides about its calls: ``auto``, ``per-call`` or ``deny``.

    ``untrusted`` is the digest of a tool that would run without a question only because its server says so. ``notes``
    say how it can carry data out, and what changed since it was trusted.
    """

    name: str
    description: str
    effect: Literal["reads", "changes", "destroys"]
    cost: str = ""
    level: str = ""
    untrusted: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRow:
    """A running or finished call. ``progress`` is from 0 to 1, or None if unknown.

    ``started_at`` is in seconds since 1970. ``can_cancel`` says whether the operator may cancel it.
    """

    id: str
    tool: str
    caller: str
    state: str
    started_at: float
    progress: float | None = None
    message: str = ""
    can_cancel: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitRow:
    """A limit: what it limits, its owner, how much of it is used, and its maximum."""

    what: str
    used: float
    most: float
    per: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRuleRow:
    """A rule of the gateway's file: ``kind`` is ``run``, ``ask`` or ``never``, ``words`` says for which calls."""

    upstream: str
    kind: Literal["run", "ask", "never"]
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NewUpstream:
    """An upstream that an operator adds.

    - ``scopes``: the scopes that its callers need.
    - ``by_caller``: whether each caller has their own account there.
    - ``whole_document``: whether to use all operations of an OpenAPI document.
    """

    name: str
    url: str
    scopes: tuple[str, ...] = ()
    by_caller: bool = False
    whole_document: bool = False


@dataclass(frozen=True, slots=True)
class UpstreamChanges:
    """Functions that add and remove upstreams. The first argument is the operator. Each returns an error or ``""``.

    Both record in the log who made the change.
    """

    add: Callable[[str, NewUpstream], str]
    remove: Callable[[str, str], str]


NO_CALLER_RULES: Final = RulesByCaller({})

ToolLister = Callable[[str], "Sequence[ToolRow] | Problem"]
"""TopicReaders at what the site at a URL offers, and calls nothing."""
DifferenceFinder = Callable[[str], "Sequence[str] | Problem"]
"""Returns how the tools of a locked URL differ from the lock, one line each."""


@dataclass(frozen=True, kw_only=True)
class ConsoleSource:
    """The data of a console. Pages whose data is None are not shown.

    - ``place``: where questions, permissions, rules and decisions are stored: a folder, or the URL of a PostgreSQL
      database.
    - ``trust_tools``: trusts the tools at a URL that have these digests, for the named operator. It returns an error or
      ``""``.
    - ``stores_actions``: also record the operator's actions in the log.
    - ``file_rules``: the rules in a gateway's file. ``rules``: the rules for its callers.

    All functions can block, because they run in threads.
    """

    place: Place
    list_connections: Callable[[], Sequence[ConnectionRow]] | None = None
    list_site_tools: ToolLister | None = None
    trust_tools: Callable[[str, Collection[str], str], str] | None = None
    list_locked: Callable[[], Sequence[tuple[str, int]]] | None = None
    lock_name: str = "toolwire.lock"
    find_differences: DifferenceFinder | None = None
    list_upstreams: Callable[[], Sequence[UpstreamHealth]] | None = None
    try_upstream: Callable[[str], bool] | None = None
    upstream_changes: UpstreamChanges | None = None
    list_calls: Callable[[], Sequence[CallRow]] | None = None
    cancel_call: Callable[[str], bool] | None = None
    count_running: Callable[[], int] | None = None
    list_running: Callable[[], Sequence[CallRow]] | None = None
    list_limits: Callable[[], Sequence[LimitRow]] | None = None
    limit_notes: Sequence[str] = field(default=())
    file_rules: Sequence[FileRuleRow] = ()
    find_faults: Callable[[], Sequence[str]] = tuple
    stores_actions: bool = False
    rules: RulesByCaller = NO_CALLER_RULES

    # They stay open: a page and the look for news then cost a query each.
    @cached_property
    def approvals(self) -> Approvals:
        """The pending questions."""
        return open_approvals(self.place)

    @cached_property
    def grants(self) -> StoredGrants:
        """The permissions for later calls."""
        return open_grants(self.place)

    @cached_property
    def preferences(self) -> StoredLevels:
        """The user's own rules."""
        return open_levels(self.place)

    @cached_property
    def audit(self) -> StoredDecisions:
        """The decision log."""
        return open_decisions(self.place)

    @cached_property
    def sign_outs(self) -> EndedSessions:
        """The sessions of this console that their users ended."""
        return open_ended_sessions(self.place)

    def open(self) -> None:
        """Open all stores.

        Raises:
            DefinitionError: the folder or the database cannot be used.
        """
        _ = self.approvals, self.grants, self.preferences, self.audit, self.sign_outs
