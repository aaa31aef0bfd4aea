"""Read the version of the standard that a message uses: its ``$schema``.

Rules:
- No ``$schema`` means the latest version.
- A name that is not known is accepted; a known name with another major version is not.
- An answer carries the name its request used.
"""
# OTC-039, A-48, OXP-013, OTC-044

from __future__ import annotations

import re

from toolwire.core.model import Json, Kind, Problem
from toolwire.framing.jsontext import describe_type

RFC = "https://github.com/ArcadeAI/OpenToolCalling/tree/main/specification/http/1.0/openapi.json"
OXP = "urn:oxp:1.0"
UNIVERSAL = "otc://1.0"

_NAMES = frozenset({RFC, OXP, UNIVERSAL})
_MAJOR = "1"
_FAMILIES = (
    (re.compile(r"urn:oxp:(\d+)\.\d+(?:\.\d+)?", re.ASCII), OXP),
    (re.compile(r"otc://(\d+)\.\d+(?:\.\d+)?", re.ASCII), UNIVERSAL),
    (re.compile(r"https?://[^?#]*/specification/http/(\d+)\.\d+(?:\.\d+)?/openapi\.json", re.ASCII), RFC),
)


def family(wanted: Json, default: str) -> str:
    """Return the name of the family that ``wanted`` belongs to, whatever its version; else ``default``."""
    #
    text = wanted if isinstance(wanted, str) else ""
    return next((name for pattern, name in _FAMILIES if pattern.fullmatch(text)), default)


def negotiate_version(wanted: Json, default: str) -> str | Problem:
    """Return the ``$schema`` to answer with, or a Problem where ``wanted`` is a version that is not spoken here."""
    if wanted is None:
        return default
    if not isinstance(wanted, str):
        return Problem(kind=Kind.MALFORMED, message=f'"$schema" must be a string, not {describe_type(wanted)}.')
    if wanted in _NAMES:
        return wanted
    for pattern, name in _FAMILIES:
        match = pattern.fullmatch(wanted)
        if match is not None:
            return name if match[1].lstrip("0") == _MAJOR else _build_unsupported(wanted, name)
    return default


def _build_unsupported(wanted: str, name: str) -> Problem:
    text = f'This server does not support {wanted[:200]!r}. Send "$schema": "{name}", or omit it.'
    return Problem(kind=Kind.MALFORMED, message=text)
