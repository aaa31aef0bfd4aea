"""Read an overlay that a user gives to ``connect``: a file on this machine, or its data."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from toolwire.core.model import Json, Problem
from toolwire.protocols.openapi.document import overlay
from toolwire.protocols.openapi.document.loading import load_document

MAX_BYTES: Final = 4 * 1024 * 1024


def read_overlay(source: str | Path | Mapping[str, Json]) -> Json:
    """Return the data of the overlay ``source``.

    Raises:
        ValueError: it cannot be read, or is not an overlay; the message says why.
    """
    data: Json = source
    if not isinstance(source, Mapping):
        try:
            with Path(source).open("rb") as opened:
                text = opened.read(MAX_BYTES + 1)
        except OSError as error:
            raise ValueError(f"cannot read the overlay {source}: {error.strerror}") from error
        if len(text) > MAX_BYTES:  # what is cut off could be the part that forbids a tool
            raise ValueError(f"the overlay {source} is larger than {MAX_BYTES // 1_048_576} MiB")
        loaded = load_document(text, name=str(source))
        if isinstance(loaded, Problem):
            raise ValueError(f"the overlay {source} {loaded.message.rstrip('.')}")
        data = loaded.data
    found = overlay.read(data)
    if isinstance(found, Problem):
        raise ValueError(found.message.rstrip("."))
    return data
