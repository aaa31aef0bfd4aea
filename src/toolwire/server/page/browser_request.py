"""Tell what a browser asks for, a page or data, and read the fields of its forms.

Rules:
- Data is the rule. A page is for a client that names HTML, and names neither JSON as high nor a stream of events.
- Who names HTML and takes anything else too is a browser only if it says so in another way: the HTTP client of Java
  prefers HTML at every address.
"""
# LC-05

from __future__ import annotations

from typing import Final, NamedTuple
from urllib.parse import parse_qs

from toolwire.core.http import Headers, get_header
from toolwire.core.model import Kind, Problem

VARY: Final = (b"vary", b"accept")
"""The field that tells caches that a path has a page and data."""
FOREIGN_FORM: Final = Problem(
    kind=Kind.FORBIDDEN, message="This form was sent from another site. To try a tool, open the page itself."
)
_XHTML: Final = "application/xhtml+xml"
_HTML: Final = frozenset({"text/html", _XHTML})
_ANYTHING: Final = frozenset({"*", "*/*"})
_JSON: Final = frozenset({"application/json", "application/problem+json"})
_MAX_ACCEPT: Final = 1_000
_FORM: Final = "application/x-www-form-urlencoded"


class LoginPlace(NamedTuple):
    """The path where people sign in at this server, empty if they do not, and whether a page takes a key as well."""

    path: str = ""
    takes_keys: bool = True


def wants_page(headers: Headers) -> bool:
    """Return whether the client of a request wants a page, by its ``Accept``."""
    # RFC 9110, 12.5.1. "*/*" is what programs send that take whatever comes: they get data, as ever.
    weights = {"html": 0.0, "json": 0.0}
    kinds: set[str] = set()
    for part in get_header(headers, b"accept")[:_MAX_ACCEPT].lower().split(","):
        name, _, rest = part.partition(";")
        kind = name.strip()
        if kind == "text/event-stream":
            return False
        kinds.add(kind)
        group = "html" if kind in _HTML else "json" if kind in _JSON else ""
        if group:
            weights[group] = max(weights[group], _read_weight(rest))
    is_browser = _XHTML in kinds or kinds.isdisjoint(_ANYTHING) or bool(get_header(headers, b"sec-fetch-mode"))
    return is_browser and weights["html"] > weights["json"]


def is_page_form(headers: Headers) -> bool:
    """Return whether a request is the form of a page: it wants a page back, and has the media type of forms."""
    return wants_page(headers) and get_header(headers, b"content-type").lower().startswith(_FORM)


def is_mcp_client(method: str, headers: Headers) -> bool:
    """Return whether a request has the form of one to the transport of MCP, which no browser sends for a person."""
    if method == "DELETE":
        return bool(get_header(headers, b"mcp-session-id"))
    takes_events = "text/event-stream" in get_header(headers, b"accept").lower()
    return takes_events and (
        method == "GET" or get_header(headers, b"content-type").lower().startswith("application/json")
    )


def _read_weight(text: str) -> float:
    for part in text.split(";"):
        name, _, value = part.partition("=")
        if name.strip() == "q":
            try:
                return min(max(float(value), 0.0), 1.0)
            except ValueError:
                return 0.0
    return 1.0


_MAX_FIELDS = 2_000


def parse_form_fields(text: str) -> dict[str, str]:
    """Return the first value of each field; nothing if there are more than 2,000 or they cannot be read."""
    try:
        found = parse_qs(text, keep_blank_values=True, max_num_fields=_MAX_FIELDS)
    except ValueError:
        return {}
    return {name: values[0] for name, values in found.items()}


def find_form_key(body: bytes) -> bytes:
    """Return the key that a form of the page brings, or nothing: a form can set no header field."""
    return parse_form_fields(body.decode("utf-8", "replace")).get("key", "").strip().encode("latin-1", "replace")
