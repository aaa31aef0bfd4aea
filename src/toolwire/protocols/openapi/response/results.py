"""Write results as responses, and read responses: JSON, text, a reference to bytes, stream items, or a problem.

Rules:
- A response is untrusted data: hidden characters are removed, and ``Value.notes`` name its origin.
- A response that is too large to read is cut, and the notes say so, with the handle of the complete response.
"""
# XL-104, XL-103

from __future__ import annotations

import re
from base64 import b64encode
from codecs import getincrementaldecoder
from collections.abc import Mapping
from encodings import normalize_encoding
from encodings.aliases import aliases
from typing import Final, NamedTuple
from urllib.parse import quote, unquote

from toolwire.core.content import (
    RASTER_TYPES,
    Audio,
    File,
    Image,
    build_form,
    clean_file_name,
    read_content,
)
from toolwire.core.http import JSON_HEADERS, SIGN_IN_PAGE, Response, get_header
from toolwire.core.model import Json, Kind, Problem, Result, Value
from toolwire.core.resources import DEFAULT_RESULT_LIMITS, Resource, Resources, ResultLimits
from toolwire.framing import jsontext, rate_headers, stream_types, text_cleaning
from toolwire.protocols.openapi import problems
from toolwire.protocols.openapi.request.media_types import get_essence, is_json, is_text, is_xml
from toolwire.protocols.openapi.request.plan import WriteOnlyRemover

from . import streaming
from .streaming import StreamReader

_CHARSET = re.compile(r"""(?:charset|encoding)\s{0,9}=\s{0,9}["']?([\w.:-]{1,40})""", re.ASCII)
# Python knows encodings in which a text takes time of its length squared or hides what it says: only these count.
_ENCODINGS: Final = re.compile(
    r"latin_1|iso8859_(?:[2-9]|1[013-6])|cp125[0-8]|cp(?:437|85[02]|866|874|932|949|950)|mac_roman|tis_620|koi8_[ru]"
    r"|shift_jis|euc_(?:jp|kr)|gb(?:k|2312|18030)|big5(?:hkscs)?|utf_(?:16|32)(?:_[bl]e)?"
)
_MARKS: Final = (
    (b"\xef\xbb\xbf", "utf-8-sig"),
    (b"\xff\xfe\0\0", "utf-32"),
    (b"\0\0\xfe\xff", "utf-32"),
    (b"\xff\xfe", "utf-16"),
    (b"\xfe\xff", "utf-16"),
    (b"<\0?\0", "utf-16-le"),
    (b"\0<\0?", "utf-16-be"),
)
"""How a text in Unicode begins: with a byte order mark, or as an XML declaration (XML 1.0, appendix F)."""
_UTF_8_MARK = b"\xef\xbb\xbf"
_INERT: Final = (
    (b"content-security-policy", b"default-src 'none'; sandbox"),
    (b"x-content-type-options", b"nosniff"),
)
"""For bytes that a tool returns: an HTML page or an SVG among them must not run as a page of this server."""

_FILE_NAME = re.compile(r"""filename\*\s*=\s*UTF-8'[^']*'([^;\s]+)""", re.IGNORECASE)
_PLAIN_FILE_NAME = re.compile(r"""filename\s*=\s*(?:"([^"]*)"|([^;\s]+))""", re.IGNORECASE)


class Expected(NamedTuple):
    """The origin of a response, the responses that the document declares, and the limits of a result.

    ``content`` is ``image``, ``audio`` or ``file`` if the tool returns exactly one, else empty.
    """

    origin: str = ""
    responses: Mapping[str, Mapping[str, Json]] | None = None
    resources: Resources | None = None
    caps: ResultLimits = DEFAULT_RESULT_LIMITS
    write_only: WriteOnlyRemover | None = None
    content: str = ""


ANYTHING = Expected()


def write(result: Result, _duration_ms: float) -> Response:
    """Return ``result`` as a response: status 200 with the value as JSON, or problem+json."""
    if isinstance(result, Value):
        return Response(200, JSON_HEADERS, jsontext.write(result.value))
    return problems.write(result)


def write_content(result: Result, duration_ms: float) -> Response:
    """Return the image, audio or file of ``result`` as its bytes with its media type; any other result like ``write``.

    A browser shows only images of pixels and audio; anything else is a download. Nothing in it can run as a page.
    """
    # MC-07
    found = read_content(result.value) if isinstance(result, Value) else None
    if not isinstance(found, (Image, Audio, File)):
        return write(result, duration_ms)
    is_shown = found.type == "audio" or found.media_type.lower() in RASTER_TYPES
    disposition = "inline" if is_shown and found.type != "file" else "attachment"
    if found.name:
        disposition += f"; filename*=UTF-8''{quote(found.name, safe='', errors='replace')}"
    kind = (b"content-type", found.media_type.encode())
    return Response(200, (kind, (b"content-disposition", disposition.encode()), *_INERT), found.data)


def read(response: Response, expected: Expected = ANYTHING) -> Result:
    """Read a response as a result: parsed JSON, text, or a Problem for its status.

    Binary data is replaced by ``{"media_type", "bytes_len", "resource"}``; ``resource`` is a handle.
    """
    # XL-100, XL-101, XL-105
    status = response.status
    if not 200 <= status < 300:
        text = f"The server answered with status {status} instead of a result."
        return problems.read(response) if status >= 400 else _build_problem(text)
    media_type, _, parameters = get_header(response.headers, b"content-type").lower().partition(";")
    media_type = media_type.strip()
    if page := get_header(response.headers, SIGN_IN_PAGE):
        page = text_cleaning.clean(page[:200]).text
        text = (
            f"The server redirected this call to its sign-in page, {page}. Call again with credentials that it accepts."
        )
        return Problem(kind=Kind.FORBIDDEN, message=text, details={"reason": "redirect"})
    notes = _build_notes(response, media_type, expected)
    if expected.content and (content := _read_content(response, expected, notes)) is not None:
        return content
    # A model that gets nothing back asks again; so an empty success says that it was one.
    if status in (204, 205) or not response.body:
        return Value({"ok": True, "status": status}, notes)
    # Without a media type most servers send JSON; _read_json falls back to text.
    if not media_type or media_type == "application/json" or is_json(media_type):
        remover = expected.write_only
        body = response.body if remover is None else _remove_write_only(response, media_type, remover, expected, notes)
        return _read_json(body, media_type, expected, notes)
    return _read_other(response.body, media_type, parameters, expected, notes)


def _read_content(response: Response, expected: Expected, notes: dict[str, Json]) -> Value | None:
    """Return the content that the document declares, a reference to it if it is too large, or None for other data."""
    # MC-07
    disposition = get_header(response.headers, b"content-disposition")
    # Without this field it is data: a gateway may serve a tool whose server answers otherwise than it declares.
    if not disposition:
        return None
    media_type = get_header(response.headers, b"content-type").partition(";")[0].strip()
    if len(response.body) > expected.caps.bytes:
        return _read_binary(response.body, media_type, expected, notes)
    data = b64encode(response.body).decode()
    form = build_form(expected.content, data, media_type, _read_file_name(disposition))
    return None if form is None else Value(form, notes)


def _read_file_name(disposition: str) -> str:
    if found := _FILE_NAME.search(disposition):
        return clean_file_name(unquote(found[1]))
    plain = _PLAIN_FILE_NAME.search(disposition)
    return clean_file_name(plain[1] or plain[2] or "") if plain else ""


def _remove_write_only(
    response: Response, media_type: str, remover: WriteOnlyRemover, expected: Expected, notes: dict[str, Json]
) -> bytes:
    """Return the body without what the document declares writeOnly.

    It is written again, so that neither the beginning of a long result nor the complete one under its handle has it.
    """
    # CV-21
    body, schema = response.body, _find_schema(expected.responses, str(response.status), media_type)
    if schema is None:
        return body
    data = jsontext.read(body.removeprefix(_UTF_8_MARK))
    if isinstance(data, Problem) or not remover.remove(data, schema):
        return body
    notes["write_only_removed"] = True
    return jsontext.write(data)


def _read_other(body: bytes, media_type: str, parameters: str, expected: Expected, notes: dict[str, Json]) -> Result:
    # The stream had ended before it was read: a server may answer with one where none was declared.
    if stream_types.is_stream(media_type):
        return _read_items(body, expected, notes)
    if is_text(media_type) or is_xml(media_type):
        encoding = _find_encoding(body, parameters)
        return _read_text(body, encoding, Resource(data=body, media_type=media_type), expected, notes)
    return _read_binary(body, media_type, expected, notes)


def _find_encoding(body: bytes, parameters: str) -> str:
    """Return the encoding of a text: by its first bytes, its media type, or its XML declaration; UTF-8 by default."""
    for mark, encoding in _MARKS:
        if body.startswith(mark):
            return encoding
    found = _CHARSET.search(parameters.lower()) or _CHARSET.search(
        body[:100].decode("latin-1").lower() if body.startswith(b"<?xml") else ""
    )
    name = normalize_encoding(found[1]) if found else ""
    name = aliases.get(name, name)
    # Some programs name UTF-16, their encoding in memory, and send UTF-8. A text in UTF-16 soon has a zero byte.
    is_wrong = name.startswith(("utf_16", "utf_32")) and b"\0" not in body and _fits(body[:1_000], "utf-8")
    return "utf-8" if is_wrong or not _ENCODINGS.fullmatch(name) else name


def _fits(body: bytes, encoding: str) -> bool:
    """Return whether ``body``, which may be cut, is a text in ``encoding``."""
    try:
        getincrementaldecoder(encoding)().decode(body)
    except UnicodeDecodeError:
        return False
    return True


def read_stream_end(reader: StreamReader, response: Response | Problem, expected: Expected) -> Result:
    """Return the result of a stream that was read while it arrived: the list of its items.

    A stream that was stopped at a limit of items, bytes or time is a result too, marked as truncated.
    """
    # XL-106
    if isinstance(response, Problem):
        # A stream without an end is cut by our own limit of time or bytes, which is no failure of the server.
        if not (reader.is_truncated or (reader.items and response.details.get("reason") in ("timeout", "too_large"))):
            return response
        notes: dict[str, Json] = {"origin": expected.origin, "untrusted": True, "truncated": True}
        return Value(reader.items, notes)
    try:
        reader.end()
    except ValueError:
        reader.is_truncated = True
    media_type = get_essence(get_header(response.headers, b"content-type"))
    notes = _build_notes(response, media_type, expected)
    if reader.is_truncated:
        notes["truncated"] = True
    return Value(reader.items, notes)


def build_stream_reader(expected: Expected) -> StreamReader:
    """Return a reader for the stream of ``expected``."""
    remover, items = expected.write_only, _find_items(expected.responses)
    if remover is None or items is None:
        return StreamReader(expected.caps, text_cleaning.clean_data)

    def clean(item: Json) -> Json:
        remover.remove(item, items)
        return text_cleaning.clean_data(item)

    return StreamReader(expected.caps, clean)


def _build_notes(response: Response, media_type: str, expected: Expected) -> dict[str, Json]:
    """Return the notes of a response: its origin, undeclared parts, and its rate limit."""
    # XL-104, XL-105
    notes: dict[str, Json] = {"origin": expected.origin, "untrusted": True} if expected.origin else {}
    if expected.responses is not None and (odd := _find_undeclared(expected.responses, response, media_type)):
        notes["undeclared"] = odd
    rate = rate_headers.read(response.headers)
    if rate is not None:
        notes["rate_limit"] = {"remaining": rate.remaining, "reset_ms": rate.reset_ms}
    return notes


def _find_schema(responses: Mapping[str, Mapping[str, Json]] | None, status: str, media_type: str) -> Json:
    """Return the declared schema of a response, or None if there is none."""
    # The specification's order: the exact status wins over the range, and both over the default.
    for code in (status, f"{status[0]}XX", "default"):
        types = (responses or {}).get(code)
        if types is not None:
            kinds = (media_type or "application/json", f"{media_type.partition('/')[0]}/*", "*/*")
            return next((types[kind] for kind in kinds if kind in types), next(iter(types.values()), None))
    return None


def _find_items(responses: Mapping[str, Mapping[str, Json]] | None) -> Json:
    """Return the schema of the items of a declared stream, or None if there is none."""
    for code, types in (responses or {}).items():
        for schema in types.values() if code.startswith("2") or code == "default" else ():
            if isinstance(schema, dict) and schema.get("type") == "array" and "items" in schema:
                return schema["items"]
    return None


def _find_undeclared(responses: Mapping[str, Mapping[str, Json]], response: Response, media_type: str) -> str:
    """Return ``status`` or ``content type`` if the document does not declare that of the response, else ``""``."""
    # CV-24
    status = str(response.status)
    if media_type in responses.get(status, ()):
        return ""
    for code in (status, f"{status[0]}XX", f"{status[0]}xx", "default"):
        if code in responses:
            types = responses[code]
            kinds = (media_type, f"{media_type.partition('/')[0]}/*", "*/*")
            declared = {get_essence(one) for one in types}
            return "" if not types or not response.body or declared.intersection(kinds) else "content type"
    return "status"


def _read_json(body: bytes, media_type: str, expected: Expected, notes: dict[str, Json]) -> Result:
    # Too large to parse: its start is shown as text, and a handle leads to the whole.
    if len(body) > expected.caps.bytes:
        resource = Resource(data=body, media_type=media_type or "application/json")
        return _read_text(body, "utf-8", resource, expected, notes)
    data = jsontext.read(body.removeprefix(_UTF_8_MARK))
    if isinstance(data, Problem):
        # O-33: the call has run, so what it answered is not lost: it is text, and the notes say why.
        if media_type:
            notes["not_json"] = data.message
        return _read_untyped(body, expected, notes)
    # A search in the bytes is far cheaper than walking the data, and hidden characters are rare.
    if text_cleaning.may_hide(body):
        data = _clean(data, notes)
    return Value(data, notes)


def _read_untyped(body: bytes, expected: Expected, notes: dict[str, Json]) -> Result:
    try:
        body.decode()
    except UnicodeDecodeError:
        return _read_binary(body, "application/octet-stream", expected, notes)
    return _read_text(body, "utf-8", Resource(data=body, media_type="text/plain"), expected, notes)


def _read_text(body: bytes, encoding: str, whole: Resource, expected: Expected, notes: dict[str, Json]) -> Value:
    if len(body) > expected.caps.bytes:
        _note_truncation(whole, expected, notes)
    body = body[: expected.caps.bytes]
    if encoding != "utf-8" and not _fits(body, encoding) and _fits(body, "utf-8"):
        encoding = "utf-8"
    return Value(_clean(body.decode(encoding, "replace"), notes), notes)


def _clean(data: Json, notes: dict[str, Json]) -> Json:
    """Return ``data`` without hidden characters; if there were any, add ``cleaned`` to the notes."""
    # XL-104, D-01
    if next(text_cleaning.find_hidden(data), None) is None:
        return data
    notes["cleaned"] = True
    return text_cleaning.clean_data(data)


def _note_truncation(whole: Resource, expected: Expected, notes: dict[str, Json]) -> None:
    notes["truncated"] = True
    notes["total_bytes"] = len(whole.data)
    if expected.resources is not None and (handle := expected.resources.store(whole)):
        notes["resource"] = handle


def _read_items(body: bytes, expected: Expected, notes: dict[str, Json]) -> Result:
    """Return the items of a stream that was read completely before."""
    reader = build_stream_reader(expected)
    try:
        for _ in reader.feed(body):
            pass
        reader.end()
    except streaming.StreamLimitReached:
        pass
    except ValueError as error:
        return _build_problem(f"Cannot read the server's stream: {error}.")
    if reader.is_truncated:
        _note_truncation(Resource(data=body), expected, notes)
    return Value(reader.items, notes)


def _read_binary(body: bytes, media_type: str, expected: Expected, notes: dict[str, Json]) -> Value:
    reference: dict[str, Json] = {"media_type": media_type[:100], "bytes_len": len(body)}
    if expected.resources is not None:
        handle = expected.resources.store(Resource(data=body, media_type=media_type[:100]))
        if handle:
            reference["resource"] = handle
    return Value(reference, notes)


def _build_problem(message: str) -> Problem:
    return Problem(kind=Kind.BAD_ANSWER, message=message)
