"""Make a union of each schema that has a discriminator and that other schemas extend by ``allOf``.

Rules:
- A parent gets its children, and theirs, as branches of a ``oneOf``; what they extend is a copy without branches.
- So a parent whose own branches extend it contains itself only by way of its copy: no schema leads round in a circle.
- A copy does not close its properties: every child adds some.
- A parent with more than 100 kinds stays as it is, with a finding.
"""
# O-23, O-26

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from toolwire.core.json_pointer import extend_reference, parse_reference
from toolwire.core.model import Json

from .bundle import OTHERS
from .findings import Note

KINDS: Final = "x-toolwire-kinds"
"""Marks a schema whose ``oneOf`` was made of the schemas that extend it."""

_HOLDERS: Final = (("components", "schemas"), ("definitions",), ("$defs",))
_UNIONS: Final = ("oneOf", "anyOf")
_CLOSING: Final = frozenset(("additionalProperties", "unevaluatedProperties"))
_MAX_KINDS: Final = 100


class _Holder(NamedTuple):
    """A place of named schemas in a document: the steps to it, and its schemas."""

    steps: tuple[str, ...]
    schemas: Mapping[str, Json]


def expand_inheritance(document: dict[str, Any], notes: list[Note]) -> dict[str, Any]:
    """Return ``document`` with a union for each parent; itself if it has none. Findings are added to ``notes``."""
    holders = list(_iterate_holders(document))
    named = {
        _write_pointer(holder.steps, name): node
        for holder in holders
        for name, node in holder.schemas.items()
        if isinstance(node, dict) and isinstance(name, str)
    }
    parents = [pointer for pointer, node in named.items() if _has_discriminator(node)]
    if not parents:
        return document
    children: dict[str, list[str]] = {}
    for pointer, node in named.items():
        for target in _list_extended(node):
            children.setdefault(target, []).append(pointer)
    changed = _expand_parents(named, parents, children, notes)
    for holder in holders if changed else ():
        own = {
            name: changed[pointer]
            for name in _list_names(holder, changed)
            if (pointer := _write_pointer(holder.steps, name)) in changed
        }
        if own:
            document = _put(document, holder.steps, {**holder.schemas, **own})
    return document


def _expand_parents(
    named: Mapping[str, dict[str, Any]], parents: list[str], children: Mapping[str, list[str]], notes: list[Note]
) -> dict[str, dict[str, Any]]:
    """Return each schema that is changed or new, by its pointer."""
    families = {parent: _list_descendants(parent, children) for parent in parents}
    families = {parent: found for parent, found in families.items() if found and _is_extended(named[parent], found)}
    copies = {parent: _choose_copy_pointer(parent, named) for parent in families}
    changed: dict[str, dict[str, Any]] = {}
    for parent, found in families.items():
        own = [one for one in _UNIONS if isinstance(named[parent].get(one), list)]
        branches = [] if own else _list_branches(parent, named, found)
        if len(branches) > _MAX_KINDS:
            notes.append(Note(parent, f"{len(branches)} schemas extend it, too many to list: only it is described"))
            continue
        changed[copies[parent]] = {
            key: one
            for key, one in named[parent].items()
            if key not in (*_UNIONS, *_CLOSING, "discriminator", "example", "examples")
        }
        union = {key: one for key, one in named[parent].items() if key not in _CLOSING}
        if not own:
            mapping = named[parent]["discriminator"].get("mapping")
            pointers = {_get_pointer(one): one for one in (mapping or {}).values() if isinstance(one, str)}
            # A copy stands for its parent in the union, so the values of the parent are those of the copy.
            moved = {
                value: copies[pointer] if (pointer := _get_pointer(target)) in copies else target
                for value, target in (mapping.items() if isinstance(mapping, dict) else ())
                if isinstance(target, str)
            }
            for target in families:
                if target in branches and target not in pointers:
                    moved.setdefault(_read_value(named[target], target), copies[target])
            union["oneOf"] = [{"$ref": copies.get(one, one)} for one in branches]
            union["discriminator"] = {**named[parent]["discriminator"], "mapping": moved}
            union[KINDS] = True
        changed[parent] = union
    for pointer, node in named.items():
        base = changed.get(pointer, node)
        moved_base = _extend_copies(base, copies, changed)
        if moved_base is not base:
            changed[pointer] = moved_base
            if pointer in copies and copies[pointer] in changed:
                changed[copies[pointer]] = _extend_copies(changed[copies[pointer]], copies, changed)
    return changed


def _extend_copies(
    node: dict[str, Any], copies: Mapping[str, str], changed: Mapping[str, dict[str, Any]]
) -> dict[str, Any]:
    """Return ``node``, which extends the copies of the parents that it extends."""
    if not any(one in copies and copies[one] in changed for one in _list_extended(node)):
        return node
    moved = [
        {**one, "$ref": copies[one["$ref"]]}
        if isinstance(one, dict) and one.get("$ref") in copies and copies[one["$ref"]] in changed
        else one
        for one in node["allOf"]
    ]
    return {**node, "allOf": moved}


def _list_branches(parent: str, named: Mapping[str, dict[str, Any]], found: list[str]) -> list[str]:
    """Return the pointers of the kinds of ``parent``: those of its mapping first, then all that extend it."""
    mapping = named[parent]["discriminator"].get("mapping")
    mapped = [
        pointer
        for target in (mapping.values() if isinstance(mapping, dict) else ())
        if isinstance(target, str) and (pointer := _get_pointer(target)) in named
    ]
    # Without a mapping a parent is a kind of its own, by its name.
    own = [] if mapped else [parent]
    return list(dict.fromkeys([*mapped, *found, *own]))


def _is_extended(parent: Mapping[str, Any], found: list[str]) -> bool:
    """Return whether ``parent`` has no branches of its own, or some of them extend it."""
    listed = [one for key in _UNIONS if isinstance(parent.get(key), list) for one in parent[key]]
    return not listed or any(isinstance(one, dict) and one.get("$ref") in found for one in listed)


def _list_descendants(parent: str, children: Mapping[str, list[str]]) -> list[str]:
    found: dict[str, None] = {}
    waiting = list(children.get(parent, ()))
    while waiting:
        one = waiting.pop(0)
        if one not in found and one != parent:
            found[one] = None
            waiting += children.get(one, ())
    return list(found)


def _list_extended(node: Mapping[str, Any]) -> list[str]:
    branches = node.get("allOf")
    listed = branches if isinstance(branches, list) else []
    return [one["$ref"] for one in listed if isinstance(one, dict) and isinstance(one.get("$ref"), str)]


def _has_discriminator(node: Mapping[str, Any]) -> bool:
    declared = node.get("discriminator")
    return isinstance(declared, dict) and isinstance(declared.get("propertyName"), str)


def _read_value(node: Mapping[str, Any], pointer: str) -> str:
    declared = node.get("x-ms-discriminator-value")
    return declared if isinstance(declared, str) else (parse_reference(pointer) or [""])[-1]


def _choose_copy_pointer(parent: str, named: Mapping[str, Json]) -> str:
    pointer = f"{parent}Base"
    while pointer in named:
        pointer += "_"
    return pointer


def _get_pointer(target: str) -> str:
    return target if set("#/") & set(target) else f"#/components/schemas/{target}"


def _write_pointer(steps: tuple[str, ...], name: str) -> str:
    return extend_reference("#", *steps, name)


def _list_names(holder: _Holder, changed: Mapping[str, Json]) -> list[str]:
    """Return the names in ``holder``, and those of the copies that belong there."""
    prefix = _write_pointer(holder.steps, "")
    copies = [one for one in changed if one.startswith(prefix) and "/" not in one.removeprefix(prefix)]
    return [*holder.schemas, *((parse_reference(one) or [""])[-1] for one in copies)]


def _iterate_holders(document: Mapping[str, Any]) -> Iterator[_Holder]:
    others = document.get(OTHERS)
    places: list[tuple[tuple[str, ...], Json]] = [((), document)]
    places += [((OTHERS, url), one) for url, one in others.items()] if isinstance(others, dict) else []
    for place, one in places:
        for holder in _HOLDERS:
            current = one
            for step in holder:
                current = current.get(step) if isinstance(current, dict) else None
            if isinstance(current, dict) and current:
                yield _Holder((*place, *holder), current)


def _put(document: dict[str, Any], steps: tuple[str, ...], value: dict[str, Any]) -> dict[str, Any]:
    if not steps:
        return value
    return {**document, steps[0]: _put(document.get(steps[0], {}), steps[1:], value)}
