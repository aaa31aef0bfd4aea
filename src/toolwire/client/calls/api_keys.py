"""Attach API keys to calls as an OpenAPI document requires: in a header, a cookie or the query, one or several.

Rules:
- Only requests to the connection's own origin get keys, and only after everything that the user sees was built.
- An operation's first alternative for which all keys are given is used. An incomplete one is never sent.
- Each key is sent once. A request with its document's keys gets no other credential.
"""

# D-08: a key goes to its own origin. XL-118: an incomplete alternative would only tell a server what is missing.

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import TypeAlias, TypeVar
from urllib.parse import quote

from toolwire.consent.binding import NO_CREDENTIAL, CredentialRef
from toolwire.core.codec import Flow, change_requests
from toolwire.core.http import Request
from toolwire.core.model import Json, Secret, Tool
from toolwire.core.url_origin import get_origin
from toolwire.framing.visible_text import make_visible

T = TypeVar("T")

Keys: TypeAlias = Mapping[str, Secret]
"""Keys by security scheme name. The key under ``""`` is for any scheme that needs a single key."""

BEARER_KEY = "bearer key"
"""The scheme of an unnamed key if no scheme of the document accepts it by itself."""

_KEY_MISSING = (
    "The server's document says that this call needs a credential, and none is given: use --key-env NAME, "
    "api_key=... in Python or key-env in the gateway's file, or sign in with `toolwire login URL`."
)
_KEYS_MISSING = (
    "The server's document says that this call needs several credentials together:",
    'and not all are given: use keys={"SCHEME": ...} in Python, or --header-env NAME=VARIABLE.',
)
_CHALLENGE = (
    "The server's document says that this call signs in by HTTP",
    ", which no key can satisfy, so none is sent: ask its operator for another credential.",
)
_MAX_PARTS = 400
_SCHEME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}")
_KINDS = ("apiKey", "http", "oauth2", "openIdConnect")
_CHALLENGES = frozenset({"digest", "hoba", "mutual", "negotiate", "ntlm", "scram-sha-1", "scram-sha-256"})
"""Schemes of HTTP in which a client replies to a challenge of the server: a key sent for one would only be exposed."""


def attach_keys(flow: Flow[T], tool: Tool, keys: Keys, site: str) -> Flow[T]:
    """Run ``flow`` with the keys that ``tool`` requires on each request to ``site``, and return its value."""
    chosen = choose_keys(tool, keys)
    if not chosen and not ("" in keys and find_challenge(tool)):
        return flow
    return change_requests(flow, lambda request: _add_keys(request, chosen, site))


def choose_keys(tool: Tool, keys: Keys) -> Sequence[tuple[Mapping[str, Json], Secret]]:
    """Return the schemes of the first alternative of ``tool`` that ``keys`` satisfies, each with its key.

    An unnamed key is used for an alternative with one scheme. API keys are preferred to tokens, and cookies come last.
    """
    alternatives = _list_alternatives(tool)
    for schemes in alternatives:
        if not all(map(_takes_key, schemes)):
            continue
        found = [(scheme, keys.get(scheme["id"])) for scheme in schemes]
        if found and all(key is not None for _, key in found):
            return [(scheme, key) for scheme, key in found if key is not None]
    alone = [schemes[0] for schemes in alternatives if len(schemes) == 1 and _takes_key(schemes[0])]
    if "" not in keys or not alone:
        return ()
    return [(min(alone, key=_rank_scheme), keys[""])]


def explain_missing_key(tool: Tool, given: CredentialRef) -> str:
    """Return a sentence that says which credential the tool's OpenAPI document requires in addition to ``given``.

    It is empty if nothing is missing, as far as can be known.
    """
    alternatives = _list_alternatives(tool)
    # An empty alternative allows calls without a credential.
    if not alternatives or not all(
        schemes and all(one.get("kind") in _KINDS for one in schemes) for schemes in alternatives
    ):
        return ""
    if word := find_challenge(tool):
        return f"{_CHALLENGE[0]} {word}{_CHALLENGE[1]}" if given == NO_CREDENTIAL else ""
    possible = [schemes for schemes in alternatives if all(map(_takes_key, schemes))]
    if (given == NO_CREDENTIAL or given.scheme == BEARER_KEY) and all(len(schemes) > 1 for schemes in possible):
        parts = " and ".join(sorted(map(describe_key, possible[0])))
        return f"{_KEYS_MISSING[0]} {make_visible(parts[:_MAX_PARTS])} {_KEYS_MISSING[1]}"
    return _KEY_MISSING if given == NO_CREDENTIAL else ""


def _rank_scheme(scheme: Mapping[str, Json]) -> tuple[bool, int]:
    # FU-59: a cookie is usually a browser session, such as Django's, and rarely accepts a user's key.
    return scheme.get("place") == "cookie", _KINDS.index(scheme["kind"])


def describe_key(scheme: Mapping[str, Json]) -> str:
    """Return a phrase for the user that says which key of ``scheme`` is sent, and where."""
    return f"the key of `{scheme.get('id', '')}` {describe_key_place(scheme)}"


def describe_key_place(scheme: Mapping[str, Json]) -> str:
    """Return a phrase for the user that says where the key of ``scheme`` is sent."""
    match scheme:
        case {"kind": "apiKey", "place": place}:
            return f"in the {place} {scheme.get('name', '')}"
        case _:
            word = _choose_word(scheme)
            return f"as {'a Bearer token' if word == 'Bearer' else word} in the header Authorization"


def find_challenge(tool: Tool) -> str:
    """Return the scheme by which ``tool`` signs in if no key can satisfy any of its alternatives, else ``""``."""
    alternatives = _list_alternatives(tool)
    if any(all(map(_takes_key, schemes)) for schemes in alternatives):
        return ""
    words = (_choose_word(one) for schemes in alternatives for one in schemes)
    return next((word for word in words if word.lower() in _CHALLENGES), "")


def _list_alternatives(tool: Tool) -> Sequence[Sequence[Mapping[str, Json]]]:
    facts = tool.hints.get("openapi")
    return facts.get("security", ()) if isinstance(facts, Mapping) else ()


def _choose_word(scheme: Mapping[str, Json]) -> str:
    """Return the word before the key of ``scheme`` in the header Authorization."""
    word = str(scheme.get("scheme", "")) if scheme.get("kind") == "http" else ""
    if word in ("", "basic", "bearer") or not _SCHEME.fullmatch(word):
        return "Basic" if word == "basic" else "Bearer"
    return word


def _takes_key(scheme: Mapping[str, Json]) -> bool:
    """Return whether a key can satisfy ``scheme``: no certificate, no challenge, and nothing undefined."""
    return scheme.get("kind") in _KINDS and _choose_word(scheme).lower() not in _CHALLENGES


def _add_keys(request: Request, chosen: Sequence[tuple[Mapping[str, Json], Secret]], site: str) -> Request:
    # D-08: a tool can call another origin, which gets no key.
    if get_origin(request.url) != site:
        return request
    for scheme, key in chosen:
        request = _add_key(request, scheme, key.reveal())
    return request._replace(signed=True, credentials=tuple(key for _, key in chosen))


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
        case {"kind": "http" | "oauth2" | "openIdConnect"}:
            word = _choose_word(scheme)
            value = b64encode(key.encode()).decode() if word == "Basic" else key
            return _set_header(request, "authorization", f"{word} {value}")
        case _:
            return request


def _set_header(request: Request, name: str, value: str) -> Request:
    field = name.encode("latin-1", "replace")
    # Two programs could read two fields with the same name differently.
    others = [header for header in request.headers if header[0].lower() != field]
    return request._replace(headers=(*others, (field, value.encode("latin-1", "replace"))))


def _add_cookie(request: Request, pair: str) -> Request:
    cookies = [value.decode("latin-1") for name, value in request.headers if name == b"cookie"]
    return _set_header(request, "cookie", "; ".join([*cookies, pair]))
