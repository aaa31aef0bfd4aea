"""Hold what the connections of one user share: grants, decisions, prompt limits, names, and the flow of texts."""

# D-32: two sites cannot offer tools under one name without the user noticing.

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from heapq import heappop, heappush
from pathlib import Path
from typing import NamedTuple, Self

from toolwire.client.discovery.cache import Cache
from toolwire.consent import CLIENT_RULES, NO_PREFERENCES, Audit, ClientRules, Grants, Preferences
from toolwire.consent.data_flow import DataFlow
from toolwire.consent.operator_rules import OperatorRules
from toolwire.consent.policy import PreferenceStore
from toolwire.consent.prompt_limit import PromptLimit
from toolwire.consent.session_marks import SessionMarks
from toolwire.core.catalog import Catalog, build_toolkit_name, make_confusable_key
from toolwire.core.errors import DefinitionError
from toolwire.core.model import Tool
from toolwire.limits import ClientRateLimits
from toolwire.stores import MemoryAudit, MemoryGrants
from toolwire.stores.consent.operator_trust import OperatorTrust
from toolwire.telemetry.calls import Telemetry

from .asked_calls import AskedCalls
from .receipt_signing import FindKey

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,31}")
_UNDERSCORE = re.compile("_")
_ANY_TELEMETRY = Telemetry()


class SessionTool(NamedTuple):
    """A tool of a session and the name of its connection."""

    connection: str
    tool: Tool


class Session:
    """The state that connections share if you pass the same ``session=`` to each.

    - ``principal``: the user for whom calls are made.
    - ``preferences``: the user's rules for every connection, in addition to each connection's own.
    - ``rules``: the client's limits for consent.
    - ``limits``: the client's own rate limits, which apply whatever a tool declares. Without them, a tool is called at
      most 60 times a minute and a connection at most 300 times. This default applies only to protocols that need a
      limit.
    - ``grants``, ``audit``: where permissions and decisions are stored. Default: in memory. See
      ``open_stored_session``.
    - ``preference_store``: the rules that the user set with ``toolwire approvals set``. Default: those in the state
      folder.
    - ``receipt_key``: returns the ``ReceiptKey`` that signs the user's decision for servers that require a receipt, or
      None. Without it, nothing is signed.
    - ``traced``: remember texts of results. A question can then warn that an argument passes such a text to another
      connection.
    - ``cache``: stores fetched documents as long as HTTP allows. Without it, each connection fetches them again.
    - ``telemetry``: the OpenTelemetry providers to use instead of the process's.
    - ``clock``: returns seconds and never goes back. ``wall`` returns seconds since 1970.
    """

    def __init__(
        self,
        *,
        principal: str = "me",
        preferences: Preferences = NO_PREFERENCES,
        rules: ClientRules = CLIENT_RULES,
        limits: ClientRateLimits | None = None,
        grants: Grants | None = None,
        audit: Audit | None = None,
        preference_store: PreferenceStore | None = None,
        receipt_key: FindKey | None = None,
        traced: bool = True,
        cache: Cache | None = None,
        telemetry: Telemetry = _ANY_TELEMETRY,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.principal = principal
        self.preferences = preferences
        self.rules = rules
        self.limits = limits
        self.grants: Grants = grants if grants is not None else MemoryGrants(clock=wall)
        self.audit: Audit = audit if audit is not None else MemoryAudit()
        self.preference_store = preference_store
        self.receipt_key = receipt_key
        self.cache = cache
        self.telemetry = telemetry
        self.clock = clock
        self.wall = wall
        # QF-02: the rules of a gateway's file for the one upstream that it calls with this session.
        self.operator: OperatorRules | None = None
        # QF-01: what operators trust in its console, beside the file.
        self.trust: OperatorTrust | None = None
        self.prompt_limit: PromptLimit = PromptLimit(clock, limit=rules.questions_a_minute)
        self.data_flow: DataFlow | None = DataFlow() if traced else None
        self.marks: SessionMarks = SessionMarks(clock)
        self.asked_calls: AskedCalls = AskedCalls(clock)
        self._catalogs: dict[str, Catalog] = {}
        self._names = _Names()
        self._lock = threading.Lock()  # connections open in several threads
        self._closers: list[Callable[[], object]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close_with(self, *closers: Callable[[], object]) -> None:
        """Call ``closers`` when the session is closed, in reverse order."""
        self._closers += closers

    def close(self) -> None:
        """Close the files or the database that ``open_stored_session`` opened. No call can be made afterwards."""
        while self._closers:
            self._closers.pop()()

    def admit(self, name: str, host: str, catalog: Catalog) -> str:
        """Add a connection and return its name: ``name``, or a name made from ``host`` if ``name`` is empty.

        Raises:
            DefinitionError: tool names cannot begin with ``name``, or another connection uses it.
        """
        # D-32: the name comes from the user or the address, never from the site.
        if name:
            if _NAME.fullmatch(name) is None:
                raise DefinitionError(f"Invalid connection name {name!r}. Use a letter, then letters, digits, - and _.")
            with self._lock:
                taken = self._names.find_clash(name)
                if not taken:
                    self._names.add(name)
            if taken:
                raise DefinitionError(f"A connection is already named {taken!r}. Choose another name than {name!r}.")
        else:
            first = build_toolkit_name(host)[:24]
            with self._lock:
                name = self._names.add_numbered(first if first[:1].isalpha() else f"at_{first}")
        self._catalogs[name] = catalog
        return name

    def renew(self, name: str, catalog: Catalog) -> None:
        """Set the catalog of the connection ``name``."""
        self._catalogs[name] = catalog

    def release(self, name: str) -> None:
        """Remove the connection ``name``. Another connection can then use the name."""
        with self._lock:
            if self._catalogs.pop(name, None) is not None:
                self._names.remove(name)

    def tools(self) -> Mapping[str, SessionTool]:
        """Return every connection's tools. Each name is prefixed with the connection's name."""
        return {
            f"{name}_{unique}": SessionTool(name, tool)
            for name, catalog in list(self._catalogs.items())
            for unique, tool in catalog.names.items()
        }

    def warnings(self) -> tuple[str, ...]:
        """Return one sentence for each tool name that several connections share."""
        homes: dict[str, list[str]] = {}
        for name, catalog in list(self._catalogs.items()):
            for unique in catalog.names:
                homes.setdefault(make_confusable_key(unique), []).append(name)
        return tuple(
            (
                f"{', '.join(names)} each have a tool named {tool}. Check the prefix of the name before you "
                "approve a call."
            )
            for tool, names in homes.items()
            if len(names) > 1
        )


class _Names:
    """The names of connections. None is the beginning of another before a ``_``, since tools are named by both.

    The cost of each operation does not depend on the number of names.
    """

    __slots__ = ("_beginnings", "_numbered", "_series")

    def __init__(self) -> None:
        self._beginnings: dict[str, dict[str, None]] = {}  # a whole name, or its part before a "_" -> the names
        self._numbered: dict[str, tuple[str, int]] = {}  # name -> its series and its number in it
        self._series: dict[str, _Series] = {}

    def find_clash(self, name: str) -> str:
        """Return a name that ``name`` could be confused with, or ``""``."""
        folded = name.casefold()
        if folded in self._beginnings:
            return next(iter(self._beginnings[folded]))
        for beginning in _beginnings(folded):
            known = next(iter(self._beginnings.get(beginning, ())), "")
            if known.casefold() == beginning:  # an entry that is a whole name has no other names
                return known
        return ""

    def add(self, name: str) -> None:
        """Add ``name``."""
        for beginning in _beginnings(name.casefold()):
            self._beginnings.setdefault(beginning, {})[name] = None

    def add_numbered(self, first: str) -> str:
        """Add ``first``, or ``first`` with the lowest free number if it is taken, and return the name."""
        series = self._series.setdefault(first, _Series())
        while True:
            number = series.take()
            # After a digit, such as that of a port, a number alone would read as part of it.
            name = first if number == 1 else f"{first}{'x' if first[-1:].isdigit() else ''}{number}"
            if not self.find_clash(name):
                break
        self.add(name)
        self._numbered[name] = first, number
        series.used += 1
        return name

    def remove(self, name: str) -> None:
        """Remove ``name``."""
        for beginning in _beginnings(name.casefold()):
            names = self._beginnings[beginning]
            del names[name]
            if not names:
                del self._beginnings[beginning]
        if name in self._numbered:
            first, number = self._numbered.pop(name)
            series = self._series[first]
            series.used -= 1
            # The lowest free number is used first, so that names stay short.
            heappush(series.free, number)
            if not series.used:
                del self._series[first]


class _Series:
    """The numbers of the names with one beginning: the count of used ones, the freed ones, and the next one."""

    __slots__ = ("free", "next", "used")

    def __init__(self) -> None:
        self.free: list[int] = []
        self.next = 1
        self.used = 0

    def take(self) -> int:
        """Return the lowest number that is free."""
        if self.free:
            return heappop(self.free)
        self.next += 1
        return self.next - 1


def _beginnings(folded: str) -> list[str]:
    """Return the part of ``folded`` before each underscore, and all of it."""
    return [folded[: match.start()] for match in _UNDERSCORE.finditer(folded)] + [folded]


def open_stored_session(place: Path | str | None = None, *, principal: str = "me") -> Session:
    """Return a Session that stores permissions and decisions in ``place``, so that they outlive the process.

    ``place`` is a folder, or a URL such as ``postgresql://host/database`` for several machines. All of them share the
    count of a permission for a number of calls. The default is the environment variable TOOLWIRE_STATE, then the folder
    ``toolwire`` in XDG_STATE_HOME or ~/.local/state.

    Receipts are signed with the key that ``toolwire approvals key`` created. The key never leaves its folder.

    Use the session as a context manager, or call ``close()`` when you are done.

    Raises:
        DefinitionError: the folder or the database cannot be used.
    """
    from toolwire.stores.consent.open import is_in_database, open_decisions, open_grants, open_levels  # loads sqlite3
    from toolwire.stores.consent.receipt_keys import StoredReceiptKeys  # likewise
    from toolwire.stores.paths import NoHomeError, find_decisions_place, find_state_folder  # likewise

    place = find_decisions_place() if place is None else place
    # A private key stays on its machine: who can read the database must not be able to sign for the user.
    keys: StoredReceiptKeys | None = None
    with suppress(NoHomeError):
        keys = StoredReceiptKeys(find_state_folder() if is_in_database(place) else Path(place))
    grants, audit = open_grants(place), open_decisions(place)
    session = Session(
        principal=principal,
        grants=grants,
        audit=audit,
        preference_store=open_levels(place),
        receipt_key=None if keys is None else keys.find_current,
    )
    session.close_with(grants.close, audit.close)
    return session
