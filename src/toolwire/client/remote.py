"""A server somebody else runs, as a Toolbox: connect, look at its tools, call them with consent.

Both kinds of connection, asynchronous and blocking, drive the same conversations; only the driver differs.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import assert_never
from uuid import uuid4

from toolwire.consent import Grants, Preferences, consent_check, denied, grant_key
from toolwire.core.catalog import Catalog
from toolwire.core.check import Allow, Answer, Ask, Check, Deny, Known, review
from toolwire.core.codec import Codec, Flow, Peer, Probe, ask
from toolwire.core.errors import ConnectError
from toolwire.core.model import Call, Json, Kind, Problem, Result, Tool
from toolwire.core.toolbox import Notify, unheard
from toolwire.stores import MemoryGrants
from toolwire.validation import arguments_check, snapshot

from .discover import Discovery, candidates, origin, shown
from .drive import UNASKED, Approver, Door, SyncDoor, SyncNotify, arun, run


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """A peer with the checks that every call to it passes. Nothing here opens a socket."""

    peer: Peer
    codec: Codec
    checks: tuple[Check, ...]
    grants: Grants
    probes: tuple[Probe, ...]

    def calling(self, call: Call) -> Flow[Result]:
        """Return the result of ``call``: checks first, then the person if they must be asked, then the server."""
        taken = snapshot(call)
        if isinstance(taken, Problem):
            return taken
        call = taken
        match verdict := review(call, self.checks):
            case Allow():
                pass
            case Deny(problem):
                return problem
            case Known(result):
                return result
            case Ask(question):
                answer = yield from ask(replace(question, call=deepcopy(question.call)))
                if answer.allowed is not True:
                    return _refused(call, answer)
                if answer.always is True and question.always_allowed:
                    self.grants.add(grant_key(question.site, call.tool))
            case _:
                assert_never(verdict)
        return (yield from self.codec.send(self.peer, call))


def open_connection(found: Discovery, preferences: Preferences, *, keyed: bool = False) -> Connection:
    """Return the connection to what was found.

    Raises:
        ConnectError: nothing was found; the text says what was tried.
    """
    peer = found.peer
    if peer is None:
        raise ConnectError(nothing_found(found, keyed=keyed), found.probes)
    (codec,) = candidates(peer.protocol)
    grants = MemoryGrants()
    consent = consent_check(
        site=origin(peer.url),
        target=lambda call: codec.target(peer, call),
        preferences=preferences,
        grants=grants,
    )
    checks = (arguments_check(), consent)
    return Connection(peer=peer, codec=codec, checks=checks, grants=grants, probes=found.probes)


def nothing_found(found: Discovery, *, keyed: bool = False) -> str:
    """Return one sentence that says why nothing was found; ``keyed`` says whether a key was given."""
    url = shown(found.url)
    reached = [probe for probe in found.probes if probe.status is not None]
    if not reached and found.probes:
        probe = found.probes[0]
        site = "/".join(shown(probe.url).split("/")[:3])
        return f"{url} could not be reached: it {probe.meaning.removeprefix(site).strip()}"
    if any(probe.status in (401, 403) for probe in reached):
        if keyed:
            return f"{url} does not accept this key."
        return f"{url} wants a key before it shows its tools: give one with api_key=... or --key."
    return f"{url} speaks none of our protocols; `toolwire explain {url}` shows every look that was taken."


class Remote:
    """A connection to a server, asynchronous; a Toolbox like any other. ``tools`` is what it offers."""

    def __init__(self, connection: Connection, door: Door, approve: Approver | None) -> None:
        self._connection = connection
        self._door = door
        self._approve = approve
        self.closed = False

    @property
    def tools(self) -> tuple[Tool, ...]:
        """Every tool of the server, by toolkit and name, versions ascending."""
        return self._connection.peer.catalog.tools

    @property
    def protocol(self) -> str:
        """The name of the protocol that was chosen."""
        return self._connection.peer.protocol

    @property
    def probes(self) -> tuple[Probe, ...]:
        """Every look that was taken to find the protocol, in order."""
        return self._connection.probes

    def catalog(self) -> Catalog:
        """Return the server's catalog as it was when the connection was made."""
        return self._connection.peer.catalog

    async def call(self, name: str, arguments: Mapping[str, Json] | None = None, *, notify: Notify = unheard) -> Result:
        """Call the tool ``name`` (or its id, with or without a version); return its Value or a Problem.

        ``notify`` is a coroutine function that is given each Progress of a tool that streams, in order.
        """
        tool = self.catalog().find(name)
        if isinstance(tool, Problem):
            return tool
        return await self.run(Call(tool, {} if arguments is None else arguments, str(uuid4())), notify)

    async def run(self, call: Call, notify: Notify = unheard) -> Result:
        """Run ``call`` on the server; see ``Toolbox.run``."""
        if self.closed:
            return _CLOSED
        return await arun(self._connection.calling(call), self._door, self._approve, notify)


class SyncRemote:
    """A connection to a server, blocking. ``tools`` is what it offers."""

    def __init__(self, connection: Connection, door: SyncDoor, approve: Approver | None) -> None:
        self._connection = connection
        self._door = door
        self._approve = approve
        self.closed = False

    @property
    def tools(self) -> tuple[Tool, ...]:
        """Every tool of the server, by toolkit and name, versions ascending."""
        return self._connection.peer.catalog.tools

    @property
    def protocol(self) -> str:
        """The name of the protocol that was chosen."""
        return self._connection.peer.protocol

    @property
    def probes(self) -> tuple[Probe, ...]:
        """Every look that was taken to find the protocol, in order."""
        return self._connection.probes

    def catalog(self) -> Catalog:
        """Return the server's catalog as it was when the connection was made."""
        return self._connection.peer.catalog

    def call(
        self, name: str, arguments: Mapping[str, Json] | None = None, *, notify: SyncNotify | None = None
    ) -> Result:
        """Call the tool ``name`` (or its id, with or without a version); return its Value or a Problem.

        ``notify`` is a function that is given each Progress of a tool that streams, in order.
        """
        tool = self.catalog().find(name)
        if isinstance(tool, Problem):
            return tool
        call = Call(tool, {} if arguments is None else arguments, str(uuid4()))
        if self.closed:
            return _CLOSED
        return run(self._connection.calling(call), self._door, self._approve, notify)


_CLOSED = Problem(kind=Kind.UNREACHABLE, message="This connection is closed: connect again.")


def _refused(call: Call, answer: Answer) -> Problem:
    name = call.tool.name
    if answer is UNASKED:
        return denied(f"{name} needs consent and there is no way to ask: connect with approve=... to be asked.")
    if answer.reason:
        return denied(f"{name} was not called: {answer.reason.rstrip('.')}.", reason=answer.reason)
    return denied(f"{name} was not called: it was not allowed.")
