"""Read what a request states besides its method: the protocol version, the progress token, the trace."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from toolwire.core.http import Request, get_header
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


class Refusal(NamedTuple):
    """Why a request's envelope is refused, in JSON-RPC's members."""

    code: int
    message: str
    data: Json = None


def read_version(request: Request, params: Mapping[str, Json]) -> str:
    """Return the revision that the header names, else the one in ``params._meta``, else ``""``."""
    said = _read_field(request, VERSION_HEADER)
    if said:
        return said
    meta = params.get("_meta")
    named = meta.get(VERSION_META, "") if isinstance(meta, dict) else ""
    return named if isinstance(named, str) else ""


def check_envelope(request: Request, method: str, params: Mapping[str, Json], version: str) -> Refusal | None:
    """Return why a request of no handshake revision is refused, or None.

    It must name a revision that is served, and its headers must say what its body says: a proxy may have let it
    pass for what the headers say.
    """
    if version != STATELESS:
        text = f"This server does not speak MCP {version[:50]!r}. It speaks {', '.join(SUPPORTED)}."
        return Refusal(UNSUPPORTED_VERSION, text, {"supported": list(SUPPORTED), "requested": version[:50]})
    meta = get_object(params, "_meta")
    missing = [key for key in (VERSION_META, CAPABILITIES_META) if key not in meta]
    if missing:
        return Refusal(INVALID_PARAMS, f'"params._meta" must have {" and ".join(missing)}.')
    said: list[tuple[bytes, Json, str | None]] = [
        (VERSION_HEADER, meta[VERSION_META], _read_field(request, VERSION_HEADER)),
        (METHOD_HEADER, method, _read_field(request, METHOD_HEADER)),
    ]
    named_by = NAMED_BY.get(method, "")
    if named_by in params:
        said.append((NAME_HEADER, params[named_by], headers.read(_read_field(request, NAME_HEADER))))
    for name, in_body, in_header in said:
        if in_body != in_header:
            return Refusal(HEADER_MISMATCH, f"The header {name.decode()} does not say what the body says.")
    return None


def _read_field(request: Request, name: bytes) -> str:
    return get_header(request.headers, name).strip(headers.BLANK)


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
