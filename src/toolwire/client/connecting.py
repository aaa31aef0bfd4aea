"""``connect``: from a pasted URL to a Remote, and its connections closed again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from toolwire.consent import NO_PREFERENCES, Preferences
from toolwire.core.model import Problem, Secret

from .discover import Discovery, absolute, candidates, discover
from .discreet import Discreet, SyncDiscreet
from .drive import Approver, arun, run
from .exchange import Credentials
from .limits import Limits
from .network import Network, SyncNetwork
from .remote import Connection, Remote, SyncRemote, open_connection
from .targets import read_url


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How to connect: see ``connect``."""

    url: str
    approve: Approver | None = None
    api_key: str | Secret | None = None
    protocol: str | None = None
    preferences: Preferences = NO_PREFERENCES
    allow_private: Sequence[str] = ()
    timeout_s: float = 100.0

    def connection(self, found: Discovery) -> Connection:
        """Return the connection to what was found; see ``open_connection``."""
        return open_connection(found, self.preferences, keyed=self.api_key is not None)

    def credentials(self) -> Credentials:
        """Return the key as header fields for the URL's own origin, and for no other. [D-08]"""
        url = read_url(absolute(self.url))
        if self.api_key is None or isinstance(url, Problem):  # discovery says what is wrong with the URL
            return {}
        key = self.api_key.reveal() if isinstance(self.api_key, Secret) else self.api_key
        return {url.origin_ascii: (("authorization", Secret(f"Bearer {key}")),)}


class Connecting:
    """What ``connect`` returns: enter it to discover the server and get a Remote; leaving closes the connections."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._door: Network | None = None
        self._remote: Remote | None = None

    async def __aenter__(self) -> Remote:
        options = self._options
        unsigned = Network(allow_private=options.allow_private)
        self._door = Network(
            limits=Limits(total_s=options.timeout_s),
            credentials=options.credentials(),
            allow_private=options.allow_private,
        )
        try:
            discreet = Discreet(unsigned, self._door) if options.api_key is not None else unsigned
            found = await arun(discover(options.url, protocol=options.protocol), discreet, None)
            self._remote = Remote(options.connection(found), self._door, options.approve)
        except BaseException:
            await self._door.aclose()
            raise
        finally:
            await unsigned.aclose()
        return self._remote

    async def __aexit__(self, *exception: Any) -> None:
        if self._remote is not None:
            self._remote.closed = True
        if self._door is not None:
            await self._door.aclose()


class SyncConnecting:
    """What ``connect_sync`` returns: enter it to discover the server and get a SyncRemote."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._door: SyncNetwork | None = None
        self._remote: SyncRemote | None = None

    def __enter__(self) -> SyncRemote:
        options = self._options
        unsigned = SyncNetwork(allow_private=options.allow_private)
        self._door = SyncNetwork(
            limits=Limits(total_s=options.timeout_s),
            credentials=options.credentials(),
            allow_private=options.allow_private,
        )
        try:
            discreet = SyncDiscreet(unsigned, self._door) if options.api_key is not None else unsigned
            found = run(discover(options.url, protocol=options.protocol), discreet, None)
            self._remote = SyncRemote(options.connection(found), self._door, options.approve)
        except BaseException:
            self._door.close()
            raise
        finally:
            unsigned.close()
        return self._remote

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._remote is not None:
            self._remote.closed = True
        if self._door is not None:
            self._door.close()


def connect(
    url: str,
    *,
    approve: Approver | None = None,
    api_key: str | Secret | None = None,
    protocol: str | None = None,
    preferences: Preferences = NO_PREFERENCES,
    allow_private: Sequence[str] = (),
    timeout_s: float = 100.0,
) -> Connecting:
    """Return an asynchronous context manager that finds out what ``url`` speaks and gives its tools.

    ``approve`` is asked before each call that needs consent; without it such a call is denied and nothing is
    sent. ``api_key`` goes to the origin of ``url`` and nowhere else. ``protocol`` skips finding out.
    ``preferences`` can ask for more consent than the site does, never for less. ``allow_private`` lists origins
    in private networks that may be reached. ``timeout_s`` is how long one call may take. [XL-042, XL-053, XL-089]

    Raises:
        ConnectError: on entering, when the server cannot be reached or speaks no protocol of ours.
        ValueError: ``protocol`` is not one of ours.
    """
    candidates(protocol)
    options = Options(
        url=url,
        approve=approve,
        api_key=api_key,
        protocol=protocol,
        preferences=preferences,
        allow_private=allow_private,
        timeout_s=timeout_s,
    )
    return Connecting(options)


def connect_sync(
    url: str,
    *,
    approve: Approver | None = None,
    api_key: str | Secret | None = None,
    protocol: str | None = None,
    preferences: Preferences = NO_PREFERENCES,
    allow_private: Sequence[str] = (),
    timeout_s: float = 100.0,
) -> SyncConnecting:
    """Return a context manager like ``connect``, blocking; ``approve`` must then be a plain function."""
    candidates(protocol)
    options = Options(
        url=url,
        approve=approve,
        api_key=api_key,
        protocol=protocol,
        preferences=preferences,
        allow_private=allow_private,
        timeout_s=timeout_s,
    )
    return SyncConnecting(options)
