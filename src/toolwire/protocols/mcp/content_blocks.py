"""Write content as MCP content blocks, and read such blocks."""
# MC-07

from __future__ import annotations

from typing import Any, Final
from urllib.parse import quote, unquote, urlsplit

from toolwire.core import content
from toolwire.core.model import Json
from toolwire.framing import jsontext

_OURS: Final = "attachment:"
"""The prefix of our own files' URIs. They cannot be read by URI, because the file is in the block."""

_AUDIO_SINCE: Final = "2025-03-26"
_LINKS_SINCE: Final = "2025-06-18"


def write(value: Json) -> list[Json]:
    """Return the blocks of ``value``, for which ``has_blocks`` is true."""
    return [write_block(item) for item in (value if isinstance(value, list) else [value])]


def write_for(value: Json, version: str) -> list[Json]:
    """Return the blocks of ``value`` in the form of the revision ``version``. See ``translate``."""
    return [translate(block, version) for block in write(value)]


def translate(block: Json, version: str) -> Json:
    """Return ``block`` as the revision ``version`` defines it. Its clients refuse results with unknown types.

    Audio is an embedded file before 2025-03-26. A link is a text before 2025-06-18. What lacks what its type needs is
    a text of its JSON.
    """
    # MC-14
    match block:
        case {"type": "audio", "data": str(data), "mimeType": str(media_type)} if version < _AUDIO_SINCE:
            return {"type": "resource", "resource": {"uri": f"{_OURS}audio", "mimeType": media_type, "blob": data}}
        case {"type": "resource_link", "uri": str(uri), "name": str(name)} if version < _LINKS_SINCE:
            return {"type": "text", "text": f"{name}: {uri}"}
        case {"type": "text", "text": str()} | {"type": "image" | "audio", "data": str(), "mimeType": str()}:
            return block
        case {"type": "resource", "resource": {"uri": str(), "blob": str()}}:
            return block
        case _:
            return write_block(block)


def has_blocks(value: Json) -> bool:
    """Return whether ``value``, or an item of a list, is content, a link to a resource or an embedded text."""
    if content.has_content(value) or _is_block(value):
        return True
    return type(value) is list and len(value) <= content.MAX_PARTS and any(map(_is_block, value))


def _is_block(value: Json) -> bool:
    """Return whether ``value`` is a link or an embedded text in MCP's form, such as another server's."""
    if type(value) is not dict:
        return False
    match value:
        case {"type": "resource_link", "uri": str(), "name": str()}:
            return True
        case {"type": "resource", "resource": {"uri": str(), "text": str()}}:
            return True
        case _:
            return False


def read(blocks: list[dict[str, Any]]) -> Json:
    """Return the value of blocks that contain more than text: a single item, or a list of all items.

    A text becomes a string. An image, audio or embedded file becomes the JSON form of content. Links, other servers'
    embedded texts, and invalid blocks stay unchanged.
    """
    items = [read_block(block) for block in blocks]
    return items[0] if len(items) == 1 else items


def write_block(item: Json) -> Json:
    """Return one item as a block: a text, content, an unchanged link or embedded text, or other data as JSON."""
    if _is_block(item):
        return item
    if not content.is_content(item):
        return {"type": "text", "text": item if isinstance(item, str) else jsontext.write(item).decode()}
    data = content.get_base64(item)
    if item["type"] != "file":
        return {"type": item["type"], "data": data, "mimeType": item["media_type"]}
    uri = _OURS + quote(item["name"] or "file", safe="")
    return {"type": "resource", "resource": {"uri": uri, "mimeType": item["media_type"], "blob": data}}


def read_block(block: dict[str, Any]) -> Json:
    """Return the content of one block: a text, the JSON form of content, or the block itself."""
    kind = block.get("type")
    if kind == "text" and isinstance(text := block.get("text") or "", str):
        return text
    form: Json = None
    if kind in ("image", "audio"):
        form = _build_form(kind, block.get("data"), block.get("mimeType"), "")
    elif kind == "resource" and isinstance(resource := block.get("resource"), dict):
        name = _read_name(resource.get("uri"))
        form = _build_form("file", resource.get("blob"), resource.get("mimeType", content.UNTYPED), name)
    return block if form is None else form


def _build_form(kind: str, data: Json, media_type: Json, name: str) -> Json:
    if not isinstance(data, str) or not isinstance(media_type, str):
        return None
    return content.build_form(kind, data, media_type, name)


def _read_name(uri: Json) -> str:
    """Return the file name at the end of ``uri``, without anything that could lead to another folder."""
    if not isinstance(uri, str):
        return ""
    try:
        return content.clean_file_name(unquote(urlsplit(uri).path))
    except ValueError:
        return ""
