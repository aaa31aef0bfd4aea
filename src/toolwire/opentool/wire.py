"""Build the OpenTool codec of one object, with what the SDKs promise to a tool's author.

- ``/load`` answers the tool's own document, and ``{}`` where it has none.
- ``/call`` answers what ``call`` returned, under the names it gave.
- Without a document any function may be called.
- ``/stop`` exists only with an admin key, and needs that key.
"""
# OTRPC-013, OTRPC-014, OTRPC-021, S-17, A-28

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from hashlib import sha256

from toolwire.core.catalog import Catalog
from toolwire.core.codec import BlockingTask, Codec, Reading, Route, Routes, Site
from toolwire.core.http import JSON_HEADERS, Request, Response
from toolwire.core.model import Json, Problem, Tool
from toolwire.framing import jsontext
from toolwire.protocols.opentool import CODEC, document, schema
from toolwire.protocols.opentool.narrow_schema import Walk
from toolwire.server.access.api_keys import ApiKeyCallers

from .object_toolbox import ANY

_CALL = ("POST", "/opentool/call")
_STREAM = ("POST", "/opentool/streamCall")
_AS_IT_IS = {"type": "object"}


def build_codec(own: Mapping[str, Json] | None, any_name: Tool = ANY, base: Codec = CODEC) -> Codec:
    """Return the OpenTool codec for a toolbox whose own document is ``own``; without one every call is ``any_name``.

    ``base`` is CODEC or STRICT, whose answers these are.
    """

    def routes(catalog: Catalog, site: Site) -> Routes:
        usual = base.routes(catalog, site)
        if own is None:
            open_ = base.routes(Catalog(tools=(any_name,)), site)
            return {**usual, _CALL: _accept_any_name(open_[_CALL]), _STREAM: _accept_any_name(open_[_STREAM])}
        plain = tuple(replace(tool, output_schema=_AS_IT_IS) for tool in catalog.tools)
        called = base.routes(replace(catalog, tools=plain), site)
        load = _build_static_response(_inline_document(own, catalog))
        return {
            **usual,
            _CALL: called[_CALL],
            _STREAM: called[_STREAM],
            ("GET", "/opentool/load"): Route(lambda _: load),
        }

    return replace(base, routes=routes)


def add_stop(codec: Codec, admin_key: str, stop: Callable[[], None]) -> Codec:
    """Return ``codec`` with ``/opentool/stop``, which calls ``stop`` if the request has ``admin_key``."""
    admins = ApiKeyCallers((admin_key,))

    def read(request: Request) -> Response:
        refusal = admins.find_caller(dict(request.headers))
        if isinstance(refusal, Problem):
            return codec.refuse(refusal)
        stop()
        return Response(200, JSON_HEADERS, jsontext.write({"status": "stopped"}))

    def routes(catalog: Catalog, site: Site) -> Routes:
        return {**codec.routes(catalog, site), ("POST", "/opentool/stop"): Route(read, is_public=True)}

    return replace(codec, routes=routes)


def _accept_any_name(route: Route) -> Route:
    """Return a route that takes a call of any function as a call of ANY, which is given its name."""

    def read(request: Request) -> Reading | BlockingTask:
        data = jsontext.read(request.body)
        return route.read(
            request if not isinstance(data, dict) else request._replace(body=_rewrite_call(data, request))
        )

    return Route(read)


def _rewrite_call(data: dict[str, Json], request: Request) -> bytes:
    method, params = data.get("method"), data.get("params")
    if not isinstance(method, str) or not method:
        return request.body
    if params is None or isinstance(params, dict):
        params = {"name": method, "arguments": params or {}}
    return jsontext.write({**data, "method": ANY.name, "params": params})


def _inline_document(own: Mapping[str, Json], catalog: Catalog) -> Json:
    """Return the document with its references written out in place, and all else as it was, in its order.

    Its schemas stay too, though nothing refers to them any more: a client gets the whole document of the tool.
    """
    # A-01, S-2, OTRPC-013
    functions = document.write(catalog).get("functions", ())
    pairs = zip(catalog.names.values(), functions, strict=True)
    written = {tool.original_name or tool.name: function for tool, function in pairs}
    listed = [
        {**function, **written.pop(name), "name": name, **_write_streams(function, own)}
        for function in own["functions"]
        if isinstance(function, dict) and isinstance(name := function.get("name"), str) and name in written
    ]
    whole = {**own, "functions": [*listed, *written.values()]}
    schemas = own.get("schemas")
    if isinstance(schemas, Mapping):
        whole["schemas"] = {name: _inline_references(one, own) for name, one in schemas.items()}
    return whole


def _write_streams(function: Mapping[str, Json], own: Mapping[str, Json]) -> dict[str, Json]:
    """Return what ``function`` says of its streams, each event under the name its author gave it."""
    #
    events = function.get("stream")
    if not isinstance(events, Mapping):
        return {}
    return {
        "stream": {
            event: {**gives, "schema": _inline_references(gives["schema"], own)}
            if isinstance(gives, Mapping) and "schema" in gives
            else gives
            for event, gives in events.items()
        }
    }


def _inline_references(one: Json, own: Mapping[str, Json]) -> Json:
    return schema.write(one, Walk(own)) if b'"$ref"' in jsontext.write(one) else one


def _build_static_response(data: Json) -> Response:
    body = jsontext.write(data)
    etag = f'"{sha256(body).hexdigest()[:32]}"'.encode()
    return Response(200, (*JSON_HEADERS, (b"etag", etag)), body)
