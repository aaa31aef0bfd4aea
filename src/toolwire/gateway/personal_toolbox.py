"""Call an upstream with the credentials of each caller, over a connection of that caller's own.

Rules:
- The tools are those that the gateway sees, or, where it sees none, those of the first caller who connects.
- A call goes over the connection of its caller: with the caller's credentials, session, decisions and limits.
- A caller without credentials is told where to sign in, and nothing is sent.
- A caller's token never goes to an upstream. Where an upstream wants that, it is exchanged first.
"""
# GW-02

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable
from hashlib import sha256
from time import time
from typing import TypeAlias

import anyio.to_thread

from toolwire.auth.credential import Credential
from toolwire.client.connection.connect import PendingConnection
from toolwire.client.connection.remote import Remote
from toolwire.client.transport.drivers import Transport
from toolwire.core.catalog import Catalog
from toolwire.core.connect_error import ConnectError
from toolwire.core.dataclass import dataclass
from toolwire.core.errors import ToolwireError
from toolwire.core.model import ANONYMOUS, Call, Kind, Problem, Result, Secret, Tool
from toolwire.core.recipe import Recipe
from toolwire.core.toolbox import (
    Notify,
    Toolbox,
    embed_kept_bytes,
    find_recipes,
    find_self_asking,
    ignore_progress,
)
from toolwire.limits import USER_PREFIX
from toolwire.server.http.lifespan import begin_lifespan, end_lifespan
from toolwire.stores.credentials.caller_vault import CallerVault
from toolwire.stores.credentials.files import CredentialStore

from .caller_request import CALLER_TOKEN
from .sign_in_notice import SignInNotices
from .token_exchange import TokenExchange
from .waiting_toolbox import WaitingToolbox

MAX_OPEN = 256
"""How many callers have an open connection to one upstream; beyond that, the one that is idle for longest is closed."""

_EARLY_S = 60.0

_log = logging.getLogger("toolwire")

ConnectCaller: TypeAlias = Callable[[str, CredentialStore | Secret], PendingConnection]
"""Returns the connection, not opened yet, of the caller with this name and these credentials or this token."""


@dataclass(slots=True)
class _CallerConnection:
    pending: PendingConnection
    remote: Remote
    running: int = 0
    expires_at: float | None = None


class PersonalToolbox:
    """The tools of the upstream ``name`` at ``url``, each called with the credentials of its caller.

    ``shared`` is how the gateway itself sees the upstream. ``connect`` opens the connection of a caller, whose
    credentials are in ``vault``. With ``exchange``, the tokens of callers are exchanged over ``transport``; else they
    sign in, as ``notices`` tell them.
    """

    def __init__(
        self,
        name: str,
        url: str,
        shared: Toolbox,
        *,
        connect: ConnectCaller,
        vault: CallerVault,
        notices: SignInNotices,
        exchange: TokenExchange | None = None,
        transport: Transport | None = None,
    ) -> None:
        self.name, self.url = name, url
        self.shared = shared
        self._connect, self._vault, self._notices = connect, vault, notices
        self._exchange, self._transport = exchange, transport
        self._seen: Catalog | None = None
        self._open: OrderedDict[str, _CallerConnection] = OrderedDict()
        self._opening: dict[str, asyncio.Task[_CallerConnection | Problem]] = {}
        if exchange is None:
            notices.add(name, self.has_credential)

    @property
    def is_connected(self) -> bool:
        """Whether the tools are known."""
        return self._seen is not None or not isinstance(self.shared, WaitingToolbox) or self.shared.is_connected

    def catalog(self) -> Catalog:
        """Return the tools as the gateway sees them, or as the first caller who connected does."""
        catalog = self.shared.catalog()
        return self._seen if self._seen is not None and not catalog.tools else catalog

    @property
    def recipes(self) -> tuple[Recipe, ...]:
        """The recipes of the site, as the gateway sees them."""
        return find_recipes(self.shared)

    def asks_itself(self, tool: Tool) -> bool:
        """Return whether each call of ``tool`` passes a consent check of its connection; see ``AsksItself``."""
        return isinstance(self.shared, WaitingToolbox) or find_self_asking(self.shared)(tool)

    async def has_credential(self, principal: str) -> bool:
        """Return whether the caller can be served without a sign-in."""
        if principal in self._open:
            return True
        store = self._vault.open_store(principal)
        return await anyio.to_thread.run_sync(store.find_covering, self.url) is not None

    async def run(self, call: Call, notify: Notify = ignore_progress) -> Result:
        """Run ``call`` with the credentials of its caller, and return its result."""
        principal = call.context.principal
        if principal == ANONYMOUS.principal:
            text = f"{call.tool.name} is called with the credentials of its caller, and this call names none."
            return Problem(kind=Kind.UNAUTHORIZED, message=text)
        opened = await self._find_connection(principal)
        if isinstance(opened, Problem):
            return await self._explain(call, opened)
        tool = opened.remote.find(call.tool.id)
        if isinstance(tool, Problem):
            return tool
        opened.running += 1
        try:
            result = await opened.remote.run(call._replace(tool=tool), notify)
        finally:
            opened.running -= 1
        if isinstance(result, Problem):
            return await self._explain(call, result)
        return embed_kept_bytes(result, opened.remote)

    async def forget(self, principal: str) -> None:
        """Close the connection of a caller, whose credentials have changed."""
        await self._forget(principal)

    async def _forget(self, key: str) -> None:
        opened = self._open.pop(key, None)
        if opened is not None:
            await _close(opened)

    async def begin(self) -> None:
        """Begin the shared connection."""
        await begin_lifespan(self.shared)

    async def end(self) -> None:
        """Close the connections of all callers, and the shared one."""
        for task in self._opening.values():
            task.cancel()
        while self._open:
            await _close(self._open.popitem()[1])
        await end_lifespan(self.shared)
        if self._transport is not None:
            await self._transport.aclose()

    async def _explain(self, call: Call, problem: Problem) -> Problem:
        """Return where to sign in if that is what ``problem`` wants, else ``problem``."""
        if problem.kind is not Kind.UNAUTHORIZED or problem.details.get("denied"):
            return problem
        await self._forget(_find_key(call.context.principal, self._exchange))
        if self._exchange is not None:
            text = f"{self.name} does not accept the token that yours was exchanged for."
            return Problem(kind=Kind.FORBIDDEN, message=text)
        return await self._notices.build_problem(call, self.name)

    async def _find_connection(self, principal: str) -> _CallerConnection | Problem:
        key = _find_key(principal, self._exchange)
        opened = self._open.get(key)
        if opened is not None and (opened.expires_at is None or time() < opened.expires_at - _EARLY_S):
            self._open.move_to_end(key)
            return opened
        task = self._opening.get(key)
        if task is None:
            # A task of its own: the first of the callers that wait for it may leave.
            task = self._opening[key] = asyncio.create_task(self._open_connection(principal, key))
            task.add_done_callback(lambda _: self._opening.pop(key, None))
        return await asyncio.shield(task)

    async def _open_connection(self, principal: str, key: str) -> _CallerConnection | Problem:
        await self._forget(key)
        store = self._vault.open_store(principal)
        credential = await self._find_credential(principal, store)
        if isinstance(credential, Problem):
            return credential
        pending = self._connect(principal, store if self._exchange is None else credential.access)
        try:
            remote = await pending.__aenter__()
        except ConnectError as error:
            kind = Kind.UNAUTHORIZED if error.kind is Kind.UNAUTHORIZED else Kind.UNREACHABLE
            return Problem(kind=kind, message=f"{self.name} could not be reached for you. {error}")
        except ToolwireError as error:
            _log.error("%s could not be opened for %s: %s", self.name, principal, error)
            return Problem(kind=Kind.UNREACHABLE, message=f"{self.name} could not be reached for you.")
        if self._seen is None:
            self._seen = remote.catalog()
        expires_at = credential.expires_at if self._exchange is not None else None
        opened = self._open[key] = _CallerConnection(pending, remote, expires_at=expires_at)
        await self._close_idle()
        return opened

    async def _find_credential(self, principal: str, store: CredentialStore) -> Credential | Problem:
        if self._exchange is None:
            found = await anyio.to_thread.run_sync(store.find_covering, self.url)
            return found or Problem(kind=Kind.UNAUTHORIZED, message=f"{self.name} needs your sign-in.")
        token = CALLER_TOKEN.get()
        # A token that the gateway itself issued opens all that its person may use, so no other server gets it.
        if token is None or principal.startswith(("key", USER_PREFIX)):
            text = f"{self.name} takes an exchanged token of its caller, and your call came without one."
            return Problem(kind=Kind.FORBIDDEN, message=text)
        assert self._transport is not None, "an exchange has a transport"  # noqa: S101 - the constructor's callers
        return await self._exchange.exchange(token, self.url, self._transport)

    async def _close_idle(self) -> None:
        for principal in list(self._open):
            if len(self._open) <= MAX_OPEN:
                return
            if not self._open[principal].running:
                await _close(self._open.pop(principal))


def _find_key(principal: str, exchange: TokenExchange | None) -> str:
    """Return what the connection of a caller is found by: with an exchange, each token has its own rights."""
    token = None if exchange is None else CALLER_TOKEN.get()
    return principal if token is None else f"{principal}\0{sha256(token.reveal().encode()).hexdigest()}"


async def _close(opened: _CallerConnection) -> None:
    try:
        await opened.pending.__aexit__(None, None, None)
    except Exception:  # noqa: BLE001 - a connection that cannot be closed well is closed anyway
        _log.exception("the connection of a caller could not be closed well")
