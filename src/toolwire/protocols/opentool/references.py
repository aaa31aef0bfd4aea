"""Check the references of an OpenTool document: each names a schema of the same document, ``#/schemas/NAME``.

Rules:
- No reference is followed out of the document; none is fetched or opened.
- Recursive schemas are found in time that grows with the references, whatever they form.
"""
# A-01, D-18

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

from toolwire.core.json_pointer import unescape_step
from toolwire.core.model import Json
from toolwire.framing.report import Path, Reference, Report, quote_text

_Graph: TypeAlias = Mapping[str, Iterable[str]]

_LOCAL: Final = re.compile(r"#/schemas/([^/]+)")
_SHOWN_NAMES: Final = 8


def note_reference(reference: str, path: Path, owner: str | None, report: Report) -> None:
    """Note the reference ``reference``, or that it is none that may stand in a document."""
    local = _LOCAL.fullmatch(reference)
    if local is None:
        text = f'{quote_text(reference)} is not a valid schema reference. Write "#/schemas/NAME".'
        report.add_error(path, "A-01", text)
        return
    target = unescape_step(local[1])
    is_whole = owner is not None and path == (((None, "schemas"), owner), "$ref")
    report.references.append(Reference(path, target, owner, is_whole))


def check_references(report: Report, schemas: Mapping[str, Json]) -> None:
    """Note the references that lead nowhere, back to themselves with nothing said, or into recursion."""
    known = [one for one in report.references if one.target in schemas]
    recursive = _find_rings(known)
    empty = _find_rings([one for one in known if one.is_whole])
    for one in report.references:
        edge = (one.owner, one.target)
        if one.target not in schemas:
            report.add_conflict(one.path, "A-01", f"Unknown schema {quote_text(one.target)}: {_list_names(schemas)}.")
        elif edge in empty:
            report.add_conflict(
                one.path, "A-01", f"{quote_text(one.target)} refers only to itself, so it describes nothing."
            )
        elif edge in recursive:
            text = f"{quote_text(one.target)} contains itself. Clients that cannot follow it treat it as any object."
            report.add_warning(one.path, "A-01", text)


def _list_names(schemas: Mapping[str, Json]) -> str:
    names = [quote_text(name) for name in list(schemas)[:_SHOWN_NAMES]]
    more = ", ..." if len(schemas) > _SHOWN_NAMES else ""
    return f"there are {', '.join(names)}{more}" if names else 'the document has no "schemas"'


def _find_rings(references: Iterable[Reference]) -> set[tuple[str | None, str]]:
    """Return the steps, from one named schema to another, that lie on a way back to where it began."""
    forth: dict[str, set[str]] = {}
    back: dict[str, set[str]] = {}
    for one in references:
        if one.owner is not None:
            forth.setdefault(one.owner, set()).add(one.target)
            back.setdefault(one.target, set()).add(one.owner)
    ring_of: dict[str, str] = {}
    for start in reversed(_order_names(forth)):
        _fill_ring(start, back, ring_of)
    return {
        (owner, target) for owner, targets in forth.items() for target in targets if ring_of[owner] == ring_of[target]
    }


def _order_names(forth: _Graph) -> list[str]:
    """Return all names, each after those that can be reached from it and were not before."""
    order: list[str] = []
    seen: set[str] = set()
    for start in forth:
        if start in seen:
            continue
        seen.add(start)
        ways = [(start, iter(forth[start]))]
        while ways:
            name, targets = ways[-1]
            fresh = next((target for target in targets if target not in seen), None)
            if fresh is None:
                order.append(name)
                ways.pop()
            else:
                seen.add(fresh)
                ways.append((fresh, iter(forth.get(fresh, ()))))
    return order


def _fill_ring(start: str, back: _Graph, ring_of: dict[str, str]) -> None:
    """Put ``start`` and all that lead to it, and are in no ring yet, into one ring."""
    waiting = [start]
    while waiting:
        name = waiting.pop()
        if name not in ring_of:
            ring_of[name] = start
            waiting += back.get(name, ())
