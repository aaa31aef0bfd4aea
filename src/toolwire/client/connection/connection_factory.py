"""Build what a connection needs from its options: discovery, credentials, networks, and the connection itself."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from toolwire.client.calls.api_keys import BEARER_KEY, choose_keys, describe_key, find_challenge
from toolwire.client.calls.grant_polling import GrantUser, MissingGrant
from toolwire.client.calls.retry import RetryLimits
from toolwire.client.calls.session import Session
from toolwire.client.discovery.auth_on_challenge import authenticate_on_challenge
from toolwire.client.discovery.cache import Cache
from toolwire.client.discovery.discover import Discovery, discover, find_codecs
from toolwire.client.discovery.document_snapshot import SnapshotBuilder, refetch
from toolwire.client.discovery.fetch_documents import PROGRAM_START_S, TOTAL_S, fetch_documents
from toolwire.client.discovery.relocation import Relocation, resolve_relocation
from toolwire.client.discovery.source import build_source, find_document_url
from toolwire.client.transport.event_stream_server import BAD_STREAM, OPENING_S, EventStreamServer
from toolwire.client.transport.limits import BREAKER_FAILURES, TransportLimits
from toolwire.client.transport.network import NetworkAccess, NetworkSettings, SyncNetwork
from toolwire.client.transport.program_limits import NO_LIMITS, CommandAgreement
from toolwire.client.transport.request_rules import Credentials, SiteHeaders, StayOffline
from toolwire.client.transport.server_program import ServerProgram
from toolwire.client.transport.tls import digest_trust
from toolwire.client.transport.url_policy import allow_origins_in_private_networks, read_url
from toolwire.consent.binding import NO_CREDENTIAL, CredentialRef, compute_identity
from toolwire.consent.policy import NO_PREFERENCES
from toolwire.core.codec import ConnectError, Flow, Peer
from toolwire.core.http import Request
from toolwire.core.interpreter import pause_collection
from toolwire.core.model import Kind, Problem, Secret, Tool
from toolwire.core.resources import Resources
from toolwire.core.url_display import show_url
from toolwire.core.url_origin import complete_url, get_origin
from toolwire.stores.consent.agreed_digests import AgreedDigests, open_agreed_apis, open_agreed_commands
from toolwire.stores.consent.open import StoredLevels, open_levels
from toolwire.stores.paths import NoHomeError, find_decisions_place, find_state_folder, has_credentials_place

from .connection import Connection, explain_failure, find_unused_document, open_connection
from .options import ConnectOptions

if TYPE_CHECKING:  # signing in is rare, and a lot of code
    from toolwire.client.login.credential_auth import CredentialAuth

T = TypeVar("T")


class OpenedConnection(NamedTuple):
    """A connection, and its tools that would run without a question by their site's word alone."""

    connection: Connection
    unapproved: tuple[Tool, ...]

    @pause_collection()
    def trust(self, tools: tuple[Tool, ...]) -> Connection:
        """Return the connection in which ``tools`` run so, until their definitions change."""
        return self.connection.agree(tools) if tools else self.connection


class ConnectionFactory:
    """Builds the parts of one connection. ``auth`` signs its requests if a user has signed in; see ``load_auth``."""

    def __init__(self, options: ConnectOptions, cache: Cache | None = None) -> None:
        self.options = options
        self.auth: CredentialAuth | None = None
        self._cache = _choose_cache(options) if cache is None else cache

    def load_auth(self, transport: SyncNetwork, peer_url: str = "") -> None:
        """Find the stored credential of the user, in files; ``transport`` is for its refreshes.

        ``peer_url`` is the server that a document names, if the options name a file.
        """
        options = self.options
        has_login = options.credential_store is not None or options.user is not None or has_credentials_place()
        if options.key is not None or not has_login or options.app is not None or options.command is not None:
            return
        if self._cache.is_offline:  # a token could need a refresh
            return
        from toolwire.client.login.saved_credentials import find_auth  # loads the code of sign-in

        url = peer_url or complete_url(options.address)
        self.auth = find_auth(url, transport, options.credential_store, options.user, options.sign_in, options.account)

    def prepare_auth(self, found: Discovery, transport: SyncNetwork) -> None:
        """Let a user sign in as the document of ``found`` declares; if it is a file, to the server that it names."""
        # XL-110, AC-01
        if found.peer is None:
            return
        if api := _find_api(found):
            self.load_auth(transport, api)
        self._declare_auth(found.peer)

    def _declare_auth(self, peer: Peer) -> None:
        if self.auth is not None and peer.declared_auth is not None:
            from toolwire.client.login.sign_in import find_declared_sign_in  # loaded with the credential

            self.auth.declared = find_declared_sign_in(peer)

    def sign_now(self, message: Request | None) -> Request | None:
        """Return ``message`` as it can be sent at once, or None if its token must be fetched first."""
        if message is None or self.auth is None:
            return message
        signed = self.auth.sign_now(message)
        # Signed already, so that the network neither refreshes a token nor asks the user for this message.
        return None if signed is None else signed._replace(signed=True)

    # Programs

    def open_program(self) -> ServerProgram | None:
        """Return the program that the options name, not yet started, or None if they name no program.

        Raises:
            ConnectError: the user did not agree to its command.
            DefinitionError: the file of the agreed commands cannot be read or written.
        """
        # MC-02
        command, approve = self.options.command, self.options.approve_command
        if command is None:
            return None
        if self._cache.is_offline:
            text = "a program lists its tools only while it runs, so none are stored."
            raise ConnectError(f"{command.name} was not run: {text}", kind=Kind.UNREACHABLE)
        limits, name = NO_LIMITS, ""
        if isinstance(approve, CommandAgreement):
            limits, name = approve.limits, approve.name
            if approve.digest:  # PL-06: what the file of a gateway agrees to is stored nowhere else
                if not approve(command):
                    text = "it is not the command that the file agrees to: `toolwire gateway agree NAME` changes that."
                    raise ConnectError(f"{command.name} was not run: {text}", kind=Kind.DENIED)
                return ServerProgram(command, limits=limits, name=name)
            approve = approve.ask
        agreed: AgreedDigests | None = None
        with suppress(NoHomeError):  # RE-05: without a place to keep it, the user is asked each time
            agreed = open_agreed_commands(find_state_folder())
        if agreed is None or not agreed.has(command.digest):
            if approve is None:
                text = "you have not agreed to this command yet: pass approve_command=, or use it once at a terminal."
                raise ConnectError(f"{command.name} was not run: {text}", kind=Kind.DENIED)
            if approve(command) is not True:
                raise ConnectError(f"{command.name} was not run, because it was not approved.", kind=Kind.DENIED)
            if agreed is not None:
                agreed.add(command.digest, command.summary)
        return ServerProgram(command, limits=limits, name=name)

    def open_event_stream(self) -> EventStreamServer | None:
        """Return the MCP server of the HTTP+SSE transport at the URL of the options, or None if there is none.

        This blocks, up to 10 s where a stream opens that names no endpoint.

        Raises:
            ConnectError: there is such a stream, and it names no endpoint of its own.
        """
        server = EventStreamServer(complete_url(self.options.address), self._open_stream_network)
        outcome = server.open(min(OPENING_S, self.options.discovery_s))
        if outcome is None:
            return server
        server.close()
        if isinstance(outcome, Problem) and outcome.details.get("reason") in BAD_STREAM:
            raise ConnectError(outcome.message, kind=outcome.kind)  # any other look would wait for this stream to end
        return None

    @property
    def has_stream_url(self) -> bool:
        """Whether the URL ends like one of the HTTP+SSE transport: a plain GET may never end there."""
        path = complete_url(self.options.address).partition("#")[0].partition("?")[0]
        return self._may_stream and path.rstrip("/").endswith("/sse")

    @property
    def is_declared_mcp(self) -> bool:
        """Whether the user says that the URL is an MCP server, whatever its path."""
        return self._may_stream and self.options.protocol == "mcp"

    @property
    def _may_stream(self) -> bool:
        # MC-13
        options = self.options
        is_url = options.command is None and options.app is None and not options.document
        return is_url and not self._cache.is_offline and options.protocol in (None, "mcp")

    def _open_stream_network(self, limits: TransportLimits) -> SyncNetwork:
        """Return a network as for calls, to the origin of the options alone."""
        options = self.options
        home = read_url(complete_url(options.address))
        return SyncNetwork(
            limits=limits,
            credentials=self.credentials(),
            headers=self.site_headers(),
            origins=frozenset() if isinstance(home, Problem) else frozenset({home.origin}),
            signer=self.auth,
            **self.access(),
        )

    # Networks

    def call_network(self, found: Discovery) -> NetworkSettings:
        """Return the settings of the network for calls of what was found."""
        options = self.options
        # A document elsewhere than its API: that is then the only origin that is called and gets the key.
        peer_url = _find_api(found)
        if peer_url:
            options.origins.allow(get_origin(peer_url))
        return NetworkSettings(
            limits=TransportLimits(
                total_s=options.timeout_s, breaker_failures=BREAKER_FAILURES, breaker_name=options.name
            ),
            credentials=self.credentials(peer_url),
            headers=self.site_headers(peer_url),
            origins=options.origins,
            signer=StayOffline() if self._cache.is_offline else self.auth,
            allow_private=options.allow_private,
            allow_http=options.allow_http,
            ca_file=options.ca_file,
        )

    def discovery_network(self) -> NetworkSettings:
        """Return the settings of the network for discovery. Documents may link to other origins, so none is refused."""
        options = self.options
        return NetworkSettings(
            limits=TransportLimits(
                total_s=self._discovery_s,
                stream_s=self._discovery_s,  # a program streams each answer
                response_bytes=options.selection.document_bytes,
            ),
            credentials=self.credentials(),
            headers=self.site_headers(),
            signer=StayOffline() if self._cache.is_offline else self.auth,
            allow_private=options.allow_private,
            allow_http=options.allow_http,
            ca_file=options.ca_file,
        )

    def access(self) -> NetworkAccess:
        """Return what the options allow any network of this connection."""
        options = self.options
        return NetworkAccess(
            allow_private=options.allow_private, allow_http=options.allow_http, ca_file=options.ca_file
        )

    # Discovery

    def discover(self, *, is_mcp: bool = False) -> tuple[Flow[Discovery], SnapshotBuilder]:
        """Return the flow that finds what the URL offers, and what records the documents it fetches.

        With ``is_mcp`` only that protocol is looked for, as always in a program.
        """
        options = self.options
        protocol = "mcp" if is_mcp or options.command is not None else options.protocol
        if self._can_ask and protocol is None and options.app is not None and not callable(options.url):
            protocol = "mcp"  # of the protocols of our own server, the one by which a tool can ask the user
        return self._fetch(
            discover(options.address, protocol=protocol, selection=options.selection, can_ask=self._can_ask)
        )

    @property
    def _discovery_s(self) -> float:
        """The time limit of a discovery: the first start of a program may fetch it, with ``npx`` or ``uvx``."""
        given = self.options.discovery_s
        is_slow = self.options.command is not None and given >= TOTAL_S
        return max(given, PROGRAM_START_S) if is_slow else given

    @property
    def _can_ask(self) -> bool:
        return self.options.provide_input is not None

    def rediscover(
        self, connection: Connection, *, anew: bool
    ) -> tuple[Flow[Discovery | Problem | None], SnapshotBuilder]:
        """Return the flow that fetches the documents of ``connection`` again; see ``refetch``.

        With ``anew``, each goes to the server, however fresh it is.
        """
        options = self.options
        if anew:
            connection.snapshot.expire(self._cache, self.credential().identity)
        # The protocol does not change: another one would be another server.
        discovery = discover(
            options.address,
            protocol=connection.peer.protocol,
            selection=options.selection,
            can_ask=self._can_ask,
        )
        return self._fetch(refetch(connection.snapshot, _reuse_session(connection.peer, discovery)))

    def _fetch(self, flow: Flow[T]) -> tuple[Flow[T], SnapshotBuilder]:
        options, credential = self.options, self.credential()
        is_signed = self.auth is not None or options.key is not None or bool(options.keys)
        builder = SnapshotBuilder(self._cache, credential.identity, self._find_trust())
        fetching = fetch_documents(
            flow,
            options.document,
            builder,
            max_bytes=options.selection.document_bytes,
            total_s=self._discovery_s,
        )
        return authenticate_on_challenge(fetching, builder.challenged.add) if is_signed else fetching, builder

    def _find_trust(self) -> str | None:
        """Return what stands for the trusted certificates, or None if documents are not for anyone."""
        options = self.options
        if not self._cache.has_store or options.headers or options.app is not None or options.command is not None:
            return None
        # Who has a certificate of one's own can give another document than the site, and must not do so for later.
        try:
            return digest_trust(options.ca_file)
        except OSError:  # the network says why
            return None

    def add_source(self, found: Discovery, builder: SnapshotBuilder) -> Discovery:
        """Return ``found`` with the document it was made from and the snapshot of all documents.

        Without ``include_site_description``, the catalog has no description.
        """
        # XL-017: a user can see which document decides what is called.
        peer = found.peer
        if peer is None:
            return found
        if peer.catalog.description and not self.options.include_site_description:
            # XL-029: a catalog goes to models, also through a gateway, and a site has no other word to them.
            peer = replace(peer, catalog=peer.catalog.with_description(""))
        url = find_document_url(peer, found.probes)
        source = build_source(get_origin(url), url, self._cache.find(url, self.credential().identity))
        return replace(found, peer=peer, source=source, snapshot=builder.build(url))

    def relocate(self, found: Discovery, relocation: Relocation | None) -> ConnectionFactory | None:
        """Return the factory for the origin that the site leads to, or None if nothing must be connected there."""
        options = self.options
        if found.peer is not None:
            return self._adopt_api(found.peer)
        if relocation is None:
            # XL-015: an llm.json that names a document on another origin is a redirect in other words.
            named = next((probe for probe in found.probes if probe.names), None)
            if named is None:
                return None
            relocation = Relocation(named.url, named.names)
        private = allow_origins_in_private_networks(options.allow_private, options.allow_http)
        url = resolve_relocation(complete_url(options.address), relocation, options.approve_relocation, private)
        return ConnectionFactory(replace(options, url=url), self._cache) if url else None

    def _adopt_api(self, peer: Peer) -> ConnectionFactory | None:
        """Return the factory for the API that a document names elsewhere, if the user agrees, now or before."""
        # PL-01: another API, or another document, is asked about again.
        options, api = self.options, peer.api_url
        if not api or peer.url == api or self._cache.is_offline:
            return None
        text = f"{get_origin(peer.url)} {get_origin(api)}"
        digest, agreed = sha256(text.encode()).hexdigest(), None
        with suppress(NoHomeError):
            agreed = open_agreed_apis(find_state_folder())
        if agreed is None or not agreed.has(digest):
            private = allow_origins_in_private_networks(options.allow_private, options.allow_http)
            if options.approve_relocation is None or not resolve_relocation(
                peer.url, Relocation(peer.url, api), options.approve_relocation, private
            ):
                return None
            if agreed is not None:
                agreed.add(digest, text)
        return ConnectionFactory(replace(options, selection=replace(options.selection, server=api)), self._cache)

    # Connections

    def build(self, found: Discovery) -> Connection:
        """Return the connection to what was found, after the user was asked which tools they trust."""
        opened = self.open(found)
        return opened.trust(self.ask_for_trust(opened))

    def ask_for_trust(self, opened: OpenedConnection) -> tuple[Tool, ...]:
        """Return the tools of ``opened`` that the user trusts, of those that only their site calls harmless."""
        agree, tools = self.options.agree, opened.unapproved
        answer = agree(tools) if tools and agree is not None else False
        if answer is True or not isinstance(answer, Iterable) or isinstance(answer, str):
            return tools if answer is True else ()
        names = frozenset(answer)  # QF-01: some of them
        return tuple(tool for tool in tools if tool.name in names or tool.id in names)

    @pause_collection()  # GR-04: a look at the definitions of 10,000 tools takes 0.4 s, in which no thread runs
    def open(self, found: Discovery) -> OpenedConnection:
        """Return the connection to what was found; see ``open_connection``. It blocks where there are many tools."""
        options = self.options
        if options.command is not None and found.peer is None:
            meaning = found.probes[-1].meaning if found.probes else "it did not answer."
            raise ConnectError(f"No MCP server answered at stdio:{options.command.name}: {meaning}", found.probes)
        if found.peer is None and self._cache.is_offline and not options.document:
            raise ConnectError(_explain_nothing_stored(found), found.probes, kind=Kind.UNREACHABLE)
        if found.peer is not None:
            resources = Resources(secrets.token_bytes(32))
            peer = replace(found.peer, origins=options.origins, resources=resources, result_limits=options.caps)
            found = replace(found, peer=peer)
        session = options.session if options.session is not None else Session(traced=False)
        connection = open_connection(
            found,
            options.preferences or NO_PREFERENCES,
            keyed=options.key is not None,
            retries=RetryLimits(retries=options.retries),
            wait_s=options.timeout_s,
            session=session,
            preference_store=None if options.preferences is None else session.preference_store or _open_own_levels(),
            name=options.name,
            locked=options.locked,
            credential=self.credential_of,
            program="" if options.command is None else str(options.command),
        )
        connection = replace(
            connection,
            keys=options.keys_by_scheme,
            declares_scopes=self.auth is not None,
            grant_user=self._build_grant_user(connection.peer.url),
        )
        return OpenedConnection(connection, connection.pipeline.find_unapproved())

    def _build_grant_user(self, url: str) -> GrantUser | None:
        """Return how to show the user where to grant access that a tool lacks, or None without a user."""
        user = self.options.user
        if user is None:
            return None
        site = get_origin(url)

        def show(grant: MissingGrant) -> None:
            user.show(f"{site} wants access to {grant.provider or 'a provider'} for this call. Grant it at {grant.url}")

        return GrantUser(show, user.wait_s)

    def rebuild(
        self, connection: Connection, found: Discovery | Problem | None, builder: SnapshotBuilder
    ) -> Connection | Problem:
        """Return ``connection`` after its documents were fetched again; ``found`` is what ``refetch`` returned."""
        if isinstance(found, Problem):
            return found
        if found is not None:
            if found.peer is not None:
                self._declare_auth(found.peer)
            return connection.rebuild(self.add_source(found, builder))
        url = find_document_url(connection.peer, connection.probes)
        source = build_source(get_origin(url), url, self._cache.find(url, builder.identity))
        return replace(connection, source=source, snapshot=builder.build(url))

    # Credentials

    def credential_of(self, tool: Tool) -> CredentialRef:
        """Return how requests of ``tool`` are signed: each credential and where it is sent, without the key itself."""
        keys = self.options.keys_by_scheme
        if keys and (chosen := choose_keys(tool, keys)):
            schemes = ", ".join(describe_key(scheme) for scheme, _ in chosen)
            return self._add_headers(CredentialRef(schemes, self._find_credential().identity))
        if "" in keys and find_challenge(tool):
            return self._add_headers(NO_CREDENTIAL)
        return self._add_headers(self._find_credential() if "" in keys else self._find_stored_credential())

    def credential(self) -> CredentialRef:
        """Return how requests are signed, without the key itself."""
        return self._add_headers(self._find_credential())

    def _add_headers(self, credential: CredentialRef) -> CredentialRef:
        """Return ``credential`` with the header fields of the user, so that a question shows and binds them."""
        # XL-089: what is sent is shown.
        headers = self.options.headers
        if not headers:
            return credential
        shown = ", ".join(f"{name}: {value}" for name, value in headers.items())
        revealed = [[name, value.reveal() if isinstance(value, Secret) else value] for name, value in headers.items()]
        scheme = "" if credential is NO_CREDENTIAL else f"{credential.scheme}; "
        identity = compute_identity(repr([credential.identity, revealed]))
        return credential._replace(scheme=f"{scheme}your headers {shown}", identity=identity)

    def _find_credential(self) -> CredentialRef:
        options = self.options
        if options.key is not None:
            return CredentialRef(BEARER_KEY, compute_identity(options.key))
        if options.keys:
            revealed = [[name, key.reveal()] for name, key in sorted(options.keys_by_scheme.items())]
            return CredentialRef(", ".join(sorted(options.keys)), compute_identity(repr(revealed)))
        return self._find_stored_credential()

    def _find_stored_credential(self) -> CredentialRef:
        name, scopes = ("", ()) if self.auth is None else self.auth.identity
        return CredentialRef("signed in", compute_identity(name), scopes) if name else NO_CREDENTIAL

    def credentials(self, peer_url: str = "") -> Credentials:
        """Return the key as header fields for one origin: that of ``peer_url`` if given, else that of the options."""
        # D-08: the network sends them to this origin and to no other.
        origin = self._find_home(peer_url)
        if self.options.key is None or not origin:
            return {}
        return {origin: (("authorization", Secret(f"Bearer {self.options.key}")),)}

    def site_headers(self, peer_url: str = "") -> SiteHeaders:
        """Return the header fields of the user for the origin that gets the key."""
        origin = self._find_home(peer_url)
        return {origin: tuple(self.options.headers.items())} if self.options.headers and origin else {}

    @property
    def _names_api(self) -> bool:
        """Whether the user names an API at another origin than its document, which gets no key then."""
        server = get_origin(self.options.selection.server)
        return bool(server) and server != get_origin(complete_url(self.options.address))

    def _find_home(self, peer_url: str) -> str:
        if not peer_url and self._names_api:
            return ""
        url = read_url(peer_url or complete_url(self.options.address))
        return "" if isinstance(url, Problem) else url.origin  # discovery says what is wrong with the URL


def _find_api(found: Discovery) -> str:
    """Return the URL that is called in place of that of the document, or ``""`` if there is none."""
    peer = found.peer
    return peer.url if peer is not None and peer.url == peer.api_url else ""


def _explain_nothing_stored(found: Discovery) -> str:
    """Return why no tools were found offline: a rule refuses the URL, its document is not used, or none is stored."""
    is_refused = bool(found.probes) and found.probes[0].reason in ("blocked", "request", "too_large", "url")
    if is_refused or find_unused_document(found.url, found.probes) is not None:
        return explain_failure(found)
    why = "what needs a key and the lists of MCP servers are never stored"
    return f"No tools of {show_url(found.url)} are stored here. List them once without --offline ({why})."


def _choose_cache(options: ConnectOptions) -> Cache:
    if options.cache is not None:
        return options.cache
    session = options.session
    if session is None:
        return Cache()
    # One clock for cache and session, so that tests and stores agree on what is fresh.
    return session.cache if session.cache is not None else Cache(clock=session.wall)


def _open_own_levels() -> StoredLevels | None:
    """Return the levels of this user, or None where nothing can be kept because the user has no home."""
    try:
        place = find_decisions_place()
    except NoHomeError:  # RE-05
        return None
    return open_levels(place)


def _reuse_session(before: Peer, discovery: Flow[Discovery]) -> Flow[Discovery]:
    found = yield from discovery
    reuse = None if found.peer is None else find_codecs(found.peer.protocol)[0].reuse_session
    if found.peer is None or reuse is None:
        return found
    return replace(found, peer=(yield from reuse(before, found.peer)))
