"""``asgi``: from tools and settings to the application that serves them on every protocol."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from urllib.parse import urlsplit

from toolwire.core.http import JSON_HEADERS, Response
from toolwire.core.ledger import Ledger
from toolwire.core.toolbox import Toolbox
from toolwire.define import Toolkit
from toolwire.framing import jsontext
from toolwire.protocols import BUILTIN, STRICT_JSONRPC
from toolwire.stores.limits.open import open_windows
from toolwire.telemetry.calls import Telemetry
from toolwire.validation import Authorizer

from .access.api_keys import ApiKey, ApiKeyCallers
from .access.callers import Callers, CombinedCallers
from .access.host_guard import HostGuard
from .app import ANY_TELEMETRY, App
from .limits import ServerLimits
from .route_table import NO_DOCUMENTS
from .run.confirmation import ConfirmationQuestion
from .run.function_toolbox import FunctionToolbox
from .run.idempotency import open_ledger

_CACHED_FOR_AN_HOUR = (b"cache-control", b"public, max-age=3600")


def asgi(  # noqa: PLR0913 - one keyword for each thing a server can be told
    target: Toolkit | Toolbox,
    *,
    api_keys: Iterable[str | ApiKey] = (),
    hosts: Iterable[str] = (),
    origins: Iterable[str] = (),
    limits: ServerLimits | None = None,
    ledger: Ledger | Path | str | None = None,
    rates: str = "",
    callers: Callers | None = None,
    authorizer: Authorizer | None = None,
    telemetry: Telemetry = ANY_TELEMETRY,
    strict_jsonrpc: bool = False,
    debug: bool = False,
    require_confirmation: ConfirmationQuestion | None = None,
    client_document: str = "",
) -> App:
    """Return an ASGI application that serves ``target`` on every protocol at once.

    With ``api_keys``, calls and lists need one of them; ``/``, ``/health``, ``llm.json`` and the OpenAPI document stay
    open, as discovery asks for them without credentials. ``hosts`` are the Host names it answers to besides
    the loopback ones, ``origins`` the web origins whose pages may call it. ``ledger`` remembers the calls that carry
    a key of their caller's: the path of an SQLite file, which restarts and several processes share, else this process.
    ``rates`` is where calls are counted against their tools' limits: a folder, which several processes share, a URL
    such as ``redis://host``, else this process. [XL-066]

    ``callers`` is another way to tell callers apart, such as signed tokens; with keys too, either will do. What a
    caller sees and calls are then the tools whose scopes they have. ``authorizer`` knows where a person grants what
    a tool requires. ``telemetry`` takes spans and metrics elsewhere than to what is set up for the process.

    With ``strict_jsonrpc`` an answer of OpenTool has a result or an error, never both, which some of its clients cannot
    read. With ``debug`` callers are told what is else only for the log, such as which exception a tool raised: for
    servers whose callers are their developers. [A-12, A-53]

    ``require_confirmation`` gives what to ask a person before a call runs, ``""`` for nothing: such a call is answered
    428 and runs when it comes again with the word of that answer; ``destructive`` asks about all tools that destroy.
    It is remembered by this process. [XL-056]

    ``client_document`` is the address at which this application shows who toolwire is when people sign in elsewhere
    with it: an https origin that leads here, or a URL of your own below it. Sign in with
    ``toolwire login --client-document``. [XL-113]

    Raises:
        DefinitionError: the ledger or what ``rates`` names cannot be opened, or nobody would take a document from
            ``client_document``.
    """
    documents = _build_documents(client_document)
    limits = limits if limits is not None else ServerLimits()
    toolbox = FunctionToolbox(target, threads=limits.threads) if isinstance(target, Toolkit) else target
    guard = HostGuard(hosts=hosts, origins=origins)
    return App(
        toolbox,
        callers=combine_callers(api_keys, callers),
        guard=guard,
        limits=limits,
        codecs=STRICT_JSONRPC if strict_jsonrpc else BUILTIN,
        ledger=open_ledger(ledger),
        rates=open_windows(rates),
        authorizer=authorizer,
        telemetry=telemetry,
        debug=debug,
        require_confirmation=require_confirmation,
        documents=documents,
    )


def _build_documents(client_document: str) -> Mapping[str, Response]:
    """Return the document that tells authorization servers who toolwire is, by the path of its URL."""
    if not client_document:
        return NO_DOCUMENTS
    # XL-113: few servers are clients of others, and the modules of sign-ins take long to import.
    from toolwire.auth.client_identity import resolve_document_url, write_document  # noqa: PLC0415 - see above

    url = resolve_document_url(client_document, loopback=True)
    body = jsontext.write(write_document(url))
    return {urlsplit(url).path: Response(200, (*JSON_HEADERS, _CACHED_FOR_AN_HOUR), body)}


def combine_callers(api_keys: Iterable[str | ApiKey], callers: Callers | None) -> Callers:
    """Return whom a server answers: holders of a key, those whom ``callers`` know, or everybody where neither is."""
    keys = ApiKeyCallers(api_keys)
    if callers is None:
        return keys
    return CombinedCallers(keys, callers) if keys.needs_credentials else callers
