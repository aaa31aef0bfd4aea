"""Serve the routes of a web application as tools on every protocol. A call is a request to the application itself.

Rules:
- A call carries the credentials of its caller to the route: the application signs its own users in, and refuses them.
- Who sends the same credentials is the same caller. No caller gets what was kept for another.
- What the application answers at a path of its own stays its own.
"""
# FU-30

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from contextlib import AsyncExitStack
from contextvars import ContextVar
from copy import deepcopy
from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlsplit

from anyio import to_thread

from toolwire.client.calls.session import Session
from toolwire.client.connection.connect import connect
from toolwire.client.connection.remote import Remote
from toolwire.client.discovery.required_scopes import find_required_scopes, list_sign_in_schemes
from toolwire.client.transport.in_process import APP_ORIGIN, UNFINISHED, Asgi
from toolwire.client.transport.redirects import REDIRECTS
from toolwire.client.transport.urls import has_user, parse_url, resolve_location
from toolwire.consent import ClientRules
from toolwire.core.catalog import Catalog
from toolwire.core.check import ALLOW, Deny, Verdict
from toolwire.core.codec import Finding, FlowEnd, resume_flow
from toolwire.core.errors import DefinitionError
from toolwire.core.http import JSON_HEADERS, STATUS_BY_KIND, Headers, Response, get_header
from toolwire.core.model import Call, Kind, Problem, Result, Tool, Value
from toolwire.core.resources import COMPLETE_RESULTS
from toolwire.core.selection import DEFAULT_SELECTION
from toolwire.core.toolbox import Notify, OutputPromise, ignore_progress
from toolwire.framing.response_fields import HEADERS, REFUSED_BY, get_response_fields
from toolwire.limits import ClientRateLimits
from toolwire.protocols.mcp.server_card import CARD_PATH, CATALOG_PATH
from toolwire.protocols.openapi.discovery import find
from toolwire.protocols.openapi.document.paths import NAME
from toolwire.server import App
from toolwire.server.access.callers import ANONYMOUS_CALLER, Caller, Callers, Fields
from toolwire.server.asking.receipts import KEYS_PATH
from toolwire.server.build import build_server
from toolwire.server.http.messages import split_mount_path
from toolwire.server.options import ServerOptions

from .documents import LLM, OPENAPI, DocumentAnswer, answer, llm_json, send_answer, write_json
from .route_marks import iterate_operations
from .routes import Routes
from .sign_in import SCHEME

if TYPE_CHECKING:
    from toolwire.server.oauth import AuthorizationServer

MCP: Final = "/mcp"
OPENTOOL: Final = ("/opentool/load", "/opentool/version", "/opentool/call", "/opentool/streamCall")
OTC: Final = ("/tools", "/tools/call", "/call")
PATHS: Final[Mapping[str, Sequence[str]]] = {"mcp": (MCP,), "opentool": OPENTOOL, "otc": OTC}
"""The paths of each protocol. OpenAPI is not among them: the application's own document describes it."""

_log: Final = logging.getLogger("toolwire.integrations")
_MANY: Final = 1_000_000
_USUAL_CREDENTIALS: Final = (b"authorization", b"cookie")
# Behind a proxy that ends TLS, an application learns from these fields who calls, and that the call came by https.
_OF_PROXIES: Final = (b"forwarded", b"x-forwarded-for", b"x-forwarded-host", b"x-forwarded-port", b"x-forwarded-prefix",
    b"x-forwarded-proto", b"x-forwarded-ssl", b"x-real-ip", b"x-request-id")  # fmt: skip
_PASSED_ON: Final = (b"host", b"accept-language", *_OF_PROXIES)
_SAME: Final = ("client", "server", "scheme", "state")
"""What of the ASGI scope of a request is the same for the call of a route."""

_REQUEST: ContextVar[Mapping[str, Any] | None] = ContextVar("toolwire_request", default=None)
_CHALLENGES: ContextVar[list[bytes] | None] = ContextVar("toolwire_challenges", default=None)
"""The ``WWW-Authenticate`` fields of the last route that refused the caller of the running request."""


DEFAULT_OPTIONS: Final = ServerOptions()


class AppServer:
    """An ASGI application for the paths of ``PATHS``, whose tools are the operations of ``app``.

    ``read_document`` returns the OpenAPI document of ``app``, with ``x-llm``; it is called once.
    """

    def __init__(
        self,
        app: Asgi,
        read_document: Callable[[], Mapping[str, Any]],
        options: ServerOptions,
        sign_in: AuthorizationServer | None = None,
    ) -> None:
        if not isinstance(options, ServerOptions):
            raise DefinitionError(
                f"options must be a ServerOptions(...), or None for the document alone, not {options!r}."
            )
        self._routes, self._sign_in = app, sign_in
        self._read_document = read_document
        self.options = options
        self._app: App | None = None
        self._found: Routes | None = None
        self._tools: Mapping[tuple[str, str], Tool] = {}
        self._callers: Callers | None = None
        self._beginning = asyncio.Lock()

    async def begin(self) -> None:
        """Read the tools. Without a lifespan, the first request does it.

        Raises:
            DefinitionError: no tools can be read from the document.
        """
        await self._begin()

    async def end(self) -> None:
        """Release what ``begin`` took."""
        app, self._app = self._app, None
        if app is not None:
            await app.end()

    def limit_routes(self, app: Asgi) -> Asgi:
        """Return ``app`` whose routes have the limits of their tools for requests that come past the protocols too.

        The calls of one caller count together, whichever way they come.
        """
        # AO-04

        async def serve(scope: Any, receive: Any, send: Any) -> None:
            is_own = scope["type"] != "http" or _REQUEST.get() is not None  # a call of a tool was counted before
            problem = None if is_own else await self._count_request(scope)
            await (app(scope, receive, send) if problem is None else send_answer(_write_refusal(problem), send))

        return serve

    async def _count_request(self, scope: Any) -> Problem | None:
        app = self._app or await self._begin()
        paths = (scope["path"], split_mount_path(scope.get("root_path") or "", scope["path"])[1])
        found = [] if self._found is None else [self._found.find_operation(scope["method"], path) for path in paths]
        one = next(filter(None, found), None)
        tool = None if one is None else self._tools.get((one.method.upper(), one.path))
        if tool is None or tool.rate_limit is None:
            return None
        caller = await self._identify(scope)
        # Who is not known is refused by the route, if it needs a caller; until then all of them count as one.
        context = ANONYMOUS_CALLER.context if isinstance(caller, Problem) else caller.context
        return await app.count_call(Call(tool, {}, context=context))

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer one request."""
        app = self._app or await self._begin()
        challenges: list[bytes] = []
        token, challenges_token = _REQUEST.set(scope), _CHALLENGES.set(challenges)
        unfinished: set[asyncio.Task[None]] = set()
        unfinished_token = UNFINISHED.set(unfinished)

        async def send_challenged(message: MutableMapping[str, Any]) -> None:
            await send(_add_challenges(message, challenges) if challenges else message)

        try:
            await app(scope, receive, send_challenged)
            if unfinished:  # a server that stops waits for the background tasks of a request
                await asyncio.wait(unfinished)
        finally:
            _REQUEST.reset(token)
            _CHALLENGES.reset(challenges_token)
            UNFINISHED.reset(unfinished_token)
            for task in unfinished:  # or it cancels the request
                task.cancel()

    async def _identify(self, scope: Any) -> Caller | Problem:
        """Return who makes the request, with a session of the application or with other credentials."""
        if self._sign_in is not None:
            return await self._sign_in.identify_request({**scope, "method": "GET"})
        fields = dict(scope["headers"])
        known = ANONYMOUS_CALLER if self._callers is None else self._callers.find_caller(fields)
        return (
            await self._callers.verify(fields)
            if known is None and self._callers is not None
            else known or ANONYMOUS_CALLER
        )

    async def _begin(self) -> App:
        async with self._beginning:
            if self._app is None:
                document = self._read_document()
                names = _list_credential_fields(document)
                options = self.options
                if options.callers is None and not tuple(options.api_keys):
                    options = replace(options, callers=_AppUsers(names))
                challenge = (lambda *_: ()) if options.callers is None else options.callers.challenge
                app = build_server(_RouteToolbox(_AsCaller(self._routes, document, names), challenge), options)
                await app.begin()
                self._callers = options.callers
                self._found = Routes(document)
                self._tools = {_find_route(tool): tool for tool in app.catalog().tools}
                self._app = app
            return self._app


def choose_paths(options: ServerOptions, is_taken: Callable[[str, str], bool]) -> Sequence[str]:
    """Return the paths of ``PATHS``, without those of a protocol of which the application answers one itself.

    ``is_taken`` says whether the application has a route for a method and a path. The keys of receipts have a path too,
    where ``options`` requires receipts.
    """
    chosen = [KEYS_PATH] if options.receipts and not is_taken("GET", KEYS_PATH) else []
    for protocol, paths in PATHS.items():
        taken = next((path for path in paths if any(is_taken(method, path) for method in ("GET", "POST"))), None)
        if taken is None:
            chosen += paths
            if protocol == "mcp":  # FD-09
                chosen += [path for path in (CARD_PATH, CATALOG_PATH) if not is_taken("GET", path)]
        else:
            _log.warning("%s is a route of the application, so its tools are not served over %s.", taken, protocol)
    return chosen


class _RouteToolbox:
    """The operations of an application as tools. The server in front asks for consent as for tools of its own."""

    def __init__(self, app: _AsCaller, challenge: Callable[[Problem, str], Headers]) -> None:
        self._app = app
        self._challenge = challenge
        self._opened = AsyncExitStack()
        self._catalog = Catalog()
        self._remote: Remote | None = None

    def catalog(self) -> Catalog:
        return self._catalog

    def judge_output(self, _tool: Tool) -> OutputPromise:
        return OutputPromise.FOREIGN  # O-21: a route may answer what its document does not say

    def check_caller(self, call: Call) -> Verdict:
        """Refuse a call whose route would refuse the token of its caller, before the user is asked about it."""
        # AO-01: the answer of the user would be lost, because the client gets another token first.
        granted, needed = call.context.scopes, _find_scopes(call.tool)
        if granted is None or granted.issuperset(needed):
            return ALLOW
        missing = ", ".join(scope for scope in needed if scope not in granted)
        text = f"{call.tool.name} requires scopes that your token lacks: {missing}."
        scopes = list(dict.fromkeys((*sorted(granted), *needed)))
        problem = Problem(kind=Kind.FORBIDDEN, message=text, details={"scopes": scopes})
        if (challenges := _CHALLENGES.get()) is not None:
            challenges[:] = [value for _, value in self._challenge(problem, "")]
        return Deny(problem)

    async def begin(self) -> None:
        self._catalog = await to_thread.run_sync(_read_catalog, self._app.document)
        self._remote = await self._opened.enter_async_context(
            connect(
                self._app,
                protocol="openapi",
                approve=_allow,  # the server in front has asked
                agree=_agree,  # the application speaks for itself
                preferences=None,
                caps=COMPLETE_RESULTS,
                retries=0,
                session=Session(
                    limits=ClientRateLimits(tool=None, connection=None), rules=ClientRules(questions_a_minute=_MANY)
                ),
            )
        )

    async def end(self) -> None:
        self._remote = None
        await self._opened.aclose()

    async def run(self, call: Call, notify: Notify = ignore_progress) -> Result:
        tool = _CLOSED if self._remote is None else self._remote.find(call.tool.id)
        if isinstance(tool, Problem) or self._remote is None:
            return tool if isinstance(tool, Problem) else _CLOSED
        return _as_own(await self._remote.run(call._replace(tool=tool), notify))


def _as_own(result: Result) -> Result:
    """Return ``result`` of a route as one of the server in front: the route's refusal is the caller's own."""
    fields = {
        name: text.removeprefix(APP_ORIGIN) if isinstance(text, str) else text
        for name, text in get_response_fields(result).items()
        if name != "www-authenticate"  # _add_challenges sends it
    }
    if isinstance(result, Value):
        return replace(result, notes={**result.notes, HEADERS: fields}) if result.notes and fields else result
    # A challenge has the status of its kind over each protocol, as _add_challenges needs it.
    left_out = {REFUSED_BY, HEADERS, *(["status"] if "www-authenticate" in get_response_fields(result) else [])}
    details = {name: value for name, value in result.details.items() if name not in left_out}
    return replace(result, details={**details, HEADERS: fields} if fields else details)


_CLOSED: Final = Problem(kind=Kind.OVERLOADED, message="The application is shutting down.")


def _find_route(tool: Tool) -> tuple[str, str]:
    """Return the method and the path of the operation of ``tool``."""
    facts = tool.hints[NAME]
    return str(facts["method"]).upper(), str(facts["path"])


def _write_refusal(problem: Problem) -> DocumentAnswer:
    """Return the response to a request for which there were too many."""
    body = write_json({"error": problem.kind.value, "message": problem.message})
    seconds = -(-(problem.retry_after_ms or 1_000) // 1_000)
    headers = {"content-type": "application/json", "cache-control": "no-store", "retry-after": str(seconds)}
    return DocumentAnswer(STATUS_BY_KIND[problem.kind], headers, body)


def _find_scopes(tool: Tool) -> Sequence[str]:
    """Return the scopes of the sign-in that the route of ``tool`` requires."""
    # Only those of the sign-in that this package describes: what others mean by their scopes is for the route to say.
    return (find_required_scopes(tool) or ()) if list_sign_in_schemes((tool,)) == frozenset((SCHEME,)) else ()


def _read_catalog(document: bytes) -> Catalog:
    """Return the tools of ``document``.

    Raises:
        DefinitionError: no tools can be read from it.
    """
    flow = find(f"{APP_ORIGIN}{OPENAPI}", DEFAULT_SELECTION)
    resume_flow(flow, None)
    end: FlowEnd = resume_flow(flow, Response(200, JSON_HEADERS, document))
    found: Finding = end.value
    if found.peer is None:
        reason = found.probes[-1].meaning if found.probes else "it is not OpenAPI."
        raise DefinitionError(f"Cannot serve the application's OpenAPI document: {reason}")
    return found.peer.catalog


class _AsCaller:
    """The application as it answers the caller of the running request. Its documents are answered from memory."""

    def __init__(self, app: Asgi, document: Mapping[str, Any], names: Iterable[bytes]) -> None:
        self._app = app
        called = _call_here(document)
        self.document = write_json(called)
        # Calls are counted for each caller by the server in front; the connection counts all callers as one.
        self._root = called["servers"][0]["url"].rstrip("/")
        unlimited = write_json(_drop_rate_limits(called))
        self._documents = {OPENAPI: unlimited, LLM: llm_json(document, OPENAPI)}
        self._passed = frozenset((*names, *_PASSED_ON))

    async def __call__(self, scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":  # the application has been started by its own server
            for phase in ("startup", "shutdown"):
                await receive()
                await send({"type": f"lifespan.{phase}.complete"})
            return
        outer = _REQUEST.get()
        if outer is None or scope["path"] in self._documents:
            body = self._documents.get(scope["path"])
            await send_answer(_NOTHING if body is None else answer(body, scope["method"], ""), send)
            return
        fields = dict(scope["headers"]) | {name: value for name, value in outer["headers"] if name in self._passed}
        same = {name: outer[name] for name in _SAME if name in outer} | self._mount(scope, outer)
        called = {**scope, **same, "headers": list(fields.items())}
        started = False

        async def send_on(message: MutableMapping[str, Any]) -> None:
            nonlocal started
            started = True
            _store_challenges(message)
            await send(_shorten_redirect(message, called, fields, same["root_path"] if "path" in same else ""))

        try:
            await self._app(called, receive, send_on)
        except Exception:  # noqa: BLE001 - as servers do: it is logged, and is the answer to this call alone
            _log.exception("%s %s failed", scope["method"], scope["path"])
            if not started:
                await send_answer(_FAILED, send)

    def _mount(self, scope: Mapping[str, Any], outer: Mapping[str, Any]) -> dict[str, Any]:
        """Return where the route is mounted, as a request to the route itself would have it."""
        root, _ = split_mount_path(outer.get("root_path") or "", "")
        if not root or self._root == root or not outer["path"].startswith(f"{root}/"):
            return {"root_path": root}
        return {"root_path": root, "path": root + scope["path"], "raw_path": quote(root).encode() + scope["raw_path"]}


def _shorten_redirect(
    message: MutableMapping[str, Any], called: Mapping[str, Any], fields: Mapping[bytes, bytes], root: str
) -> MutableMapping[str, Any]:
    """Return ``message`` whose redirect to the origin that the caller knows is one to a path below ``root``."""
    # Many frameworks make absolute URLs, of the address of the server or of its proxy.
    if message["type"] != "http.response.start" or message["status"] not in REDIRECTS:
        return message
    headers = [(name.lower(), value) for name, value in message["headers"]]
    location = get_header(headers, b"location")
    try:
        base = parse_url(f"{called['scheme']}://{fields[b'host'].decode('latin-1')}")
        url = resolve_location(base._replace(path=quote(called["path"])), location)
    except (KeyError, ValueError):
        return message
    schemes = {base.scheme, _decode_first(fields, b"x-forwarded-proto")}
    hosts = {base.authority, _decode_first(fields, b"x-forwarded-host")}
    if not location or has_user(location) or url.scheme not in schemes or url.authority not in hosts:
        return message
    target = url.request_target
    target = target.removeprefix(root) if target.startswith(f"{root}/") else target
    others = [field for field in headers if field[0] != b"location"]
    return {**message, "headers": [*others, (b"location", target.encode("ascii", "replace"))]}


def _decode_first(fields: Mapping[bytes, bytes], name: bytes) -> str:
    """Return what the proxy next to the client says, in lower case."""
    return fields.get(name, b"").decode("latin-1").partition(",")[0].strip().lower()


def _store_challenges(message: Mapping[str, Any]) -> None:
    """Keep what the response of a route asks its caller for, if it refuses them."""
    stored = _CHALLENGES.get()
    if stored is None or message["type"] != "http.response.start":
        return
    is_refusal = message["status"] in _REFUSALS
    stored[:] = [value for name, value in message["headers"] if is_refusal and name.lower() == _CHALLENGE]


def _add_challenges(message: MutableMapping[str, Any], challenges: Sequence[bytes]) -> MutableMapping[str, Any]:
    """Return ``message`` with the route's challenges, if it begins the response."""
    # I-22: a client can ask its user for more only if it learns what the route wants. OpenTool refuses with status 200.
    if message["type"] != "http.response.start":
        return message
    others = [field for field in message["headers"] if field[0].lower() != _CHALLENGE]
    return {**message, "headers": [*others, *((_CHALLENGE, value) for value in challenges)]}


_CHALLENGE: Final = b"www-authenticate"
_REFUSALS: Final = (401, 403)
_NOTHING: Final = DocumentAnswer(404, {}, b"")
_FAILED: Final = DocumentAnswer(500, {}, b"")


class _AppUsers:
    """Tells callers apart by what they bring, and leaves it to the application whether that is good."""

    needs_credentials = True

    def __init__(self, names: Iterable[bytes]) -> None:
        self._names = sorted(names)

    def find_caller(self, fields: Fields, /) -> Caller | Problem | None:
        brought = [(name, fields[name]) for name in self._names if name in fields]
        if not brought:
            return ANONYMOUS_CALLER
        digest = sha256(b"\n".join(b"%b:%b" % pair for pair in brought)).hexdigest()
        return Caller(f"user-{digest[:32]}")

    async def verify(self, fields: Fields, /) -> Caller | Problem:
        return self.find_caller(fields) or ANONYMOUS_CALLER

    def challenge(self, _problem: Problem, _path: str, /) -> Headers:
        return ()


def _list_credential_fields(document: Mapping[str, Any]) -> tuple[bytes, ...]:
    """Return the names of the header fields that may have credentials: the usual ones, and the document's own."""
    components = document.get("components")
    schemes = components.get("securitySchemes") if isinstance(components, Mapping) else None
    own = [
        str(scheme.get("name", "")).lower().encode("latin-1", "ignore")
        for scheme in (schemes.values() if isinstance(schemes, Mapping) else ())
        if isinstance(scheme, Mapping) and scheme.get("type") == "apiKey" and scheme.get("in") == "header"
    ]
    return tuple(dict.fromkeys((*_USUAL_CREDENTIALS, *filter(None, own))))


def _call_here(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``document`` with a server of this process: the path of its first server, at no other place."""
    servers = document.get("servers")
    first = servers[0] if isinstance(servers, list) and servers else None
    url = first.get("url", "") if isinstance(first, Mapping) else ""
    path = urlsplit(str(url)).path.rstrip("/")
    return {**document, "servers": [{"url": path or "/"}]}


def _drop_rate_limits(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``document`` without the ``rateLimit`` of its operations."""
    built = deepcopy(dict(document))
    for one in iterate_operations(built):
        if isinstance(extension := one.node.get("x-llm"), dict):
            extension.pop("rateLimit", None)
    return built


def _allow(_question: object) -> bool:
    return True


def _agree(_tools: tuple[Tool, ...]) -> bool:
    return True
