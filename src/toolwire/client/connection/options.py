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

    What to connect to:

    - ``url``: a server's URL, or the path of an OpenAPI document. In tests, pass a Toolkit, a Toolbox, a module that
      contains one, or an ASGI application. It then runs in this process, without a network, and asks the same
      questions. ``stdio:COMMAND ARGS`` and ``FILE.json:NAME`` (an entry of an mcp.json) start a local MCP server.
    - ``approve_command``: called with that command before it runs for the first time. Without it, only commands that
      the user has already approved can run.
    - ``protocol``: the protocol to use. By default, each one is tried.
    - ``selection``: the tools to use. ``Selection(include="all")`` includes operations without ``x-llm``.
    - ``overlay``: an OpenAPI Overlay, as a file or as data. It is applied before the document is read.
    - ``include_site_description``: add the server's description of itself to ``remote.catalog()``. It is left out by
      default, because a model can read the catalog.

    Limits:

    - ``timeout_s``: the time limit of one call, in seconds.
    - ``discovery_s``: the time limit of connecting, in seconds. A local program gets 60 seconds, unless you pass less
      than the default.
    - ``retries``: how often a call is repeated if that is safe, from 0 to 10.
    - ``caps``: how much of a response is read, and how much of a result a model gets at once.

    Consent:

    - ``approve``: called before each call that needs consent. Without it, such calls are denied and nothing is sent.
    - ``preferences``: the user's own rules. They can require more consent than the server does, never less. The rules
      set with ``toolwire approvals set`` also apply, unless you pass None.
    - ``agree``: called on connecting, with the tools that would run without a question only because the server says so.
      These are tools that change something, and tools that the server calls read-only (``tool.claimed_safe``). Return
      True to trust them all, or the names of those to trust. Calls of the others need consent. If a definition changes
      later, ``agree`` gets only what changed, in ``tools.changes``.
    - ``locked``: refuse each tool that differs from its definition in ``toolwire.lock``.
    - ``provide_input``: called with an ``InputRequest`` when an MCP server asks the user for something during a call.
      It returns what the user entered, or None if they declined. Without it, servers are told that nobody can be asked.
      With it, a call can take up to 10 minutes.

    State shared between connections:

    - ``session``: the Session to share.
    - ``name``: this connection's name in the session.
    - ``cache``: the cache for fetched documents, instead of the session's. ``open_document_cache()`` keeps documents
      between programs.

    Credentials:

    - ``api_key``: sent only to the origin of ``url``. If ``url`` is a file, it is sent only to the server that the file
      names.
    - ``token``: an access token, sent to the same origin as an API key.
    - ``keys``: a key for each security scheme of an OpenAPI document, by the scheme's name. The scheme decides where
      the key is sent: in a header, a cookie or the query, or as Basic (``user:password``). A single ``api_key`` or
      ``token`` follows the scheme of each call. If the document declares none, it is sent as a Bearer token.
    - ``headers``: added to every request to the origin that gets the key, and shown in each question. Wrap a value in
      ``Secret`` to hide it.
    - ``credential_store``: the stored credentials to use if there is no key or token. Default: those of ``toolwire
      login``.
    - ``account``: which of several stored accounts to use.
    - ``user``: how to reach the user when the server requires a sign-in or more scopes, or names a page where the user
      grants access.
    - ``sign_in``: how to sign in, such as with a client ID that the user registered.
    - ``context``: the tokens, secrets and user ID that tools can require. Each tool is sent only what it requires.

    Network:

    - ``allow_origins``: other origins that tools may call, or a function that is called once for each origin. Without
      it, tools at another origin are not called.
    - ``allow_private``: HTTPS origins that may have a private address.
    - ``allow_http``: HTTP origins that may be called, at private addresses only. Anyone on the network path can read
      that traffic, keys included.
    - ``ca_file``: a PEM file with certificates to trust in addition to the system's.
    - ``approve_relocation``: called when the server redirects to another origin, or its llm.json names a document
      there. Return True to connect there and to send the key there. Otherwise connecting fails. It is also called once
      if an OpenAPI document describes an API at another origin. Calls and the key then go only to the API.
      ``Selection(server=...)`` does the same without a question.

    Raises:
        DefinitionError: an option has the wrong type. The message names it.
        ValueError: ``protocol`` is unknown, ``retries`` is not 0 to 10, an item of ``allow_origins`` is not an origin,
            or ``ca_file`` or one of ``headers`` is not valid.
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
