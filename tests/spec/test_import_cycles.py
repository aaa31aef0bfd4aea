"""No folder has an import cycle, also not among imports that only type checkers follow."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import toolwire

SOURCE = Path(toolwire.__file__).parent
FOLDERS = ("core", "define", "framing", "validation", "limits", "convert", "server", "client", "protocols/openapi")

# Imports that still close a cycle: importer -> imported. Take an entry out when its cycle is gone; add none.
REMAINING: Mapping[str, frozenset[tuple[str, str]]] = {}


def list_imports(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the absolute module and the name of each import of ``path``, wherever it stands in the file."""
    package = ("toolwire", *path.parent.relative_to(SOURCE).parts)
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((one.name, "") for one in node.names)
        elif isinstance(node, ast.ImportFrom):
            start = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join((*start, *([node.module] if node.module else [])))
            yield from ((module, one.name) for one in node.names)


def read_graph(folder: str) -> dict[str, set[str]]:
    """Return the modules of ``folder`` with those of the same folder that each imports."""
    paths = {
        ".".join(("toolwire", *path.relative_to(SOURCE).with_suffix("").parts)).removesuffix(".__init__"): path
        for path in (SOURCE / folder).rglob("*.py")
    }
    graph: dict[str, set[str]] = {}
    for module, path in paths.items():
        imported = {f"{start}.{name}" if f"{start}.{name}" in paths else start for start, name in list_imports(path)}
        # A package imports its parts to offer them; that its parts import each other is no cycle through it.
        graph[module] = {one for one in imported if one in paths and one != module}
    return graph


def find_cycle(graph: Mapping[str, set[str]]) -> list[str]:
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_folder_has_no_import_cycle(folder: str) -> None:
    graph = read_graph(folder)
    assert graph
    for importer, imported in REMAINING.get(folder, ()):
        assert imported in graph[importer], f"{importer} no longer imports {imported}: take the entry out"
        graph[importer].remove(imported)
    assert find_cycle(graph) == []


def test_a_cycle_is_found() -> None:
    assert find_cycle({"a": {"b"}, "b": {"c"}, "c": {"a"}}) != []
