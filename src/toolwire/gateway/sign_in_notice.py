"""Tell a caller at which upstreams they must sign in: all that are missing, in details that each protocol writes."""
# GW-03

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias
from urllib.parse import quote

from toolwire.core.model import Call, Json, Kind, Problem

SIGN_IN_PATH = "/sign-in/"
MAX_NAMED = 5
"""How many missing sign-ins one answer names: as many as a client of MCP opens for one call."""

HasCredential: TypeAlias = Callable[[str], Awaitable[bool]]
"""Returns whether the caller with this name has credentials at an upstream."""


class SignInNotices:
    """The upstreams at which callers sign in, at pages of the gateway at ``public_url``; exchanges need none.

    ``may_see`` says whether the caller of a call may use an upstream, by its name.
    """

    def __init__(self, public_url: str = "", may_see: Callable[[Call, str], bool] = lambda _call, _name: True) -> None:
        self._public_url = public_url.rstrip("/")
        self._may_see = may_see
        self._upstreams: dict[str, HasCredential] = {}

    def add(self, name: str, has_credential: HasCredential) -> None:
        """Add an upstream at which callers sign in."""
        self._upstreams[name] = has_credential

    async def build_problem(self, call: Call, name: str) -> Problem:
        """Return the Problem of ``call``, whose caller must sign in at ``name``; it names others that are missing."""
        missing = [name]
        for other, has_credential in self._upstreams.items():
            if len(missing) >= MAX_NAMED:
                break
            if other != name and self._may_see(call, other) and not await has_credential(call.context.principal):
                missing.append(other)
        pages: list[Json] = [self._describe(one) for one in missing]
        where = f"{self._public_url}{SIGN_IN_PATH}{quote(name)}"
        more = f" You are also not signed in at {', '.join(missing[1:])}." if missing[1:] else ""
        text = f"{call.tool.name} did not run: sign in at {where} first, and then send the same call again.{more}"
        return Problem(
            kind=Kind.MISSING_REQUIREMENTS,
            message=text,
            details={"missing_requirements": {"authorization": pages}, "sent": False},
        )

    def _describe(self, name: str) -> dict[str, Json]:
        url = f"{self._public_url}{SIGN_IN_PATH}{quote(name)}"
        return {"id": name, "url": url, "check_url": f"{url}/state"}
