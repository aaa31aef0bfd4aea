"""Admit requests: check Host and Origin, the caller's credentials, and whether the server still takes calls.

Rules:
- Host and Origin are checked before anything else in a request.
- Open paths need no credentials. If tools need scopes, a caller who sends credentials sees more of an open path.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from functools import partial

from toolwire.core.catalog import Catalog
from toolwire.core.http import Response
from toolwire.core.long_call import NO_CALL
from toolwire.core.model import Kind, Problem
from toolwire.server.http.exchange import Scope
from toolwire.server.http.response_stream import IsStillAuthorized
from toolwire.server.mcp.change_stream import CallerView
from toolwire.server.route_table import RouteEntry, RouteTable
from toolwire.server.run.idempotency import KEY_HEADER, check_key
from toolwire.server.run.service import Service
from toolwire.validation import build_insufficient_scopes, permits

from .callers import ANONYMOUS_CALLER, Caller, Callers, Fields
from .host_guard import HostGuard
from .tool_rights import BoundedTools, ToolRights
from .visibility import add_challenge, name_scopes

_FETCH_SITE = b"sec-fetch-site"


class Admission:
    """Admits requests. ``needs_credentials`` says whether any request needs credentials."""

    def __init__(
        self, guard: HostGuard, callers: Callers, service: Service, rights: ToolRights | None, *, is_private: bool
    ) -> None:
        """Admit requests that ``guard`` accepts, from ``callers``, while ``service`` takes calls.

        ``rights`` says which tools each caller may use, if caller rules restrict that. ``is_private`` means that only
        known callers learn which tools exist.
        """
        self.rights: ToolRights | None = rights
        self.needs_credentials: bool = callers.needs_credentials
        self.callers = callers
        self._guard = guard
        self._service = service
        self._is_private = is_private

    def admit(self, scope: Scope, fields: Fields, entry: RouteEntry, table: RouteTable) -> Caller | Problem | None:
        """Return the caller, a Problem that refuses the request, or None: ``verify_caller`` must decide."""
        server = scope.get("server")
        address = server[0] if server else ""
        problem = self._guard.check_host(address, fields)  # D-24: before credentials are read
        if problem is not None and entry.takes_any_host and problem.kind is Kind.MISDIRECTED:
            problem = None  # a health probe: orchestrators and proxies send an address as Host
        # Usual requests skip these checks. A dict has each name once, so a different length means that a field is
        # repeated; only browsers send Sec-Fetch-Site.
        if problem is None and (
            self._service.draining
            or len(fields) != len(scope["headers"])
            or _FETCH_SITE in fields
            or KEY_HEADER in fields
        ):
            problem = self._check_unusual(scope, fields, entry, address)
        if problem is not None:
            return problem
        if not self.needs_credentials or (entry.open and not table.depends_on_caller):
            return ANONYMOUS_CALLER
        caller = self.callers.find_caller(fields)
        # A wrong credential does not close an open path.
        return ANONYMOUS_CALLER if entry.open and isinstance(caller, Problem) else caller

    def _check_unusual(self, scope: Scope, fields: Fields, entry: RouteEntry, address: object) -> Problem | None:
        """Return the refusal of a request with unusual fields, or of any request while the server drains."""
        # RFC 9112, 3.2: two Host fields are refused, because two programs could each use a different one.
        if len(fields) != len(scope["headers"]) and _has_two_hosts(scope):
            return _TWO_HOSTS
        if not entry.open and _FETCH_SITE in fields and not _is_link_to_page(scope, fields, entry):
            problem = self._guard.check_cross_site(address, fields)
            if problem is not None:
                return problem
        problem = check_key(fields) if KEY_HEADER in fields else None
        return self._service.build_refusal() if problem is None and self._service.draining else problem

    async def verify_caller(self, fields: Fields, entry: RouteEntry) -> Caller | Problem:
        """Return the caller, after asking a store or the network, or a Problem that refuses the request."""
        caller = await self.callers.verify(fields)
        return ANONYMOUS_CALLER if entry.open and isinstance(caller, Problem) else caller

    async def identify(self, fields: Fields) -> Caller | Problem:
        """Return the caller whose credentials are in ``fields``, even on an open path."""
        return self.callers.find_caller(fields) or await self.callers.verify(fields)

    def find_bounded(self, caller: Caller) -> BoundedTools | None:
        """Return the tools that the rules permit ``caller``, or None if no rule restricts the caller."""
        return None if self.rights is None else self.rights.find(caller.name, caller.group)

    def build_judge(
        self, caller: Caller, find_catalog: Callable[[], Catalog]
    ) -> Callable[[str], Problem | None] | None:
        """Return a function that says why ``caller`` may not call a tool, or None if they may call all."""
        scopes, bounded = caller.scopes if self.needs_credentials else None, self.find_bounded(caller)
        if scopes is None and bounded is None:
            return None

        def judge(id_: str) -> Problem | None:
            tool = find_catalog().get(id_)
            if tool is None:  # The tool is no longer served, but its result still belongs to its caller.
                return None
            if bounded is not None and not bounded.permits(tool):
                return NO_CALL
            return None if permits(scopes, tool) else build_insufficient_scopes(tool, scopes)

        return judge

    def build_view(
        self, caller: Caller, fields: Fields | None, find_own_catalog: Callable[[], Catalog] | None
    ) -> CallerView:
        """Return the view of ``caller`` on a catalog. A stream ends when the credentials in ``fields`` do.

        ``find_own_catalog`` returns the catalog of a caller who is offered different tools.
        """
        is_still_authorized = None if fields is None else self.build_recheck(fields, caller)
        scopes = caller.scopes if self.needs_credentials else None
        bounded = self.find_bounded(caller)
        narrow = None if bounded is None else bounded.narrow
        return CallerView(scopes, is_still_authorized, find_own_catalog, narrow)

    def build_recheck(self, fields: Fields, caller: Caller) -> IsStillAuthorized | None:
        """Return a function that checks a stream's credentials again, or None if its caller sent none."""
        # A user who is signed in with a browser sends none in the header fields.
        if not self.needs_credentials or isinstance(self.callers.find_caller(fields), Problem):
            return None
        return partial(self._is_still_authorized, fields, caller.name)

    async def is_unrevoked(self, fields: Fields, caller: Caller) -> bool:
        """Return whether a call may go on. It outlives credentials that expire meanwhile, but no others."""
        # D-38
        return time.time() >= caller.until or await self._is_still_authorized(fields, caller.name)

    async def _is_still_authorized(self, fields: Fields, name: str) -> bool:
        found = await self.identify(fields)
        # If the store cannot be reached, nothing has been revoked.
        return found.name == name if isinstance(found, Caller) else found.kind is not Kind.UNAUTHORIZED

    def add_challenge(self, response: Response, problem: Problem, table: RouteTable, path: str) -> Response:
        """Return ``response``, which refuses ``problem``, with a challenge that says how to authenticate."""
        scopes = frozenset[str]() if self._is_private else table.scopes  # Scope names can reveal which tools exist.
        return add_challenge(response, name_scopes(problem, scopes), self.callers, path)


def _is_link_to_page(scope: Scope, fields: Fields, entry: RouteEntry) -> bool:
    """Return whether a user followed a link to a page. Any site can link here, because it cannot read the response."""
    is_link = scope["method"] in ("GET", "HEAD") and fields.get(b"sec-fetch-mode") == b"navigate"
    return is_link and entry.page is not None and entry.page.is_wanted(scope["headers"])


_TWO_HOSTS = Problem(kind=Kind.MALFORMED, message="The request has more than one Host header.")


def _has_two_hosts(scope: Scope) -> bool:
    return [name for name, _ in scope["headers"]].count(b"host") > 1


def find_owner_key(caller: Caller, bundle: str = "") -> Hashable:
    """Return the key of a session's owner: the principal, the program that acts for it, and the bundle, if any."""
    return (caller.name, caller.client_id, bundle) if bundle else (caller.name, caller.client_id)


def find_quota_key(scope: Scope, caller: Caller) -> Hashable:
    """Return the key under which a caller's quota is counted: its name, or its IP address if it is anonymous."""
    return (scope.get("client") or ("",))[0] if caller is ANONYMOUS_CALLER else (caller.name,)
