"""Keys put on calls the way an OpenAPI document says: in a header, a cookie or the query, one or several together.

Rules:
- Only requests to the connection's own origin carry them, and only after everything a user is shown was made. [D-08]
- Of the alternatives of an operation the first is taken for which every key is there; a part is never sent. [XL-118]
- Each key goes once. A request that carries what its document asks for gets no other credential.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias
from urllib.parse import quote

from toolwire.core.codec import Flow, Listen
from toolwire.core.http import Request
from toolwire.core.model import Json, Result, Secret, Tool
from toolwire.core.url_origin import get_origin

Keys: TypeAlias = Mapping[str, Secret]
"""Keys by the name of the security scheme that each is for; under ``""`` one for whatever single scheme is asked."""


_KINDS = ("apiKey", "http", "oauth2", "openIdConnect")


def attach_keys(flow: Flow[Result], tool: Tool, keys: Keys, site: str) -> Flow[Result]:
    """Return the value of ``flow``, whose requests to the origin ``home`` carry what ``tool`` asks for of ``keys``."""
    wanted = choose_keys(tool, keys)
    said: Any = None
    try:
        while True:
            asked = flow.send(said)
            if isinstance(asked, Request):
                asked = _with(asked, wanted, site)
            elif isinstance(asked, Listen):
                asked = asked._replace(request=_with(asked.request, wanted, site))
            said = yield asked
    except StopIteration as stop:
        result: Result = stop.value
        return result
    finally:
        flow.close()


def choose_keys(tool: Tool, keys: Keys) -> Sequence[tuple[Mapping[str, Json], Secret]]:
    """Return the schemes of the first alternative of ``tool`` that ``keys`` satisfies, each with its key.

    A key without a name is for the one scheme of an alternative: that of an API key rather than of any token.
    """
    facts = tool.hints.get("openapi")
    alternatives = facts.get("security", ()) if isinstance(facts, Mapping) else ()
    for schemes in alternatives:
        if any(scheme.get("kind") not in _KINDS for scheme in schemes):
            continue  # no key says this: a certificate, or what the document does not define
        found = [(scheme, keys.get(scheme["id"])) for scheme in schemes]
        if found and all(key is not None for _, key in found):
            return [(scheme, key) for scheme, key in found if key is not None]
    alone = [schemes[0] for schemes in alternatives if len(schemes) == 1 and schemes[0].get("kind") in _KINDS]
    if "" not in keys or not alone:
        return ()
    return [(min(alone, key=lambda scheme: _KINDS.index(scheme["kind"])), keys[""])]


def describe_key(scheme: Mapping[str, Json]) -> str:
    """Return where the key of ``scheme`` goes, for a user to read."""
    name, id_ = str(scheme.get("name", "")), str(scheme.get("id", ""))
    match scheme:
        case {"kind": "apiKey", "place": place}:
            where = f"in the {place} {name}"
        case {"kind": "http", "scheme": "basic"}:
            where = "as Basic in the header Authorization"
        case _:
            where = "as a Bearer token in the header Authorization"
    return f"the key of `{id_}` {where}"


def _with(request: Request, wanted: Sequence[tuple[Mapping[str, Json], Secret]], home: str) -> Request:
    if not wanted or get_origin(request.url) != home:
        return request
    for scheme, key in wanted:
        request = _add_key(request, scheme, key.reveal())
    return request._replace(signed=True, credentials=tuple(key for _, key in wanted))


def _add_key(request: Request, scheme: Mapping[str, Json], key: str) -> Request:
    name = str(scheme.get("name", ""))
    match scheme:
        case {"kind": "apiKey", "place": "header"}:
            return _set_header(request, name.lower(), key)
        case {"kind": "apiKey", "place": "cookie"}:
            return _add_cookie(request, f"{name}={key}")
        case {"kind": "apiKey", "place": "query"}:
            mark = "&" if "?" in request.url else "?"
            return request._replace(url=f"{request.url}{mark}{quote(name, safe='')}={quote(key, safe='')}")
        case {"kind": "http", "scheme": "basic"}:
            return _set_header(request, "authorization", "Basic " + b64encode(key.encode()).decode())
        case {"kind": "http" | "oauth2" | "openIdConnect"}:
            return _set_header(request, "authorization", f"Bearer {key}")
        case _:
            return request


def _set_header(request: Request, name: str, value: str) -> Request:
    field = name.encode("latin-1", "replace")
    others = [one for one in request.headers if one[0].lower() != field]
    return request._replace(headers=(*others, (field, value.encode("latin-1", "replace"))))


def _add_cookie(request: Request, pair: str) -> Request:
    sent = [value.decode("latin-1") for name, value in request.headers if name == b"cookie"]
    return _set_header(request, "cookie", "; ".join([*sent, pair]))
