"""Define what a tool returns besides data: an image, audio or any other file, and the JSON form of each.

Rules:
- The JSON form is an object with exactly the members ``type``, ``media_type``, ``name`` and ``data`` (base64 with the
  alphabet for URLs). What lacks one of them, or has a further one, is plain data.
- A media type is checked wherever it comes from, so that it can neither end a header nor begin another.
"""
# MC-07

from __future__ import annotations

import re
from base64 import b64decode, b64encode, urlsafe_b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from mimetypes import guess_type
from pathlib import Path
from typing import Any, ClassVar, Final, Literal, Self, TypeAlias
from urllib.parse import quote, unquote, unquote_to_bytes

from .model import Json, Schema
from .resources import Resource

UNTYPED: Final = "application/octet-stream"
MAX_PARTS: Final = 100
"""A longer list is plain data, so that looking for content in it takes no time."""

_MEDIA_TYPE = re.compile(r"[A-Za-z0-9][A-Za-z0-9!#$&^_.+-]{0,126}/[A-Za-z0-9][A-Za-z0-9!#$&^_.+-]{0,126}")
_DATA_URL: Final = re.compile(r"data:([^,;]{0,255})((?:;[^,;]{0,1000}){0,8}),", re.IGNORECASE)
_SIGNATURES: Final[tuple[tuple[bytes, int, bytes, str], ...]] = (
    (b"\x89PNG\r\n\x1a\n", 0, b"", "image/png"),
    (b"\xff\xd8\xff", 0, b"", "image/jpeg"),
    (b"GIF8", 0, b"", "image/gif"),
    (b"RIFF", 8, b"WEBP", "image/webp"),
    (b"RIFF", 8, b"WAVE", "audio/wav"),
    (b"OggS", 0, b"", "audio/ogg"),
    (b"fLaC", 0, b"", "audio/flac"),
    (b"ID3", 0, b"", "audio/mpeg"),
    (b"\xff\xfb", 0, b"", "audio/mpeg"),
    (b"%PDF-", 0, b"", "application/pdf"),
)
"""How bytes begin, what they have at a place after that, and their media type."""

FILE_KEYWORD: Final = "x-mcp-file"
"""The keyword of a schema for a file as a ``data:`` URL. Its member ``accept`` lists media types."""

_STANDARD: Final = str.maketrans("-_", "+/")
_FOR_URLS: Final = str.maketrans("+/", "-_")
_MEMBERS: Final = frozenset({"type", "media_type", "name", "data"})
_REFERENCE: Final = frozenset({"media_type", "bytes_len", "resource"})
_MAX_NAME_LENGTH: Final = 255
MAX_EMBEDDED_BYTES: Final = 8 * 1024 * 1024
"""The largest bytes of a handle that become content; larger ones stay a reference."""


@dataclass(frozen=True, slots=True)
class _Content:
    """Bytes with their media type and file name (empty for none)."""

    data: bytes = field(repr=False)
    media_type: str = UNTYPED
    name: str = ""

    _range: ClassVar[str] = ""

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Callable[[Any], Any]) -> dict[str, Any]:
        """Let pydantic read an argument from a text; core schemas are plain data, so nothing is imported for it."""
        function = {"type": "no-info", "function": cls._read_argument}
        return {"type": "function-before", "function": function, "schema": handler(source)}

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: Any, handler: Any) -> Any:
        """Describe an argument as a text, and a result as an object."""
        if handler.mode == "serialization":
            return handler(core_schema)
        accept = {"accept": [cls._range]} if cls._range else {}
        media_type = {} if cls._range else {"contentMediaType": UNTYPED}
        return {"type": "string", "contentEncoding": "base64", **media_type, FILE_KEYWORD: accept}

    @classmethod
    def _read_argument(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return value  # a default; a caller can send nothing but text
        found = read_file_text(value)
        return cls(found.data, found.media_type, found.name)

    @classmethod
    def from_path(cls, path: str | Path, media_type: str = "") -> Self:
        """Return the content of the file at ``path``. Without ``media_type``, the file name decides the type.

        Raises:
            OSError: the file cannot be read.
            ValueError: the media type is not valid, or does not fit this class.
        """
        path = Path(path)
        return cls(path.read_bytes(), media_type or guess_type(path.name)[0] or UNTYPED, path.name)


@dataclass(frozen=True, slots=True)
class File(_Content):
    """A file that a tool takes or returns: its bytes, media type and name (empty for none)."""

    type: Literal["file"] = field(default="file", repr=False)

    def __post_init__(self) -> None:
        _check_media_type(self.media_type, "")


@dataclass(frozen=True, slots=True)
class Image(_Content):
    """An image that a tool takes or returns: its bytes, media type (``image/...``) and name (empty for none)."""

    type: Literal["image"] = field(default="image", repr=False)
    _range: ClassVar[str] = "image/*"

    def __post_init__(self) -> None:
        _check_media_type(self.media_type, "image/")


@dataclass(frozen=True, slots=True)
class Audio(_Content):
    """A sound that a tool takes or returns: its bytes, media type (``audio/...``) and name (empty for none)."""

    type: Literal["audio"] = field(default="audio", repr=False)
    _range: ClassVar[str] = "audio/*"

    def __post_init__(self) -> None:
        _check_media_type(self.media_type, "audio/")


Content: TypeAlias = File | Image | Audio

_CLASSES: Final[dict[str, type[File] | type[Image] | type[Audio]]] = {"file": File, "image": Image, "audio": Audio}

MEDIA_RANGES: Final[Mapping[str, str]] = {"file": "*/*", "image": "image/*", "audio": "audio/*"}
"""The media types of each kind of content."""

RASTER_TYPES: Final = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""Images of pixels, which every browser and every model that sees reads, and in which no script can be."""


def read_content(value: Json) -> Any:
    """Return ``value`` with each JSON form of content replaced by an ``Image``, ``Audio`` or ``File``.

    ``value`` itself can be content, or a list that contains it. Other data is returned unchanged.
    """
    if type(value) is list:
        return [_read_one(item) for item in value] if has_content(value) else value
    return _read_one(value)


def has_content(value: Json) -> bool:
    """Return whether ``value`` is the JSON form of content, or a list in which there is one."""
    if type(value) is dict:
        return is_content(value)
    return type(value) is list and len(value) <= MAX_PARTS and any(map(is_content, value))


def get_parts(value: Json) -> list[Json]:
    """Return the items of a list that may have content, or ``value`` as the only one."""
    return value if type(value) is list else [value]


def is_content(value: Json) -> bool:
    """Return whether ``value`` has the shape of the JSON form of content."""
    if type(value) is not dict or len(value) != len(_MEMBERS) or value.get("type") not in ("file", "image", "audio"):
        return False
    return value.keys() == _MEMBERS and all(type(member) is str for member in value.values())


def build_form(kind: str, data: str, media_type: str, name: str = "") -> dict[str, Json] | None:
    """Return the JSON form of content that another party sent as base64, or None if it is not valid."""
    form = {"data": data.translate(_FOR_URLS), "media_type": media_type, "name": name, "type": kind}
    return None if isinstance(_read_one(form), dict) else form


def build_form_of(content: Content) -> dict[str, Json]:
    """Return the JSON form of ``content``."""
    data = urlsafe_b64encode(content.data).decode()
    return {"data": data, "media_type": content.media_type, "name": content.name, "type": content.type}


def build_content(data: bytes, media_type: str, name: str = "") -> Content:
    """Return an image, a sound or a file, as its media type says; one that is none counts as unknown bytes."""
    if not _MEDIA_TYPE.fullmatch(media_type):
        return File(data, UNTYPED, name)
    family = media_type.partition("/")[0].lower()
    return _CLASSES.get(family if family in ("image", "audio") else "file", File)(data, media_type, name)


def embed_resource(value: Json, find_resource: Callable[[str], Resource | None]) -> Json:
    """Return the JSON form of content in the place of a reference to bytes that ``find_resource`` finds by its handle.

    Other values, handles that are not known, and more than 8 MiB stay as they are.
    """
    if not is_reference(value) or not isinstance(handle := value.get("resource"), str):
        return value
    resource = find_resource(handle)
    if resource is None or len(resource.data) > MAX_EMBEDDED_BYTES:
        return value
    return build_form_of(build_content(resource.data, resource.media_type, resource.name))


def is_reference(value: Json) -> bool:
    """Return whether ``value`` stands for bytes that a connection keeps: their type, their size, and a handle."""
    return type(value) is dict and "bytes_len" in value and value.keys() <= _REFERENCE


def read_file_text(text: str) -> Resource:
    """Return the bytes of an argument: base64 of either alphabet, or a ``data:`` URL, which may say type and name.

    The type of base64 is what the first bytes say. Nothing is fetched, and no path is opened.

    Raises:
        ValueError: the text is neither; the message is the end of a sentence.
    """
    found = _DATA_URL.match(text)
    if found is None:
        data = _decode(text)
        return Resource(data=data, media_type=_sniff_media_type(data))
    parameters = [part.strip() for part in found[2].split(";")]
    body = text[found.end() :]
    is_base64 = any(part.lower() == "base64" for part in parameters)
    data = _decode(unquote(body)) if is_base64 else unquote_to_bytes(body)
    name = next((part[5:] for part in parameters if part.lower().startswith("name=")), "")
    media_type = found[1].strip() or ("text/plain" if not is_base64 else _sniff_media_type(data))
    return Resource(data=data, media_type=media_type, name=clean_file_name(unquote(name)))


def build_data_url(content: Content) -> str:
    """Return ``content`` as a ``data:`` URL with its media type and name."""
    name = f";name={quote(content.name, safe='', errors='replace')}" if content.name else ""
    return f"data:{content.media_type}{name};base64,{b64encode(content.data).decode()}"


def takes_file(schema: Schema) -> bool:
    """Return whether an argument of ``schema``, the schema of a tool's arguments, is a file, an option or a list of."""
    properties = schema.get("properties")
    for one in properties.values() if isinstance(properties, Mapping) else ():
        waiting: list[Json] = [one]
        while waiting:
            branch = waiting.pop()
            if not isinstance(branch, Mapping):
                continue
            if FILE_KEYWORD in branch:
                return True
            choices = branch.get("anyOf")
            waiting += [branch.get("items"), *(choices if isinstance(choices, list) else ())]
    return False


def _decode(text: str) -> bytes:
    plain = text.translate(_STANDARD).rstrip("=")
    try:
        return b64decode(plain + "=" * (-len(plain) % 4), validate=True)
    except ValueError:
        raise ValueError("must be base64, or a data: URL. Paths and other URLs are not opened") from None


def _sniff_media_type(data: bytes) -> str:
    for begin, place, then, media_type in _SIGNATURES:
        if data.startswith(begin) and data.startswith(then, place):
            return media_type
    return UNTYPED


def clean_file_name(name: str) -> str:
    """Return the file name that another party gave, without folders; ``""`` if it is not one that can be shown."""
    last = name.replace("\\", "/").rpartition("/")[2]
    return last if last.isprintable() and len(last) <= _MAX_NAME_LENGTH and last not in (".", "..") else ""


def get_base64(form: Json) -> str:
    """Return the bytes of a JSON form as base64 with the standard alphabet."""
    data: str = form["data"].translate(_STANDARD)
    return data


def describes_content(schema: Schema | None) -> bool:
    """Return whether ``schema`` is that of content, of a choice that may be content, or of a list of either."""
    if not schema:
        return False
    definitions = schema.get("$defs")
    known: dict[str, Json] = definitions if isinstance(definitions, dict) else {}
    waiting: list[Json] = [schema]
    while waiting:
        one = waiting.pop()
        if not isinstance(one, dict):
            continue
        reference = one.get("$ref")
        found = known.get(reference.rpartition("/")[2]) if isinstance(reference, str) else one
        properties = found.get("properties") if isinstance(found, dict) else None
        if isinstance(properties, dict) and properties.keys() == _MEMBERS:
            return True
        choices = one.get("anyOf")
        waiting += [one.get("items"), *(choices if isinstance(choices, list) else ())]
    return False


def find_content_kind(schema: Schema | None) -> str:
    """Return ``image``, ``audio`` or ``file`` if ``schema`` is that of exactly one content, else ``""``."""
    if not schema:
        return ""
    found: Json = schema
    if isinstance(reference := schema.get("$ref"), str):
        definitions = schema.get("$defs")
        found = definitions.get(reference.rpartition("/")[2]) if isinstance(definitions, Mapping) else None
    properties = found.get("properties") if isinstance(found, Mapping) else None
    if not isinstance(properties, Mapping) or frozenset(properties) != _MEMBERS:
        return ""
    kind = properties["type"]
    if not isinstance(kind, Mapping):
        return ""
    values = kind.get("enum", [kind.get("const")])  # OpenTool has no const
    is_one = isinstance(values, list) and len(values) == 1 and isinstance(values[0], str) and values[0] in _CLASSES
    return str(values[0]) if is_one else ""


def build_content_schema(kind: str) -> dict[str, Json]:
    """Return the schema of the JSON form of one content; ``kind`` is ``image``, ``audio`` or ``file``."""
    return {
        "type": "object",
        "properties": {
            "data": {"type": "string", "contentEncoding": "base64url"},
            "media_type": {"type": "string"},
            "name": {"type": "string"},
            "type": {"type": "string", "const": kind},
        },
        "required": ["data"],
    }


def describe_content(value: Json) -> Json:
    """Return ``value`` with what each content is, in one sentence, in the place of its bytes."""
    if not has_content(value):
        return value
    return [_describe_one(item) for item in value] if type(value) is list else _describe_one(value)


def _read_one(value: Json) -> Any:
    if not is_content(value):
        return value
    try:
        data = b64decode(get_base64(value), validate=True)
        return _CLASSES[value["type"]](data, value["media_type"], value["name"])
    except ValueError:
        return value


def _describe_one(value: Json) -> Json:
    if not is_content(value):
        return value
    size = len(value["data"].rstrip("=")) * 3 // 4
    what = {"image": "an image", "audio": "a sound", "file": "a file"}[value["type"]]
    kind = value["media_type"] if _MEDIA_TYPE.fullmatch(value["media_type"]) else "unknown type"
    return f"The tool returned {what} ({kind}, {size:,} bytes), which cannot be shown here."


def _check_media_type(media_type: str, family: str) -> None:
    if not _MEDIA_TYPE.fullmatch(media_type):
        raise ValueError(
            f"{media_type[:100]!r} is not a valid media type: write one such as {family or 'application/'}..."
        )
    if not media_type.lower().startswith(family):
        raise ValueError(f"{media_type[:100]!r} is not a media type of {family}...: use File for other files")
