"""JSON Pointers inside one document, as ``$ref`` writes them: ``#/$defs/Name``."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import unquote

from .model import Json


def find_pointer(document: Json, reference: Json) -> Json:
    """Return what ``reference``, a JSON Pointer after ``#``, points at in ``document``; None where it leads nowhere."""
    if not isinstance(reference, str) or not (reference == "#" or reference.startswith("#/")):
        return None
    node = document
    for token in reference.split("/")[1:]:
        step = unquote(token).replace("~1", "/").replace("~0", "~")
        if isinstance(node, Mapping) and step in node:
            node = node[step]
        elif isinstance(node, list) and step.isascii() and step.isdigit() and int(step[:9]) < len(node):
            node = node[int(step[:9])]
        else:
            return None
    return node
