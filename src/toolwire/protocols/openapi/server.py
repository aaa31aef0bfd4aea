"""Serve a catalog by OpenAPI: routes for llm.json, the API catalog, the document, and each tool."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from toolwire.core.call_by_name import CALL, read_named_call
from toolwire.core.catalog import Catalog
from toolwire.core.codec import BlockingTask, Pending, Reader, Reading, Route, Routes, Site, build_deferred_reader
from toolwire.core.content import find_content_kind
from toolwire.core.http import Request, Response, get_header
from toolwire.core.model import Call, Json, Kind, Problem, Result, Tool
from toolwire.framing import jsontext
from toolwire.framing.call_context import read_field

from . import document_writer, problems
from .document.paths import ACCEPT_QUERY, CATALOG, CONVENTIONAL, WELL_KNOWN
from .document.versions import RELEASES, Version, as_version
from .request import query
from .request.parameter_styles import FORM
from .response import results

# XL-018: any page may read these documents. They are public and need no credential.
_ALLOW_ANY_ORIGIN = (b"access-control-allow-origin", b"*")
_CACHE_FIVE_MINUTES = (b"cache-control", b"max-age=300")
# D-30: a cache may keep what answers a GET, with the Last-Modified of an upstream for years, and X-API-Key is nothing
# to it. A result belongs to its call and its caller.
_OF_ONE_CALL = (b"cache-control", b"private, no-cache")


def build_routes(catalog: Catalog, site: Site) -> Routes:
    """Return the routes of llm.json, the OpenAPI document (two paths), the API catalog and each tool."""
    # XL-018, XL-019
    auth = "none" if not site.keys else "api-key" if site.sign_in is None else "oauth2"
    entry = _build_static_response(jsontext.write({"openapi": site.root + CONVENTIONAL[1], "auth": auth}))
    # XL-019: one reader for both paths, so that they serve the same bytes.
    described = _build_document_reader(catalog, site)
    table = {
        ("GET", WELL_KNOWN): Route(
            _build_constant_reader(entry._replace(headers=(*entry.headers, _ALLOW_ANY_ORIGIN))),
            is_public=True,
            is_tool_free=True,
        )
    }
    table |= {("GET", path): Route(described, is_public=True) for path in CONVENTIONAL}
    table["GET", CATALOG] = Route(_build_constant_reader(_build_api_catalog(site)), is_public=True, is_tool_free=True)
    # FI-01: what is not listed can be called.
    whole = () if catalog.whole is None else document_writer.list_published(catalog.whole)
    for tool, path, _ in (*whole, *document_writer.list_published(catalog)):
        if tool is CALL:
            table["POST", path] = Route(partial(_read_named_call, catalog), runs_tool=True)
            continue
        # A safe tool is a GET, so that caches, prefetching and HTTP itself know that it changes nothing.
        is_safe, route = query.is_in_query(tool), site.cache.get(_build_route, tool, "")
        table["GET" if is_safe else "POST", path] = route
        if is_safe:  # GR-05: for arguments that are too long for a URL
            table["QUERY", path] = route
    return table


refuse = problems.write
"""Writes a Problem that occurs before a reader gets the request."""


def _build_static_response(body: bytes) -> Response:
    etag = b'"' + hashlib.sha256(body).hexdigest()[:32].encode() + b'"'
    return Response(200, ((b"content-type", b"application/json"), (b"etag", etag), _CACHE_FIVE_MINUTES), body)


def _build_api_catalog(site: Site) -> Response:
    """Return the API catalog (RFC 9727), which names the one OpenAPI document."""
    # OQ-1
    named = [{"href": site.root + CONVENTIONAL[1], "type": "application/json"}]
    linkset = {"linkset": [{"anchor": site.root or "/", "service-desc": named}]}
    whole = _build_static_response(jsontext.write(linkset))
    kind = (b"content-type", b"application/linkset+json")
    return whole._replace(headers=(kind, *whole.headers[1:], _ALLOW_ANY_ORIGIN))


def _build_document_reader(catalog: Catalog, site: Site) -> Reader:
    """Return the reader that serves the document: 3.1, or the version in ``?openapi=3.0`` or ``3.2``."""
    # XL-124

    def serialize(version: Version) -> Response:
        # A tool that is unchanged in a new catalog keeps the bytes that were written for the old one.
        describe = partial(site.cache.get, write_parts[version])
        written = document_writer.write_outline(catalog, site) | {ACCEPT_QUERY: [FORM, "application/json"]}
        outline = as_version(written, version)
        return _build_static_response(jsontext.write(document_writer.assemble(catalog, outline, describe)))

    write_parts = {version: _PartsWriter(version, document_writer.list_schemes(site)) for version in RELEASES}
    readers = {
        f"openapi={version}": build_deferred_reader(site.defer(partial(serialize, version))) for version in RELEASES
    }
    usual = readers["openapi=3.1"]

    def read(request: Request) -> Reading | BlockingTask:
        return readers.get(request.url.partition("?")[2], usual)(request)

    return read


@dataclass(frozen=True, slots=True)
class _PartsWriter:
    """Writes the parts of one tool. Two that write alike are equal, so that a cache knows them."""

    version: Version
    schemes: tuple[str, ...]

    def __call__(self, tool: Tool, operation_id: str) -> document_writer.Parts:
        path_item, schemas = document_writer.write_parts(tool, operation_id, self.schemes)
        written = as_version({"paths": {"": path_item}, "components": {"schemas": schemas}}, self.version)
        parts = written["components"]["schemas"]
        return document_writer.Parts(
            jsontext.encode_fragment(written["paths"][""]), {key: jsontext.encode_fragment(parts[key]) for key in parts}
        )


def _build_constant_reader(response: Response) -> Reader:
    return lambda _: response


def _build_route(tool: Tool, _name: str) -> Route:
    build = _build_query_reader if query.is_in_query(tool) else _build_body_reader
    built: list[Reader] = []

    def read(request: Request) -> Reading | BlockingTask:
        if not built:  # of many tools few are called, and what a reader needs of a schema is read from it
            built.append(build(tool))
        return built[0](request)

    return Route(read, runs_tool=True)


def _read_named_call(catalog: Catalog, request: Request) -> Reading:
    """Return the call of the tool that a call of ``CALL`` names."""
    # FI-07
    arguments = jsontext.read_object(request)
    meant = arguments if isinstance(arguments, Problem) else read_named_call(catalog, arguments)
    if isinstance(meant, Problem):
        return problems.write(meant)
    return _build_reading(meant.tool, meant.arguments, request, _find_writer(meant.tool))


def _find_writer(tool: Tool) -> Callable[[Result, float], Response]:
    return results.write_content if find_content_kind(tool.output_schema) else results.write


def _build_reading(
    tool: Tool, arguments: Mapping[str, Json], request: Request, write: Callable[[Result, float], Response]
) -> Reading:
    context = read_field(request, tool)
    if isinstance(context, Problem):
        return problems.write(context)
    if tool.long:  # LC-02: only here there is a usual word for "later", so a caller waits only if it says so
        context = replace(context, wait_s=0.0)
    return Pending(Call(tool, arguments, request.id, context), write)


def _build_query_reader(tool: Tool) -> Reader:
    write_result = _find_writer(tool)

    def write(result: Result, duration_ms: float) -> Response:
        response = write_result(result, duration_ms)
        return response._replace(headers=(*response.headers, _OF_ONE_CALL))

    known: Mapping[str, query.QueryField] = {field.name: field for field in query.list_fields(tool)}

    def read(request: Request) -> Reading:
        is_query = request.method == "QUERY"
        arguments = _read_body(request, known) if is_query else query.read_query(request.url.partition("?")[2], known)
        if isinstance(arguments, Problem):
            return problems.write(arguments)
        return _build_reading(tool, arguments, request, write)

    return read


def _read_body(request: Request, known: Mapping[str, query.QueryField]) -> dict[str, Json] | Problem:
    """Return the arguments in the body of a QUERY: the query of a URL as a form, or a JSON object."""
    if get_header(request.headers, b"content-type").partition(";")[0].strip().lower() != FORM:
        return jsontext.read_object(request)
    try:
        return query.read_query(request.body.decode(), known)
    except UnicodeDecodeError:
        return Problem(kind=Kind.MALFORMED, message="The form in the body is not UTF-8 text.")


def _build_body_reader(tool: Tool) -> Reader:
    write = _find_writer(tool)

    def read(request: Request) -> Reading:
        arguments = jsontext.read_object(request) if request.body else {}
        if isinstance(arguments, Problem):
            return problems.write(arguments)
        return _build_reading(tool, arguments, request, write)

    return read
