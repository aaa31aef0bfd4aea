"""Write a picture of a page in few bytes: its top, as a PNG with a palette."""

from __future__ import annotations

import base64
import struct
import zlib
from typing import Any

MAX_HEIGHT = 1200
_COLOURS = 96
_READ = r"""async ([url, height, most]) => {
  const image = new Image();
  image.src = url;
  await image.decode();
  const canvas = document.createElement("canvas");
  canvas.width = image.width;
  canvas.height = Math.min(image.height, height);
  const drawing = canvas.getContext("2d");
  drawing.drawImage(image, 0, 0);
  const pixels = new Uint32Array(drawing.getImageData(0, 0, canvas.width, canvas.height).data.buffer);
  const counts = new Map();
  for (const pixel of pixels) counts.set(pixel, (counts.get(pixel) ?? 0) + 1);
  const palette = [...counts].sort((a, b) => b[1] - a[1]).slice(0, most).map(([pixel]) => pixel);
  const split = (pixel) => [pixel & 255, (pixel >> 8) & 255, (pixel >> 16) & 255];
  const colours = palette.map(split);
  const index = new Map();
  for (const pixel of counts.keys()) {
    const own = split(pixel);
    let best = 0, least = Infinity;
    colours.forEach((colour, at) => {
      const away = colour.reduce((sum, part, channel) => sum + (part - own[channel]) ** 2, 0);
      if (away < least) { least = away; best = at; }
    });
    index.set(pixel, best);
  }
  let text = "";
  for (const pixel of pixels) text += String.fromCharCode(index.get(pixel));
  return [canvas.width, canvas.height, colours.flat(), btoa(text)];
}"""


def shrink_picture(page: Any, png: bytes) -> bytes:
    """Return ``png`` as a PNG of its most frequent colours, at most ``MAX_HEIGHT`` high; ``page`` is a blank page."""
    url = f"data:image/png;base64,{base64.b64encode(png).decode()}"
    width, height, colours, text = page.evaluate(_READ, [url, MAX_HEIGHT, _COLOURS])
    pixels = base64.b64decode(text)
    rows = b"".join(b"\0" + pixels[at : at + width] for at in range(0, width * height, width))
    head = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    parts = ((b"IHDR", head), (b"PLTE", bytes(colours)), (b"IDAT", zlib.compress(rows, 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)) for name, data in parts
    )
