"""Keep what the header fields of a response say about its result: a challenge, an address, a version, a rate."""
# CR-04

from __future__ import annotations

from dataclasses import replace
from typing import Final
from urllib.parse import urljoin

from toolwire.core.http import Headers, Response
from toolwire.core.model import Json, Kind, Result, Value
from toolwire.framing import text_cleaning
from toolwire.framing.response_fields import HEADERS, REFUSED_BY

_ALLOWED: Final = frozenset(
    (
        b"www-authenticate",
        b"location",
        b"link",
        b"etag",
        b"last-modified",
        b"retry-after",
        b"ratelimit",
        b"ratelimit-policy",
    )
)
_CHALLENGED: Final = (401, 403)
_MAX_CHARACTERS: Final = 1_000


def add_response_fields(result: Result, url: str, response: object, site: str) -> Result:
    """Return ``result`` with the fields of ``response``, which came from ``url``, in its notes or its details.

    Fields that the result brought itself, as over standard input or in a stream, are kept unless the response has them
    too. A refusal of the credentials of this client says that it came from ``site``: whoever called this program has
    others.
    """
    fields = _read_fields(url, response.headers, response.status) if isinstance(response, Response) else {}
    facts = (result.notes or {}) if isinstance(result, Value) else result.details
    if isinstance(brought := facts.get(HEADERS), dict):
        fields = _read_fields(url, _encode_fields(brought), 401) | fields
    if isinstance(result, Value):
        return replace(result, notes={**facts, HEADERS: fields}) if fields else result
    added: dict[str, Json] = {HEADERS: fields} if fields else {}
    if result.kind is Kind.UNAUTHORIZED:
        added[REFUSED_BY] = site
    return replace(result, details={**result.details, **added}) if added else result


def _encode_fields(fields: dict[str, Json]) -> Headers:
    texts = ((name, value) for name, value in fields.items() if isinstance(value, str))
    return [(name.encode("utf-8", "replace"), value.encode("latin-1", "replace")) for name, value in texts]


def _read_fields(url: str, headers: Headers, status: int) -> dict[str, Json]:
    found: dict[str, Json] = {}
    for name, value in headers:
        if name not in _ALLOWED or (name == b"www-authenticate" and status not in _CHALLENGED):
            continue
        text = text_cleaning.clean(value.decode("latin-1")[:_MAX_CHARACTERS]).text
        if name == b"location":
            try:
                text = urljoin(url, text)
            except ValueError:  # no URL, and the result is not lost for it
                continue
        before = found.get(name.decode("ascii"))
        found[name.decode("ascii")] = f"{before}, {text}" if before else text
    return found
