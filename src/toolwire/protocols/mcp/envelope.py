"""Read what a request states besides its method: the protocol version, the progress token, the trace."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

from toolwire.core.http import Request
from toolwire.core.model import ANONYMOUS, LOG_LEVELS, Context, Json
from toolwire.framing import traceparent
from toolwire.framing.jsonrpc import INVALID_PARAMS
from toolwire.framing.jsontext import get_object

from . import headers
from .revision import (
    CAPABILITIES_META,
    HEADER_MISMATCH,
    LOG_LEVEL_META,
    METHOD_HEADER,
    NAME_HEADER,
    NAMED_BY,
    STATELESS,
    SUPPORTED,
    UNSUPPORTED_VERSION,
    VERSION_HEADER,
    VERSION_META,
)

_BLANK = headers.BLANK.encode()

Fields: TypeAlias = Mapping[bytes, bytes]
"""The header fields of a request, by name."""


class Refusal(NamedTuple):
    """Why a request's envelope is refused, in JSON-RPC's members."""

    code: int
    message: str
    data: Json = None


def index_fields(request: Request) -> Fields:
    """Return the header fields of ``request`` by name; of a field that is repeated, the first."""
    return dict(reversed(request.headers))


def read_version(fields: Fields, params: Mapping[str, Json]) -> str:
    """Return the revision that the header names, else the one in ``params._meta``, else ``""``."""
    header = _read_field(fields, VERSION_HEADER)
    if header:
        return header
    meta = params.get("_meta")
    named = meta.get(VERSION_META, "") if isinstance(meta, dict) else ""
    return named if isinstance(named, str) else ""


def names_other_version(field: bytes, params: Mapping[str, Json]) -> bool:
    """Return whether the envelope of a request names another revision than its header ``field``."""
    meta = params.get("_meta")
    return isinstance(meta, dict) and VERSION_META in meta and meta[VERSION_META] != field.decode("latin-1")


def refuse_other_version() -> Refusal:
    """Return the refusal of a request whose header and envelope name two revisions."""
    return _build_mismatch(VERSION_HEADER)


def check_envelope(fields: Fields, method: str, params: Mapping[str, Json], version: str) -> Refusal | None:
    """Return why a request of no handshake revision is refused, or None. ``version`` is what ``read_version`` returns.

    It must name a revision that is served, and its headers must say what its body says: a proxy may have let it
    pass for what the headers say.
    """
    if version != STATELESS:
        is_other = get_object(params, "_meta").get(VERSION_META, version) != version
        # I-33: clients of other makers look for these words.
        text = f"Unsupported protocol version: {version[:50]!r}. This server speaks {', '.join(SUPPORTED)}."
        refusal = Refusal(UNSUPPORTED_VERSION, text, {"supported": list(SUPPORTED), "requested": version[:50]})
        return refuse_other_version() if is_other else refusal
    meta = params.get("_meta")
    if not isinstance(meta, dict) or VERSION_META not in meta or CAPABILITIES_META not in meta:
        missing = [key for key in (VERSION_META, CAPABILITIES_META) if key not in get_object(params, "_meta")]
        return Refusal(INVALID_PARAMS, f'"params._meta" must contain {" and ".join(missing)}.')
    # Line by line, not in a loop, and the usual form of a value first: each call passes here.
    if meta[VERSION_META] != version or not fields.get(VERSION_HEADER, b"").strip(_BLANK):
        return _build_mismatch(VERSION_HEADER)
    header = fields.get(METHOD_HEADER, b"")
    if header.decode("latin-1") != method and header.strip(_BLANK).decode("latin-1") != method:
        return _build_mismatch(METHOD_HEADER)
    named_by = NAMED_BY.get(method, "")
    if named_by in params:
        named, text = params[named_by], fields.get(NAME_HEADER, b"").decode("latin-1")
        if (text != named or text.startswith(headers.MARK)) and named != headers.read(text.strip(headers.BLANK)):
            return _build_mismatch(NAME_HEADER)
    return None


def _build_mismatch(name: bytes) -> Refusal:
    return Refusal(HEADER_MISMATCH, f"The header {name.decode()} differs from the body.")


def _read_field(fields: Fields, name: bytes) -> str:
    return fields.get(name, b"").strip(_BLANK).decode("latin-1")


def read_progress_token(params: Mapping[str, Json]) -> str | int | None:
    """Return the token that progress is to be sent with, or None where the client did not ask for any."""
    token = get_object(params, "_meta").get("progressToken")
    return token if type(token) in (str, int) else None


def read_log_level(params: Mapping[str, Json]) -> str:
    """Return from which level on messages of the log are wanted, or ``""`` where the client wants none."""
    level = get_object(params, "_meta").get(LOG_LEVEL_META)
    return level if isinstance(level, str) and level in LOG_LEVELS else ""


def read_trace(params: Mapping[str, Json]) -> Context:
    """Return the context with the trace that ``params._meta.traceparent`` names, if it does."""
    meta = params.get("_meta")
    text = meta.get("traceparent") if isinstance(meta, dict) else None
    parent = traceparent.read(text) if isinstance(text, str) else None
    return ANONYMOUS if parent is None else Context(trace_id=parent.trace_id, traceparent=text or "")
