"""Read and write JSON text, strictly and within limits.

Rules:
- NaN, Infinity, numbers that overflow, invalid UTF-8 and lone surrogates are refused.
- Integers stay exact, up to 4,300 digits.
- A text that is nested deeper than 200 levels is refused.
- Other threads can run while a text of more than a mebibyte is read.
"""
# S-16, D-16, CV-33, XL-012: the rules above.

from __future__ import annotations

import json
import math
import re
from codecs import BOM_UTF8
from collections.abc import Callable, Iterator, Mapping
from itertools import accumulate
from typing import NoReturn

import orjson

from toolwire.core.http import Request, get_header
from toolwire.core.interpreter import pause_collection
from toolwire.core.model import Json, Kind, Problem

MAX_DEPTH = 200
MAX_DIGITS = 4_300
LARGE_BYTES = 1_048_576
"""A larger text takes long to read: an event loop leaves that to a thread."""
DUPLICATE_MEMBER = "an object in it has a member twice"

_DIGITS_ALIKE = bytes(ord("0") if chr(byte).isdigit() and byte < 128 else byte for byte in range(256))
_MARK_START = b"\xef"
_LONG_NUMBER = b"0" * 19
_LONG_RUN = re.compile(_LONG_NUMBER + b"0*")  # begins with a plain text, which is searched fastest
_PIECE = 1_048_576
_BLOCK = 128  # brackets
_MANY_PARTS = 65_536  # bytes
_BACKSLASH = 0x5C
_HALF_A_CHARACTER = re.compile(rb"\\u[dD][89a-fA-F]")
_BEFORE_A_NUMBER = frozenset(b":,[ \t\r\n")
_STRING = re.compile(rb'"[^"]*+(?:"|\Z)')  # once nothing in it is escaped; possessive: linear on any bytes
_NOT_SHAPE = bytes(set(range(256)) - set(b'[]{}"'))
_ALIKE = bytes.maketrans(b"{}", b"[]")
_STEPS = bytes.maketrans(b"[]", b"\x01\xff")  # as signed bytes: one level down, one level up
_JSON_TYPES = ("application/json", "text/json")


def read(text: bytes) -> Json | Problem:
    """Return the data of a JSON text, or a Problem that says what is wrong with it. A byte order mark is left out."""
    if text[:1] == _MARK_START:  # I-33: no JSON text begins with this byte
        text = text.removeprefix(BOM_UTF8)
    if len(text) > LARGE_BYTES:
        return _read_large(text, _build_object)
    if len(text) > 2 * MAX_DEPTH and text.count(b"[") + text.count(b"{") > MAX_DEPTH and _is_too_deep(text):
        return Problem(kind=Kind.MALFORMED, message=f"The JSON is nested deeper than {MAX_DEPTH} levels.")
    try:
        if _LONG_NUMBER in (alike := text.translate(_DIGITS_ALIKE)) and _has_long_integer(text, alike):
            return _read_exact(text)
        if len(text) <= _MANY_PARTS:
            return orjson.loads(text)
        with pause_collection():  # AT-38: the collector would look at all of many small lists again and again
            return orjson.loads(text)
    except (ValueError, RecursionError) as error:
        return Problem(kind=Kind.MALFORMED, message=f"The body is not valid JSON: {_describe_error(error)}.")


def read_without_duplicates(text: bytes) -> Json | Problem:
    """Return what ``read`` returns, or a Problem if two members of an object have the same name.

    It takes as long as reading a large text and then looking for such names, and other threads can run meanwhile.
    """
    return _read_large(text.removeprefix(BOM_UTF8), _build_distinct)


def _read_large(text: bytes, build: Callable[[list[tuple[str, Json]]], dict[str, Json]]) -> Json | Problem:
    """Return the data of ``text`` with its objects made by ``build``.

    Other threads run while ``build`` does. A decoder that is all C would keep them waiting to the end.
    """
    if len(text) > 2 * MAX_DEPTH and _is_too_deep(text):
        return Problem(kind=Kind.MALFORMED, message=f"The JSON is nested deeper than {MAX_DEPTH} levels.")
    try:
        if _HALF_A_CHARACTER.search(text) is not None:
            orjson.loads(text)  # the decoder of the standard library lets half a character through
        with pause_collection():
            return json.loads(
                "".join(piece.decode("utf-8") for piece in split_text(text)),
                object_pairs_hook=build,
                parse_constant=_refuse_constant,
                parse_float=_parse_finite,
                parse_int=_parse_integer,
            )
    except (ValueError, RecursionError) as error:
        return Problem(kind=Kind.MALFORMED, message=f"The body is not valid JSON: {_describe_error(error)}.")


def _build_object(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    return dict(pairs)


def _build_distinct(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError(DUPLICATE_MEMBER)
    return members


def read_object(request: Request) -> dict[str, Json] | Problem:
    """Return the JSON object that ``request`` carries, or a Problem: wrong type, wrong JSON, not an object."""
    #
    if (b"content-type", b"application/json") not in request.headers and not _has_json_type(request):
        media = get_header(request.headers, b"content-type")[:100]
        text = f"Send the body as application/json, not {media or 'without a content type'}."
        return Problem(kind=Kind.UNSUPPORTED_TYPE, message=text)
    data = read(request.body)
    if isinstance(data, dict):
        return data
    if isinstance(data, Problem):
        return _refuse_encoding(request) or data
    return Problem(kind=Kind.MALFORMED, message=f"The body must be a JSON object, not {describe_type(data)}.")


def _refuse_encoding(request: Request) -> Problem | None:
    """Return the refusal of a body that is compressed, None if nothing says that it is."""
    coding = get_header(request.headers, b"content-encoding").strip()[:100]
    if not coding or coding.lower() == "identity":
        return None
    text = f"Send the body without compression, not with Content-Encoding: {coding}."
    return Problem(kind=Kind.UNSUPPORTED_TYPE, message=text)


def _has_json_type(request: Request) -> bool:
    media, _, parameters = get_header(request.headers, b"content-type").lower().partition(";")
    media = media.strip()
    if "charset=" in parameters and not re.search(r"charset=[\"']?utf-?8\b", parameters):
        return False  # JSON is UTF-8; another encoding read as UTF-8 would say something else
    return media in _JSON_TYPES or (media.startswith("application/") and media.endswith("+json"))


def write(data: Json) -> bytes:
    """Return ``data`` as compact UTF-8 JSON.

    Raises:
        TypeError: something in ``data`` is not JSON data.
        ValueError: a text in ``data`` holds half a surrogate pair, a number is not finite, or it is nested too deep.
    """
    try:
        return orjson.dumps(data)
    except TypeError:  # an integer beyond 64 bits, or an integer key: rare, and the standard library writes both
        try:
            return json.dumps(
                data, ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=_convert_mapping
            ).encode()
        except RecursionError:
            raise ValueError("it is nested too deeply") from None


def encode_fragment(data: Json) -> Json:
    """Return ``data`` as finished JSON text, which ``write`` copies when it is part of larger data.

    Raises:
        TypeError, ValueError: as ``write`` does.
    """
    return orjson.Fragment(write(data))


def write_items(items: list[Json]) -> Json:
    """Return the text of all ``items``, at least one, as one item of a larger list, which ``write`` copies.

    Raises:
        TypeError, ValueError: as ``write`` does.
    """
    return orjson.Fragment(write(items)[1:-1])


def write_canonical(data: Json) -> bytes:
    """Return ``data`` as JSON that is the same whatever the order of the members.

    Raises:
        TypeError: something in ``data`` is not JSON data.
        ValueError: it is nested too deep.
    """
    try:
        return orjson.dumps(data, option=orjson.OPT_SORT_KEYS)
    except TypeError:  # an integer beyond 64 bits, or half a character
        try:
            return json.dumps(data, sort_keys=True, separators=(",", ":"), default=_convert_mapping).encode()
        except RecursionError:
            raise ValueError("it is nested too deeply") from None


def describe_type(data: Json) -> str:
    """Return the JSON name of the type of ``data``, with its article, for a sentence."""
    match data:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return "a string"
        case list():
            return "an array"
        case _:
            return "an object"


def _has_long_integer(text: bytes, alike: bytes) -> bool:
    """Return whether ``text`` has an integer that may exceed 64 bits; digits in strings and fractions do not count."""
    for run in _LONG_RUN.finditer(alike):  # AT-38: a mebibyte of digits in a string is one step
        start, end = run.span()
        start -= alike.startswith(b"-", max(start - 1, 0), start)
        if end - start >= 20 and (start == 0 or text[start - 1] in _BEFORE_A_NUMBER):
            return True
    return False


def _is_too_deep(text: bytes) -> bool:
    """Return whether ``text`` is nested too deep, in one pass over its brackets.

    A block whose brackets could not lead too deep is only counted, in C. Of the others each bracket is looked at.
    """
    # AT-38
    shape = _STRING.sub(b"", b"".join(map(_take_shape, split_text(text))))
    depth = 0
    for start in range(0, len(shape), _BLOCK):
        block = shape[start : start + _BLOCK]
        opened = block.count(b"[")
        if depth + opened > MAX_DEPTH:
            steps = memoryview(block.translate(_STEPS)).cast("b")
            if max(accumulate(steps, initial=depth)) > MAX_DEPTH:
                return True
        depth += 2 * opened - len(block)
    return False


def _take_shape(piece: bytes) -> bytes:
    """Return the brackets and the quotes around strings of a part of a text, without those of empty strings."""
    if b"\\" in piece:
        piece = (piece.replace(b"\\\\", b"") if b'\\\\"' in piece else piece).replace(b'\\"', b"")
    return piece.translate(_ALIKE, _NOT_SHAPE).replace(b'""', b"")


def split_text(text: bytes) -> Iterator[bytes]:
    """Yield ``text`` in parts of about a megabyte. None ends inside an escape or a character of UTF-8.

    A longer pass in C would keep all other threads waiting, and with them the event loop.
    """
    start, size = 0, len(text)
    while start < size:
        end = start + _PIECE
        while end < size and (text[end - 1] == _BACKSLASH or text[end] & 0xC0 == 0x80):
            end += 1
        yield text[start:end]
        start = end


def _read_exact(text: bytes) -> Json:
    data = json.loads(
        text.decode("utf-8"), parse_constant=_refuse_constant, parse_float=_parse_finite, parse_int=_parse_integer
    )
    json.dumps(data, ensure_ascii=False).encode()  # raises on a lone surrogate, which the decoder lets through
    return data


def _parse_finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError("a number is too large")
    return number


def _parse_integer(text: str) -> int:
    if len(text.removeprefix("-")) > MAX_DIGITS:
        raise ValueError(f"a number has more than {MAX_DIGITS:,} digits")
    return int(text)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _convert_mapping(data: object) -> dict[str, Json]:
    if isinstance(data, Mapping):
        return dict(data)
    raise TypeError(f"{type(data).__name__} is not JSON data")


def _describe_error(error: Exception) -> str:
    match error:
        case UnicodeError():
            return "it is not valid UTF-8"
        case json.JSONDecodeError() if "infinity" in error.msg:
            return f"a number is too large at line {error.lineno} column {error.colno}"
        case json.JSONDecodeError():
            return f"{error.msg} at line {error.lineno} column {error.colno}"
        case _:
            return str(error) or type(error).__name__


def get_object(data: Mapping[str, Json], name: str) -> Mapping[str, Json]:
    """Return the object under ``name``, or an empty one where there is none or it is something else."""
    value = data.get(name)
    return value if isinstance(value, dict) else {}


def get_list(data: Mapping[str, Json], name: str) -> list[Json]:
    """Return the list under ``name``, or an empty one where there is none or it is something else."""
    value = data.get(name)
    return value if isinstance(value, list) else []


def list_texts(data: Json) -> list[str]:
    """Return the texts in the list ``data``; none where it is something else."""
    return [one for one in data if isinstance(one, str)] if isinstance(data, list) else []


def get_text(data: Mapping[str, Json], name: str) -> str:
    """Return the text under ``name``, or ``""`` if there is none or it is something else."""
    value = data.get(name)
    return value if isinstance(value, str) else ""
