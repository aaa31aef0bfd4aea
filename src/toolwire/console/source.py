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
    """A known server or program: ``url`` identifies it, and ``access`` says how it is used, such as ``signed in``.

    ``name`` is shown in place of the URL, if there is one.
    """

    url: str
    access: str
    name: str = ""
    scopes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRow:
    """A tool that a server offers. ``level`` is what happens before a call of it: ``auto``, ``per-call`` or ``deny``.

    ``untrusted`` is the digest of a tool that would run without a question by the word of its site alone, and ``notes``
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
    """A running or finished call. ``progress`` is from 0 to 1, or None if it is not known.

    ``started_at`` is in seconds since 1970. ``can_cancel`` says whether the operator may end it.
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
    """An upstream that an operator adds. ``scopes`` are what its callers need, and ``by_caller`` says that each has an
    account of their own there. ``whole_document`` takes all operations of an OpenAPI document.
    """

    name: str
    url: str
    scopes: tuple[str, ...] = ()
    by_caller: bool = False
    whole_document: bool = False


@dataclass(frozen=True, slots=True)
class UpstreamChanges:
    """Functions that add and remove upstreams. The first argument is the operator. Each returns an error or ``""``.

    Both keep in the log who did it.
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
    """The data of a console. It shows no page for a part that is None.

    ``place`` holds the questions, the permissions, the rules and the decisions: a folder, or the URL of a PostgreSQL.
    ``trust_tools`` trusts the tools at a URL with these digests, for the operator of that name, and returns why it
    cannot, or an empty text.
    All functions may block; they run in threads.
    With ``stores_actions``, what an operator does is in the log too. ``file_rules`` are those of a gateway's file,
    and ``rules`` those for its callers.
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
        """The questions that wait."""
        return open_approvals(self.place)

    @cached_property
    def grants(self) -> StoredGrants:
        """The permissions for later calls."""
        return open_grants(self.place)

    @cached_property
    def preferences(self) -> StoredLevels:
        """The user's own levels."""
        return open_levels(self.place)

    @cached_property
    def audit(self) -> StoredDecisions:
        """The decisions."""
        return open_decisions(self.place)

    @cached_property
    def sign_outs(self) -> EndedSessions:
        """The sessions of this console that were ended by their users."""
        return open_ended_sessions(self.place)

    def open(self) -> None:
        """Open all stores.

        Raises:
            DefinitionError: the folder or the database cannot be used.
        """
        _ = self.approvals, self.grants, self.preferences, self.audit, self.sign_outs
