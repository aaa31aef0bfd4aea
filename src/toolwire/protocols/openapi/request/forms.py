"""Encode forms: the properties of an object as form-urlencoded text, or as the parts of a multipart body.

Rules:
- An array repeats its name and an object is JSON, unless the document declares another style.
- No value can end its part or start a header: names are escaped, and no part contains the boundary.
"""
# CV-12, CV-13, D-11

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

from toolwire.core.model import Json
from toolwire.core.resources import Resources
from toolwire.framing import jsontext

from . import files, parameter_styles
from .media_types import ANY_TYPE, choose_type, is_json
from .plan import PLAIN, Encoding, Parameter, Place

_MEDIA_TYPE = re.compile(r"[!#$&^_.+A-Za-z0-9-]+/[!#$&^_.+A-Za-z0-9-]+(?:;[ !-~]*)?")
_FIELD = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+: ?[\t -~]*")
_PARTS_OWN = frozenset({"content-type", "content-disposition", "content-length", "content-transfer-encoding"})
_MAX_PARTS = 10_000


class Part(NamedTuple):
    """One part of a multipart body. ``file`` is the file name, or None for a field."""

    name: str
    data: bytes
    media_type: str = ""
    file: str | None = None
    headers: tuple[tuple[str, str], ...] = ()


def encode_urlencoded(data: Mapping[str, Json], encodings: Mapping[str, Encoding]) -> bytes:
    """Return ``data`` as application/x-www-form-urlencoded; null values are left out."""
    # CV-12
    fields = (pair for name, value in data.items() for pair in _list_pairs(name, value, encodings.get(name, PLAIN)))
    return "&".join(f"{name}={text}" for name, text in fields).encode()


def encode_multipart(
    data: Mapping[str, Json], encodings: Mapping[str, Encoding], resources: Resources | None
) -> tuple[bytes, str]:
    """Return ``data`` as a multipart body, and its boundary.

    Raises:
        Unsendable: a property must be a file and is none, or has more than 10,000 items.
    """
    # CV-13
    parts = [
        part for name, value in data.items() for part in _list_parts(name, value, encodings.get(name, PLAIN), resources)
    ]
    return _join_parts(parts)


def encode_unnamed_parts(items: Sequence[Json]) -> tuple[bytes, str]:
    """Return ``items`` as a multipart body whose parts have no names, and its boundary: text as text, else JSON."""
    # O-28
    texts = [
        Part("", parameter_styles.write_scalar(one).encode(), "text/plain")
        if isinstance(one, str)
        else Part("", jsontext.write(one), "application/json")
        for one in items
    ]
    return _join_parts(texts)


def _join_parts(parts: Sequence[Part]) -> tuple[bytes, str]:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part.data)
        # Equal forms have equal bytes, which tests, caches and signatures can rely on.
        digest.update(repr((part.name, part.media_type, part.file)).encode())
    boundary = f"toolwire-{digest.hexdigest()[:40]}"  # a digest of the parts, so that no part can contain it
    written = [b"--%b\r\n%b\r\n%b\r\n" % (boundary.encode(), _write_part_head(part), part.data) for part in parts]
    return b"".join(written) + b"--%b--\r\n" % boundary.encode(), boundary


def has_items(name: str, value: Json, encodings: Mapping[str, Encoding]) -> bool:
    """Return whether the form gets a field for the property ``name``: null and empty arrays are left out."""
    encoding = encodings.get(name, PLAIN)
    if encoding.style and not encoding.binary:
        return bool(_list_pairs(name, value, encoding))
    return any(item is not None for item in (value if isinstance(value, list) else [value]))


class Unsendable(ValueError):  # it is a reason, which becomes a Problem
    """A property of a body cannot be sent: ``name`` is the property, ``reason`` the end of a sentence."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"{name} {reason}")
        self.name: str = name
        self.reason: str = reason


def _list_pairs(name: str, value: Json, encoding: Encoding) -> list[tuple[str, str]]:
    if encoding.style:
        declared = Parameter(
            name,
            Place.QUERY,
            encoding.style,
            encoding.explode,
            encoding.reserved,
            separators=encoding.separators,
        )
        return parameter_styles.list_pairs(declared, value)
    if is_json(encoding.media_type) and value is not None:
        items = value if isinstance(value, list) else [value]
        return [
            (parameter_styles.encode_percent(name), parameter_styles.encode_percent(jsontext.write(item).decode()))
            for item in items
        ]
    return parameter_styles.list_plain_pairs(name, value)


def _list_parts(name: str, value: Json, encoding: Encoding, resources: Resources | None) -> Iterator[Part]:
    if encoding.style and not encoding.binary and not encoding.media_type:
        # Parts are not percent-encoded: the pairs are decoded again here, so escapes in a value must not be kept.
        for key, text in _list_pairs(name, value, replace(encoding, reserved=False)):
            yield Part(unquote_to_bytes(key).decode(), unquote_to_bytes(text), headers=encoding.headers)
        return
    for number, item in enumerate(value if isinstance(value, list) else [value]):
        if number >= _MAX_PARTS:
            raise Unsendable(name, f"has more than {_MAX_PARTS:,} items")
        if item is not None:
            yield _build_part(name, item, encoding, resources)


def _build_part(name: str, item: Json, encoding: Encoding, resources: Resources | None) -> Part:
    declared = encoding.media_type if "*" not in encoding.media_type else ""
    # A handle is known to us alone, so a text that is one can only mean its file. Where the document leaves the type of
    # a part open, a data: URL is one too.
    is_open = encoding.media_type == ANY_TYPE
    if encoding.binary or _is_handle(item, resources) or (is_open and files.is_data_url(item)):
        try:
            file = files.read_file(item, resources)
        except ValueError as error:
            raise Unsendable(name, str(error)) from None
        media_type = choose_type(encoding.media_type, file.media_type)
        return Part(name, file.data, media_type, files.choose_file_name(file, name), encoding.headers)
    if isinstance(item, dict | list) or is_json(declared):
        media_type = declared if is_json(declared) else "application/json"
        return Part(name, jsontext.write(item), media_type, headers=encoding.headers)
    return Part(name, parameter_styles.write_scalar(item).encode(), declared, headers=encoding.headers)


def _is_handle(item: Json, resources: Resources | None) -> bool:
    """Return whether ``item`` is the handle of a kept resource, and so a file even if the document has no type."""
    return isinstance(item, str) and resources is not None and resources.find(item) is not None


def _write_part_head(part: Part) -> bytes:
    lines = [f'content-disposition: form-data; name="{_quote(part.name)}"'] if part.name else []
    if part.file is not None and lines:
        lines[0] += f'; filename="{part.file}"'
    if part.media_type and _MEDIA_TYPE.fullmatch(part.media_type):
        lines.append(f"content-type: {part.media_type}")
    lines += [
        f"{name}: {value}"
        for name, value in part.headers
        if name.lower() not in _PARTS_OWN and _FIELD.fullmatch(f"{name}: {value}")
    ]
    return "".join(f"{line}\r\n" for line in lines).encode("utf-8", "replace")


def _quote(name: str) -> str:
    """Return a name escaped for a quoted string, as browsers do."""
    return name.replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A").replace("\0", "")
