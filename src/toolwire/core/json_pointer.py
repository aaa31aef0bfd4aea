"""Build, parse and resolve JSON Pointers (RFC 6901), as plain text and as the fragment of a ``$ref``.

Rules:
- A pointer is ``""`` for the whole document, else ``/step/step``. In a step ``~1`` stands for ``/``, ``~0`` for ``~``.
- A reference is ``#`` and a pointer, percent-encoded. It is decoded before it is split into steps.
- A pointer that leads nowhere gives ``MISSING``; nothing here raises.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias
from urllib.parse import unquote

from .model import Json

PathStep: TypeAlias = str | int
"""The name of a member, or the index of an item."""

MISSING: Final[Any] = object()
"""The result of a pointer that leads nowhere."""

_MAX_INDEX_DIGITS = 9


def escape_step(name: str) -> str:
    """Return ``name`` as one step of a JSON Pointer."""
    return name.replace("~", "~0").replace("/", "~1")


def unescape_step(step: str) -> str:
    """Return the name that one step of a JSON Pointer stands for."""
    return step.replace("~1", "/").replace("~0", "~") if "~" in step else step


def build_pointer(steps: Iterable[PathStep]) -> str:
    """Return the JSON Pointer that takes ``steps`` from the whole document."""
    return "".join(f"/{escape_step(str(step))}" for step in steps)


def join_pointer(pointer: str, *steps: PathStep) -> str:
    """Return ``pointer`` with ``steps`` after it."""
    return pointer + build_pointer(steps)


def parse_pointer(pointer: str) -> list[str]:
    """Return the steps of a JSON Pointer, unescaped; what stands before its first ``/`` is dropped."""
    return [unescape_step(step) for step in pointer.split("/")[1:]]


def extend_reference(reference: str, *names: str) -> str:
    """Return ``reference``, a ``$ref`` with a pointer, with the steps ``names`` after it."""
    return reference + build_pointer(names).replace("%", "%25")


def parse_fragment(text: str) -> list[str]:
    """Return the steps of a percent-encoded JSON Pointer; what stands before its first ``/`` is dropped."""
    return parse_pointer(unquote(text) if "%" in text else text)


def parse_reference(reference: Json) -> list[str] | None:
    """Return the steps of a ``$ref`` into the same document; ``None`` for any other value or reference."""
    if not isinstance(reference, str) or not (reference == "#" or reference.startswith("#/")):
        return None
    return parse_fragment(reference)


def take_step(node: Json, step: str) -> Json:
    """Return the member or item of ``node`` that ``step`` names, or ``MISSING``."""
    if isinstance(node, Mapping):
        return node.get(step, MISSING)
    if not isinstance(node, list) or len(step) > _MAX_INDEX_DIGITS or not (step.isascii() and step.isdigit()):
        return MISSING
    return node[int(step)] if int(step) < len(node) else MISSING


def take_steps(node: Json, steps: Iterable[str]) -> Json:
    """Return what ``steps`` lead to from ``node``, or ``MISSING``."""
    for step in steps:
        node = take_step(node, step)
        if node is MISSING:
            return MISSING
    return node


def resolve_pointer(document: Json, pointer: Json) -> Json:
    """Return what a JSON Pointer leads to in ``document``, or ``MISSING``."""
    if not isinstance(pointer, str) or (pointer and not pointer.startswith("/")):
        return MISSING
    return take_steps(document, parse_pointer(pointer))


def resolve_reference(document: Json, reference: Json) -> Json:
    """Return what a ``$ref`` into the same ``document`` leads to, or ``MISSING``."""
    steps = parse_reference(reference)
    return MISSING if steps is None else take_steps(document, steps)
