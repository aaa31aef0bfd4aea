"""``connect``: from a pasted URL to a Remote, and its connections closed again."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import wraps
from inspect import cleandoc, signature
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from anyio import to_thread

from toolwire.consent import NO_PREFERENCES, Lock, Preferences
from toolwire.consent.binding import NO_CREDENTIAL, Credential, identity
from toolwire.core.codec import Flow
from toolwire.core.model import ANONYMOUS, Context, Json, Problem, Secret, Tool
from toolwire.core.resources import CAPS, Caps, Resources
from toolwire.core.selection import DECLARED, Selection
from toolwire.stores.places import credentials_folder

from .cache import Cache
from .discover import Discovery, absolute, candidates, discover, origin
from .discreet import Discreet, SyncDiscreet
from .drive import Approver, arun, run
from .exchange import Credentials
from .files import file_url
from .limits import Limits
from .looking import TOTAL_S, Looking, SyncLooking
from .network import Network, SyncNetwork
from .origins import AllowedOrigins, AllowOrigins
from .overlays import read_overlay
from .remote import Connection, Remote, SyncRemote, open_connection
from .retry import Retries
from .session import Session
from .source import document_url, source_of
from .targets import read_url

if TYPE_CHECKING:  # signing in is rare, and a lot of code
    from toolwire.stores.credentials import Credentials as SignedIn

    from .login.signin import Person
    from .login.signing import Hand


@dataclass(frozen=True, slots=True)
class Options:
    """How to connect: what ``connect`` and ``connect_sync`` take, each written down here and nowhere else.

    ``approve`` is asked before each call that needs consent; without it such a call is denied and nothing is
    sent. ``api_key`` goes to the origin of ``url`` and nowhere else. ``protocol`` skips finding out.
    ``preferences`` can ask for more consent than the site does, never for less. ``allow_private`` lists origins
    in private networks that may be reached. ``timeout_s`` is how long one call may take. ``retries`` is how often a
    call may be made again where that is safe. [XL-042, XL-053, XL-089, C-11]

    ``session`` is what this connection shares with others, and ``name`` what it is called there. ``locked`` refuses
    every tool that is not as a ``toolwire.lock`` pins it. ``agree`` is shown, on connecting, the tools that change
    something and that the site would run unasked: True lets it, anything else has each call asked about. [XL-044]

    ``context`` holds the tokens, secrets and user id that tools may require; each tool is sent what it requires of
    them, and nothing else. [C-10, OTC-015]

    ``allow_origins`` names the other origins that tools may lead to, or is a function that is asked once for each;
    without it a tool that leads elsewhere is not called. ``caps`` says how much of a result is passed on; the whole is
    at ``remote.resource(handle)``. [D-07, XL-103]

    ``token`` is an access token you have; it goes where an API key goes. Without either, what ``toolwire login`` stored
    for the site is used, or what ``signed_in`` holds; ``person`` is asked to sign in where the site wants that, and to
    allow more where a call needs it. [XL-102, XL-111]

    ``keys`` are the keys of an OpenAPI document's security schemes by their names, each sent where its scheme says:
    a header, a cookie, the query, or ``user:password`` as Basic. An ``api_key`` alone goes where a call's one key
    scheme says too. [XL-112]

    ``selection`` says which tools to take: ``Selection(include="all")`` takes those of a document without ``x-llm``.
    ``overlay`` is an OpenAPI Overlay, a file or its data, that is applied to the document before it is read.
    ``url`` may be the path of an OpenAPI document on this machine; a key then goes to the server it names.

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
    locked: Lock | None = None
    agree: Callable[[tuple[Tool, ...]], bool] | None = None
    context: Context = ANONYMOUS
    allow_origins: AllowOrigins = ()
    caps: Caps = CAPS
    token: str | Secret | None = None
    keys: Mapping[str, str | Secret] = field(default_factory=dict, repr=False)
    signed_in: SignedIn | None = None
    person: Person | None = None
    selection: Selection = DECLARED
    overlay: str | Path | Mapping[str, Json] | None = None
    origins: AllowedOrigins = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        candidates(self.protocol)
        if self.overlay is not None:
            laid = replace(self.selection, overlay=read_overlay(self.overlay))
            object.__setattr__(self, "selection", laid)
        Retries(more=self.retries)
        url = read_url(absolute(self.url))
        home = "" if isinstance(url, Problem) else url.origin_ascii  # discovery says what is wrong with the URL
        object.__setattr__(self, "origins", AllowedOrigins(home, self.allow_origins))

    @property
    def document(self) -> str:
        """The URL of the document on this machine that ``url`` names, or ``""`` where it names a site."""
        return file_url(self.url)

    def cache(self) -> Cache:
        """Return what discovery may take instead of asking: the session's, or an empty one."""
        kept = self.session.cache if self.session is not None else None
        return kept if kept is not None else Cache()

    def discovery(self) -> Flow[Discovery]:
        """Return the conversation that finds out what ``url`` speaks."""
        return discover(self.url, protocol=self.protocol, selection=self.selection)

    def sourced(self, found: Discovery, cache: Cache, hand: Hand | None = None) -> Discovery:
        """Return what was found, with what is known of the document it was made from. [XL-017]"""
        if found.peer is None:
            return found
        url = document_url(found.peer, found.probes)
        kept = cache.find(url, self.credential(hand).identity)
        return replace(found, source=source_of(origin(url), url, kept))

    def hand(self, door: SyncNetwork) -> Hand | None:
        """Return what signs requests as somebody who signed in; None where a key does, or nobody did."""
        asked_for = self.signed_in is not None or self.person is not None
        if self._key is not None or not (asked_for or credentials_folder().is_dir()):
            return None
        from .login.attached import hand_for  # noqa: PLC0415 - only here is somebody signed in

        return hand_for(absolute(self.url), door, self.signed_in, self.person)

    @property
    def _key(self) -> str | None:
        given = self.api_key if self.api_key is not None else self.token
        return given.reveal() if isinstance(given, Secret) else given

    def connection(self, found: Discovery, hand: Hand | None = None) -> Connection:
        """Return the connection to what was found; see ``open_connection``."""
        if found.peer is not None:
            kept = Resources(secrets.token_bytes(32))
            found = replace(found, peer=replace(found.peer, origins=self.origins, resources=kept, caps=self.caps))
        session = self.session if self.session is not None else Session(traced=False)
        connection = open_connection(
            found,
            self.preferences,
            keyed=self._key is not None,
            retries=Retries(more=self.retries),
            session=session,
            name=self.name,
            locked=self.locked,
            credential=lambda: self.credential(hand),
        )
        unasked = connection.gate.unasked()
        if unasked and self.agree is not None and self.agree(unasked) is True:
            connection.gate.agree(unasked)
        return replace(connection, keys=self._keys)

    @property
    def _keys(self) -> dict[str, Secret]:
        keys = {name: key if isinstance(key, Secret) else Secret(key) for name, key in self.keys.items()}
        return keys if self.api_key is None or self._key is None else {"": Secret(self._key), **keys}

    def credential(self, hand: Hand | None = None) -> Credential:
        """Return how requests are signed, without the key itself."""
        if self._key is not None:
            return Credential("bearer key", identity(self._key))
        if self.keys:
            said = [[name, key.reveal()] for name, key in sorted(self._keys.items())]
            return Credential(", ".join(sorted(self.keys)), identity(repr(said)))
        name, scopes = ("", ()) if hand is None else hand.identity
        return Credential("signed in", identity(name), scopes) if name else NO_CREDENTIAL

    def credentials(self, home: str = "") -> Credentials:
        """Return the key as header fields for the URL's own origin, and for no other. [D-08]

        ``home`` stands for the URL where that is a file: what the document names as its server.
        """
        url = read_url(home or absolute(self.url))
        if self._key is None or isinstance(url, Problem):  # discovery says what is wrong with the URL
            return {}
        return {url.origin_ascii: (("authorization", Secret(f"Bearer {self._key}")),)}


class Connecting:
    """What ``connect`` returns: enter it to discover the server and get a Remote; leaving closes the connections."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._door: Network | None = None
        self._behind: SyncNetwork | None = None
        self._remote: Remote | None = None

    async def __aenter__(self) -> Remote:
        options = self._options
        cache = options.cache()
        unsigned = Network(limits=Limits(total_s=TOTAL_S), allow_private=options.allow_private)
        self._door = self._signed()
        self._behind = SyncNetwork(allow_private=options.allow_private)
        try:
            hand = await to_thread.run_sync(options.hand, self._behind)
            door = self._door if hand is None else hand.signing(self._door)
            known = hand is not None or options.credential() is not NO_CREDENTIAL
            discreet = Discreet(unsigned, door) if known else unsigned
            looking = Looking(discreet, options.document, cache=cache, identity=options.credential(hand).identity)
            found = options.sourced(await arun(options.discovery(), looking, None), cache, hand)
            if options.document and found.peer is not None:
                door = self._door = self._signed(found.peer.url)  # nothing was sent through the one before
            self._remote = Remote(options.connection(found, hand), door, options.approve, options.context)
        except BaseException:
            self._behind.close()
            await self._door.aclose()
            raise
        finally:
            await unsigned.aclose()
        return self._remote

    def _signed(self, home: str = "") -> Network:
        options = self._options
        if home:
            options.origins.settle(origin(home))
        return Network(
            limits=Limits(total_s=options.timeout_s),
            credentials=options.credentials(home),
            allow_private=options.allow_private,
            origins=options.origins,
        )

    async def __aexit__(self, *exception: Any) -> None:
        if self._remote is not None:
            self._remote.close()
        if self._door is not None:
            await self._door.aclose()
        if self._behind is not None:
            self._behind.close()


class SyncConnecting:
    """What ``connect_sync`` returns: enter it to discover the server and get a SyncRemote."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._door: SyncNetwork | None = None
        self._behind: SyncNetwork | None = None
        self._remote: SyncRemote | None = None

    def __enter__(self) -> SyncRemote:
        options = self._options
        cache = options.cache()
        unsigned = SyncNetwork(limits=Limits(total_s=TOTAL_S), allow_private=options.allow_private)
        self._door = self._signed()
        self._behind = SyncNetwork(allow_private=options.allow_private)
        try:
            hand = options.hand(self._behind)
            door = self._door if hand is None else hand.signing_sync(self._door)
            known = hand is not None or options.credential() is not NO_CREDENTIAL
            discreet = SyncDiscreet(unsigned, door) if known else unsigned
            looking = SyncLooking(discreet, options.document, cache=cache, identity=options.credential(hand).identity)
            found = options.sourced(run(options.discovery(), looking, None), cache, hand)
            if options.document and found.peer is not None:
                door = self._door = self._signed(found.peer.url)  # nothing was sent through the one before
            self._remote = SyncRemote(options.connection(found, hand), door, options.approve, options.context)
        except BaseException:
            self._behind.close()
            self._door.close()
            raise
        finally:
            unsigned.close()
        return self._remote

    def _signed(self, home: str = "") -> SyncNetwork:
        options = self._options
        if home:
            options.origins.settle(origin(home))
        return SyncNetwork(
            limits=Limits(total_s=options.timeout_s),
            credentials=options.credentials(home),
            allow_private=options.allow_private,
            origins=options.origins,
        )

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._remote is not None:
            self._remote.close()
        if self._door is not None:
            self._door.close()
        if self._behind is not None:
            self._behind.close()


P = ParamSpec("P")
C = TypeVar("C")


def taking(options: Callable[P, Options]) -> Callable[[Callable[[Options], C]], Callable[P, C]]:
    """Make a function of Options one that takes what Options takes, for readers, editors and type checkers alike."""

    def taken(open_: Callable[[Options], C]) -> Callable[P, C]:
        @wraps(open_)
        def opened(*args: P.args, **kwargs: P.kwargs) -> C:
            return open_(options(*args, **kwargs))

        returned = signature(open_).return_annotation
        opened.__signature__ = signature(options).replace(return_annotation=returned)  # type: ignore[attr-defined]  # help() and editors read it
        opened.__doc__ = "\n\n".join(cleandoc(one.__doc__ or "") for one in (open_, options))
        return opened

    return taken


@taking(Options)
def connect(options: Options) -> Connecting:
    """Return an asynchronous context manager that finds out what ``url`` speaks and gives its tools.

    Entering it raises ConnectError when the server cannot be reached or speaks no protocol of ours.
    """
    return Connecting(options)


@taking(Options)
def connect_sync(options: Options) -> SyncConnecting:
    """Return a context manager like ``connect``, blocking; ``approve`` must then be a plain function."""
    return SyncConnecting(options)
