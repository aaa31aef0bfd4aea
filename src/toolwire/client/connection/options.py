"""Define the options of ``connect``. What is built from them is in ``connection_factory``."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from inspect import iscoroutinefunction
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from toolwire.client.calls.retry import RetryLimits
from toolwire.client.calls.session import Session
from toolwire.client.discovery.cache import Cache
from toolwire.client.discovery.discover import find_codecs
from toolwire.client.discovery.local_files import file_url, names_document_file
from toolwire.client.discovery.overlays import read_overlay
from toolwire.client.discovery.relocation import ApproveRelocation
from toolwire.client.transport.drivers import Approver
from toolwire.client.transport.in_process import APP_ORIGIN, Asgi
from toolwire.client.transport.request_headers import read_site_headers
from toolwire.client.transport.server_command import ServerCommand, read_server_command, resolve_target
from toolwire.client.transport.tls import check_ca_file
from toolwire.client.transport.url_policy import (
    AllowedOrigins,
    AllowOrigins,
    allow_origins_in_private_networks,
    read_url,
)
from toolwire.consent import NO_PREFERENCES, DefinitionLock, Preferences
from toolwire.core.errors import DefinitionError
from toolwire.core.lazy_import import import_lazily
from toolwire.core.model import ANONYMOUS, Context, Json, Problem, Secret, Tool
from toolwire.core.resources import DEFAULT_RESULT_LIMITS, ResultLimits
from toolwire.core.selection import DEFAULT_SELECTION, Selection
from toolwire.core.url_origin import complete_url
from toolwire.core.user_input import InputProvider

if TYPE_CHECKING:  # signing in is rare, and a lot of code; so is the definition of tools
    from types import ModuleType

    from toolwire.client.login.sign_in import SignInOptions, SignInUser
    from toolwire.core.toolbox import Toolbox
    from toolwire.define import Toolkit
    from toolwire.stores.credentials.files import CredentialStore


ConnectTarget: TypeAlias = "str | Path | Toolkit | Toolbox | ModuleType | Asgi"
"""What can be connected to: a URL, a document, a toolkit, a module with a toolkit, or an ASGI application."""

Agree: TypeAlias = "Callable[[tuple[Tool, ...]], bool | Collection[str]]"
"""Shows the user tools that would run without a question, and returns whether they may, or the names of those."""

ApproveCommand: TypeAlias = "Callable[[ServerCommand], bool]"
"""Shows the user a command in full, and returns whether it may run."""

# Loaded at its first use: the client needs the code of the server only if the user connects to their own tools.
(_build_app,) = import_lazily("toolwire.in_process", "build_app")


_FUNCTIONS: Final = ("approve", "agree", "provide_input", "approve_relocation", "approve_command")
_PLAIN: Final = frozenset({"agree", "approve_relocation", "approve_command"})
"""The functions that both forms of connecting call without awaiting them."""
_KINDS: Final[Mapping[str, tuple[type, str]]] = {
    "account": (str, "a text"),
    "headers": (Mapping, 'a mapping, such as {"x-tenant": "a"}'),
    "keys": (Mapping, "a mapping of security schemes to keys"),
    "selection": (Selection, "a Selection"),
    "preferences": (Preferences, "Preferences"),
    "session": (Session, "a Session"),
    "context": (Context, "a Context"),
    "locked": (DefinitionLock, "what read_lock(file) returns"),
    "cache": (Cache, "a Cache, such as open_document_cache()"),
}
"""The options that are an object, and how to say so."""


@dataclass(frozen=True, slots=True)
class ConnectOptions:
    """The options of ``connect`` and ``connect_sync``.

    ``url`` is the server to connect to, or the path of an OpenAPI document on this machine. It may also be a Toolkit or
    Toolbox, a module with one, or an ASGI application: that is called in this process, without a network, with the same
    questions; use it in tests. ``stdio:COMMAND ARGS``, or ``FILE.json:NAME`` for an entry of an mcp.json, is an MCP
    server that runs as a program: ``approve_command`` is shown the command before it runs for the first time. Without
    it, only commands run to which the user agreed before. ``protocol`` names the protocol to use; without it each
    protocol is tried. ``timeout_s`` is the time limit of one call in seconds, and ``discovery_s`` that of connecting:
    no request for a document begins later, or takes longer. A program has a minute, unless ``discovery_s`` is lowered.
    ``retries`` is how often a call may be repeated where that is safe, 0 to 10.

    ``approve`` is asked before each call that needs consent. Without it, such a call is denied and nothing is sent.
    ``preferences`` can ask for more consent than the site does, never for less. The levels that were set with
    ``toolwire approvals set`` hold too; with ``preferences=None`` they do not. ``agree`` is shown, on connecting, the
    tools that would run without a question because only the site says so: those that change something, and those that
    the site calls read-only (``tool.claimed_safe``). If it returns True they run, and if it returns names, these tools
    do; otherwise each call is asked about. After a change it is shown only what changed, in ``tools.changes``.
    ``locked`` refuses every tool that differs from its definition in ``toolwire.lock``.

    ``provide_input`` is shown an ``InputRequest`` where an MCP server asks for something while a call runs: a form, or
    a page to open. It returns what the user entered, or None if they said no. Without it, the client tells servers that
    it cannot ask a user. With it, a call may take as long as a stream, 10 minutes.

    ``session`` is shared with other connections, and ``name`` is the name of this connection in it. ``cache`` keeps the
    documents that are fetched, in place of that of the session; ``open_document_cache()`` keeps them between programs.

    ``api_key`` is sent to the origin of ``url`` and to no other; if ``url`` is a file, to the server that it names.
    ``token`` is an access token and is sent where an API key is sent. ``keys`` are the keys of the security schemes of
    an OpenAPI document, by the names of the schemes; each is sent where its scheme says: in a header, a cookie, the
    query, or ``user:password`` as Basic. An ``api_key`` or ``token`` alone goes where the scheme of a call says, and as
    a Bearer token if the document declares none.

    ``headers`` are added to every request to the origin that gets the key, and are shown in each question. Pass a value
    as a ``Secret`` if it must not be shown.

    Without a key or token, the credentials that ``toolwire login`` stored for the site are used, or those in
    ``credential_store``. ``account`` names one of several accounts there, each with a sign-in of its own. ``user`` is
    asked to sign in where the site requires it, and to allow more scopes where a call needs them; ``sign_in`` says how,
    such as with a client id that the user registered there. Where to sign in is found by the challenge and the metadata
    of the site, or in the security schemes of its document.

    ``context`` holds the tokens, secrets and user id that tools may require. Each tool is sent only what it requires.
    If a server names a page where the user grants access, ``user`` is shown it; the call goes on once the server's
    ``check_url`` says that it was granted.

    ``allow_origins`` lists other origins that tools may call, or is a function that is asked once for each. Without it,
    a tool that leads to another origin is not called. ``allow_private`` lists https origins in private networks that
    may be called. ``allow_http`` lists http origins that may be called too, at private addresses only: what is sent to
    them, keys included, can be read on the way. The certificates in ``ca_file`` (PEM) are trusted in addition to those
    of the system. ``approve_relocation`` is asked when the site redirects to another origin, or its llm.json names a
    document there. If it returns True, the connection is made there, and the key is sent there too; otherwise
    connecting fails. It is also asked, once, where an OpenAPI document describes an API at another origin: then calls
    and the key go to the API alone, as with ``Selection(server=...)``, which needs no question.

    ``selection`` says which tools to use; ``Selection(include="all")`` uses those of a document without ``x-llm`` too.
    ``overlay`` is an OpenAPI Overlay (a file or its data), which is applied to the document before it is read. ``caps``
    limits how much of a response is read, and how much of a result a model is given at once. What the site says of
    itself is not in ``remote.catalog()``, because a model may read that; ``include_site_description`` puts it there.

    Raises:
        DefinitionError: an option is of another type; the text names it.
        ValueError: ``protocol`` is unknown, ``retries`` is not 0 to 10, or ``allow_origins`` has something that is not
            an origin; or ``ca_file`` or one of ``headers`` cannot be used.
    """

    url: ConnectTarget
    _: KW_ONLY
    approve: Approver | None = None  # XL-053: without one, a call that needs consent is denied
    api_key: str | Secret | None = None
    protocol: str | None = None
    preferences: Preferences | None = NO_PREFERENCES  # XL-042: the user can tighten, never loosen
    allow_private: Sequence[str] = ()
    allow_http: Sequence[str] = ()
    ca_file: str | Path | None = None
    timeout_s: float = 100.0
    discovery_s: float = 15.0
    retries: int = 2  # C-11: only where a call cannot run twice
    session: Session | None = None
    name: str = ""
    locked: DefinitionLock | None = None
    agree: Agree | None = None  # XL-044: the site alone cannot waive consent
    context: Context = ANONYMOUS  # C-10, OTC-015: a tool gets only the secrets that it requires
    allow_origins: AllowOrigins = ()  # D-07: a document cannot send calls to another server
    caps: ResultLimits = DEFAULT_RESULT_LIMITS  # XL-103, QF-10: a model gets a bounded part of a result
    token: str | Secret | None = None
    keys: Mapping[str, str | Secret] = field(default_factory=dict, repr=False)  # XL-112: where a scheme says
    credential_store: CredentialStore | None = None  # XL-111: those of earlier connections
    user: SignInUser | None = None  # XL-102: signs in again where a call needs more scopes
    sign_in: SignInOptions | None = None
    account: str = ""  # QF-08
    selection: Selection = DEFAULT_SELECTION
    overlay: str | Path | Mapping[str, Json] | None = None
    headers: Mapping[str, str | Secret] = field(default_factory=dict, repr=False)  # XL-089
    approve_relocation: ApproveRelocation | None = None  # XL-011: only the user lets an origin take another's place
    include_site_description: bool = False  # XL-029: a site must not speak to the model beside its tools
    provide_input: InputProvider | None = None  # MC-09: without one, no server is told that it can ask
    approve_command: ApproveCommand | None = None  # MC-02: a program runs only if the user agreed to its command
    cache: Cache | None = None  # SE-07
    address: str = field(init=False)
    command: ServerCommand | None = field(init=False, repr=False)
    app: Asgi | None = field(init=False, repr=False)
    origins: AllowedOrigins = field(init=False, repr=False, compare=False)
    keys_by_scheme: Mapping[str, Secret] = field(init=False, repr=False, compare=False)
    """Each key by the name of its security scheme; that of ``api_key`` or ``token`` is ``""``."""

    def __post_init__(self) -> None:
        # Several calls below only check: a wrong option fails where it is written, before anything is sent. The class
        # is frozen, so the derived fields are set through object.
        _check_kinds(self)
        find_codecs(self.protocol)
        keys = {name: key if isinstance(key, Secret) else Secret(key) for name, key in self.keys.items()}
        object.__setattr__(self, "keys_by_scheme", keys if self.key is None else {"": Secret(self.key), **keys})
        app = None if isinstance(self.url, str | Path) else _build_app(self.url)
        object.__setattr__(self, "app", app)
        text = APP_ORIGIN if app is not None else resolve_target(str(self.url))
        command = read_server_command(text)
        if command is not None and (self.keys_by_scheme or self.protocol not in (None, "mcp")):
            raise ValueError(
                "a program speaks mcp, and gets its keys from environment variables: stdio:NAME=$NAME COMMAND"
            )
        if app is None and command is None:
            _check_file(text)
        object.__setattr__(self, "command", command)
        object.__setattr__(self, "address", text if command is None else command.url)
        if self.overlay is not None:
            selection = replace(self.selection, overlay=read_overlay(self.overlay))
            object.__setattr__(self, "selection", selection)
        RetryLimits(retries=self.retries)
        object.__setattr__(self, "headers", dict(read_site_headers(self.headers)))
        allow_origins_in_private_networks(self.allow_private, self.allow_http)
        check_ca_file(self.ca_file)
        url = read_url(complete_url(self.address))
        home = "" if isinstance(url, Problem) else url.origin  # discovery says what is wrong with the URL
        object.__setattr__(self, "origins", AllowedOrigins(home, self.allow_origins))

    @property
    def key(self) -> str | None:
        """The API key or the token, as text."""
        given = self.api_key if self.api_key is not None else self.token
        return given.reveal() if isinstance(given, Secret) else given

    @property
    def document(self) -> str:
        """The URL of the document on this machine that ``url`` names, or ``""`` if it names a site."""
        return file_url(self.address)


def _check_file(text: str) -> None:
    """Check that a path of a document leads to a file: its name must not be looked for as that of a site."""
    if names_document_file(text) and not file_url(text):
        raise DefinitionError(f"File not found: {text}.")
    if text.endswith(".py") and "/" not in text:
        raise DefinitionError(f"{text} is code. Import it, and connect to its toolkit.")


def _check_kinds(options: ConnectOptions) -> None:
    """Check that each option is of its type, so that a mistake is named where it is written."""
    for name in _FUNCTIONS:
        value = getattr(options, name)
        if value is not None and not callable(value):
            raise DefinitionError(f"{name} is a function, not {type(value).__name__}.")
        if name in _PLAIN and iscoroutinefunction(value):
            raise DefinitionError(
                f"{name} must be a plain function, because a blocking connection cannot await a coroutine function."
            )
    for name, (kind, text) in _KINDS.items():
        value = getattr(options, name)
        if value is not None and not isinstance(value, kind):
            raise DefinitionError(f"{name} is {text}, not {type(value).__name__}.")
    for name in ("api_key", "token"):
        value = getattr(options, name)
        if value is not None and not isinstance(value, str | Secret):
            raise DefinitionError(f"{name} must be a string or a Secret, not {type(value).__name__}.")
    for name in ("timeout_s", "discovery_s"):
        seconds: Any = getattr(options, name)
        if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not (seconds > 0 and isfinite(seconds)):
            raise DefinitionError(f"{name} must be a number of seconds above 0, not {seconds!r}.")
