"""Show images, sounds and files on a page: an image as it is, a player for a sound, a link to download anything else.

Rules:
- All bytes are in ``data:`` URLs of the page itself: nothing is loaded, and nothing is kept at an address.
- Only images of pixels are shown. Anything else, such as an SVG or an HTML page, is a download of unknown bytes, which
  no browser opens as a page.
"""
# MC-07, D-25

from __future__ import annotations

from base64 import b64encode
from mimetypes import guess_extension
from typing import Final

from toolwire.core.content import (
    RASTER_TYPES,
    UNTYPED,
    Audio,
    Content,
    File,
    Image,
    clean_file_name,
    get_parts,
    is_content,
    read_content,
)
from toolwire.core.model import Json

from .html import NO_HTML, Html, escape_text, join_html
from .html_value import build_value
from .visible_text import make_visible

MAX_PAGE_BYTES: Final = 8 * 1024 * 1024
"""How many bytes of content one page holds; what is beyond is named with its size."""

_MAX_DATA_LENGTH: Final = 80
_WORDS: Final = {"image": "Image", "audio": "Sound", "file": "File"}


def build_content(value: Json) -> Html:
    """Return a value with content as HTML: each part of a list as what it is."""
    left, parts = MAX_PAGE_BYTES, list[Html]()
    for part in get_parts(value):
        found = read_content(part)
        if not isinstance(found, (Image, Audio, File)):
            parts.append(Html(f"<div>{build_value(part)}</div>"))
            continue
        left -= len(found.data)
        parts.append(_build_figure(found, is_shown=left >= 0))
    return join_html(parts)


def shorten_content(value: Json) -> Json:
    """Return ``value`` with the beginning of the base64 of each content, for a text that people read."""
    parts = [_shorten(part) for part in get_parts(value)]
    return parts if isinstance(value, list) else parts[0]


def _build_figure(found: Content, *, is_shown: bool) -> Html:
    size = f"{found.media_type}, {len(found.data):,} bytes"
    label = ": ".join(part for part in (_WORDS[found.type], make_visible(found.name)) if part)
    caption = f"{label} ({size})"
    if not is_shown:
        return Html(
            f'<figure class="content"><figcaption>{escape_text(caption)}, too large for this page</figcaption></figure>'
        )
    data = escape_text(b64encode(found.data).decode())
    shown = NO_HTML
    if found.type == "image" and found.media_type.lower() in RASTER_TYPES:
        shown = Html(
            f'<img src="data:{escape_text(found.media_type.lower())};base64,{data}" alt="{escape_text(caption)}">'
        )
    elif found.type == "audio":
        source = Html(f"data:{escape_text(found.media_type)};base64,{data}")
        shown = Html(f'<audio controls preload="metadata" src="{source}" aria-label="{escape_text(caption)}"></audio>')
    name = clean_file_name(found.name) or f"{found.type}{guess_extension(found.media_type) or ''}"
    link = Html(f'<a download="{escape_text(name)}" href="data:{escape_text(UNTYPED)};base64,{data}">Download</a>')
    return Html(f'<figure class="content">{shown}<figcaption>{escape_text(caption)} {link}</figcaption></figure>')


def _shorten(part: Json) -> Json:
    data: str = part["data"] if is_content(part) else ""
    if len(data) <= _MAX_DATA_LENGTH:
        return part
    return {**part, "data": f"{data[:_MAX_DATA_LENGTH]}... ({len(data):,} characters)"}
