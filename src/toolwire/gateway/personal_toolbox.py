"""Call an upstream with each caller's credentials, over that caller's own connection.

Rules:
- The tools are the ones that the gateway sees. If it sees none, each caller has the list of their own connection and
  sees nothing of another caller's. A caller who is not signed in has one tool, which says where to sign in.
- A call uses its caller's connection, with the caller's credentials, session, decisions and limits.
- A caller without credentials is told where to sign in, and nothing is sent.
- Each call checks the stored credential, because any process can have changed it. A connection with a different
  credential accepts no further calls, and is closed when none is running.
- A caller's token is never sent to an upstream. If an upstream needs one, the token is exchanged first.
"""
# GW-02, AT-55, AT-56, AT-57

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict, deque
from collections.abc import Callable, Collection
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass
from hashlib import sha256
from time import monotonic, time
from typing import Final, NamedTuple, TypeAlias

import anyio.to_thread

from toolwire.auth.credential import Credential
from toolwire.client.calls.api_keys import choose_keys, describe_key_place
from toolwire.client.connection.connect import PendingConnection
from toolwire.client.connection.remote import Remote
from toolwire.client.transport.drivers import Transport
from toolwire.core.catalog import Catalog, build_toolkit_name
from toolwire.core.codec import ConnectError, Peer
from toolwire.core.errors import ToolwireError
from toolwire.core.model import ANONYMOUS, Approval, Call, Kind, Problem, Result, Secret, Tool, Value
from toolwire.core.server_features import is_reader
from toolwire.core.toolbox import (
    Notify,
    OutputPromise,
    Toolbox,
    embed_stored_bytes,
    find_consent_handling,
    ignore_progress,
)
from toolwire.core.url_display import name_server
from toolwire.core.url_origin import get_origin
from toolwire.limits import USER_PREFIX
from toolwire.server.http.lifespan import begin_lifespan, end_lifespan
from toolwire.stores.credentials.caller_vault import CallerVault
from toolwire.stores.credentials.files import CredentialStore
from toolwire.stores.credentials.sealing import CredentialError
from toolwire.stores.outage_log import OutageLog

from .reconnecting_toolbox import ReconnectingToolbox
from .sign_in_notice import SignInNotices
from .token_exchange import TokenExchange

MAX_OPEN = 256
"""How many callers can have an open connection to one upstream. Beyond that, the longest idle one is closed."""

_EARLY_S = 60.0
_POLL_INTERVAL_S = 2.0
"""How long a caller's tool list is used without checking it again, in seconds."""
_PREPARING_S = 5.0
"""How long a tool list waits for an upstream that must report its tools, in seconds."""
_MAX_TRIES = 5
"""How often a call starts again because its caller's sign-in changes meanwhile."""
_ANY_KEY: Final = {"": Secret("")}
_EXCHANGED = b"exchanged"
"""The version of a credential that is not stored, because it belongs to its caller's token."""

_log = logging.getLogger("toolwire")


class CallerPlace(NamedTuple):
    """The URL that is called, and the account of a caller's credentials there."""

    url: str
    account: str


ConnectCaller: TypeAlias = Callable[[str, CredentialStore | Secret, CallerPlace], PendingConnection]
"""Returns the connection, not opened yet, of the caller with this name and these credentials or this token, there."""


@dataclass(slots=True, eq=False)
class _CallerConnection:
    """One caller's connection. ``versions`` are the credential versions that it was opened with or has renewed.

    ``is_retired``: it accepts no further calls, and is closed when none is running.
    """

    pending: PendingConnection
    remote: Remote
    versions: Collection[bytes]
    expires_at: float | None = None
    running: int = 0
    is_retired: bool = False


class _Opening:
    """A connection that is being opened for ``version`` of a credential, and how many calls wait for it."""

    def __init__(self, version: bytes) -> None:
        self.version = version
        self.waiting = 0
        self.is_dropped = False
        self.task: asyncio.Task[_CallerConnection | Problem] | None = None
        self.opened: _CallerConnection | None = None


class PersonalToolbox:
    """The tools of the upstream ``name`` at ``target``. Each call uses its caller's credentials.

    ``account`` names one of a caller's accounts. ``shared`` is the upstream as the gateway itself sees it. ``connect``
    opens a caller's connection with the credentials in ``vault``. With ``exchange``, callers' tokens are exchanged over
    ``transport``. Otherwise callers sign in, and ``notices`` tell them where.
    """

    def __init__(
        self,
        name: str,
        target: str,
        shared: Toolbox,
        *,
        account: str = "",
        connect: ConnectCaller,
        vault: CallerVault,
        notices: SignInNotices,
        exchange: TokenExchange | None = None,
        transport: Transport | None = None,
    ) -> None:
        self.name: str = name
        self._target, self._account = target, account
        self.shared = shared
        self._connect, self._vault, self._notices = connect, vault, notices
        self._exchange, self._transport = exchange, transport
        self._outages = OutageLog(_log, f"The credentials of the callers of {name} can be read again.")
        self._has_connected = False
        self._entrance = Catalog(title=name, tools=() if exchange is not None else (_build_entrance(name),))
        self._tried: OrderedDict[str, float] = OrderedDict()
        self._open: OrderedDict[str, _CallerConnection] = OrderedDict()
        self._opening: dict[str, _Opening] = {}
        self._retired: set[_CallerConnection] = set()
        self._closing: set[asyncio.Task[None]] = set()
        if exchange is None:
            notices.add(name, self.has_credential)

    @property
    def is_connected(self) -> bool:
        """Whether the tools are known."""
        return self._has_connected or not isinstance(self.shared, ReconnectingToolbox) or self.shared.is_connected

    @property
    def peer(self) -> Peer | None:
        """The upstream as its OpenAPI document describes it, or None without a document."""
        shared = self.shared.toolbox if isinstance(self.shared, ReconnectingToolbox) else self.shared
        return shared.peer if isinstance(shared, Remote) and shared.protocol == "openapi" else None

    @property
    def place(self) -> CallerPlace:
        """Where calls go now. It changes with the document, and a caller without credentials there is asked again."""
        # PL-01: nobody consents to a token exchange, so a document cannot move these calls to another origin.
        peer, document = self.peer, get_origin(self._target)
        api = "" if peer is None else peer.url if self._exchange is not None else peer.api_url or peer.url
        # A key for an API is valid only for the document that named it.
        is_elsewhere = bool(document and api) and get_origin(api) != document
        named = (self._account, f"of {document}" if is_elsewhere else "")
        return CallerPlace(api or self._target, " ".join(filter(None, named)))

    @property
    def url(self) -> str:
        """The URL at which callers have credentials."""
        return self.place.url

    def describe_key(self) -> str | None:
        """Return where the upstream's document expects a key, if some tool needs only one key, or else None."""
        # PL-01
        if self.peer is None:
            return None
        chosen = (choose_keys(tool, _ANY_KEY) for tool in self.peer.catalog.tools)
        return next((describe_key_place(one[0][0]) for one in chosen if one), None)

    @property
    def is_hidden(self) -> bool:
        """Whether the gateway itself sees no tools, so that each caller has their own list."""
        catalog = self.shared.catalog()
        return not catalog.tools and not catalog.features.readers

    def catalog(self) -> Catalog:
        """Return the tools as the gateway sees them, or only the sign-in tool if it sees none."""
        return self._entrance if self.is_hidden else self.shared.catalog()

    def catalog_for(self, principal: str) -> Catalog:
        """Return the tools for the caller ``principal``, as far as they are known."""
        # AT-47
        opened = self._open.get(self.find_key(principal)) if self.is_hidden else None
        return self.catalog() if opened is None else opened.remote.catalog()

    def find_key(self, principal: str) -> str:
        """Return the key under which this request's caller has their connection."""
        return _find_key(principal, self._exchange)

    async def prepare_for(self, principal: str) -> None:
        """Connect for the caller ``principal``, if the tools depend on that and the caller is signed in."""
        if not self.is_hidden or principal == ANONYMOUS.principal:
            return
        key = self.find_key(principal)
        opened, now = self._open.get(key), monotonic()
        # One look in two seconds is enough for a list. A sign-in in this process is seen at once: it forgets the time.
        is_opening = key in self._opening
        if (
            not is_opening
            and now < self._tried.get(key, now) + _POLL_INTERVAL_S
            and (opened is not None or key in self._tried)
        ):
            return
        self._tried[key] = now
        self._tried.move_to_end(key)
        while len(self._tried) > 4 * MAX_OPEN:
            self._tried.popitem(last=False)
        with suppress(TimeoutError, CredentialError):  # a call reports the error
            async with asyncio.timeout(_PREPARING_S):
                found = await self._take_connection(principal)
                if isinstance(found, _CallerConnection):
                    self._release(found)

    def is_entrance(self, tool: Tool) -> bool:
        """Return whether ``tool`` is the one that tells a caller where to sign in."""
        return any(tool is one for one in self._entrance.tools)

    def handles_consent(self, tool: Tool) -> bool:
        """Return whether each call of ``tool`` passes a consent check of its connection; see ``HandlesConsent``."""
        return self.is_hidden or find_consent_handling(self.shared)(tool)

    def judge_output(self, _tool: Tool) -> OutputPromise:
        """Return that every output schema is the word of another server."""
        return OutputPromise.FOREIGN

    async def has_credential(self, principal: str) -> bool:
        """Return whether the caller can be served without a sign-in."""
        return await self._find_stored(principal) is not None

    async def find_missing_consent(self, call: Call) -> Problem | None:
        """Return the question to the caller about ``call``. See ``AsksCallers``. ``run`` reports all other problems."""
        principal = call.context.principal
        try:
            opened = None if principal == ANONYMOUS.principal else await self._take_connection(principal)
        except CredentialError:
            return None
        if opened is None or isinstance(opened, Problem):
            return None
        try:
            tool = opened.remote.find(call.tool.id)
            return (
                None
                if isinstance(tool, Problem)
                else await opened.remote.find_missing_consent(call._replace(tool=tool))
            )
        finally:
            self._release(opened)

    async def run(self, call: Call, notify: Notify = ignore_progress) -> Result:
        """Run ``call`` with its caller's credentials, and return its result."""
        principal = call.context.principal
        if principal == ANONYMOUS.principal:
            text = f"{call.tool.name} needs the caller's credentials, but the caller of this call is unknown."
            return Problem(kind=Kind.UNAUTHORIZED, message=text)
        try:
            opened = await self._take_connection(principal)
            if isinstance(opened, Problem):
                return await self._explain(call, opened)
        except CredentialError as error:
            self._outages.record_failure("the credentials of a caller of %s cannot be read: %s", self.name, error)
            text = f"Cannot read your credentials at {self.name} now."
            return Problem(kind=Kind.OVERLOADED, message=text, can_retry=True, retry_after_ms=5_000)
        self._outages.record_success()
        try:
            result = await self._run_on(opened.remote, call, notify)
            return await self._explain(call, result, opened) if isinstance(result, Problem) else result
        finally:
            self._release(opened)

    async def _run_on(self, remote: Remote, call: Call, notify: Notify) -> Result:
        if self.is_entrance(call.tool):
            number = len(remote.catalog().tools)
            return Value(f"You are signed in at {self.name}. List the tools again: you can now use {number}.")
        # The reader of a resource or prompt is not a listed tool. It says itself what is read.
        tool = call.tool if is_reader(call.tool) else remote.find(call.tool.id)
        if isinstance(tool, Problem):
            return tool
        return embed_stored_bytes(await remote.run(call._replace(tool=tool), notify), remote)

    async def forget(self, principal: str) -> None:
        """Retire the connections of a caller whose credentials have changed. Running calls continue."""
        key = _find_key(principal, self._exchange)
        self._tried.pop(key, None)
        opening = self._opening.pop(key, None)
        if opening is not None:
            opening.is_dropped = True
        self._retire(key)

    async def begin(self) -> None:
        """Start the shared connection."""
        await begin_lifespan(self.shared)

    async def end(self) -> None:
        """Close the connections of all callers, and the shared one."""
        tasks = [one.task for one in self._opening.values() if one.task is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        for key in list(self._open):
            self._retire(key)
        for opened in list(self._retired):
            self._close_soon(opened)
        if self._closing:
            await asyncio.wait(self._closing)
        await end_lifespan(self.shared)
        if self._transport is not None:
            await self._transport.aclose()

    async def _explain(self, call: Call, problem: Problem, used: _CallerConnection | None = None) -> Problem:
        """Return where to sign in if ``problem``, which came over ``used``, requires that, or else ``problem``."""
        if problem.kind is not Kind.UNAUTHORIZED or problem.details.get("denied"):
            return problem
        key = _find_key(call.context.principal, self._exchange)
        # AT-57: other calls continue, and a connection with newer credentials was not refused.
        if used is not None and self._open.get(key) is used:
            self._retire(key)
        if self._exchange is not None:
            text = f"{self.name} rejected the token that was exchanged for yours."
            return Problem(kind=Kind.FORBIDDEN, message=text)
        return await self._notices.build_problem(call, self.name)

    async def _take_connection(self, principal: str) -> _CallerConnection | Problem:
        """Return the connection for a call of ``principal``, with the current credentials.

        ``_release`` gives it back.
        """
        key = _find_key(principal, self._exchange)
        for _ in range(_MAX_TRIES):
            version = await self._read_version(principal)
            if version is None:
                self._retire(key)
                return Problem(kind=Kind.UNAUTHORIZED, message=f"{self.name} needs your sign-in.")
            opened = self._open.get(key)
            if opened is not None and version in opened.versions and not _is_ending(opened):
                self._open.move_to_end(key)
                opened.running += 1
                return opened
            newer = await self._wait_for_opening(principal, key, version)
            if isinstance(newer, Problem):
                return newer
            # AT-56: the stored credential can have changed while the connection was opened.
            if await self._is_current(principal, newer):
                return newer
            self._release(newer)
        text = f"Your sign-in at {self.name} is being changed."
        return Problem(kind=Kind.OVERLOADED, message=text, can_retry=True, retry_after_ms=1_000)

    async def _is_current(self, principal: str, opened: _CallerConnection) -> bool:
        try:
            return await self._read_version(principal) in opened.versions
        except BaseException:
            self._release(opened)
            raise

    async def _wait_for_opening(self, principal: str, key: str, version: bytes) -> _CallerConnection | Problem:
        """Return the connection that is being opened for ``version``, or why there is none. Release it after use."""
        opening = self._opening.get(key)
        if opening is None or opening.version != version:
            if opening is not None:
                opening.is_dropped = True
            self._retire(key)
            opening = self._opening[key] = _Opening(version)
            # A separate task, because the first caller that waits for it can disconnect.
            opening.task = asyncio.create_task(self._open_connection(principal, key, opening))
        assert opening.task is not None  # noqa: S101 - set above, in the same step
        opening.waiting += 1
        try:
            return await asyncio.shield(opening.task)
        except asyncio.CancelledError:
            if opening.opened is None:
                opening.waiting -= 1
            else:
                self._release(opening.opened)
            raise

    async def _open_connection(self, principal: str, key: str, opening: _Opening) -> _CallerConnection | Problem:
        try:
            opened = await self._connect_for(principal)
            if isinstance(opened, Problem):
                return opened
            self._has_connected = True
            # Count each waiting call from now on. Otherwise the connection would look idle until its turn comes.
            opening.opened, opened.running = opened, opening.waiting
            if opening.is_dropped:  # AT-56: the credentials have changed, so later calls do not use this connection
                opened.is_retired = True
                self._retired.add(opened)
                if not opening.waiting:
                    self._close_soon(opened)
                return opened
            self._open[key] = opened
            self._close_idle()
            return opened
        finally:
            if self._opening.get(key) is opening:
                del self._opening[key]

    async def _connect_for(self, principal: str) -> _CallerConnection | Problem:
        store, place = self._vault.open_store(principal), self.place
        credential = await self._find_credential(principal, store, place)
        if isinstance(credential, Problem):
            return credential
        versions = deque([_digest_version(credential)], 2)
        if self._exchange is not None:
            versions.append(_EXCHANGED)
        elif isinstance(store, CredentialStore):
            # A renewal by the connection itself does not change the sign-in.
            store.on_put = lambda newer: versions.append(_digest_version(newer))
        # PL-01: a document says where its API expects a key.
        is_text = self._exchange is not None or (credential.kind == "key" and self.peer is not None)
        pending = self._connect(principal, credential.access if is_text else store, place)
        try:
            remote = await pending.__aenter__()
            if self.is_hidden:
                await remote.list_resources()  # They are then in its catalog. A server without any says so.
        except ConnectError as error:
            kind = Kind.UNAUTHORIZED if error.kind is Kind.UNAUTHORIZED else Kind.UNREACHABLE
            why = name_server(str(error), get_origin(self.url), f"the upstream {self.name}")
            return Problem(kind=kind, message=f"{self.name} could not be reached for you. {why}")
        except ToolwireError as error:
            why = name_server(str(error), get_origin(self.url), f"the upstream {self.name}")
            _log.error("%s could not be opened for %s: %s", self.name, principal, why)
            return Problem(kind=Kind.UNREACHABLE, message=f"{self.name} could not be reached for you.")
        expires_at = credential.expires_at if self._exchange is not None else None
        return _CallerConnection(pending, remote, versions, expires_at)

    async def _find_stored(self, principal: str) -> Credential | None:
        store = self._vault.open_store(principal)
        return await anyio.to_thread.run_sync(store.find_covering, *self.place)

    async def _read_version(self, principal: str) -> bytes | None:
        """Return the version of the currently stored credential, or None without one."""
        # AT-55: a page in any worker, or another machine, can have changed it.
        if self._exchange is not None:
            return _EXCHANGED
        found = await self._find_stored(principal)
        return None if found is None else _digest_version(found)

    async def _find_credential(
        self, principal: str, store: CredentialStore, place: CallerPlace
    ) -> Credential | Problem:
        if self._exchange is None:
            found = await anyio.to_thread.run_sync(store.find_covering, *place)
            return found or Problem(kind=Kind.UNAUTHORIZED, message=f"{self.name} needs your sign-in.")
        token = CALLER_TOKEN.get()
        # A token that the gateway itself issued gives access to everything that its user may use, so no other server
        # gets it.
        if token is None or principal.startswith(("key", USER_PREFIX)):
            text = f"{self.name} requires an exchanged token from its caller, but your call had none."
            return Problem(kind=Kind.FORBIDDEN, message=text)
        assert self._transport is not None, "an exchange has a transport"  # noqa: S101 - the constructor's callers
        return await self._exchange.exchange(token, place.url, self._transport)

    def _close_idle(self) -> None:
        for key in list(self._open):
            if len(self._open) <= MAX_OPEN:
                return
            if not self._open[key].running:
                self._retire(key)

    def _retire(self, key: str) -> None:
        """Let no further call take the connection at ``key``; it is closed when nothing runs on it."""
        opened = self._open.pop(key, None)
        if opened is None:
            return
        opened.is_retired = True
        self._retired.add(opened)
        if not opened.running:
            self._close_soon(opened)

    def _release(self, opened: _CallerConnection) -> None:
        opened.running -= 1
        if opened.is_retired and not opened.running:
            self._close_soon(opened)

    def _close_soon(self, opened: _CallerConnection) -> None:
        if opened not in self._retired:
            return
        self._retired.discard(opened)
        task = asyncio.create_task(_close(opened))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)


def _build_entrance(name: str) -> Tool:
    """Return the tool of an upstream that shows its tools to known callers alone, for those who are not signed in."""
    text = f"Sign in at {name} to see its tools. The answer says where."
    return Tool(
        name=f"sign_in_at_{name}",
        toolkit=build_toolkit_name(name),
        description=text,
        input_schema={"type": "object", "properties": {}},
        output_schema={"type": "string"},
        safe=True,
        approval=Approval.AUTO,
    )


def _is_ending(opened: _CallerConnection) -> bool:
    return opened.expires_at is not None and time() >= opened.expires_at - _EARLY_S


def _digest_version(credential: Credential) -> bytes:
    """Return what another sign-in, another key or a renewal changes."""
    secrets = (credential.access, credential.refresh)
    parts = (credential.storage_name, *("" if one is None else one.reveal() for one in secrets))
    return sha256("\0".join(parts).encode()).digest()


def _find_key(principal: str, exchange: TokenExchange | None) -> str:
    """Return what the connection of a caller is found by: with an exchange, each token has its own rights."""
    token = None if exchange is None else CALLER_TOKEN.get()
    return principal if token is None else f"{principal}\0{sha256(token.reveal().encode()).hexdigest()}"


async def _close(opened: _CallerConnection) -> None:
    try:
        await opened.pending.__aexit__(None, None, None)
    except Exception:  # noqa: BLE001 - a connection that cannot be closed well is closed anyway
        _log.exception("the connection of a caller could not be closed well")


CALLER_TOKEN: ContextVar[Secret | None] = ContextVar("toolwire_caller_token", default=None)
"""The token of the request, if a gateway exchanges tokens."""
