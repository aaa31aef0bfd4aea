"""Parameters on the wire: a value as text for a path, a query, a header or a cookie, by style and explode.

Rules:
- Delimiters stand as they are; names and items are percent-encoded one by one, except in headers. [CV-01]
- What is null is left out, and so is an empty array or object. Nested data, which no style has a form for, is JSON.
- ``allowReserved`` never lets a value end the query, start another parameter, or mean a space. [CV-02]
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import NamedTuple, TypeAlias
from urllib.parse import quote

from toolwire.core.model import Json
from toolwire.framing import jsontext

Encode: TypeAlias = Callable[[str], str]

_TRIPLE = re.compile(r"(%[0-9A-Fa-f]{2})")


class Place(StrEnum):
    """Where in a request a parameter goes."""

    PATH = "path"
    QUERY = "query"
    HEADER = "header"
    COOKIE = "cookie"


class Parameter(NamedTuple):
    """How one parameter is written. ``style`` is one of OpenAPI's, or ``content`` for JSON and ``text`` for text."""

    name: str
    place: Place
    style: str
    explode: bool = False
    reserved: bool = False


STYLES: dict[Place, tuple[str, ...]] = {
    Place.PATH: ("simple", "label", "matrix"),
    Place.QUERY: ("form", "spaceDelimited", "pipeDelimited", "deepObject"),
    Place.HEADER: ("simple",),
    Place.COOKIE: ("form", "cookie"),
}
"""The styles each place knows, its default first."""

_DELIMITER = {"spaceDelimited": "%20", "pipeDelimited": "%7C"}


def write(parameter: Parameter, value: Json) -> str:
    """Return ``value`` as text for its place, or ``""`` where there is nothing to send.

    Queries and cookies come with their names, paths and headers without. Nothing is refused here.
    """
    encode = _encoder(parameter)
    if parameter.style in ("content", "text"):
        text = _compact(value) if parameter.style == "content" else _text(value)
        return _named(parameter, encode(text))
    if isinstance(value, list):
        value = [item for item in value if item is not None]
    elif isinstance(value, Mapping):
        value = {name: item for name, item in value.items() if item is not None}
    if value is None or value in ([], {}):
        return ""
    match parameter.style:
        case "simple":
            return _simple(parameter, value, encode)
        case "label":
            return _label(parameter, value, encode)
        case "matrix":
            return _matrix(parameter, value, encode)
        case _:
            return _form(parameter, value, encode)


def percent(text: str) -> str:
    """Return ``text`` with everything but unreserved characters percent-encoded."""
    return quote(text, safe="", errors="replace")


def _simple(parameter: Parameter, value: Json, encode: Encode) -> str:
    return ",".join(_items(value, encode, exploded=parameter.explode))


def _label(parameter: Parameter, value: Json, encode: Encode) -> str:
    return "." + ("." if parameter.explode else ",").join(_items(value, encode, exploded=parameter.explode))


def _matrix(parameter: Parameter, value: Json, encode: Encode) -> str:
    name = percent(parameter.name)
    if parameter.explode and isinstance(value, list | dict):
        pairs = [(name, encode(_text(item))) for item in value] if isinstance(value, list) else _pairs(value, encode)
    else:
        pairs = [(name, ",".join(_items(value, encode, exploded=False)))]
    return "".join(f";{key}={text}" if text else f";{key}" for key, text in pairs)


def _form(parameter: Parameter, value: Json, encode: Encode) -> str:
    name = _name(parameter)
    between = "; " if parameter.place is Place.COOKIE else "&"
    if not isinstance(value, list | dict):
        return f"{name}={encode(_text(value))}"
    if parameter.style == "deepObject" and isinstance(value, dict):
        return between.join(_deep(name, value, encode))
    delimiter = _DELIMITER.get(parameter.style, ",")
    if not parameter.explode:
        return f"{name}={delimiter.join(_items(value, encode, exploded=False))}"
    pairs = [(name, encode(_text(item))) for item in value] if isinstance(value, list) else _pairs(value, encode)
    return between.join(f"{key}={text}" for key, text in pairs)


def _deep(name: str, value: Mapping[str, Json], encode: Encode) -> list[str]:
    """Return ``name[key]=item`` for each item; inner objects go on with brackets, inner arrays repeat the key."""
    written: list[str] = []
    for key, item in value.items():
        inner = f"{name}%5B{percent(key)}%5D"
        if isinstance(item, dict):
            written.extend(_deep(inner, item, encode))
        else:
            items = item if isinstance(item, list) else [item]
            written.extend(f"{inner}={encode(_text(one))}" for one in items if one is not None)
    return written


def _items(value: Json, encode: Encode, *, exploded: bool) -> list[str]:
    if isinstance(value, list):
        return [encode(_text(item)) for item in value]
    if isinstance(value, dict):
        pairs = _pairs(value, encode)
        return [f"{key}={text}" for key, text in pairs] if exploded else [text for pair in pairs for text in pair]
    return [encode(_text(value))]


def _pairs(value: Mapping[str, Json], encode: Encode) -> list[tuple[str, str]]:
    return [(encode(key), encode(_text(item))) for key, item in value.items()]


def _named(parameter: Parameter, text: str) -> str:
    return f"{_name(parameter)}={text}" if parameter.place in (Place.QUERY, Place.COOKIE) else text


def _name(parameter: Parameter) -> str:
    return parameter.name if parameter.place is Place.COOKIE else percent(parameter.name)


def _encoder(parameter: Parameter) -> Encode:
    if parameter.place is Place.HEADER or parameter.style == "cookie":
        return str  # passed through unchanged; what may not stand there is refused where the request is built
    return _reserved if parameter.reserved and parameter.place is Place.QUERY else percent


def _reserved(text: str) -> str:
    parts = _TRIPLE.split(text)
    return "".join(
        part if _TRIPLE.fullmatch(part) else quote(part, safe=":/?@!$'()*,;=", errors="replace") for part in parts
    )


def _text(value: Json) -> str:
    """Return a scalar as its text, and nested data as JSON; 1.0 is 1, the shortest form of the same number."""
    if isinstance(value, str):
        return value
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        value = int(value)
    text = jsontext.write(value).decode()
    return text.replace("e+", "e") if isinstance(value, float) else text


def _compact(value: Json) -> str:
    return json.dumps(value, separators=(",", ":"), allow_nan=False)
