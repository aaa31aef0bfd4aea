"""Read files in arguments: base64 text, or a handle of a resource that the host keeps.

Rules:
- A text is never used as a path; no file is opened here.
"""
# CV-13, CV-14, D-35

from __future__ import annotations

import base64
import binascii
import mimetypes
import re
import unicodedata
from urllib.parse import unquote

from toolwire.core.model import Json
from toolwire.core.resources import HANDLE_PREFIX, Resource, Resources

UNTYPED = "application/octet-stream"

_DATA_URL = re.compile(r"data:(?P<type>[A-Za-z0-9!#$&^_.+-]+/[A-Za-z0-9!#$&^_.+-]+)?(?:;[^,;]{0,1000})*;base64,")
_NAME = re.compile(r";name=([^,;]*)")
_UNSAFE = frozenset("\"'\\/:*?<>|;%`$&")
_TYPES = mimetypes.MimeTypes()  # Python's own table: that of the machine is not read
_UNSEEN = frozenset(("Cc", "Cf", "Co", "Cs", "Cn", "Zl", "Zp"))
_ENDINGS = {"image/jpeg": ".jpg", "text/plain": ".txt", "image/svg+xml": ".svg", "audio/mpeg": ".mp3"}
_MAX_NAME_LENGTH = 100


def read_file(value: Json, resources: Resources | None) -> Resource:
    """Return the bytes of an argument.

    Raises:
        ValueError: it is neither base64 text nor a known handle; the message is the end of a sentence.
    """
    if not isinstance(value, str):
        raise ValueError("must be base64 text or a file handle")
    # The prefix is no base64, so a text is one or the other, never both.
    if value.startswith(HANDLE_PREFIX):
        resource = resources.find(value) if resources is not None else None
        if resource is None:
            raise ValueError("is not the handle of a stored file")
        return resource
    found = _DATA_URL.match(value)
    try:
        data = base64.b64decode(value[found.end() :] if found else value, validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("must be base64 text or a file handle: paths and URLs are not opened") from None
    name = _NAME.search(found[0]) if found else None
    media_type = (found["type"] if found else None) or UNTYPED
    return Resource(data=data, media_type=media_type, name=unquote(name[1]) if name else "")


def is_data_url(text: Json) -> bool:
    """Return whether ``text`` is a ``data:`` URL with base64."""
    return isinstance(text, str) and _DATA_URL.match(text) is not None


def choose_file_name(resource: Resource, otherwise: str) -> str:
    """Return the file name to send, in any script, without a folder.

    A file without a name gets the name ``otherwise`` and the ending of its media type, such as ``file.png``.
    """
    # CV-13, O-38
    # Only the last part: a name with folders could be written outside of the server's upload folder.
    if name := _clean_name(re.split(r"[/\\]", resource.name)[-1]):
        return name
    kind = resource.media_type.partition(";")[0].strip().lower()
    known = kind and kind != UNTYPED
    ending = _ENDINGS.get(kind) or (_TYPES.guess_extension(kind, strict=False) if known else None) or ""
    return (_clean_name(otherwise) or "file") + ending


def _clean_name(text: str) -> str:
    """Return ``text`` without what ends a header, leads to a folder or cannot be seen."""
    letters = (
        "_" if one in _UNSAFE or unicodedata.category(one) in _UNSEEN else one
        for one in unicodedata.normalize("NFC", text)
    )
    return re.sub("__+", "_", "".join(letters)).strip("._ ")[-_MAX_NAME_LENGTH:]
