"""Who is let in: the guard, the caller's credentials, and whether this server still takes anything.

Rules:
- Host and Origin are looked at before anything else of a request. [D-24]
- What is open is so to anybody; where tools are not for everybody, whoever says who they are sees their own.
"""

from __future__ import annotations

from toolwire.core.model import Kind, Problem
from toolwire.server.http.exchange import Scope
from toolwire.server.route_table import RouteEntry, RouteTable
from toolwire.server.run.idempotency import KEY_HEADER, check_key
from toolwire.server.run.service import Service

from .callers import ANONYMOUS_CALLER, Caller, Callers, Fields
from .host_guard import HostGuard

_FETCH_SITE = b"sec-fetch-site"


class Admission:
    """Lets requests in. ``wanted`` says whether any request needs credentials."""

    def __init__(self, guard: HostGuard, callers: Callers, service: Service) -> None:
        self.needs_credentials = callers.needs_credentials
        self._guard = guard
        self._callers = callers
        self._service = service

    def admit(self, scope: Scope, fields: Fields, entry: RouteEntry, table: RouteTable) -> Caller | Problem | None:
        """Return whose request this is, why it goes no further, or None where that must be verified."""
        server = scope.get("server")
        address = server[0] if server else ""
        problem = self._guard.check_host(address, fields)
        if problem is None and (
            self._service.draining
            or len(fields) != len(scope["headers"])
            or _FETCH_SITE in fields
            or KEY_HEADER in fields
        ):
            problem = self._check_unusual(scope, fields, entry, address)
        if problem is not None:
            return problem
        if not self.needs_credentials or (entry.open and not table.scopes):
            return ANONYMOUS_CALLER
        said = self._callers.find_caller(fields)
        return ANONYMOUS_CALLER if entry.open and isinstance(said, Problem) else said

    def _check_unusual(self, scope: Scope, fields: Fields, entry: RouteEntry, address: object) -> Problem | None:
        """Return why a request goes no further whose head, or whose moment, is not as most are."""
        if len(fields) != len(scope["headers"]) and _has_two_hosts(scope):
            return _TWO_HOSTS
        if not entry.open and _FETCH_SITE in fields:
            problem = self._guard.check_cross_site(address, fields)
            if problem is not None:
                return problem
        problem = check_key(fields) if KEY_HEADER in fields else None
        return self._service.build_refusal() if problem is None and self._service.draining else problem

    async def verify_caller(self, fields: Fields, entry: RouteEntry) -> Caller | Problem:
        """Return whose request this is, after asking whoever knows; or why it goes no further."""
        said = await self._callers.verify(fields)
        return ANONYMOUS_CALLER if entry.open and isinstance(said, Problem) else said


_TWO_HOSTS = Problem(kind=Kind.MALFORMED, message="A request says its Host once.")


def _has_two_hosts(scope: Scope) -> bool:
    return [name for name, _ in scope["headers"]].count(b"host") > 1
