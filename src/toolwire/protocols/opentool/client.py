"""The client half: find an OpenTool server, and call one of its functions.

Rules:
- Only the URL a person gave is ever called, never one that a document names. [A-08]
- Nothing is sent twice: a call that may have run is not repeated. [C-11]
- The body is read before the status is looked at, except 401: servers put calls that failed under any status. [C-2]
"""

from __future__ import annotations

from urllib.parse import urlsplit

from toolwire.core.catalog import Catalog
from toolwire.core.codec import Finding, Flow, Peer, Probe, fetch
from toolwire.core.http import JSON, Request, Response, header
from toolwire.core.model import Call, Json, Kind, Problem, Result, Value
from toolwire.framing import jsontext
from . import document, failure, quirks, result
from .document import Document

_ACCEPT = ((b"accept", b"application/json"),)
_POST = (*JSON, *_ACCEPT)
_OWN_PATHS = ("version", "load", "call", "streamCall")


def find(url: str) -> Flow[Finding]:
    """Return the OpenTool server at ``url``, pasted with or without ``/opentool``, if there is one. [C-8]

    A server without a description is found with an empty catalog; its functions can still be called by name. [C-5]
    """
    base = endpoint(url)
    response = yield from fetch(Request("GET", f"{base}/version", _ACCEPT))
    version = _version(response)
    known = Probe("opentool", f"{base}/version", _status(response), version.text, version.good)
    if not version.good:
        return Finding(None, (known,))
    response = yield from fetch(Request("GET", f"{base}/load", _ACCEPT))
    loaded = _load(response)
    if isinstance(loaded, Problem):
        return Finding(None, (known, Probe("opentool", f"{base}/load", _status(response), loaded.message)))
    probe = Probe("opentool", f"{base}/load", _status(response), _summary(loaded), accepted=True)
    site = loaded.catalog.title if loaded.catalog.tools else ""
    peer = Peer(protocol="opentool", url=base, catalog=loaded.catalog, site=site, memo=loaded.methods)
    return Finding(peer, (known, probe))


def send(peer: Peer, call: Call) -> Flow[Result]:
    """Return what came of ``call``, sent once. [C-1]"""
    name = call.tool.name
    body = {
        "jsonrpc": "2.0",
        "method": (peer.memo or {}).get(name, name),
        "params": dict(call.arguments),
        "id": call.call_id or "1",
    }
    response = yield from fetch(Request("POST", f"{peer.url}/call", _POST, jsontext.write(body)))
    if isinstance(response, Problem):
        return response
    return _answer(response, call)


def target(peer: Peer, call: Call) -> str:  # noqa: ARG001  (a codec's shape; every function has the same path)
    """Return the method and URL of ``call``, to show before it is sent."""
    return f"POST {peer.url}/call"


def endpoint(url: str) -> str:
    """Return where the paths of OpenTool begin, for a URL as a person pastes it. [A-08, C-8]"""
    base = url.strip().partition("#")[0].partition("?")[0].rstrip("/")
    parent, _, last = base.rpartition("/")
    if last in _OWN_PATHS and parent.endswith("/opentool"):
        return parent
    return base if last == "opentool" and urlsplit(base).path else f"{base}/opentool"
