"""Bundle a document with the documents it refers to, so that every reference is a JSON pointer from the root.

Rules:
- A reference by ``$id``, ``$anchor``, ``$self`` or the URL of another document is rewritten as a pointer.
- Nothing is fetched here. A reference to a document that is not given stays unchanged.
- ``$dynamicRef`` is resolved without the dynamic scope: as if no outer schema redefined its anchor.
"""
# CV-17

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple
from urllib.parse import urldefrag, urljoin

from toolwire.core.json_pointer import extend_reference
from toolwire.core.model import Json

from .references import Unusable, resolve

# An extension, so that the bundle stays a valid document and no member of the author is replaced.
OTHERS = "x-toolwire-documents"

_DATA = frozenset(("const", "default", "enum", "example", "examples", "x-llm"))
_MAPS = frozenset(
    (
        "$defs",
        "definitions",
        "dependentSchemas",
        "patternProperties",
        "properties",
        "schemas",
        "responses",
        "parameters",
        "headers",
        "requestBodies",
        "links",
        "callbacks",
        "pathItems",
        "encoding",
        "variables",
    )
)
"""Members whose object maps names that the author chose to parts."""
_ANCHORS = ("$anchor", "$dynamicAnchor")


class _Names(NamedTuple):
    """The pointer of each document by URL, and of each anchor by URL with fragment."""

    documents: dict[str, str]
    anchors: dict[str, str]


def is_plain(references: Iterable[str], *, named: bool) -> bool:
    """Return whether a document needs no rewriting: all references are pointers, and no part has another name."""
    return not named and all(one == "#" or one.startswith("#/") for one in references)


def find_references(data: Json) -> frozenset[str]:
    """Return each reference in ``data`` as written. A schema property named ``$ref`` is not a reference."""
    found: set[str] = set()

    def note(reference: str, _: str) -> str:
        found.add(reference)
        return reference

    # Called for its walk: it visits each reference and leaves the document unchanged.
    _rewrite(data, "", note)
    return frozenset(found)


def find_other_documents(data: Json, url: str) -> list[str]:
    """Return the URLs of other documents that ``data``, fetched from ``url``, refers to, without duplicates."""
    names = _Names({}, {})
    _index(data, _get_own_url(data, url), "#", names)
    names.documents.setdefault(url, "#")
    found: dict[str, None] = {}

    def note(reference: str, base: str) -> str:
        target = _split_url(base, reference)[0]
        if target not in names.documents:
            found[target] = None
        return reference

    _rewrite(data, _get_own_url(data, url), note)
    return list(found)


def write_bundle(data: dict[str, Json], url: str, others: Mapping[str, Json]) -> dict[str, Json]:
    """Return ``data``, fetched from ``url``, with the documents ``others`` (by URL) in it and pointers everywhere."""
    names = _Names({}, {})
    _index(data, _get_own_url(data, url), "#", names)
    names.documents.setdefault(url, "#")
    # Pointers into another document lead below one member of our own, so the whole stays one document.
    beside = _name_documents(others, url)
    for other, its_data in others.items():
        start = extend_reference("#", OTHERS, beside[other])
        names.documents[other] = start
        _index(its_data, _get_own_url(its_data, other), start, names)
    whole = {**data, OTHERS: {beside[other]: one for other, one in others.items()}} if others else data

    def change(reference: str, base: str) -> str:
        return _write_pointer(reference, base, names, whole)

    written = _rewrite(data, _get_own_url(data, url), change)
    if others:
        written[OTHERS] = {
            beside[other]: _rewrite(one, _get_own_url(one, other), change) for other, one in others.items()
        }
    return dict(written)


def _name_documents(others: Iterable[str], url: str) -> dict[str, str]:
    """Return a unique name for each of the URLs ``others``: its path relative to the folder of ``url``.

    Models read these names in definitions, so they contain no host and no folder of this machine.
    """
    folder = url.rpartition("/")[0] + "/"
    names: dict[str, str] = {}
    for other in others:
        near = other.removeprefix(folder) if other.startswith(folder) else other.rpartition("/")[2]
        name, number = near, 1
        while name in names.values():
            number += 1
            name = f"{near}_{number}"
        names[other] = name
    return names


def _get_own_url(data: Json, url: str) -> str:
    own = data.get("$self") if isinstance(data, dict) else None
    return _join_url(url, own) if isinstance(own, str) else url


def _join_url(base: str, reference: str) -> str:
    try:
        return urljoin(base, reference)
    except ValueError:
        return reference


def _split_url(base: str, reference: str) -> tuple[str, str]:
    """Return the URL of ``reference`` and its fragment; what is no URL, such as ``http://[::1``, stays as written."""
    try:
        url, fragment = urldefrag(urljoin(base, reference))
    except ValueError:
        url, _, fragment = reference.partition("#")
    return url, fragment


# Of two parts with the same $id the first counts, as for a reader who begins at the top.
def _index(data: Json, base: str, pointer: str, names: _Names) -> None:
    names.documents.setdefault(base, pointer)
    waiting: list[tuple[Json, str, str, str]] = [(data, base, pointer, "")]
    while waiting:
        node, base, pointer, within = waiting.pop()
        if isinstance(node, list):
            waiting.extend((item, base, f"{pointer}/{number}", "") for number, item in enumerate(node))
        if not isinstance(node, dict):
            continue
        own = node.get("$id")
        if isinstance(own, str):
            base = _split_url(base, own)[0]
            names.documents.setdefault(base, pointer)
        for key in _ANCHORS:
            anchor = node.get(key)
            if isinstance(anchor, str):
                names.anchors.setdefault(f"{base}#{anchor}", pointer)
        waiting.extend(
            (item, base, extend_reference(pointer, name), name)
            for name, item in node.items()
            if isinstance(item, dict | list) and (name not in _DATA or within in _MAPS)
        )


def _rewrite(node: Json, base: str, change: Callable[[str, str], str], within: str = "") -> Json:
    if isinstance(node, list):
        return [_rewrite(item, base, change) if isinstance(item, dict | list) else item for item in node]
    if not isinstance(node, dict):
        return node
    own = node.get("$id")
    if isinstance(own, str):
        base = _split_url(base, own)[0]
    written: dict[str, Json] = {}
    for name, item in node.items():
        if name in ("$ref", "$dynamicRef") and isinstance(item, str):
            written["$ref"] = change(item, base)
        elif name == "mapping" and within == "discriminator" and isinstance(item, dict):
            written[name] = {key: _rewrite_mapping(one, base, change) for key, one in item.items()}
        elif isinstance(item, dict | list) and (name not in _DATA or within in _MAPS):
            written[name] = _rewrite(item, base, change, name)
        else:
            written[name] = item
    return written


def _rewrite_mapping(reference: Json, base: str, change: Callable[[str, str], str]) -> Json:
    """Return a value of a discriminator's mapping with its reference rewritten; a plain schema name stays."""
    return change(reference, base) if isinstance(reference, str) and set("#/.") & set(reference) else reference


def _write_pointer(reference: str, base: str, names: _Names, whole: Json) -> str:
    target, fragment = _split_url(base, reference)
    start = names.documents.get(target)
    if start is None:
        return reference
    if fragment and not fragment.startswith("/"):
        return names.anchors.get(f"{target}#{fragment}", reference)
    pointer = f"{start}{fragment}" if start != "#" or fragment else "#"
    if start != "#" and reference.startswith("#/") and not _resolves(whole, pointer):
        return reference  # the author used $id as a label only: references beside it start at the root
    return pointer


def _resolves(whole: Json, pointer: str) -> bool:
    try:
        resolve(whole, pointer)
    except Unusable:
        return False
    return True
