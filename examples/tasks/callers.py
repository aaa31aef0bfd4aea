"""Who calls the API: an app with an access token, or where that is switched on, a program with somebody's key."""

from __future__ import annotations

from functools import partial

from anyio import to_thread
from fastapi import Request
from fastapi.security import SecurityScopes

from toolwire import Kind, Problem
from toolwire.oauth import build_refusal, identify_caller
from toolwire.server import Caller, Callers, Fields, Headers, Response, read_credential

from .store import Store

PREFIX = "tsk_"
"""How every key begins, so that a token is never taken for one."""

_NO_KEY = Problem(kind=Kind.UNAUTHORIZED, message="Send an access token or an API key.")
_WRONG_KEY = Problem(kind=Kind.UNAUTHORIZED, message="This API key is not good here: it was revoked, or never given.")


class RefusedError(Exception):
    """A request of the API that is answered with ``response`` instead."""

    def __init__(self, response: Response) -> None:
        super().__init__(response.status)
        self.response = response


class StoredKeys:
    """Callers with a key that the store knows. See ``toolwire.server.Callers``."""

    needs_credentials = True

    def __init__(self, store: Store) -> None:
        self._store = store

    def find_caller(self, fields: Fields) -> Caller | Problem | None:
        """Return None where there is a key to look up, else that there is none."""
        return None if read_credential(fields).startswith(PREFIX.encode()) else _NO_KEY

    async def verify(self, fields: Fields) -> Caller | Problem:
        """Return whose key it is; it may do what they may."""
        key = read_credential(fields).decode("latin-1")
        owner = await to_thread.run_sync(partial(self._store.owner_of, key)) if key.startswith(PREFIX) else None
        return _WRONG_KEY if owner is None else Caller(owner)

    def challenge(self, problem: Problem, path: str) -> Headers:  # noqa: ARG002 - OAuth's challenge says more
        """Return nothing."""
        return ()


async def user_of(callers: Callers, request: Request, scopes: SecurityScopes) -> str:
    """Return the id of the person for whom ``request`` was made.

    Raises:
        RefusedError: there is no good token or key, or it does not allow what ``scopes`` stand for.
    """
    found = await identify_caller(callers, request.headers.raw, scopes.scopes)
    if isinstance(found, Problem):
        raise RefusedError(build_refusal(callers, found, request.url.path))
    return found.name
