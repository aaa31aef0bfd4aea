"""Store what callers' users allowed for later calls, in a server's inbox or in a form of their MCP client.

Rules:
- A permission is for one caller, one tool as it is defined now, and one way to ask. An answer that a client sent for a
  form does not cover calls whose user decides in the inbox.
- A form offers none to callers that cannot be told apart. A program that starts its own server over standard input has
  a single user.
"""
# QF-03

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from toolwire.core.check import Answer, SimilarTool
from toolwire.core.errors import DefinitionError
from toolwire.core.grant_bounds import GrantBounds
from toolwire.core.model import ANONYMOUS, Approval, Call, Tool
from toolwire.stores.consent.open import is_in_database, open_grants

from .receipts import STDIO

if TYPE_CHECKING:  # loads sqlite3
    from toolwire.consent.grant import GrantKey, Grants

THIS_SERVER: Final = "this server"
PERMISSION: Final = "permission"
"""The channel of a call that an earlier permission of its caller covers. The ID of a bounded permission follows it."""
_FORM: Final = "form"
_ONCE: Final = "ask me each time"


class UpstreamTool(NamedTuple):
    """The owner of a call's tool: this server, or the upstream ``name`` with the origin ``site``.

    ``target`` is the call's method and URL, and ``definition`` the digest of everything that decides what a call sends.
    If ``approvers`` lists groups, only their users answer questions about the tool. ``find_similar`` returns the
    upstream's other tools that one permission can cover.
    """

    site: str
    name: str
    target: str
    definition: str
    approvers: tuple[str, ...] = ()
    find_similar: Callable[[], Sequence[SimilarTool]] = tuple


class CallerPermissions:
    """The callers' permissions. ``place`` is a folder or a PostgreSQL URL. Without it, they are in this process only.

    ``inbox`` is the connection name of permissions from the inbox.
    """

    def __init__(self, place: Path | str = "", inbox: str = "inbox") -> None:
        self._place = place
        self._inbox = inbox
        self.is_remote: bool = bool(str(place)) and is_in_database(place)

    @cached_property
    def _grants(self) -> Grants:
        if str(self._place):
            return open_grants(self._place)
        from toolwire.stores.consent.memory import MemoryGrants  # imports all of consent, rarely needed

        return MemoryGrants()

    def build_key(self, call: Call, upstream: UpstreamTool | None) -> GrantKey:
        """Return the key of a permission for the caller and the tool of ``call``."""
        from toolwire.consent.grant import GrantKey, grant_key  # as above

        principal, connection = call.context.principal, self._inbox if call.context.needs_inbox else _FORM
        if upstream is None:
            return grant_key(THIS_SERVER, call.tool, principal=principal, connection=connection)
        # XL-047: it covers more than the description and the schemas, so that a site cannot move the tool to another
        # path.
        connection = f"{connection} of {upstream.name}" if upstream.name else connection
        if upstream.approvers:
            # PL-03: an earlier permission stays valid only for the same groups.
            connection = f"{connection} by {', '.join(sorted(upstream.approvers))}"
        return GrantKey(principal, connection, upstream.site, call.tool.id, upstream.definition)

    def spend(self, key: GrantKey, call: Call) -> Answer | None:
        """Return the answer that an earlier permission gives to ``call``, or None without one. The answer names it.

        This spends one use of the permission.
        """
        grants = self._grants
        if call.tool.blanket_allowed is not None and grants.has_grant(key):
            grants.count_use(key)
            return Answer(allowed=True, channel=PERMISSION)
        id_ = grants.spend(key, call.arguments)
        return Answer(allowed=True, channel=f"{PERMISSION} {id_}") if id_ else None

    def add(self, key: GrantKey, call: Call, bounds: GrantBounds | None, upstream: UpstreamTool | None) -> None:
        """Store that later calls run without a question: all calls of the tool, or the calls within ``bounds``.

        Raises:
            OSError, sqlite3.Error: the permission cannot be stored.
        """
        from toolwire.consent.similar_tools import add_permission  # as above

        similar = upstream.find_similar() if upstream is not None and bounds is not None and bounds.tools else ()
        add_permission(self._grants, key, call, bounds, similar)

    def list_similar(self, key: GrantKey | None, upstream: UpstreamTool | None) -> Sequence[SimilarTool]:
        """Return the other tools that a permission can cover, without the ones whose calls are all covered already."""
        if key is None or upstream is None:
            return ()
        from toolwire.consent.similar_tools import find_covered  # as above

        covered = find_covered(self._grants.list_grants())
        return [
            one
            for one in upstream.find_similar()
            if key._replace(tool=one.id, definition=one.definition) not in covered
        ]

    def list_choices(self, call: Call) -> dict[str, GrantBounds | None]:
        """Return the choices about later calls that a form offers in addition to asking each time, as texts."""
        from toolwire.consent.bound_text import build_bounds, parse_bound  # as above
        from toolwire.consent.grant import GRANT_LIFETIME

        until = f"for {GRANT_LIFETIME}" if str(self._place) else "until this server stops"
        choices: dict[str, GrantBounds | None] = {}
        if call.arguments:
            try:
                each = [parse_bound(name, value, "") for name, value in call.arguments.items()]
                choices[f"do not ask about the same call again {until}"] = build_bounds(each, None, None)
            except DefinitionError:  # a value is too long, or there are too many of them
                pass
        if call.tool.blanket_allowed is None:  # QF-03: only permissions with bounds are then possible
            return choices
        return {**choices, f"do not ask about {call.tool.name} again {until}": None}


def can_offer_later(call: Call) -> bool:
    """Return whether a question about ``call`` can offer a permission for later calls."""
    context = call.context
    is_known = context.principal != ANONYMOUS.principal or context.host == STDIO
    return context.needs_inbox or (context.can_ask and is_known)


def list_form_choices(choices: Iterable[str]) -> list[str]:
    """Return all choices of a form about later calls. The first one is the default and allows none."""
    found = [_ONCE, *choices]
    return found if len(found) > 1 else []


def list_own_similar(tool: Tool, tools: Iterable[Tool]) -> Sequence[SimilarTool]:
    """Return the ``tools`` of this server that one permission can cover together with ``tool``."""
    from toolwire.consent.grant import grant_key  # as above
    from toolwire.consent.policy import can_allow_always, site_level
    from toolwire.consent.similar_tools import list_similar

    def can_allow(one: Tool) -> bool:
        return site_level(one) is Approval.PER_CALL and can_allow_always(one)

    return [each for _, each in list_similar(tool, tools, partial(grant_key, THIS_SERVER), can_allow)]
