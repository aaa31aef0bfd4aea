"""The operations of a document, each where it stands, whether or not it is offered."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from .findings import SHOWN, Note, pointer
from .references import References, Unusable

METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace", "query")
_EXTRA_METHOD = re.compile(r"[A-Z]{1,20}")  # as calls may use [D-11]
_NEVER = frozenset(("CONNECT",))


class Operation(NamedTuple):
    """One operation where it stands. ``key`` is its name there, ``method`` what is sent."""

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
        return pointer("paths", self.path, *extra, self.key)


def listed(references: References, notes: list[Note]) -> Iterator[Operation]:
    """Yield every operation of the document; what is none where one should be is a note that counts as one."""
    paths = references.document.get("paths")
    for path, item in paths.items() if isinstance(paths, dict) else ():
        if path.startswith("x-"):
            continue
        try:
            layers = references.layers(item, "path item")
            whole = {name: one for layer in layers for name, one in layer.items()}  # what stands nearer counts
        except Unusable as error:
            notes.append(Note(path[:SHOWN], str(error), pointer("paths", path), 1))
            continue
        if "x-llm" in whole:
            notes.append(Note(path[:SHOWN], "an x-llm of a path is not read, only one of an operation"))
        for method in METHODS:
            if method in whole:
                yield from _operation(Operation(method.upper(), path, whole, whole[method], method), notes)
        extra = whole.get("additionalOperations")
        for method, node in sorted(extra.items()) if isinstance(extra, dict) else ():
            yield from _operation(Operation(method, path, whole, node, method), notes)


def _operation(one: Operation, notes: list[Note]) -> Iterator[Operation]:
    fixed = one.key in METHODS
    if not isinstance(one.node, dict):
        notes.append(Note(one.where, "it is not an object", one.pointer, 1))
    elif not fixed and (not _EXTRA_METHOD.fullmatch(one.method) or one.method.upper() in _NEVER):
        notes.append(Note(f"{one.method[:40]!r} {one.path[:SHOWN]}", "its method cannot be sent", one.pointer, 1))
    elif not fixed and one.method.lower() in METHODS:
        notes.append(Note(one.where, "its method has a place of its own, and is not additional", one.pointer, 1))
    else:
        yield one
