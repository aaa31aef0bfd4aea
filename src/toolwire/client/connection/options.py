"""How to connect: every option of ``connect``, and what follows from them alone."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from toolwire.client.calls.api_keys import choose_keys, describe_key
from toolwire.client.calls.retry import RetryLimits
from toolwire.client.calls.session import Session
from toolwire.client.discovery.cache import Cache
from toolwire.client.discovery.discover import Discovery, absolute, candidates, discover, origin
from toolwire.client.discovery.document_snapshot import SnapshotBuilder
from toolwire.client.discovery.local_files import file_url
from toolwire.client.discovery.overlays import read_overlay
from toolwire.client.discovery.relocation import Moved, Relocation, goes_on_at
from toolwire.client.discovery.source import document_url, source_of
from toolwire.client.transport.drivers import Approver
from toolwire.client.transport.network import SyncNetwork
from toolwire.client.transport.origins import AllowedOrigins, AllowOrigins
from toolwire.client.transport.request_rules import Credentials
from toolwire.client.transport.url_policy import origin_of, read_url
from toolwire.consent import NO_PREFERENCES, DefinitionLock, Preferences
from toolwire.consent.binding import NO_CREDENTIAL, CredentialRef, compute_identity
from toolwire.core.codec import Flow
from toolwire.core.model import ANONYMOUS, Context, Json, Problem, Secret, Tool
from toolwire.core.resources import DEFAULT_RESULT_LIMITS, Resources, ResultLimits
from toolwire.core.selection import DEFAULT_SELECTION, Selection
from toolwire.stores.paths import credentials_folder

from .connection import Connection, open_connection

if TYPE_CHECKING:  # signing in is rare, and a lot of code
    from toolwire.client.login.auth_transport import CredentialAuth
    from toolwire.client.login.sign_in import SignInUser
    from toolwire.stores.credentials.files import CredentialStore as SignedIn


@dataclass(frozen=True, slots=True)
class ConnectOptions:
    """How to connect: what ``connect`` and ``connect_sync`` take, each written down here and nowhere else.

    ``approve`` is asked before each call that needs consent; without it such a call is denied and nothing is
    sent. ``api_key`` goes to the origin of ``url`` and nowhere else. ``protocol`` skips finding out.
    ``preferences`` can ask for more consent than the site does, never for less. ``allow_private`` lists origins
    in private networks that may be reached. ``timeout_s`` is how long one call may take. ``retries`` is how often a
    call may be made again where that is safe. [XL-042, XL-053, XL-089, C-11]

    ``session`` is what this connection shares with others, and ``name`` what it is called there. ``locked`` refuses
    every tool that is not as a ``toolwire.lock`` pins it. ``agree`` is shown, on connecting, the tools that would
    run unasked by the site's word alone: those that change something, and those that only the site says just read
    (``tool.claimed_safe``). True lets them run, anything else has each call asked about. [XL-044]

    ``context`` holds the tokens, secrets and user id that tools may require; each tool is sent what it requires of
    them, and nothing else. [C-10, OTC-015]

    ``allow_origins`` names the other origins that tools may lead to, or is a function that is asked once for each;
    without it a tool that leads elsewhere is not called. ``caps`` says how much of a result is passed on; the whole is
    at ``remote.resource(handle)``. [D-07, XL-103]

    ``token`` is an access token you have; it goes where an API key goes. Without either, what ``toolwire login`` stored
    for the site is used, or what ``signed_in`` holds; ``person`` is asked to sign in where the site wants that, and to
    allow more where a call needs it. [XL-102, XL-111]

    ``keys`` are the keys of an OpenAPI document's security schemes by their names, each sent where its scheme says:
    a header, a cookie, the query, or ``user:password`` as Basic. An ``api_key`` or ``token``
    alone goes where the scheme of a call says, and as a Bearer token where the document names none; once. [XL-112]

    ``selection`` says which tools to take: ``Selection(include="all")`` takes those of a document without ``x-llm``.
    ``overlay`` is an OpenAPI Overlay, a file or its data, that is applied to the document before it is read.
    ``url`` may be the path of an OpenAPI document on this machine; a key then goes to the server it names.

    ``moved`` is asked where the site sends on to another origin: True makes the connection there, with everything that
    is bound to an origin, the key too. Without it, or with any other answer, nothing is connected to. [XL-011]

    Raises:
        ValueError: ``protocol`` is not one of ours, ``retries`` is not 0 to 10, or ``allow_origins`` has what is no
            origin.
    """

    url: str
    _: KW_ONLY
    approve: Approver | None = None
    api_key: str | Secret | None = None
    protocol: str | None = None
    preferences: Preferences = NO_PREFERENCES
    allow_private: Sequence[str] = ()
    timeout_s: float = 100.0
    retries: int = 2
    session: Session | None = None
    name: str = ""
    locked: DefinitionLock | None = None
    agree: Callable[[tuple[Tool, ...]], bool] | None = None
    context: Context = ANONYMOUS
    allow_origins: AllowOrigins = ()
    caps: ResultLimits = DEFAULT_RESULT_LIMITS
    token: str | Secret | None = None
    keys: Mapping[str, str | Secret] = field(default_factory=dict, repr=False)
    signed_in: SignedIn | None = None
    person: SignInUser | None = None
    selection: Selection = DEFAULT_SELECTION
    overlay: str | Path | Mapping[str, Json] | None = None
    moved: Moved | None = None
    origins: AllowedOrigins = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        candidates(self.protocol)
        if self.overlay is not None:
            laid = replace(self.selection, overlay=read_overlay(self.overlay))
            object.__setattr__(self, "selection", laid)
        RetryLimits(more=self.retries)
        url = read_url(absolute(self.url))
        home = "" if isinstance(url, Problem) else url.origin  # discovery says what is wrong with the URL
        object.__setattr__(self, "origins", AllowedOrigins(home, self.allow_origins))

    @property
    def document(self) -> str:
        """The URL of the document on this machine that ``url`` names, or ``""`` where it names a site."""
        return file_url(self.url)

    def cache(self) -> Cache:
        """Return what discovery may take instead of asking: the session's, or an empty one."""
        kept = self.session.cache if self.session is not None else None
        if kept is not None:
            return kept
        return Cache() if self.session is None else Cache(clock=self.session.wall)

    def discovery(self) -> Flow[Discovery]:
        """Return the conversation that finds out what ``url`` speaks."""
        return discover(self.url, protocol=self.protocol, selection=self.selection)

    def rediscovery(self, connection: Connection) -> Flow[Discovery]:
        """Return the conversation that finds out what the server of ``connection`` offers now, in its protocol."""
        return discover(self.url, protocol=connection.peer.protocol, selection=self.selection)

    def sourced(
        self, found: Discovery, readings: SnapshotBuilder, cache: Cache, hand: CredentialAuth | None = None
    ) -> Discovery:
        """Return what was found, with what is known of the documents it was made from. [XL-017]"""
        if found.peer is None:
            return found
        url = document_url(found.peer, found.probes)
        source = source_of(origin(url), url, cache.find(url, self.credential(hand).identity))
        return replace(found, source=source, basis=readings.basis(url))

    def renewed(
        self, connection: Connection, found: Discovery | Problem | None, readings: SnapshotBuilder, cache: Cache
    ) -> Connection | Problem:
        """Return ``connection`` after its server was looked at again; see ``again`` for what ``found`` may be."""
        if isinstance(found, Problem):
            return found
        if found is not None:
            return connection.renewed(found)
        url = document_url(connection.peer, connection.probes)
        source = source_of(origin(url), url, cache.find(url, readings.identity))
        return replace(connection, source=source, basis=readings.basis(url))

    def moved_to(self, found: Discovery, move: Relocation | None) -> ConnectOptions | None:
        """Return these options for where the site sends on to, if nothing else was found and the person lets it."""
        if found.peer is not None or move is None:
            return None
        url = goes_on_at(absolute(self.url), move, self.moved, frozenset(map(origin_of, self.allow_private)))
        return replace(self, url=url) if url else None

    def hand(self, door: SyncNetwork) -> CredentialAuth | None:
        """Return what signs requests as somebody who signed in; None where a key does, or nobody did."""
        asked_for = self.signed_in is not None or self.person is not None
        if self._key is not None or not (asked_for or credentials_folder().is_dir()):
            return None
        from toolwire.client.login.saved_credentials import hand_for  # noqa: PLC0415 - only here is somebody signed in

        return hand_for(absolute(self.url), door, self.signed_in, self.person)

    @property
    def _key(self) -> str | None:
        given = self.api_key if self.api_key is not None else self.token
        return given.reveal() if isinstance(given, Secret) else given

    def connection(self, found: Discovery, hand: CredentialAuth | None = None) -> Connection:
        """Return the connection to what was found; see ``open_connection``."""
        if found.peer is not None:
            kept = Resources(secrets.token_bytes(32))
            found = replace(
                found, peer=replace(found.peer, origins=self.origins, resources=kept, result_limits=self.caps)
            )
        session = self.session if self.session is not None else Session(traced=False)
        connection = open_connection(
            found,
            self.preferences,
            keyed=self._key is not None,
            retries=RetryLimits(more=self.retries),
            session=session,
            name=self.name,
            locked=self.locked,
            credential=lambda tool: self.credential_of(tool, hand),
        )
        unasked = connection.gate.unasked()
        if unasked and self.agree is not None and self.agree(unasked) is True:
            connection = connection.agreed(unasked)
        return replace(connection, keys=self._keys)

    @property
    def _keys(self) -> dict[str, Secret]:
        keys = {name: key if isinstance(key, Secret) else Secret(key) for name, key in self.keys.items()}
        return keys if self._key is None else {"": Secret(self._key), **keys}

    def credential_of(self, tool: Tool, hand: CredentialAuth | None = None) -> CredentialRef:
        """Return how requests of ``tool`` are signed: each credential that goes out, and where, without the key."""
        found = choose_keys(tool, self._keys)
        if found:
            return CredentialRef(", ".join(describe_key(scheme) for scheme, _ in found), self.credential(hand).identity)
        return self._signed_in(hand) if self._key is None else self.credential(hand)

    def credential(self, hand: CredentialAuth | None = None) -> CredentialRef:
        """Return how requests are signed, without the key itself."""
        if self._key is not None:
            return CredentialRef("bearer key", compute_identity(self._key))
        if self.keys:
            said = [[name, key.reveal()] for name, key in sorted(self._keys.items())]
            return CredentialRef(", ".join(sorted(self.keys)), compute_identity(repr(said)))
        return self._signed_in(hand)

    def _signed_in(self, hand: CredentialAuth | None) -> CredentialRef:
        name, scopes = ("", ()) if hand is None else hand.identity
        return CredentialRef("signed in", compute_identity(name), scopes) if name else NO_CREDENTIAL

    def credentials(self, home: str = "") -> Credentials:
        """Return the key as header fields for the URL's own origin, and for no other. [D-08]

        ``home`` stands for the URL where that is a file: what the document names as its server.
        """
        url = read_url(home or absolute(self.url))
        if self._key is None or isinstance(url, Problem):  # discovery says what is wrong with the URL
            return {}
        return {url.origin: (("authorization", Secret(f"Bearer {self._key}")),)}
