"""Serve the health check, the lists of tools, and calls in three formats."""
# S-8..S-13

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from hashlib import sha256
from typing import NamedTuple

from toolwire.core.catalog import Catalog
from toolwire.core.codec import (
    BlockingTask,
    Deferred,
    Reader,
    Reading,
    Route,
    Routes,
    Site,
    build_deferred_reader,
    make_pending,
)
from toolwire.core.http import JSON_HEADERS, Request, Response, get_header
from toolwire.core.model import Json, Problem, Result, Tool
from toolwire.framing.jsontext import encode_fragment, read_object
from toolwire.framing.jsontext import write as write_json

from . import call_request, call_response, document, legacy, standard
from .definition import WireSchemas, write_schemas
from .definition import write as write_definition

_UNIVERSAL_AGENT = "universal-tool-sdk-py/"
_OPEN_TOOL_AGENT = "open-tool-sdk-py/"


class _Endpoint(NamedTuple):
    """How one path answers: by which ``$schema`` unless asked otherwise, and in which shape.

    ``shared`` is the shape where the request names a ``$schema`` that OXP and universal-tool both use.
    """

    # S-10

    schema: str
    shape: call_response.Shape
    shared: call_response.Shape


_RFC = _Endpoint(standard.RFC, call_response.write_in_output, call_response.write_in_output)
_OXP = _Endpoint(standard.OXP, call_response.write_in_result, call_response.write_both)
_UNIVERSAL = _Endpoint(standard.UNIVERSAL, call_response.write_flat, call_response.write_flat)


def routes(catalog: Catalog, site: Site) -> Routes:
    """Return who reads each path.

    ``/uts`` and ``/ots`` hold what the clients of universal-tool and open-tool expect at their root; at our own root
    they are told apart by their User-Agent, where the site has ``older_clients``.
    """
    # A-32, S-13
    health, older_health = (
        Route(
            _always(Response(200, JSON_HEADERS, write_json(body))),
            is_public=True,
            takes_any_host=True,
            is_tool_free=True,
        )
        for body in ({"$schema": standard.RFC, "status": "OK"}, {"status": "OK"})  # SE-04
    )
    info = Route(_always(_static({"version": catalog.version})))
    ok = Route(_always(Response(200, JSON_HEADERS, write_json("OK"))))
    entries = partial(site.cache.get, _write_entries)
    definitions = document.Definitions(
        lambda tool, name: entries(tool, name).item,
        lambda tool, name: entries(tool, name).tool,
        lambda tool, name: entries(tool, name).entry,
    )
    listed = site.defer(lambda: _static(document.write(catalog, definitions)))
    universal = site.defer(lambda: _static(document.write_array(catalog, definitions)))
    open_tool = site.defer(lambda: _static(legacy.write_list(catalog, lambda tool, name: entries(tool, name).older)))
    older = {_UNIVERSAL_AGENT: universal, _OPEN_TOOL_AGENT: open_tool}
    return {
        ("GET", "/health"): health,
        ("GET", "/info"): info,
        ("GET", "/ok"): ok,
        ("GET", "/tools"): Route(_by_agent(listed, older) if site.older_clients else build_deferred_reader(listed)),
        ("POST", "/call"): Route(_reader(catalog, _RFC)),
        ("POST", "/tools/call"): Route(_reader(catalog, _OXP)),
        ("GET", "/uts/health"): older_health,
        ("GET", "/uts/info"): info,
        ("GET", "/uts/tools"): Route(build_deferred_reader(universal)),
        ("POST", "/uts/tools/call"): Route(_reader(catalog, _UNIVERSAL)),
        ("GET", "/ots/info"): info,
        ("GET", "/ots/ok"): ok,
        ("GET", "/ots/tools"): Route(build_deferred_reader(open_tool)),
        ("POST", "/ots/tools/call"): Route(legacy.build_reader(catalog)),
    }


class _Entries(NamedTuple):
    """One tool as each list has it; all share the text of its schemas, which are most of it."""

    item: Json
    tool: Json
    entry: Json
    older: Json


def _write_entries(tool: Tool, name: str) -> _Entries:
    schemas = WireSchemas(*map(encode_fragment, write_schemas(tool)))
    return _Entries(
        write_definition(tool, name, schemas),
        document.write_tool(tool, name, schemas),
        document.write_entry(tool, name, schemas),
        legacy.write_tool(tool, name, schemas.input),
    )


def refuse(problem: Problem) -> Response:
    """Return ``problem`` in the words of the RFC, for a request that no reader saw."""
    # OTC-044, S-12
    return call_response.refuse(problem, standard.RFC)


def _reader(catalog: Catalog, endpoint: _Endpoint) -> Reader:
    default, usual = endpoint.schema, endpoint.shape
    shared_shape = endpoint.shared
    shared = {standard.OXP: shared_shape, standard.UNIVERSAL: shared_shape}
    takes_legacy = endpoint is _OXP

    def read(http: Request) -> Reading:
        data = read_object(http)
        if isinstance(data, Problem):
            return call_response.refuse(data, default)
        if takes_legacy and "request" not in data and legacy.is_call(data):
            return legacy.read_call(data, catalog, http.id)
        schema, shape = default, usual
        if "$schema" in data:
            agreed = standard.negotiate_version(data["$schema"], default)
            if isinstance(agreed, Problem):
                return call_response.refuse(agreed, standard.family(data["$schema"], default))
            schema, shape = agreed, usual if data["$schema"] is None else shared.get(agreed, usual)
        elif usual is not shared_shape and get_header(http.headers, b"user-agent").startswith(_UNIVERSAL_AGENT):
            shape = shared_shape
        call = call_request.read(data, catalog, http.id)
        if isinstance(call, Problem):
            return call_response.refuse(call, schema)
        call_id = call.call_id

        def reply(result: Result, duration_ms: float) -> Response:
            return call_response.respond(shape, schema, call_id, result, duration_ms)

        return make_pending((call, reply, False))

    return read


def _always(response: Response) -> Reader:
    return lambda _: response


def _by_agent(usual: Deferred[Response], older: Mapping[str, Deferred[Response]]) -> Reader:
    """Answer a list: one of ``older`` if the client's User-Agent begins with its key, the usual one otherwise."""

    # S-13
    def read(http: Request) -> Reading | BlockingTask:
        agent = get_header(http.headers, b"user-agent")
        return older.get(agent[: agent.find("/") + 1], usual).read(_vary_by_agent)

    return read


def _vary_by_agent(listed: Response) -> Response:
    return listed._replace(headers=(*listed.headers, (b"vary", b"user-agent")))


def _static(data: Json) -> Response:
    body = write_json(data)
    return Response(200, (*JSON_HEADERS, (b"etag", b'"%s"' % sha256(body).hexdigest()[:32].encode())), body)
