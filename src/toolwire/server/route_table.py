"""Build one table of all paths of all protocols for a catalog, and find entries in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib import import_module
from types import ModuleType
from typing import Any, Final, NamedTuple, TypeAlias

from toolwire.core.catalog import Catalog
from toolwire.core.codec import BlockingTask, Codec, Reader, Reading, Site
from toolwire.core.http import JSON_HEADERS, STATUS_BY_KIND, Headers, Request, Response
from toolwire.core.interpreter import pause_collection
from toolwire.core.model import Kind, Problem
from toolwire.framing import jsontext

from .long_calls import calls_resource
from .page.browser_request import LoginPlace, is_mcp_client, is_page_form, wants_page
from .page.page_script import SCRIPT_PATH, build_script_response

Document: TypeAlias = Response | Callable[[], Response]
"""A response that needs no credentials, or the function that makes it."""
NO_DOCUMENTS: Mapping[str, Document] = {}
PAGE_PATH: Final = "/"
"""The path of the page with all tools."""
Refuse: TypeAlias = Callable[[Problem], Response]


class PeoplePage(NamedTuple):
    """The page of a path that has data for programs: whether a request wants it, its refusal, and its reader.

    ``refuse`` gets a Problem, and where people sign in at this server.
    ``build_reader`` gets the name of the person who is signed in at the browser, empty if there is none, and whether
    they can sign out on the page.
    """

    is_wanted: Callable[[Headers], bool]
    refuse: Callable[[Problem, LoginPlace], Response]
    build_reader: Callable[[str, bool], Reader]


@dataclass(frozen=True, slots=True)
class RouteEntry:
    """The reader of a method and path, and its protocol.

    ``open``: it needs no credentials. ``takes_body``: a body is received. ``takes_any_host``: it answers to any name of
    this server. ``takes_form_key``: a field of the form may have the credentials. ``read_for_strangers`` reads the
    requests of an open path without credentials where only known callers may learn which tools there are.
    ``has_sessions``: a request may belong to a session. ``page``: the path has a page beside its data.
    ``is_redirect``: it only names another path, to every caller.
    """

    read: Reader
    open: bool
    refuse: Refuse
    takes_body: bool
    protocol: str = ""
    takes_any_host: bool = False
    takes_form_key: bool = False
    read_for_strangers: Reader | None = None
    has_sessions: bool = False
    page: PeoplePage | None = None
    is_redirect: bool = False


def has_long_tools(catalog: Catalog) -> bool:
    """Return whether calls of some tool of ``catalog`` go on when their callers leave."""
    return any(tool.long for tool in catalog.tools)


class RouteTable:
    """The entries of one catalog; ``catalog`` is the very object they were made from.

    ``scopes`` are all scopes of its tools, resources and prompts: without any, all callers see the same.
    ``documents`` are responses by path, which need no credentials. Where ``site.private``, paths that name tools need
    credentials even if they are public elsewhere, and so do unknown paths: else they would tell which tools there are.

    What a caller with some scopes sees is built for each request, from the parts of each tool in ``site.cache``. It is
    not kept, because callers may choose their scopes, and ten thousand sets must cost no more memory than ten.
    """

    def __init__(
        self, catalog: Catalog, codecs: Sequence[Codec], site: Site, documents: Mapping[str, Document] = NO_DOCUMENTS
    ) -> None:
        self.catalog = catalog
        self.scopes: frozenset[str] = list_scopes(catalog)
        self._codecs, self._site, self._documents = codecs, site, documents
        self.depends_on_caller: bool = bool(self.scopes) or site.private
        self._owners: dict[str, Codec] = {}
        self._entries: dict[tuple[str, str], RouteEntry] = {}
        self._segments: dict[str, Refuse] = {}
        self._session_path = ""
        with pause_collection():
            # FI-01: after what the caller may not see was left out.
            listed = site.shorten(catalog)
            protocols = [(codec, codec.routes(listed, site)) for codec in codecs]
        for codec, routes in protocols:
            for (method, path), route in routes.items():
                is_open = route.is_public and (route.is_tool_free or not site.private)
                self._entries[method, path] = RouteEntry(
                    route.read,
                    is_open,
                    codec.refuse,
                    method != "GET",
                    codec.name,
                    route.takes_any_host,
                    has_sessions=route.has_sessions,
                )
                # An unknown path below /mcp is refused in the words of MCP.
                self._segments.setdefault(_first_segment(path), codec.refuse)
                self._owners.setdefault(path, codec)
                if route.has_sessions and method == "POST":
                    self._session_path = path
        for path, document in documents.items():
            if path.startswith(f"{site.root}/"):  # their addresses are whole, wherever the application is mounted
                self._entries["GET", path.removeprefix(site.root)] = _build_document_entry(document)
        page = cache(lambda: _load_page().build_page_readers(catalog, codecs, protocols, site))
        ask_for_key = _defer_reader(lambda: page()[2]) if site.private else None
        self._entries["GET", PAGE_PATH] = RouteEntry(
            _defer_reader(lambda: page()[0]), True, build_plain_refusal, False, read_for_strangers=ask_for_key
        )
        self._entries["POST", PAGE_PATH] = RouteEntry(
            _defer_reader(lambda: page()[1]), False, _refuse_form, True, "page", takes_form_key=True
        )
        self._entries["GET", SCRIPT_PATH] = _build_document_entry(build_script_response())
        self._has_calls = has_long_tools(catalog)
        if self._has_calls:
            self._entries["GET", calls_resource.PATH] = self._build_calls_entry("GET", calls_resource.PATH)
        self._methods: dict[str, list[str]] = {}
        for method, path in self._entries:
            if method != "QUERY":  # GR-05: Allow lists what the document lists
                self._methods.setdefault(path, []).append(method)

    def find_entry_for(self, narrow: Callable[[Catalog], Catalog], method: str, path: str) -> RouteEntry:
        """Return the entry for ``method`` and ``path`` of a caller who sees what ``narrow`` leaves of the catalog."""
        # D-30
        owner = self._owners.get(path)
        if owner is None and path != PAGE_PATH:
            return self.find_entry(method, path)
        # Only the protocol of this path describes the tools again: the other descriptions are not needed here.
        codecs = self._codecs if owner is None else (owner,)
        # A list of all tools was written before, so the parts of this one are in ``site.cache``.
        site = replace(self._site, can_offload=False)
        return RouteTable(narrow(self.catalog), codecs, site, self._documents).find_entry(method, path)

    def find_entry(self, method: str, path: str, headers: Headers = ()) -> RouteEntry:
        """Return the entry for ``method`` and ``path``, or an entry with a refusal in the form of the protocol.

        HEAD is answered as GET. A wrong method names the right ones in ``allow``. A client of MCP, known by its
        ``headers``, is led from the page to the path of MCP.
        """
        if path == PAGE_PATH and self._session_path and is_mcp_client(method, headers):
            return self._build_redirect(method)
        entry = self._entries.get((method, path))
        return entry if entry is not None else self._build_missing_entry(method, path)

    def _build_redirect(self, method: str) -> RouteEntry:
        """Return the entry that leads a client of MCP from the path of the page to that of MCP."""
        # FD-06: people paste the address of the server alone. Clients follow a 307 with their method, body and
        # credentials; one that follows none has the sentence. The rules are those of the path of MCP.
        address = f"{self._site.root}{self._session_path}"
        refuse = self._entries["POST", self._session_path].refuse
        problem = Problem(kind=Kind.NOT_FOUND, message=f"MCP clients connect to this server at {address}.")
        refusal = refuse(problem)
        response = Response(307, [*refusal.headers, (b"location", address.encode())], refusal.body)
        return RouteEntry(lambda _: response, True, refuse, method == "POST", is_redirect=True)

    def _build_missing_entry(self, method: str, path: str) -> RouteEntry:
        allowed = self._methods.get(path)
        if allowed is None and self._has_calls and (call_id := calls_resource.find_call_id(path)):
            return self._find_call_entry(method, path, call_id)
        if self._has_calls and method == "POST" and path == calls_resource.PATH:  # a key cannot be in the query
            return self._build_calls_entry(method, path)
        root = self._site.root
        # FD-06: a slash too many is what other servers of MCP end their path with.
        if allowed is None and self._session_path and path == f"{self._session_path}/":
            return self.find_entry(method, self._session_path)
        if allowed is None:
            refuse = self._segments.get(_first_segment(path), build_plain_refusal)
            return RouteEntry(
                lambda request: refuse_request(request.method, request.headers, _NOTHING_HERE, refuse, root),
                not self._site.private,
                refuse,
                False,
            )
        # The transport leaves out the body.
        if method == "HEAD" and "GET" in allowed:
            return self._entries["GET", path]
        refuse = self._entries[allowed[0], path].refuse
        allow = ", ".join([*allowed, "HEAD"] if "GET" in allowed else allowed)
        is_open = not self._site.private or any(self._entries[one, path].open for one in allowed)

        def read(request: Request) -> Reading:
            def refuse_method(problem: Problem) -> Response:
                return refuse_request(request.method, request.headers, problem, refuse, root)

            return _build_wrong_method(refuse_method, allow)

        return RouteEntry(read, is_open, refuse, False)

    def _find_call_entry(self, method: str, path: str, call_id: str) -> RouteEntry:
        """Return the entry for the long call at ``/calls/ID``."""
        if method in ("GET", "HEAD", "POST", "DELETE"):
            return self._build_calls_entry(method, path, call_id)
        refuse = calls_resource.refuse
        allow = "GET, HEAD, POST, DELETE"
        return RouteEntry(lambda _: _build_wrong_method(refuse, allow), True, refuse, False)

    def _build_calls_entry(self, method: str, path: str, call_id: str = "") -> RouteEntry:
        """Return the entry for a request about long calls: of the list, or of the call ``call_id``."""
        read_data = _find_data_reader(method, call_id)
        page = None if method == "DELETE" else self._build_call_page(method, path, call_id, read_data)
        read = read_data if page is None else page.build_reader("", False)
        return RouteEntry(read, False, calls_resource.refuse, method == "POST", "calls", page=page)

    def _build_call_page(self, method: str, path: str, call_id: str, read_data: Reader) -> PeoplePage:
        # LC-05
        is_wanted = is_page_form if method == "POST" else wants_page

        def load_pages(person: str, *, has_key: bool = False) -> Any:
            load, site = _load_page("call_page").CallPages, self._site
            return load(self.catalog, root=site.root, needs_key=site.keys, person=person, can_sign_out=has_key)

        def build_reader(person: str, has_key: bool) -> Reader:  # noqa: FBT001 - as PeoplePage says
            def read(request: Request) -> Reading | BlockingTask:
                if not is_wanted(request.headers):
                    return read_data(request)
                reading: Reading = load_pages(person, has_key=has_key).read(call_id, request)
                return reading

            return read

        def refuse(problem: Problem, login: LoginPlace) -> Response:
            response: Response = load_pages("").refuse(path, problem, login, was_tried=method == "POST")
            return response

        return PeoplePage(is_wanted, refuse, build_reader)


_NOTHING_HERE = Problem(kind=Kind.NOT_FOUND, message="Nothing is served at this path. GET / lists the available paths.")


def _find_data_reader(method: str, call_id: str) -> Reader:
    """Return the reader of data about long calls: of the call ``call_id``, or of the list."""
    match method:
        case "DELETE":
            return partial(calls_resource.read_cancellation, call_id)
        case "POST" if call_id:
            return partial(calls_resource.read_answer, call_id)
        case "POST":
            return lambda _: _build_wrong_method(calls_resource.refuse, "GET, HEAD")
        case _:
            return partial(calls_resource.read_one, call_id) if call_id else calls_resource.read_list


def build_plain_refusal(problem: Problem) -> Response:
    """Return the response for ``problem`` at a path that belongs to no protocol."""
    body = jsontext.write({"error": problem.kind.value, "message": problem.message})
    return Response(STATUS_BY_KIND[problem.kind], JSON_HEADERS, body)


def refuse_request(method: str, headers: Headers, problem: Problem, refuse: Refuse, root: str) -> Response:
    """Return the refusal of a request: a page for who opened the address in a browser, else that of ``refuse``."""
    if method not in ("GET", "HEAD") or not wants_page(headers):
        return refuse(problem)
    response: Response = _load_page("refusal_page").build_refusal_page(problem, home=f"{root}/")
    return response


def _defer_reader(make: Callable[[], Reader]) -> Reader:
    """Return a reader that ``make`` creates at the first request."""
    made = cache(make)

    def read(request: Request) -> Reading | BlockingTask:
        return made()(request)

    return read


def _load_page(name: str = "page_reader") -> ModuleType:
    """Return a module of pages: most servers only serve clients, which need none of it."""
    return import_module(f"toolwire.server.page.{name}")


def _refuse_form(problem: Problem) -> Response:
    response: Response = _load_page("refusal_page").build_refusal_page(problem)
    return response


def list_scopes(catalog: Catalog) -> frozenset[str]:
    """Return all scopes of the tools, resources and prompts of ``catalog``."""
    return frozenset(scope for one in (*catalog.tools, *catalog.features.readers) for scope in one.scopes)


def _build_document_entry(document: Document) -> RouteEntry:
    read: Reader = (lambda _: document) if isinstance(document, Response) else (lambda _: document())
    return RouteEntry(read, True, build_plain_refusal, False)


def _first_segment(path: str) -> str:
    return path.split("/", 2)[1] if path.startswith("/") else ""


def _build_wrong_method(refuse: Refuse, allow: str) -> Response:
    response = refuse(Problem(kind=Kind.WRONG_METHOD, message=f"This path takes {allow}."))
    return response._replace(headers=[*response.headers, (b"allow", allow.encode())])
