"""List the operations of a document with their places, whether or not they are offered as tools."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from toolwire.core.json_pointer import join_pointer
from toolwire.core.model import Json

from .findings import SHOWN, Note
from .references import References, Unusable

METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace", "query")
_EXTRA_METHOD = re.compile(r"[A-Z]{1,20}")  # as calls may use [D-11]
_FORBIDDEN_METHODS = frozenset(("CONNECT",))
_LISTS = ("parameters", "servers", "security", "tags")
_MAPS = ("responses", "callbacks", "additionalOperations")
_OPERATION_MEMBERS = frozenset(("responses", "operationId", "parameters", "requestBody", "summary", "description"))
_MAX_HOPS = 32


class Operation(NamedTuple):
    """One operation and its place. ``key`` is the member of the path item, ``method`` the HTTP method."""

    method: str
    path: str
    item: dict[str, Any]
    node: dict[str, Any]
    key: str

    @property
    def where(self) -> str:
        """Method and path, for a finding."""
        return f"{self.method} {self.path[:SHOWN]}"

    @property
    def pointer(self) -> str:
        """Where it stands in its document."""
        extra = () if self.key in METHODS else ("additionalOperations",)
        return join_pointer("", "paths", self.path, *extra, self.key)


def list_operations(references: References, notes: list[Note]) -> Iterator[Operation]:
    """Yield every operation of the document; one that cannot be read is added to ``notes`` and counted there.

    A reference in the place of an operation, or of a list or map in it, is followed; its sibling members count too.
    """
    for path, item in _list_paths(references, notes):
        if path.startswith("x-"):
            continue
        try:
            whole = _merge_layers(references, item, "path item")
        except Unusable as error:
            notes.append(Note(path[:SHOWN], str(error), join_pointer("", "paths", path), 1))
            continue
        # The consent policy is said where the call is: one for a whole path would cover operations added later.
        if "x-llm" in whole:
            notes.append(Note(path[:SHOWN], "an x-llm of a path is not read, only one of an operation"))
        for method in METHODS:
            if whole.get(method) is not None:  # null is written for what is not set
                yield from _read_operation(
                    Operation(method.upper(), path, whole, whole[method], method), references, notes
                )
        extra = whole.get("additionalOperations")
        # OpenAPI 3.2 has a member for methods without a field of their own.
        for method, node in sorted(extra.items()) if isinstance(extra, dict) else ():
            yield from _read_operation(Operation(method, path, whole, node, method), references, notes)


def inline_path_items(document: dict[str, Any]) -> dict[str, Any]:
    """Return ``document`` with each usable reference to a path item or an operation replaced by its target."""
    paths: dict[str, Any] = {}
    for one in list_operations(References(document), []):
        item = paths.setdefault(one.path, dict(one.item))
        if one.key in METHODS:
            item[one.key] = one.node
    declared = document.get("paths")
    path_items = {} if not isinstance(declared, dict) or _is_reference(declared) else declared
    return {**document, "paths": {**path_items, **paths}} if paths else document


def _list_paths(references: References, notes: list[Note]) -> Iterator[tuple[str, Json]]:
    paths = references.document.get("paths")
    if _is_reference(paths):
        try:
            paths = _merge_layers(references, paths, "list of paths")
        except Unusable as error:
            notes.append(Note("", f"The paths are not read: {error}", "/paths"))
            return
    yield from paths.items() if isinstance(paths, dict) else ()


def _merge_layers(references: References, node: Json, what: str) -> dict[str, Any]:
    """Return the target of ``node`` merged with the siblings of its references; the outermost sibling wins.

    Raises:
        Unusable: it, or a member that decides on calls, refers to nothing.
    """
    layers = references.list_layers(node, what)
    whole = layers[0] if len(layers) == 1 else {name: one for layer in layers for name, one in layer.items()}
    lists = {name: _read_list(references, whole[name], name) for name in _LISTS if _is_reference(whole.get(name))}
    maps = {name: references.follow_or_empty(whole[name]) for name in _MAPS if _is_reference(whole.get(name))}
    return {**whole, **lists, **maps} if lists or maps else whole


def _read_list(references: References, node: Json, name: str) -> Json:
    for _ in range(_MAX_HOPS):
        if not _is_reference(node):
            return node
        node = references.resolve(node["$ref"])
    raise Unusable(f"the references in its {name} form a cycle")


def _is_reference(node: Json) -> bool:
    return type(node) is dict and type(node.get("$ref")) is str


def _read_operation(one: Operation, references: References, notes: list[Note]) -> Iterator[Operation]:
    fixed = one.key in METHODS
    try:
        node = _merge_layers(references, one.node, "operation")
    except Unusable as error:
        text = str(error) if type(one.node) is dict else "it is not an object"
        notes.append(Note(one.where, text, one.pointer, 1))
        return
    if not fixed and (not _EXTRA_METHOD.fullmatch(one.method) or one.method.upper() in _FORBIDDEN_METHODS):
        notes.append(Note(f"{one.method[:40]!r} {one.path[:SHOWN]}", "its method cannot be sent", one.pointer, 1))
    # Otherwise one path could have two operations of one method, and a reader could take the one that was not reviewed.
    elif not fixed and one.method.lower() in METHODS:
        notes.append(Note(one.where, "its method has a place of its own, and is not additional", one.pointer, 1))
    elif _is_reference(one.node) and not _OPERATION_MEMBERS & node.keys():
        notes.append(Note(one.where, "what it refers to is not an operation", one.pointer, 1))
    else:
        yield one if node is one.node else one._replace(node=node)
