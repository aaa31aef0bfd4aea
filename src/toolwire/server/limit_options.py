"""Read ``--limit NAME=VALUE``: the limits of a server, and of its connections."""
# D-34

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any, Final

from toolwire.core.suggestion import find_nearest
from toolwire.server.http.deadlines import Deadlines
from toolwire.server.limits import ServerLimits

_OF_SERVER: Final = {one.name: str(one.type) for one in fields(ServerLimits)}
_OF_CONNECTIONS: Final = {one.name: str(one.type) for one in fields(Deadlines)}
_TYPES: Final = _OF_SERVER | _OF_CONNECTIONS
_MAX_BY_UNIT: Final = {"bytes": 1 << 40, "s": 31_622_400}
"""The largest value by the last word of a name: a tebibyte, and a leap year of seconds."""
_MAX_COUNTED: Final = 1_000_000_000


def check_limit(text: str) -> str:
    """Return ``text``, which is ``NAME=VALUE``, if a server has such a limit.

    Raises:
        ValueError: there is no such limit, or it cannot have this value; the text says why.
    """
    _read_limit(text)
    return text


def read_server_limits(texts: Iterable[str]) -> ServerLimits:
    """Return the limits of a server that ``texts`` name; of two for one name, the later holds.

    Raises:
        ValueError: as ``check_limit`` does.
    """
    return ServerLimits(**_select(texts, _OF_SERVER))


def read_deadlines(texts: Iterable[str]) -> Deadlines:
    """Return the limits of connections that ``texts`` name; of two for one name, the later holds.

    Raises:
        ValueError: as ``check_limit`` does.
    """
    return Deadlines(**_select(texts, _OF_CONNECTIONS))


def _select(texts: Iterable[str], names: Mapping[str, str]) -> dict[str, Any]:
    return {name: value for name, value in map(_read_limit, texts) if name in names}


def _read_limit(text: str) -> tuple[str, float]:
    given, is_pair, number = text.partition("=")
    if not is_pair:
        raise ValueError(f"{text[:40]!r} is not valid. Write NAME=VALUE, such as tool_s=300")
    name = given.strip().replace("-", "_")
    if name not in _TYPES:
        near = find_nearest(name, _TYPES)
        hint = f"; did you mean {near}?" if near else f"; there is {', '.join(_TYPES)}"
        raise ValueError(f"unknown limit {name[:40]!r}{hint}")
    is_whole = "float" not in _TYPES[name]
    most = _MAX_BY_UNIT.get(name.rpartition("_")[2], _MAX_COUNTED)
    try:
        value = int(number) if is_whole else float(number) if number.isascii() else 0
    except ValueError:
        value = 0
    if not (math.isfinite(value) and 0 < value <= most):
        kind = "an integer from 1 to" if is_whole else "a number of seconds above 0, at most"
        raise ValueError(f"{name} must be {kind} {most:,}, not {number[:40]!r}")
    return name, value
