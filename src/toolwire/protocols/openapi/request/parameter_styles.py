"""Write parameters as text for a path, a query, a header or a cookie, by style and explode.

Rules:
- Delimiters are not encoded; names and items are percent-encoded one by one, except in headers.
- Null, empty arrays and empty objects are left out, but a required header is sent without text.
- Nested data is JSON; in deepObject it is nested brackets.
- With ``allowReserved`` a value still cannot end the query, start another parameter, or mean a space.
- Nor can an item contain the delimiter between items, or a key the delimiter before its item.
"""
# CV-01, CV-02

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import TypeAlias
from urllib.parse import quote

from toolwire.core.model import Json
from toolwire.framing import jsontext

from .media_types import get_essence, is_json
from .plan import Parameter, Place

Encode: TypeAlias = Callable[[str], str]

_TRIPLE = re.compile(r"(%[0-9A-Fa-f]{2})")


STYLES: dict[Place, tuple[str, ...]] = {
    Place.PATH: ("simple", "label", "matrix"),
    Place.QUERY: ("form", "spaceDelimited", "pipeDelimited", "deepObject"),
    Place.HEADER: ("simple",),
    Place.COOKIE: ("form", "cookie"),
}
"""The styles allowed in each place, the default first."""

FORM = "application/x-www-form-urlencoded"

_SCALARS = frozenset((str, int, bool, float))
_PLAIN_STYLES = ("form", "simple")
_PLAIN_PLACES = (Place.PATH, Place.QUERY)
_DELIMITER = {"spaceDelimited": "%20", "pipeDelimited": "%7C"}


def write(parameter: Parameter, value: Json) -> str:
    """Return ``value`` as text for its place, or ``""`` if there is nothing to send.

    The text of a query or cookie includes the name; that of a path or header does not. Nothing is refused here.
    """
    is_plain = parameter.style in _PLAIN_STYLES and not parameter.media_type
    if is_plain and type(value) in _SCALARS and parameter.place in _PLAIN_PLACES and not parameter.reserved:  # most are
        text = encode_percent(write_scalar(value))
        return text if parameter.place is Place.PATH else f"{_encode_name(parameter.name)}={text}"
    encode = _choose_encoder(parameter, value)
    if parameter.style in ("content", "text") or parameter.media_type:
        return _add_name(parameter, encode(_write_content(parameter, value)))
    if is_plain and type(value) in _SCALARS:
        return _add_name(parameter, encode(write_scalar(value)))
    value = _remove_null(value)
    return "" if value is None or value in ([], {}) else _write_style(parameter, value, encode)


def _write_style(parameter: Parameter, value: Json, encode: Encode) -> str:
    match parameter.style:
        case "simple":
            return _write_simple(parameter, value, encode)
        case "label":
            return _write_label(parameter, value, encode)
        case "matrix":
            return _write_matrix(parameter, value, encode)
        case _:
            return _write_form(parameter, value, encode)


def list_pairs(parameter: Parameter, value: Json) -> list[tuple[str, str]]:
    """Return ``value`` as percent-encoded pairs of name and text, by the style of a query; null gives no pairs."""
    value = _remove_null(value)
    return (
        []
        if value is None or value in ([], {})
        else _list_form_pairs(parameter, value, _choose_encoder(parameter, value))
    )


def write_querystring(parameter: Parameter, value: Json) -> str:
    """Return ``value`` as the complete query, by its media type."""
    # CV-28
    if get_essence(parameter.media_type) != FORM:
        return encode_percent(_write_content(parameter, value))
    data = value.items() if isinstance(value, dict) else ()
    return "&".join(f"{key}={text}" for name, item in data for key, text in list_plain_pairs(name, item))


def list_plain_pairs(name: str, value: Json) -> list[tuple[str, str]]:
    """Return ``value`` as fields of a form without declared encoding: an array repeats the name, the rest is text."""
    items = value if isinstance(value, list) else [value]
    return [(encode_percent(name), encode_percent(write_scalar(item))) for item in items if item is not None]


def encode_percent(text: str) -> str:
    """Return ``text`` with everything but unreserved characters percent-encoded."""
    return text if text.isascii() and text.isalnum() else quote(text, safe="", errors="strict")


_encode_name = lru_cache(maxsize=4096)(encode_percent)  # each call of an operation writes the same names


def _write_simple(parameter: Parameter, value: Json, encode: Encode) -> str:
    if parameter.separators:
        return _write_nested(value, parameter.separators, encode)
    return ",".join(_list_items(value, encode, exploded=parameter.explode))


def _write_label(parameter: Parameter, value: Json, encode: Encode) -> str:
    return "." + ("." if parameter.explode else ",").join(_list_items(value, encode, exploded=parameter.explode))


def _write_matrix(parameter: Parameter, value: Json, encode: Encode) -> str:
    name = encode_percent(parameter.name)
    if parameter.explode and isinstance(value, list | dict):
        each = (
            [(name, encode(write_scalar(item))) for item in value]
            if isinstance(value, list)
            else _list_object_pairs(value, encode)
        )
    else:
        each = [(name, ",".join(_list_items(value, encode, exploded=False)))]
    return "".join(f";{key}={text}" if text else f";{key}" for key, text in each)


def _write_form(parameter: Parameter, value: Json, encode: Encode) -> str:
    between = "; " if parameter.place is Place.COOKIE else "&"
    return between.join(f"{key}={text}" for key, text in _list_form_pairs(parameter, value, encode))


def _list_form_pairs(parameter: Parameter, value: Json, encode: Encode) -> list[tuple[str, str]]:
    name = parameter.name if parameter.place is Place.COOKIE else _encode_name(parameter.name)
    if not isinstance(value, list | dict):
        return [(name, encode(write_scalar(value)))]
    if parameter.separators and isinstance(value, list):
        separators = parameter.separators
        # An empty separator at the top is "multi": each item is a parameter of its own.
        if separators[0]:
            return [(name, _write_nested(value, separators, encode))]
        return [(name, _write_nested(item, separators[1:], encode)) for item in value]
    if parameter.style == "deepObject":
        return list(_iterate_deep_pairs(name, value, encode))
    if not parameter.explode:
        delimiter = _DELIMITER.get(parameter.style, ",")
        return [(name, delimiter.join(_list_items(value, encode, exploded=False)))]
    return (
        [(name, encode(write_scalar(item))) for item in value]
        if isinstance(value, list)
        else _list_object_pairs(value, encode)
    )


def _iterate_deep_pairs(name: str, value: Json, encode: Encode) -> Iterator[tuple[str, str]]:
    """Yield ``name[key]=item`` for each item at any depth; the items of an array are numbered.

    The specification does not define arrays here. The one large API with such arrays uses numbers, and only numbers
    keep the objects of an array apart.
    """
    for key, item in enumerate(value) if isinstance(value, list) else value.items():
        inner = f"{name}%5B{encode_percent(str(key))}%5D"
        if isinstance(item, list | dict):
            yield from _iterate_deep_pairs(inner, item, encode)
        elif item is not None:
            yield inner, encode(write_scalar(item))


def _write_nested(value: Json, separators: tuple[str, ...], encode: Encode) -> str:
    """Return nested arrays as one text; each level has its own separator."""
    if not separators or not isinstance(value, list):
        return encode(write_scalar(value))
    # A comma may stand in a query as it is, a space, a tab and a pipe may not.
    between = separators[0] if separators[0] == "," else encode(separators[0])
    return between.join(_write_nested(item, separators[1:], encode) for item in value if item is not None)


def _list_items(value: Json, encode: Encode, *, exploded: bool) -> list[str]:
    if isinstance(value, list):
        return [encode(write_scalar(item)) for item in value]
    if isinstance(value, dict) and exploded:
        return [f"{key}={text}" for key, text in _list_object_pairs(value, encode)]
    if isinstance(value, dict):
        return [encode(write_scalar(one)) for pair in value.items() for one in pair]
    return [encode(write_scalar(value))]


def _list_object_pairs(value: Mapping[str, Json], encode: Encode) -> list[tuple[str, str]]:
    """Return each key and its item, encoded. ``allowReserved`` applies to items only: a key is a name on the wire."""
    encode_key = str if encode is str else encode_percent
    return [(encode_key(key), encode(write_scalar(item))) for key, item in value.items()]


def _add_name(parameter: Parameter, text: str) -> str:
    if parameter.place is Place.COOKIE:
        return f"{parameter.name}={text}"
    return f"{_encode_name(parameter.name)}={text}" if parameter.place is Place.QUERY else text


def _write_content(parameter: Parameter, value: Json) -> str:
    """Return ``value`` in the media type of a parameter with ``content``."""
    # CV-03
    media_type = get_essence(parameter.media_type)
    if media_type == FORM:
        return write_querystring(parameter, value)
    is_text = parameter.style == "text" or (media_type != "" and not is_json(media_type))
    return write_scalar(value) if is_text else _write_json(value)


def _remove_null(value: Json) -> Json:
    if isinstance(value, list):
        return [item for item in value if item is not None]
    if isinstance(value, Mapping):
        return {name: item for name, item in value.items() if item is not None}
    return value


def _choose_encoder(parameter: Parameter, value: Json) -> Encode:
    if parameter.place is Place.HEADER or parameter.style == "cookie":
        return str  # not encoded in headers; build_request refuses characters that are not allowed there
    if parameter.style == "text" and parameter.place is Place.COOKIE:
        return str  # a Cookie field is no URL: only the form style, and JSON with its quotes, are encoded there
    if not parameter.reserved:
        return encode_percent
    encode = _encode_reserved_in_path if parameter.place is Place.PATH else _encode_reserved
    delimiters = _choose_delimiters(parameter, value)
    return (lambda text: encode(text).translate(delimiters)) if delimiters else encode


def _choose_delimiters(parameter: Parameter, value: Json) -> dict[int, str]:
    """Return the reserved characters that would end ``value`` or an item of it, with their escapes."""
    found = ""
    if parameter.style == "matrix" or parameter.place is Place.COOKIE:
        found = ";"
    by_commas = parameter.style == "simple" or (not parameter.explode and parameter.style not in _DELIMITER)
    if by_commas and isinstance(value, list | dict):
        found += ","
    return {ord(one): quote(one) for one in found}


def _encode_reserved(text: str) -> str:
    """Return ``text`` encoded; reserved characters and escapes are kept, except those that would end a value."""
    parts = _TRIPLE.split(text)
    return "".join(
        part if _TRIPLE.fullmatch(part) else quote(part, safe=":/?@!$'()*,;=", errors="strict") for part in parts
    )


def _encode_reserved_in_path(text: str) -> str:
    """Return ``text`` encoded; reserved characters allowed in a path segment are kept: no slash, ``?`` or escape."""
    return quote(text, safe=":@!$&'()*+,;=", errors="strict")


def write_scalar(value: Json) -> str:
    """Return a scalar as text, and nested data as JSON. An integral float is written as an integer: 1.0 is ``1``."""
    if isinstance(value, str):
        return value
    if type(value) is int:
        return str(value)
    # JSON does not tell 1.0 from 1, and many servers read "1.0" as no integer. Above 2**53 digits would be made up.
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        value = int(value)
    text = jsontext.write(value).decode()
    # In a query a plus sign is a space.
    return text.replace("e+", "e") if isinstance(value, float) else text


def _write_json(value: Json) -> str:
    return json.dumps(value, separators=(",", ":"), allow_nan=False)
