"""Keys put on calls the way an OpenAPI document says: in a header, a cookie or the query, one or several together.

Rules:
- Only requests to the connection's own origin carry them, and only after everything a person is shown was made. [D-08]
- Of the alternatives of an operation the first is taken for which every key is there; a part is never sent. [XL-118]
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias
from urllib.parse import quote

from toolwire.core.codec import Flow, Listen
from toolwire.core.http import Request
from toolwire.core.model import Json, Result, Secret, Tool

from .discover import origin

Keys: TypeAlias = Mapping[str, Secret]
"""Keys by the name of the security scheme that each is for; under ``""`` one for whatever single scheme is asked."""


def attached(flow: Flow[Result], tool: Tool, keys: Keys, home: str) -> Flow[Result]:
    """Return the value of ``flow``, whose requests to the origin ``home`` carry what ``tool`` asks for of ``keys``."""
    wanted = _wanted(tool, keys)
    said: Any = None
    try:
        while True:
            asked = flow.send(said)
            if isinstance(asked, Request):
                asked = _with(asked, wanted, home)
            elif isinstance(asked, Listen):
                asked = asked._replace(request=_with(asked.request, wanted, home))
            said = yield asked
    except StopIteration as stop:
        result: Result = stop.value
        return result
    finally:
        flow.close()


def _wanted(tool: Tool, keys: Keys) -> Sequence[tuple[Mapping[str, Json], Secret]]:
    """Return the schemes of the first alternative that ``keys`` satisfies, each with its key."""
    facts = tool.hints.get("openapi")
    alternatives = facts.get("security", ()) if isinstance(facts, Mapping) else ()
    for schemes in alternatives:
        found = [(scheme, keys.get(scheme["id"])) for scheme in schemes]
        if found and all(key is not None for _, key in found):
            return [(scheme, key) for scheme, key in found if key is not None]
    for schemes in alternatives:
        if "" in keys and len(schemes) == 1 and schemes[0]["kind"] == "apiKey":
            return [(schemes[0], keys[""])]
    return ()


def _with(request: Request, wanted: Sequence[tuple[Mapping[str, Json], Secret]], home: str) -> Request:
    if not wanted or origin(request.url) != home:
        return request
    for scheme, key in wanted:
        request = _put(request, scheme, key.reveal())
    return request


def _put(request: Request, scheme: Mapping[str, Json], key: str) -> Request:
    name = str(scheme.get("name", ""))
    match scheme:
        case {"kind": "apiKey", "place": "header"}:
            return _field(request, name.lower(), key)
        case {"kind": "apiKey", "place": "cookie"}:
            return _cookie(request, f"{name}={key}")
        case {"kind": "apiKey", "place": "query"}:
            mark = "&" if "?" in request.url else "?"
            return request._replace(url=f"{request.url}{mark}{quote(name, safe='')}={quote(key, safe='')}")
        case {"kind": "http", "scheme": "basic"}:
            return _field(request, "authorization", "Basic " + b64encode(key.encode()).decode())
        case {"kind": "http" | "oauth2" | "openIdConnect"}:
            return _field(request, "authorization", f"Bearer {key}")
        case _:
            return request


def _field(request: Request, name: str, value: str) -> Request:
    field = name.encode("latin-1", "replace")
    others = [one for one in request.headers if one[0].lower() != field]
    return request._replace(headers=(*others, (field, value.encode("latin-1", "replace"))))


def _cookie(request: Request, pair: str) -> Request:
    sent = [value.decode("latin-1") for name, value in request.headers if name == b"cookie"]
    return _field(request, "cookie", "; ".join([*sent, pair]))
