"""Take the images out of a result, for models that read them.

Rules:
- Only formats that every provider reads, of bounded size and number. Every other content stays a sentence.
- An image of a site is data of that site, as its text is: the text beside it says so.
"""
# MC-07

from __future__ import annotations

from base64 import b64encode
from typing import Final

from toolwire.core.content import RASTER_TYPES, Image, describe_content, has_content, read_content
from toolwire.core.model import Json

MAX_IMAGES: Final = 4
MAX_IMAGE_BYTES: Final = 3_750_000
"""The bytes of one image; as base64 it has 5,000,000, which is what Anthropic takes."""


def split_images(value: Json) -> tuple[Json, tuple[Image, ...]]:
    """Return ``value`` with a sentence in the place of each content, and the images that are shown beside it."""
    if not has_content(value):
        return value, ()
    shown: list[Image] = []
    parts = value if isinstance(value, list) else [value]
    entries: list[Json] = []
    for part in parts:
        image = read_content(part)
        if isinstance(image, Image) and _is_readable(image) and len(shown) < MAX_IMAGES:
            shown.append(image)
            entries.append(f"The tool returned an image ({image.media_type}): image {len(shown)} beside this text.")
        else:
            entries.append(describe_content(part))
    return entries if isinstance(value, list) else entries[0], tuple(shown)


def encode_image(image: Image) -> str:
    """Return the bytes of ``image`` as base64."""
    return b64encode(image.data).decode()


def _is_readable(image: Image) -> bool:
    return image.media_type.lower() in RASTER_TYPES and 0 < len(image.data) <= MAX_IMAGE_BYTES
