"""Read and write our own member of a document: exact values that the format cannot hold, and the source text.

Rules:
- Edits win: an exact value is used only while the field beside it is unchanged, and the source text only while the
  whole document is unchanged.
- A reader that ignores the member still gets everything that the format itself can say.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Final, NamedTuple

from toolwire.core.model import Json
from toolwire.framing import jsontext
from toolwire.framing.jsontext import get_object

MAX_SOURCE_BYTES: Final = 1_048_576


class SourceText(NamedTuple):
    """The text that a document was made from, and what sort of document that is."""

    kind: str
    text: str


def get_extension(document: Json, room: Sequence[str]) -> Mapping[str, Json]:
    """Return our member of ``document``, or an empty one."""
    for name in room:
        document = get_object(document, name) if isinstance(document, dict) else {}
    return document if room else {}


def set_extension(document: Json, room: Sequence[str], data: Mapping[str, Json]) -> Json:
    """Return ``document`` with ``data`` as our member; without one where ``data`` is empty."""
    if not room or not isinstance(document, dict):
        return document
    first, *rest = room
    inner = set_extension(get_object(document, first), rest, data) if rest else dict(data)
    others = {name: value for name, value in document.items() if name != first}
    return {**others, first: inner} if inner else others


def build_exact_values(shown: Mapping[str, Json], wanted: Mapping[str, Json]) -> dict[str, Json]:
    """Return what must stand beside ``shown``, the fields that a document says, to mean ``wanted``."""
    return {
        name: {"is": value, "shown": compute_digest(shown[name])}
        for name, value in wanted.items()
        if jsontext.write(value) != jsontext.write(shown[name])  # as text: 1 is not 1.0, and order counts
    }


def read_exact_values(shown: Mapping[str, Json], beside: Json) -> tuple[dict[str, Json], list[str]]:
    """Return the exact values in ``beside`` that still belong to ``shown``, and the names of those that do not."""
    values: dict[str, Json] = {}
    stale: list[str] = []
    for name, stored_value in beside.items() if isinstance(beside, dict) else ():
        if (
            name in shown
            and isinstance(stored_value, dict)
            and "is" in stored_value
            and stored_value.get("shown") == compute_digest(shown[name])
        ):
            values[name] = stored_value["is"]
        else:
            stale.append(name)
    return values, stale


def embed_source(document: Json, room: Sequence[str], original: SourceText) -> Json:
    """Return ``document`` with the text that it was made from."""
    source = {"kind": original.kind, "digest": compute_digest(document), "text": original.text}
    return set_extension(document, room, {**get_extension(document, room), "source": source})


def find_source(document: Json, room: Sequence[str]) -> SourceText | None:
    """Return the text that ``document`` was made from, unless it has none or was edited since."""
    ours = dict(get_extension(document, room))
    match ours.pop("source", None):
        case {"kind": str(kind), "digest": str(said), "text": str(text)} if said == compute_digest(
            set_extension(document, room, ours)
        ):
            return SourceText(kind, text)
        case _:
            return None


def compute_digest(data: Json) -> str:
    """Return what tells ``data`` from any other JSON data; the order of members does not count."""
    return sha256(json.dumps(data, sort_keys=True, separators=(",", ":")).encode()).hexdigest()[:32]
