"""YAML text to data, as far as YAML says what JSON could: OpenAPI asks for no more.

Rules:
- Names of members are texts, whatever they look like: ``200:`` is ``"200"``. There are no dates and no sets, and
  ``on`` and ``yes`` stay texts. [XL-013]
- Aliases and names that repeat are refused, as are NaN and infinity. Nothing is deeper than 200. [D-16]
"""

from __future__ import annotations

import math
from typing import Any

from toolwire.core.model import Json, Kind, Problem

from .jsontext import MAX_DEPTH, MAX_DIGITS

_MAX_BITS = int(MAX_DIGITS * math.log2(10))
_WORDS = {True: "true", False: "false", None: "null"}


def read(text: bytes) -> Json | Problem:
    """Return the data of a YAML text, or a Problem that says what is wrong with it."""
    try:
        import yaml_rs  # noqa: PLC0415 - only who meets YAML needs it
    except ImportError:
        return _bad("it is YAML, which needs the extra: pip install 'toolwire[yaml]'")
    try:
        limits = yaml_rs.AliasLimits(max_total_replayed_events=0)
        data = yaml_rs.loads(text.decode("utf-8-sig"), parse_datetime=False, alias_limits=limits)
        return _plain(data, 0)
    except UnicodeDecodeError:
        return _bad("it is not valid UTF-8")
    except TypeError:  # a name that is a mapping in a list, or the like, which Python cannot hash
        return _bad("the name of a member is no text")
    except (ValueError, RecursionError) as error:
        return _bad(str(error).strip().rpartition("\n")[2][:200] or "it cannot be read")


def _plain(data: Any, depth: int) -> Json:
    kind = type(data)
    if kind is str or kind is bool or data is None:
        return data
    if kind is int:
        if data.bit_length() > _MAX_BITS:
            raise ValueError(f"a number has more than {MAX_DIGITS:,} digits")
        return data
    if kind is float:
        if not math.isfinite(data):
            raise ValueError(f"{data} is no number of JSON")
        return data
    if depth > MAX_DEPTH:
        raise ValueError(f"it is nested deeper than {MAX_DEPTH} levels")
    if kind is list:
        return [_plain(item, depth + 1) for item in data]
    if kind is dict:
        plain = {_name(name): _plain(item, depth + 1) for name, item in data.items()}
        if len(plain) != len(data):
            raise ValueError("duplicate mapping key: two that differ only by type")
        return plain
    raise ValueError(f"a {kind.__name__} is nothing that JSON has")


def _name(name: Any) -> str:
    if type(name) is str:
        return name
    if name is None or type(name) is bool:
        return _WORDS[name]
    if type(name) in (int, float):
        return str(name)
    raise ValueError("the name of a member is no text")


def _bad(reason: str) -> Problem:
    return Problem(kind=Kind.MALFORMED, message=f"The body is not valid YAML: {reason}.")
