"""The server half: health, the lists, and calls in the three shapes. [S-8..S-13]"""

from __future__ import annotations

from hashlib import sha256
from typing import NamedTuple

from toolwire.core.catalog import Catalog
from toolwire.core.codec import Pending, Reader, Reading, Route, Routes, Site
from toolwire.core.http import JSON, Request, Response
from toolwire.core.model import Json, Problem, Result
from toolwire.framing.jsontext import read_object
from toolwire.framing.jsontext import write as write_json

from . import answer, document, request, standard


class _Endpoint(NamedTuple):
    """How one path answers: by which ``$schema`` unless asked otherwise, and in which shape.

    ``shared`` is the shape where the request names a ``$schema`` that OXP and universal-tool both use. [S-10]
    """

    schema: str
    shape: answer.Shape
    shared: answer.Shape


_RFC = _Endpoint(standard.RFC, answer.in_output, answer.in_output)
_OXP = _Endpoint(standard.OXP, answer.in_result, answer.both)
_UNIVERSAL = _Endpoint(standard.UNIVERSAL, answer.flat, answer.flat)


def routes(catalog: Catalog, site: Site) -> Routes:  # noqa: ARG001  # nothing here depends on the site
    """Return who reads each path; ``/uts`` holds what a universal-tool client expects at its root. [A-32, S-13]"""
    health = Route(_always(Response(200, JSON, write_json({"status": "OK"}))), open=True)
    info = Route(_always(_static({"version": catalog.version})))
    return {
        ("GET", "/health"): health,
        ("GET", "/info"): info,
        ("GET", "/ok"): Route(_always(Response(200, JSON, write_json("OK")))),
        ("GET", "/tools"): Route(_always(_static(document.write(catalog)))),
        ("POST", "/call"): Route(_reader(catalog, _RFC)),
        ("POST", "/tools/call"): Route(_reader(catalog, _OXP)),
        ("GET", "/uts/health"): health,
        ("GET", "/uts/info"): info,
        ("GET", "/uts/tools"): Route(_always(_static(document.write_array(catalog)))),
        ("POST", "/uts/tools/call"): Route(_reader(catalog, _UNIVERSAL)),
    }


def refuse(problem: Problem) -> Response:
    """Return ``problem`` in the words of the RFC, for a request that no reader saw. [OTC-044, S-12]"""
    return answer.refuse(problem, standard.RFC)


def _reader(catalog: Catalog, endpoint: _Endpoint) -> Reader:
    find, default = catalog.find, endpoint.schema
    shared = {standard.OXP: endpoint.shared, standard.UNIVERSAL: endpoint.shared}

    def read(http: Request) -> Reading:
        data = read_object(http)
        if isinstance(data, Problem):
            return answer.refuse(data, default)
        wanted = data.get("$schema")
        schema = standard.agreed(wanted, default)
        if isinstance(schema, Problem):
            return answer.refuse(schema, default)
        call = request.read(data, find, http.id)
        if isinstance(call, Problem):
            return answer.refuse(call, schema)
        shape = endpoint.shape if wanted is None else shared.get(schema, endpoint.shape)
        call_id = call.call_id

        def reply(result: Result, duration_ms: float) -> Response:
            return answer.respond(shape, schema, call_id, result, duration_ms)

        return Pending(call, reply)

    return read


def _always(response: Response) -> Reader:
    return lambda _: response


def _static(data: Json) -> Response:
    body = write_json(data)
    return Response(200, (*JSON, (b"etag", b'"%s"' % sha256(body).hexdigest()[:32].encode())), body)
