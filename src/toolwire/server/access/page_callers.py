"""Identify the callers of pages, which cannot set header fields, by a key in a form or by a browser session."""
# GW-02, LC-05

from __future__ import annotations

from dataclasses import replace
from functools import partial

from toolwire.core.http import Headers, Response
from toolwire.core.model import Problem
from toolwire.server.http.exchange import Scope
from toolwire.server.page.browser_request import LoginPlace, find_form_key
from toolwire.server.route_table import RouteEntry, RouteTable, refuse_request

from .admission import Admission
from .browser_session import PeopleSignIn
from .callers import Caller, Fields
from .key_sessions import KeySessions, find_form_step, read_session_change


class PageCallers:
    """The callers of the pages of one application. ``people`` says how users sign in at this server, if they can."""

    def __init__(self, admission: Admission, sessions: KeySessions) -> None:
        self._admission, self._sessions = admission, sessions
        self.people: PeopleSignIn | None = None

    def can_admit(self, entry: RouteEntry, headers: Headers) -> bool:
        """Return whether a request's form or browser session can identify its caller."""
        return entry.takes_form_key or (entry.page is not None and entry.page.is_wanted(headers))

    async def admit(
        self,
        scope: Scope,
        fields: Fields,
        entry: RouteEntry,
        table: RouteTable,
        body: bytes | Problem,
        refusal: Problem,
    ) -> tuple[Caller | Problem, RouteEntry]:
        """Return the caller whose key is in a form or who is signed in with the browser, and their entry.

        Return ``refusal`` if there is none.
        """
        caller = await self._admit_form(scope, fields, entry, table, body) if entry.takes_body else None
        page, sessions = entry.page, self._sessions
        root, step = scope.get("root_path", ""), find_form_step(body) if entry.takes_body else ""
        if caller is not None or page is None or b"authorization" in fields:
            if isinstance(caller, Caller) and page is not None and step == "sign-in" and isinstance(body, bytes):
                cookie = await sessions.begin(scope, fields, find_form_key(body), caller)
                entry = replace(entry, read=partial(read_session_change, root, cookie, entry.read))
            return caller or refusal, entry
        person = None if self.people is None else await self.people.find_user(scope["headers"])
        user = person or await sessions.find(scope, fields)
        if user is None or isinstance(user, Problem):
            return user or refusal, entry
        read = page.build_reader(user.name, user.has_key)
        if user.has_key and step == "sign-out":
            read = partial(read_session_change, root, await sessions.end(scope, fields), read)
        return user.caller, replace(entry, read=read)

    def refuse(self, scope: Scope, entry: RouteEntry, problem: Problem) -> Response:
        """Return the refusal of a request. If a page was requested, it asks for a key or a sign-in."""
        page = entry.page
        if page is None or not page.is_wanted(scope["headers"]):
            return refuse_request(scope["method"], scope["headers"], problem, entry.refuse, scope.get("root_path", ""))
        return page.refuse(problem, LoginPlace() if self.people is None else self.people.login)

    async def _admit_form(
        self, scope: Scope, fields: Fields, entry: RouteEntry, table: RouteTable, body: bytes | Problem
    ) -> Caller | Problem | None:
        """Return the caller whose key is in the page's form, or None if the form contains no key."""
        key = b"" if isinstance(body, Problem) else find_form_key(body)
        if not key:
            return None
        fields = {**fields, b"authorization": b"Bearer " + key}
        return self._admission.admit(scope, fields, entry, table) or await self._admission.verify_caller(fields, entry)
