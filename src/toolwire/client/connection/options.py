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
from toolwire.client.discovery.discover import Discovery, complete_url, discover, find_codecs
from toolwire.client.discovery.document_snapshot import SnapshotBuilder
from toolwire.client.discovery.local_files import file_url
from toolwire.client.discovery.overlays import read_overlay
from toolwire.client.discovery.relocation import ApproveRelocation, Relocation, resolve_relocation
from toolwire.client.discovery.source import build_source, find_document_url
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
from toolwire.core.url_origin import get_origin
from toolwire.stores.paths import find_credentials_folder

from .connection import Connection, open_connection

if TYPE_CHECKING:  # signing in is rare, and a lot of code
    from toolwire.client.login.auth_transport import CredentialAuth
    from toolwire.client.login.sign_in import SignInUser
    from toolwire.stores.credentials.files import CredentialStore


@dataclass(frozen=True, slots=True)
class ConnectOptions:
    """The options of ``connect`` and ``connect_sync``.

    ``url`` is the server to connect to, or the path of an OpenAPI document on this machine. ``protocol`` names the
    protocol to use; without it each protocol is tried. ``timeout_s`` is the time limit of one call in seconds.
    ``retries`` is how often a call may be repeated where that is safe, 0 to 10.

    ``approve`` is asked before each call that needs consent. Without it, such a call is denied and nothing is sent.
    ``preferences`` can ask for more consent than the site does, never for less. ``agree`` is shown, on connecting, the
    tools that would run without a question because only the site says so: those that change something, and those that
    the site calls read-only (``tool.claimed_safe``). If it returns True they run; otherwise each call is asked about.
    ``locked`` refuses every tool that differs from its definition in ``toolwire.lock``.

    ``session`` is shared with other connections, and ``name`` is the name of this connection in it.

    ``api_key`` is sent to the origin of ``url`` and to no other; if ``url`` is a file, to the server that it names.
    ``token`` is an access token and is sent where an API key is sent. ``keys`` are the keys of the security schemes of
    an OpenAPI document, by the names of the schemes; each is sent where its scheme says: in a header, a cookie, the
    query, or ``user:password`` as Basic. An ``api_key`` or ``token`` alone goes where the scheme of a call says, and as
    a Bearer token if the document declares none.

    Without a key or token, the credentials that ``toolwire login`` stored for the site are used, or those in
    ``credential_store``. ``user`` is asked to sign in where the site requires it, and to allow more scopes where a call
    needs them.

    ``context`` holds the tokens, secrets and user id that tools may require. Each tool is sent only what it requires.

    ``allow_origins`` lists other origins that tools may call, or is a function that is asked once for each. Without it,
    a tool that leads to another origin is not called. ``allow_private`` lists origins in private networks that may be
    called. ``approve_relocation`` is asked when the site redirects to another origin. If it returns True, the
    connection is made there, and the key is sent there too; otherwise connecting fails.

    ``selection`` says which tools to use; ``Selection(include="all")`` uses those of a document without ``x-llm`` too.
    ``overlay`` is an OpenAPI Overlay (a file or its data), which is applied to the document before it is read. ``caps``
    limits how much of a result is passed on; the whole result is at ``remote.resource(handle)``.

    Raises:
        ValueError: ``protocol`` is unknown, ``retries`` is not 0 to 10, or ``allow_origins`` has something that is not
            an origin.
    """

    url: str
    _: KW_ONLY
    approve: Approver | None = None  # XL-053: without one, a call that needs consent is denied
    api_key: str | Secret | None = None
    protocol: str | None = None
    preferences: Preferences = NO_PREFERENCES  # XL-042: the user can tighten, never loosen
    allow_private: Sequence[str] = ()
    timeout_s: float = 100.0
    retries: int = 2  # C-11: only where a call cannot run twice
    session: Session | None = None
    name: str = ""
    locked: DefinitionLock | None = None
    agree: Callable[[tuple[Tool, ...]], bool] | None = None  # XL-044: the site alone cannot waive consent
    context: Context = ANONYMOUS  # C-10, OTC-015: a tool gets only the secrets that it requires
    allow_origins: AllowOrigins = ()  # D-07: a document cannot send calls to another server
    caps: ResultLimits = DEFAULT_RESULT_LIMITS  # XL-103: a model gets a bounded part of a result
    token: str | Secret | None = None
    keys: Mapping[str, str | Secret] = field(default_factory=dict, repr=False)  # XL-112: where a scheme says
    credential_store: CredentialStore | None = None  # XL-111: those of earlier connections
    user: SignInUser | None = None  # XL-102: signs in again where a call needs more scopes
    selection: Selection = DEFAULT_SELECTION
    overlay: str | Path | Mapping[str, Json] | None = None
    approve_relocation: ApproveRelocation | None = None  # XL-011: only the user lets an origin take another's place
    origins: AllowedOrigins = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        find_codecs(self.protocol)
        if self.overlay is not None:
            laid = replace(self.selection, overlay=read_overlay(self.overlay))
            object.__setattr__(self, "selection", laid)
        RetryLimits(retries=self.retries)
        url = read_url(complete_url(self.url))
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

    def add_source(
        self, found: Discovery, readings: SnapshotBuilder, cache: Cache, auth: CredentialAuth | None = None
    ) -> Discovery:
        """Return what was found, with what is known of the documents it was made from. [XL-017]"""
        if found.peer is None:
            return found
        url = find_document_url(found.peer, found.probes)
        source = build_source(get_origin(url), url, cache.find(url, self.credential(auth).identity))
        return replace(found, source=source, snapshot=readings.build(url))

    def rebuild_connection(
        self, connection: Connection, found: Discovery | Problem | None, readings: SnapshotBuilder, cache: Cache
    ) -> Connection | Problem:
        """Return ``connection`` after its server was looked at again; see ``again`` for what ``found`` may be."""
        if isinstance(found, Problem):
            return found
        if found is not None:
            return connection.rebuild(found)
        url = find_document_url(connection.peer, connection.probes)
        source = build_source(get_origin(url), url, cache.find(url, readings.identity))
        return replace(connection, source=source, snapshot=readings.build(url))

    def relocate(self, found: Discovery, move: Relocation | None) -> ConnectOptions | None:
        """Return these options for where the site sends on to, if nothing else was found and the user lets it."""
        if found.peer is not None or move is None:
            return None
        url = resolve_relocation(
            complete_url(self.url), move, self.approve_relocation, frozenset(map(origin_of, self.allow_private))
        )
        return replace(self, url=url) if url else None

    def find_auth(self, transport: SyncNetwork) -> CredentialAuth | None:
        """Return what signs requests as somebody who signed in; None where a key does, or nobody did."""
        asked_for = self.credential_store is not None or self.user is not None
        if self._key is not None or not (asked_for or find_credentials_folder().is_dir()):
            return None
        from toolwire.client.login.saved_credentials import find_auth  # noqa: PLC0415 - only here is somebody signed in

        return find_auth(complete_url(self.url), transport, self.credential_store, self.user)

    @property
    def _key(self) -> str | None:
        given = self.api_key if self.api_key is not None else self.token
        return given.reveal() if isinstance(given, Secret) else given

    def connection(self, found: Discovery, auth: CredentialAuth | None = None) -> Connection:
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
            retries=RetryLimits(retries=self.retries),
            session=session,
            name=self.name,
            locked=self.locked,
            credential=lambda tool: self.credential_of(tool, auth),
        )
        unasked = connection.pipeline.find_unapproved()
        if unasked and self.agree is not None and self.agree(unasked) is True:
            connection = connection.agree(unasked)
        return replace(connection, keys=self._keys)

    @property
    def _keys(self) -> dict[str, Secret]:
        keys = {name: key if isinstance(key, Secret) else Secret(key) for name, key in self.keys.items()}
        return keys if self._key is None else {"": Secret(self._key), **keys}

    def credential_of(self, tool: Tool, auth: CredentialAuth | None = None) -> CredentialRef:
        """Return how requests of ``tool`` are signed: each credential that goes out, and where, without the key."""
        found = choose_keys(tool, self._keys)
        if found:
            return CredentialRef(", ".join(describe_key(scheme) for scheme, _ in found), self.credential(auth).identity)
        return self._find_stored_credential(auth) if self._key is None else self.credential(auth)

    def credential(self, auth: CredentialAuth | None = None) -> CredentialRef:
        """Return how requests are signed, without the key itself."""
        if self._key is not None:
            return CredentialRef("bearer key", compute_identity(self._key))
        if self.keys:
            said = [[name, key.reveal()] for name, key in sorted(self._keys.items())]
            return CredentialRef(", ".join(sorted(self.keys)), compute_identity(repr(said)))
        return self._find_stored_credential(auth)

    def _find_stored_credential(self, auth: CredentialAuth | None) -> CredentialRef:
        name, scopes = ("", ()) if auth is None else auth.identity
        return CredentialRef("signed in", compute_identity(name), scopes) if name else NO_CREDENTIAL

    def credentials(self, home: str = "") -> Credentials:
        """Return the key as header fields for the URL's own origin, and for no other. [D-08]

        ``home`` stands for the URL where that is a file: what the document names as its server.
        """
        url = read_url(home or complete_url(self.url))
        if self._key is None or isinstance(url, Problem):  # discovery says what is wrong with the URL
            return {}
        return {url.origin: (("authorization", Secret(f"Bearer {self._key}")),)}
